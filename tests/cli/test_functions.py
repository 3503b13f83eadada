"""Every command has a function in `pyxsim`, with the same parameters by name."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

import pyxsim as face
from pyxsim.cli.page import commands
from pyxsim.plugins import allocators
from tests.cli.inputs import Command

# `topology` and `collective` would be hidden by the subpackages; `list` is a name of Python.
NAMES = {
    "list": "list_",
    "collective": "describe_collective",
    "topology": "describe_topology",
    "library": "build_library",
    "workload generate": "generate",
}
SPELLED = {"settings": "overrides", "library": "libraries"}
# Of the terminal; short for overrides; or done with the returned object: result.save, result.plot, experiment.to_toml.
TERMINAL = {"json", "quiet"}
OVERRIDES = {"no_skip", "threads", "mpi", "checkpoint", "carry"}
RETURNED = {"file", "files", "plot", "show", "export", "point", "watch"}
# The main input, and words that are one object in Python.
OTHERWISE = {
    "resume": {"checkpoint": "path"},
    "curve": {"auto": "loads"},
    "timeline": dict.fromkeys(("begin", "end", "npus", "links", "counters", "most"), "view"),
    "topology": {"name": "network", "options": "network", "overrides": "network"},
    "workload generate": {**dict.fromkeys(("model", "device", "shape"), "source"), "file": "target"},
    "astra": dict.fromkeys(("logging_configuration", "synthetic"), "strict"),  # words that change nothing
}


@pytest.mark.parametrize("words", commands())
def test_every_command_has_a_function(words: str) -> None:
    *group, word = words.split()
    name = NAMES.get(words) or "_".join([word, *group])
    assert name in face.__all__
    has = inspect.signature(getattr(face, name)).parameters
    own = OTHERWISE.get(words, {})
    for parameter in commands()[words].params:
        spelled = SPELLED.get(parameter.name, parameter.name)
        spelled = own.get(spelled, "source" if spelled == "experiment" else spelled)
        if spelled not in has:
            assert spelled in TERMINAL | OVERRIDES | RETURNED, f"{name}() has no parameter '{spelled}'"


def test_functions_return_what_the_command_prints(pyxsim: Command) -> None:
    shelf = json.loads(pyxsim("list", "backends", "--json").out)
    assert face.list_("backends") == shelf
    assert face.bench(list_only=True) == json.loads(pyxsim("bench", "--list", "--json").out)
    assert face.validate(["ring/*"], list_only=True) == json.loads(pyxsim("validate", "ring/*", "--list", "--json").out)
    with pytest.raises(face.InputError, match="no case 'nothing'"):
        face.bench("nothing")
    with pytest.raises(face.InputError, match="unknown shelf, model or system 'backend'"):
        face.list_("backend")


@pytest.mark.parametrize(
    ("shelf", "name"),
    [
        ("topologies", "torus"),
        ("blocks", "ring"),
        ("collectives", "ring"),
        ("patterns", "uniform"),
        ("readers", "chakra"),
        ("backends", "packet"),
        ("allocators", "wavefront"),
        ("checks", "routing"),
        ("datasets", "links"),
        ("panels", "hot-links"),
    ],
)
def test_every_shelf_is_listed(pyxsim: Command, shelf: str, name: str) -> None:
    entries = {each["name"]: each for each in face.list_(shelf)[shelf]}
    assert entries[name]["help"]
    assert name in pyxsim("list", shelf).err


@pytest.mark.parametrize("name", allocators.spellings("va"))
def test_listed_allocators_are_settings(name: str) -> None:
    key = "va_allocator" if name == "rotating" else "sa_allocator"
    face.RouterSettings(**{key: name.replace("N", "2")})


def test_workloads(tree: Path, folder: Path) -> None:
    text = tree / "inputs" / "astra" / "micro_all_reduce.txt"
    assert face.show_workload(text)["layers"]
    assert face.check_workload(text, npus=8)["npus"] == 8
    written = face.convert_workload(text, "loop.*.json", shape=[2, 4], passes=2)
    assert written["traces"] == 8
    assert face.check_workload("loop.*.json")["between"]
    assert face.show_workload("loop.*.json")["total"]["total"] == written["nodes"]
    with pytest.raises(face.InputError, match="there is no trace of rank 9"):
        face.show_workload("loop.*.json", plot="x.png", rank=9)


def test_other_simulators(tree: Path, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    result = face.astra("network.txt", "system.txt", "workload.txt", num_passes=1)
    assert result.complete
    (folder / "mesh.cfg").write_text(
        "topology = mesh;\nk = 4;\nn = 2;\nrouting_function = dor;\ntraffic = uniform;\ninjection_rate = 0.1;\n"
    )
    assert face.booksim("mesh.cfg", ["sim_count=1"]).traffic is not None
    assert capfd.readouterr() == ("", "")
