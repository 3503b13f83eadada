from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyxsim.errors import InputError
from pyxsim.results.result import HOW_IT_RAN, Result
from pyxsim.results.sweep import FORMAT, MANIFEST, POINTS, read, split

KEYS = ["a" * 64, "b" * 64, "c" * 64]


def write_manifest(folder: Path, **changes: Any) -> None:
    points = [
        {"key": key, "label": f"vcs={vcs}", "changed": {"vcs": vcs}} for key, vcs in zip(KEYS, (1, 2, 4), strict=True)
    ]
    manifest = {
        "format": FORMAT,
        "title": "ring 2",
        "experiment": "ring.toml",
        "backend": "packet",
        "axes": {"vcs": [1, 2, 4]},
        "goal": {},
        "points": points,
        "provenance": {},
    }
    (folder / MANIFEST).write_text(json.dumps({**manifest, **changes}))


@pytest.fixture
def folder(tmp_path: Path, result: Result) -> Path:
    """One point done, one failed, one missing."""
    write_manifest(tmp_path)
    (tmp_path / POINTS).mkdir()
    result.save(tmp_path / POINTS / f"{KEYS[0]}.h5")
    failure = {"reason": "deadlock", "kind": "DeadlockError", "tries": 1}
    (tmp_path / POINTS / f"{KEYS[1]}.json").write_text(json.dumps(failure))
    return tmp_path


def test_the_times_of_npus_count_with_their_mean() -> None:
    summary = {"time_ns": 3, "compute_ns": {"min": 1, "mean": 1.5, "max": 2}, "critical_path": {"steps": 4}, "seed": 1}
    assert split(summary) == ({"time_ns": 3, "compute_ns": 1.5, "seed": 1}, {})


def test_the_folder_tells_what_became_of_each_point(folder: Path, result: Result) -> None:
    sweep = read(folder)
    done, failed, missing = sweep.points
    assert [point.state for point in sweep.points] == ["done", "failed", "missing"]
    assert sweep.counts == {"done": 1, "failed": 1, "missing": 1}
    assert not sweep.complete
    assert done.values["cycles"] == 250
    assert done.values["flit_hops"] == 132
    assert not HOW_IT_RAN & set(done.values)
    assert done.cost["sim_cpu_s"] == result.sim_cpu_s
    assert failed.reason == "deadlock"
    assert failed.file is not None
    assert missing.file is None
    assert missing.changed == {"vcs": 4}
    assert done.result().time_cycles == 250
    with pytest.raises(InputError, match=r"vcs=2: has no result; its state is 'failed"):
        failed.result()


def test_columns_have_an_entry_for_each_point(folder: Path) -> None:
    sweep = read(folder)
    columns = sweep.columns()
    assert list(columns)[:2] == ["vcs", "state"]
    assert list(columns)[-2:] == ["key", "file"]
    assert columns["vcs"] == [1, 2, 4]
    assert columns["cycles"] == [250, None, None]
    assert columns["file"] == [f"points/{KEYS[0]}.h5", f"points/{KEYS[1]}.json", None]
    assert sweep.column("label") == ["vcs=1", "vcs=2", "vcs=4"]
    with pytest.raises(InputError, match="did you mean 'cycles'"):
        sweep.column("cycle")


def test_what_is_no_sweep_is_refused_in_one_line(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not the folder of a sweep"):
        read(tmp_path / "nowhere")
    with pytest.raises(InputError, match="does not contain a sweep"):
        read(folder / POINTS)
    (folder / POINTS / f"{KEYS[0]}.h5").write_bytes(b"none")
    with pytest.raises(InputError, match="not a readable result"):
        read(folder)
    (folder / POINTS / f"{KEYS[1]}.json").write_text("[]")
    (folder / POINTS / f"{KEYS[0]}.h5").unlink()
    with pytest.raises(InputError, match="not a record of a failed point"):
        read(folder)
    for changes in ({"format": 0}, {"points": [{}]}, {"points": 3}):
        write_manifest(folder, **changes)
        with pytest.raises(InputError, match="not a manifest that"):
            read(folder)
    (folder / MANIFEST).write_text("{")
    with pytest.raises(InputError, match="not a manifest that"):
        read(folder)
