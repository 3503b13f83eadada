"""`pyxsim diff` as it is typed: what it prints, and its exit codes."""

from __future__ import annotations

import json

import pytest

from tests.cli.inputs import Command


@pytest.fixture
def two(pyxsim: Command) -> tuple[str, str]:
    assert pyxsim("run", "small.toml", "-o", "a.h5", "-q").code == 0
    assert pyxsim("run", "small.toml", "-o", "b.h5", "-q", "--no-skip").code == 0
    return "a.h5", "b.h5"


def test_equal(pyxsim: Command, two: tuple[str, str]) -> None:
    ended = pyxsim("diff", *two)
    assert (ended.code, ended.out) == (0, "")
    assert ended.lines[0].startswith("a.h5 and b.h5 are equal to the bit: ")
    (skip,) = (line.split() for line in ended.lines if line.startswith("run.skip"))
    assert skip == ["run.skip", "true", "false"]
    told = json.loads(pyxsim("diff", *two, "--json").out)
    assert (told["equal"], told["differences"], told["files"]) == (True, [], ["a.h5", "b.h5"])
    assert {"name": "run.skip", "first": True, "second": False} in told["apart"]
    assert pyxsim("diff", *two, "-q").err == ""


def test_different(pyxsim: Command, two: tuple[str, str]) -> None:
    assert pyxsim("run", "small.toml", "-o", "c.h5", "-q", "--set", "collective.size=8 KiB").code == 0
    ended = pyxsim("diff", "a.h5", "c.h5")
    assert (ended.code, ended.out) == (3, "")
    assert ended.lines[0].startswith("a.h5 and c.h5 differ: ")
    assert any(line.split()[:4] == ["/@experiment:", "collective.size", "values", "-"] for line in ended.lines)
    assert any(line.startswith("/links_total/flits  ") for line in ended.lines)
    quiet = pyxsim("diff", "a.h5", "c.h5", "-q")
    assert (quiet.code, quiet.out, quiet.err) == (3, "", "")
    told = json.loads(pyxsim("diff", "a.h5", "c.h5", "--json").out)
    assert told["equal"] is False
    assert len(told["differences"]) == int(ended.lines[0].split(" differ: ")[1].split()[0])


def test_faults(pyxsim: Command, two: tuple[str, str]) -> None:
    for words, says in (
        (("diff", "a.h5", "none.h5"), "none.h5: no such file"),
        (
            ("diff", "a.h5", "small.toml"),
            "small.toml: looks like an experiment file, not a result; allowed: an",
        ),
        (
            ("compare", "a.h5"),
            "a.h5: is an HDF5 result, not an experiment; allowed: a TOML file; for results, `pyxsim diff A.h5 B.h5`",
        ),
    ):
        ended = pyxsim(*words)
        assert ended.code == 2
        (line,) = ended.lines
        assert line.startswith(f"pyxsim: {says}")
