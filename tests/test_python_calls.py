"""Calls of the Python interface with what a user may try: they work, or raise InputError with one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pyxsim
from pyxsim.cli.app import main

ALL_REDUCE: dict[str, Any] = {
    "network": {"topology": "ring", "shape": [3]},
    "collective": {"kind": "all-reduce", "size": "4 KiB"},
}
UNIFORM: dict[str, Any] = {"network": {"topology": "ring", "shape": [4]}, "traffic": {"pattern": "uniform"}}
UNIFORM["traffic"] |= {"load": 0.1, "warmup": 100, "measure": 500}


@pytest.fixture(scope="module")
def result() -> pyxsim.Result:
    return pyxsim.run(ALL_REDUCE)


def test_report_and_timeline_take_a_result(
    result: pyxsim.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result.save("r.h5")
    assert pyxsim.report(result, "x.html").chapters == pyxsim.report("r.h5", "y.html").chapters
    assert pyxsim.report(result).file == "report.html"
    assert pyxsim.report([result, "r.h5", result]).chapters == pyxsim.report(["r.h5"] * 3).chapters
    made, read = pyxsim.timeline(result), pyxsim.timeline("r.h5")
    assert (made.file, read.file) == ("result.trace.json.gz", "r.trace.json.gz")
    assert made.trace.count() == read.trace.count()
    with pytest.raises(pyxsim.InputError, match=r"^files: no results"):
        pyxsim.report([])


@pytest.mark.parametrize("shape", [4, "44", 2.5, None])
def test_a_shape_is_a_list(shape: Any) -> None:
    with pytest.raises(pyxsim.InputError, match="shape"):
        pyxsim.Torus(shape)


def test_a_curve_of_one_load() -> None:
    assert len(pyxsim.curve(UNIFORM, 0.1, workers=1).points) == 1


@pytest.mark.parametrize("loads", [["a"], "0.1", [0.1, None], [True], -0.1, [float("nan")]])
def test_loads_are_numbers(loads: Any) -> None:
    with pytest.raises(pyxsim.InputError, match=r"^loads: .* is not a load; allowed: numbers above 0"):
        pyxsim.curve(UNIFORM, loads)


def test_compare_takes_a_percentage() -> None:
    assert pyxsim.compare(ALL_REDUCE, within="10%", backends=["analytical"]).within == 0.1


@pytest.mark.parametrize("within", ["ten", "110 %", 1, None, [0.1]])
def test_within_is_a_share(within: Any) -> None:
    with pytest.raises(pyxsim.InputError, match=r"^within: .* is not a fraction; allowed: between 0 and 1"):
        pyxsim.compare(ALL_REDUCE, within=within)


@pytest.mark.parametrize("name", ["small.toml", Path("small.toml")])
def test_from_toml_takes_no_file_name(name: Any) -> None:
    with pytest.raises(
        pyxsim.InputError, match=r"^small\.toml: is a file name; use pyxsim\.load_experiment to read a file"
    ):
        pyxsim.Experiment.from_toml(name)


def test_run_and_check_have_the_same_lower_bound_on_every_backend() -> None:
    calls = [call(ALL_REDUCE, backend=name) for name in ("packet", "analytical") for call in (pyxsim.run, pyxsim.check)]
    found = {call["lower_bound_ns"] if isinstance(call, dict) else call.json()["lower_bound_ns"] for call in calls}
    assert len(found) == 1
    assert found.pop() > 0


@pytest.fixture
def ring_file(tmp_path: Path) -> Path:
    """An experiment whose network and traffic matrix are files beside it."""
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "ring.edges").write_text("0 1\n1 2\n2 3\n3 0\n")
    (folder / "even.csv").write_text("\n".join(["1,1,1,1"] * 4))
    (folder / "ring.toml").write_text(
        '[network]\ntopology = "graph"\n[network.options]\nfile = "ring.edges"\n[traffic]\npattern = "matrix"\n'
        'load = 0.1\nwarmup = 50\nmeasure = 200\n[traffic.pattern_options]\nfile = "even.csv"\n'
    )
    return folder / "ring.toml"


def test_an_experiment_keeps_the_folder_of_its_files(
    ring_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cycles = pyxsim.run(ring_file).time_cycles
    experiment = pyxsim.load_experiment("study/ring.toml")
    changed = pyxsim.load_experiment(experiment, ["output.seed=2"])
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert pyxsim.run(experiment).time_cycles == cycles
    assert pyxsim.run(changed).seed == 2
    assert pyxsim.check(experiment)["npus"] == 4
    assert len(pyxsim.curve(experiment, 0.1, workers=1).points) == 1
    with pytest.warns(RuntimeWarning, match="only one point"):
        assert pyxsim.sweep(experiment, "sweep", workers=1).complete
    assert experiment == pyxsim.Experiment.from_toml(experiment.to_toml())


def test_paths_of_a_written_experiment_start_at_its_file(
    ring_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    experiment = pyxsim.load_experiment(ring_file)
    (tmp_path / "other").mkdir()
    text = experiment.to_toml("other/copy.toml")
    assert Path("other/copy.toml").read_text() == text
    assert 'file = "../study/ring.edges"' in text
    assert 'file = "../study/even.csv"' in text
    assert pyxsim.run("other/copy.toml").time_cycles == pyxsim.run(ring_file).time_cycles
    experiment.to_toml(ring_file.parent / "same.toml")
    assert (ring_file.parent / "same.toml").read_text() == experiment.to_toml()
    with pytest.raises(pyxsim.InputError, match=r"^nowhere/x\.toml: cannot be written"):
        experiment.to_toml("nowhere/x.toml")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: pyxsim.run(ALL_REDUCE, backend="pocket"), r"^backend: unknown backend 'pocket'; .* mean 'packet'\?"),
        (lambda: pyxsim.run(ALL_REDUCE, overrides=["system.chunks=0"]), r"^overrides: system\.chunks: 0 is too small"),
        (lambda: pyxsim.run(ALL_REDUCE, libraries=["nowhere"]), r"nowhere: libraries: no such folder$"),
        (lambda: pyxsim.sweep(ALL_REDUCE, "x", workers=0), r"^workers: 0 is not a number of workers"),
        (lambda: pyxsim.describe_collective("ring", kind="sum"), r"^kind: unknown collective 'sum'"),
    ],
)
def test_faults_name_parameters(call: Any, text: str) -> None:
    with pytest.raises(pyxsim.InputError, match=text):
        call()


def test_faults_of_commands_name_options(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--library", "nowhere"]) == 2
    assert capfd.readouterr().err == "pyxsim: nowhere: --library: no such folder\n"
    assert not pyxsim.PyxsimError.in_command
