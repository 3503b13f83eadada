"""The command and the function: what is found, proved, ranked and written."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyxsim
from pyxsim.errors import InputError
from pyxsim.synthesis import synthesize

pytest.importorskip("scipy")


def test_a_file_runs_at_once_and_takes_the_time_that_was_ranked(tmp_path: Path) -> None:
    file = tmp_path / "torus.py"
    found = pyxsim.synthesize("torus", shape=[3, 3], size="2 MiB", rank="flow", slices=2, file=file)
    assert found["proof"] == "correct for every order of arrival, as read back from the file"
    best = found["ranked"][found["best"]]
    key, _, name = found["use"].partition(" = ")
    run = pyxsim.run(
        {
            "network": {"topology": "torus", "shape": [3, 3]},
            "system": {key: name.strip('"')},
            "collective": {"kind": "all-reduce", "size": "2 MiB"},
        },
        backend="flow",
    )
    assert run.time_ns * 1e-9 == pytest.approx(best["simulated_s"], rel=1e-6)
    assert best["simulated_s"] >= found["bound_s"]
    assert all(each["of_bound"] >= 1 for each in found["ranked"] if each["simulated_s"] is not None)


def test_what_is_read_back_is_proved_again_only_if_it_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[object] = []
    monkeypatch.setattr(synthesize, "prove", lambda schedule: counted.append(schedule))
    for suffix, proofs in ((".py", 1), (".xml", 2)):  # MSCCL has other cells and waits
        counted.clear()
        pyxsim.synthesize("torus", shape=[3, 3], size="2 MiB", rank="none", file=tmp_path / f"torus{suffix}")
        assert len(counted) == proofs
    monkeypatch.undo()
    read = synthesize.get_schedule
    monkeypatch.setattr(synthesize, "get_schedule", lambda kind, name, n: read(kind, name, n - 1))
    with pytest.raises(InputError, match="does not hold what was written"):
        pyxsim.synthesize("torus", shape=[3, 3], size="2 MiB", rank="none", file=tmp_path / "torus.py")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"kind": "all-redcue"}, "--collective"),
        ({"method": "tree"}, "--method"),
        ({"rank": "flits"}, "rank"),
        ({"size": "0 B"}, "size"),
        ({"size": "many"}, "size"),
        ({"seconds": -1.0}, "--seconds"),
        ({"file": "x.txt"}, "x.txt"),
        ({"file": "x.csv"}, "tacos has no all-reduce"),
        ({"format": "msccl"}, "--format"),
        ({"in_switch": True}, "--in-switch"),
    ],
)
def test_wrong_options_are_named(
    options: dict[str, object], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=problem):
        pyxsim.synthesize("ring", shape=[4], **options)  # type: ignore[arg-type]


def test_one_npu_and_networks_in_two_parts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        pyxsim.synthesize("ring", shape=[1])
    (tmp_path / "parts.edges").write_text("0 1\n2 3\n")
    experiment = tmp_path / "parts.toml"
    experiment.write_text('[network]\ntopology = "graph"\noptions = { file = "parts.edges" }\n')
    with pytest.raises(InputError):
        pyxsim.synthesize(experiment, rank="none")


def test_a_switch_that_reduces_halves_the_bound(tmp_path: Path) -> None:
    file = tmp_path / "switch.py"
    found = pyxsim.synthesize("switch", shape=[4], size="1 MiB", rank="none", in_switch=True, file=file)
    without = pyxsim.synthesize("switch", shape=[4], size="1 MiB", rank="none")
    # 2 (N-1)/N of the buffer without, the buffer once with reduction in the switch.
    assert without["bound_s"] / found["bound_s"] == pytest.approx(1.5, rel=1e-4)  # both in whole cycles
    assert found["proof"].startswith("one reduction")


def test_the_bound_is_the_optimum_that_other_commands_show(tmp_path: Path) -> None:
    experiment = tmp_path / "mesh.toml"
    network = '[network]\ntopology = "mesh"\nshape = [3, 3]\n[system]\nendpoint_delay = "70 ns"\n'
    for kind in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all"):
        experiment.write_text(f'{network}[collective]\nkind = "{kind}"\nsize = "1 MiB"\n')
        found = pyxsim.synthesize(experiment, kind=kind, size="1 MiB", rank="none", seconds=5)
        checked = pyxsim.check(experiment)
        assert found["bound_s"] * 1e9 == pytest.approx(float(checked["optimum_ns"]))
        assert found["bound_kind"] == checked["optimum_limit"]


@pytest.mark.parametrize("kind", ["all-reduce", "all-gather"])
@pytest.mark.parametrize("network", ["mesh", "dgx-1"])
def test_simulated_schedules_come_close_to_the_optimum_and_beat_the_shelf(kind: str, network: str) -> None:
    shape = [3, 3] if network == "mesh" else None
    found = pyxsim.synthesize(network, shape=shape, kind=kind, size="64 MiB", rank="flow")
    best = found["ranked"][found["best"]]
    shelf = [each["simulated_s"] for each in found["ranked"] if each["source"] == "shelf"]
    assert 1 <= best["of_bound"] <= 1.05
    assert best["simulated_s"] < min(shelf)
