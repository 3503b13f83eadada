"""Axes of whole tables and of backends; sizes as numbers; warnings in every output of a sweep."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import h5py
import pytest

import pyxsim
from pyxsim.runner import progress_bar
from pyxsim.settings.points import plan_of
from pyxsim.study.sweep import sweep, sweep_run
from pyxsim.study.sweep.folder import journal

ROUNDED = "network.latency: 3.1 ns is simulated as 4 cycles of the 1 GHz clock"
RING: dict[str, Any] = {
    "network": {"topology": "ring", "shape": [4]},
    "collective": {"kind": "all-reduce", "size": "1 KiB"},
}
TABLES = {
    "small": {"topology": "ring", "shape": [4], "latency": "3.1 ns"},
    "grid": {"topology": "mesh", "shape": [2, 2], "latency": "4 ns"},
}
SIZES = ["1 KiB", "1 MiB"]


def time_of(network: dict[str, Any], size: str, backend: str) -> int:
    single = {"network": network, "collective": {"kind": "all-reduce", "size": size}}
    return int(pyxsim.run(single, backend=backend).time_cycles)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> pyxsim.Sweep:
    axes = {"network": TABLES, "collective.size": SIZES, "backend": ["packet", "analytical"]}
    return sweep({**RING, "sweep": axes}, tmp_path_factory.mktemp("axes") / "s", workers=1)


def test_points_are_those_of_run(swept: pyxsim.Sweep) -> None:
    assert swept.axes == {"network": ["small", "grid"], "collective.size": SIZES, "backend": ["packet", "analytical"]}
    for point in swept.points:
        changed = point.changed
        expected = time_of(TABLES[changed["network"]], changed["collective.size"], changed["backend"])
        assert point.values["cycles"] == expected, point.label
    assert swept.points[0].label == "network=small, size=1 KiB, backend=packet"
    assert swept.points[1].result().backend == "analytical"


def test_sizes_are_numbers_in_every_output(swept: pyxsim.Sweep) -> None:
    sizes = [1024, 1024, 1048576, 1048576] * 2
    with (swept.folder / "table.csv").open(encoding="utf-8") as file:
        assert [int(row["collective.size"]) for row in csv.DictReader(file)] == sizes
    with h5py.File(swept.folder / "table.h5") as file:
        column = file["points/collective.size"]
        assert (column[()].tolist(), column.attrs["units"]) == (sizes, "B")
    assert swept.column("collective.size") == sizes
    frame = swept.to_pandas()
    assert frame["collective.size"].tolist() == sizes
    assert frame.attrs["units"]["collective.size"] == "B"
    assert swept.to_xarray()["collective.size"].values.tolist() == [1024, 1048576]


def test_warnings_are_in_every_output(swept: pyxsim.Sweep, tmp_path: Path) -> None:
    # Only packets count cycles of the clock; 3.1 ns are not a whole number of them.
    rounded = [ROUNDED if point.changed["network"] == "small" else "" for point in swept.points]
    rounded = [
        text if point.changed["backend"] == "packet" else "" for text, point in zip(rounded, swept.points, strict=True)
    ]
    assert swept.column("warnings") == rounded
    assert swept.warnings == [f"network=small, size=1 KiB, backend=packet and 1 more: {ROUNDED}"]
    with (swept.folder / "table.csv").open(encoding="utf-8") as file:
        assert [row["warnings"] for row in csv.DictReader(file)] == rounded
    with h5py.File(swept.folder / "table.h5") as file:
        assert file["points/warnings"].asstr()[()].tolist() == rounded
    pyxsim.report(swept.folder, tmp_path / "page.html")
    assert f"warning: {swept.warnings[0]}" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_tables_without_a_name_get_one() -> None:
    dims = [[{"block": "ring", "npus": 4}], [{"block": "ring", "npus": 2}, {"block": "switch", "npus": 2}]]
    plan = plan_of({**RING, "network": {}, "sweep": {"network.dims": dims}})
    assert plan.axes == {"network.dims": ["ring 4", "ring 2, switch 2"]}
    systems = [{"name": "few", "chunks": 2}, {"name": "many", "chunks": 8}]
    plan = plan_of({**RING, "sweep": {"system": systems}})
    assert plan.axes == {"system": ["few", "many"]}
    assert [point.experiment.system.chunks for point in plan.points] == [2, 8]


def test_one_line_for_a_wrong_backend(tmp_path: Path) -> None:
    with pytest.raises(pyxsim.InputError, match=r"sweep\.backend: unknown backend 'packets'.*packet"):
        sweep({**RING, "sweep": {"backend": ["packets"]}}, tmp_path / "s")
    with pytest.raises(pyxsim.InputError, match="backend: cannot be set, because the sweep has values"):
        sweep({**RING, "sweep": {"backend": ["packet"]}}, tmp_path / "s", backend="flow")
    with pytest.raises(pyxsim.InputError, match=r"sweep\.backend: this command does not sweep the backend"):
        pyxsim.compare({**RING, "sweep": {"backend": ["packet"]}})


def test_points_start_while_networks_are_still_unchecked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_run, "CHECKING", 0.0)  # as if the first check took too long
    wrong = {"topology": "ring", "shape": [2, 2, 2, 2]}
    found = sweep({**RING, "sweep": {"network": {"good": TABLES["small"], "wrong": wrong}}}, tmp_path / "s", workers=1)
    assert found.counts == {"done": 1, "failed": 1, "missing": 0}
    entries = [json.loads(line) for line in (tmp_path / "s" / "journal.jsonl").read_text().splitlines()]
    assert entries[0]["event"] == "begin"


def test_progress_of_a_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[float, str]] = []

    class Display:
        def show(self, share: float, done: str, left: str) -> None:
            shown.append((share, left))

        def close(self) -> None:
            shown.append((-1.0, "closed"))

    monkeypatch.setattr(progress_bar, "_display", Display)
    bar = pyxsim.ProgressBar("sizes ", delay=0)
    axes = {"collective.size": SIZES}
    pyxsim.sweep({**RING, "sweep": axes}, tmp_path / "s", workers=1, progress=bar)
    assert shown[0][0] == 0
    assert shown[-2] == (1.0, "2 of 2 points")
    assert shown[-1] == (-1.0, "closed")


def test_damaged_lines_of_a_journal_do_not_count(tmp_path: Path) -> None:
    done = '{"event": "done", "key": "a"}'
    lines = [done, "[" * 100_000, done[:20], "7", done]
    (tmp_path / "journal.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert journal(tmp_path) == {("done", "a"): 2}
