"""Experiments as typed objects: exactly what a file says, and back."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyxsim
from pyxsim.cli import network_functions
from pyxsim.settings import networks
from tests.examples import part_of

INPUTS = sorted((Path(__file__).parents[2] / "inputs").glob("*.toml"))


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.stem)
def test_files_there_and_back(path: Path) -> None:
    try:
        experiment = pyxsim.load_experiment(path)
    except pyxsim.InputError as error:
        problem = str(error)
    else:
        problem = ""
    if problem:
        assert "several experiments" in problem or "describes a system" in problem
        return
    again = pyxsim.Experiment.from_toml(experiment.to_toml())
    assert again == experiment
    assert again.to_toml() == experiment.to_toml()


NETWORKS = st.one_of(
    st.builds(pyxsim.Ring, st.tuples(st.integers(2, 5)), bidirectional=st.booleans()),
    st.builds(
        pyxsim.Torus,
        st.lists(st.integers(2, 3), min_size=1, max_size=2),
        bandwidth=st.sampled_from(["100 GB/s", "33 GB/s"]),
        router=st.builds(
            pyxsim.RouterSettings, vcs=st.sampled_from([4, 8]), pipeline=st.sampled_from(["booksim", "garnet"])
        ),
    ),
    st.builds(pyxsim.Switch, st.tuples(st.integers(2, 4)), latency=st.sampled_from(["20 ns", "7 cycles"])),
    st.builds(pyxsim.LeafSpine, st.integers(1, 2), st.just(2), st.just(2), flit=st.sampled_from(["64 B", "256 B"])),
)
COLLECTIVES = st.builds(
    pyxsim.Collective,
    kind=st.sampled_from(["all-reduce", "all-gather", "all-to-all"]),
    size=st.sampled_from(["1 kB", "6 KiB"]),
)
EXPERIMENTS = st.builds(
    pyxsim.Experiment,
    network=NETWORKS,
    system=st.builds(pyxsim.System, chunks=st.integers(1, 3), endpoint_delay=st.sampled_from(["0 ns", "10 ns"])),
    collective=st.one_of(COLLECTIVES, st.tuples(COLLECTIVES, COLLECTIVES)),
    output=st.builds(pyxsim.Output, seed=st.integers(0, 9)),
)


@given(EXPERIMENTS)
@settings(max_examples=part_of(40))
def test_objects_there_and_back(experiment: pyxsim.Experiment) -> None:
    again = pyxsim.Experiment.from_toml(experiment.to_toml())
    assert again == experiment
    first, second = pyxsim.run(experiment), pyxsim.run(again)
    assert (first.time_cycles, first.totals["flits"].tolist()) == (second.time_cycles, second.totals["flits"].tolist())


def test_a_function_writes_what_a_file_has() -> None:
    table = {"topology": "dragonfly", "options": {"p": 1, "a": 2, "h": 1, "g": 3}, "bandwidth": "50 GB/s"}
    collective = {"kind": "all-reduce", "size": "1 KiB"}
    experiment = pyxsim.Experiment(
        network=pyxsim.Dragonfly(1, 2, 1, g=3, bandwidth="50 GB/s"), collective=pyxsim.Collective(**collective)
    )
    assert experiment == pyxsim.load_experiment({"network": table, "collective": collective})


@pytest.mark.parametrize(
    ("build", "problem"),
    [
        (lambda: pyxsim.Torus([4, 0]), r"shape\[1\]: 0 is too small"),
        (lambda: pyxsim.Torus([4], bandwith="1 GB/s"), "bandwith: unknown key; .* did you mean 'bandwidth'"),
        (lambda: pyxsim.Collective(kind="all-reduce", size="1 parsec"), "size: .*parsec"),
        (lambda: pyxsim.Experiment.from_toml("[network"), "TOML:1: not valid TOML"),
        (lambda: pyxsim.Experiment.from_toml("[network]\ntopology = 'ring'"), r"collective: .* missing"),
    ],
)
def test_faults_are_input_errors(build: Any, problem: str) -> None:
    with pytest.raises(pyxsim.InputError, match=problem):
        build()


def test_signatures_for_completion() -> None:
    assert list(inspect.signature(pyxsim.Torus).parameters)[:3] == ["shape", "bidirectional", "name"]
    assert inspect.signature(pyxsim.Collective).parameters["at"].default == "0 ns"
    assert "\nParameters\n" in (inspect.getdoc(pyxsim.System) or "")


def test_functions_follow_the_shelf() -> None:
    words = "python -m pyxsim.cli.network_functions pyxsim/settings/networks.py, then ruff format"
    assert ast.dump(ast.parse(inspect.getsource(networks))) == ast.dump(ast.parse(network_functions.source())), words
    assert set(networks.__all__) <= set(pyxsim.__all__)


@given(EXPERIMENTS)
@settings(max_examples=part_of(40))
def test_the_representation_has_what_was_given_and_evaluates_to_an_equal_experiment(
    experiment: pyxsim.Experiment,
) -> None:
    assert eval(repr(experiment), {name: getattr(pyxsim, name) for name in dir(pyxsim)}) == experiment
    assert "watchdog" not in repr(experiment)  # a default
    assert str(experiment) == repr(experiment)
