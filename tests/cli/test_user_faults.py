"""Faults of a user's own library files: one line with file and line, exit code 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyxsim import library
from pyxsim.cli.exit_codes import lines
from tests.cli.inputs import Command

BACKEND = """
from pyxsim.network.protocol import Backend
from pyxsim.plugins import backends
@backends.register("fault-test-empty")
class Empty(Backend):
    pass
@backends.register("fault-test-function")
def function(*args):
    pass
"""
CHECK = """
from pyxsim.study.check import checks
@checks.register("fault-test-check")
def check(prepared):
    return {}[0]
"""
PATTERN = """
from pyxsim.registry import patterns
import json
@patterns.register("fault-test-pattern")
def pattern(npus):
    return json.loads("{")
"""
TRAFFIC = '[network]\ntopology = "torus"\nshape = [2, 2]\n[traffic]\npattern = "fault-test-pattern"\nload = 0.1\n'


def put(folder: Path, shelf: str, text: str) -> Path:
    path = folder / "mine" / shelf / "cli_fault.py"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_an_exception_of_a_users_file_is_no_bug_of_pyxsim(pyxsim: Command, folder: Path) -> None:
    path = put(folder, "checks", CHECK)
    ended = pyxsim("check", "small.toml", "--library", "mine", "--json")
    assert (ended.code, ended.lines) == (2, [f"pyxsim: {path}:5: KeyError: 0"])
    assert json.loads(ended.out) == {"exit_code": 2, "errors": [f"{path}:5: KeyError: 0"]}


def test_frames_of_other_packages_are_skipped(pyxsim: Command, folder: Path) -> None:
    path = put(folder, "patterns", PATTERN)
    (folder / "traffic.toml").write_text(TRAFFIC, encoding="utf-8")
    ended = pyxsim("run", "traffic.toml", "--library", "mine")
    assert ended.code == 2
    (line,) = ended.lines
    assert line.startswith(f"pyxsim: {path}:6: JSONDecodeError: Expecting"), line


def test_the_traceback_of_a_users_file_can_be_shown(
    pyxsim: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, "checks", CHECK)
    monkeypatch.setenv("PYXSIM_TRACEBACK", "1")
    ended = pyxsim("check", "small.toml", "--library", "mine")
    assert ended.code == 2
    assert "Traceback (most recent call last)" in ended.err


def test_a_file_that_ships_is_not_a_users(monkeypatch: pytest.MonkeyPatch) -> None:
    name, file = "pyxsim_library.patterns.some", str(library.PACKAGE.parent / "patterns" / "some.py")
    scope = {"__name__": name}
    exec(compile("def fail():\n    {}[0]\n", file, "exec"), scope)
    with pytest.raises(KeyError) as caught:
        scope["fail"]()  # type: ignore[operator]
    assert library.user_fault(caught.value) is None
    assert lines(caught.value)[0].startswith("this is a bug of pyxsim: KeyError: 0")


@pytest.mark.parametrize(
    ("name", "line", "words"),
    [
        ("fault-test-empty", 4, "backend 'fault-test-empty' has no advance, now, send_many"),
        ("fault-test-function", 7, "backend 'fault-test-function' is not a class"),
    ],
)
def test_an_incomplete_backend_is_reported_by_its_file(
    pyxsim: Command, folder: Path, name: str, line: int, words: str
) -> None:
    path = put(folder, "backends", BACKEND)
    ended = pyxsim("run", "small.toml", "--library", "mine", "--backend", name)
    assert ended.code == 2
    assert ended.lines[0].startswith(f"pyxsim: {path}:{line}: {words}; allowed: "), ended.lines


def test_a_check_returns_a_finding(pyxsim: Command, folder: Path) -> None:
    path = put(folder, "checks", CHECK.replace("{}[0]", "'fine'"))
    ended = pyxsim("check", "small.toml", "--library", "mine")
    words = "the check 'fault-test-check' returned str; allowed: a Finding, or None"
    assert (ended.code, ended.lines) == (2, [f"pyxsim: {path}:3: {words}"])
