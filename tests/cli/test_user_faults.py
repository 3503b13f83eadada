"""Faults of a user's own library files: one line with file and line, exit code 2."""

from __future__ import annotations

import json
import re
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
WORKS = """
import numpy as np
from pyxsim.network.protocol import Backend
from pyxsim.plugins import backends
@backends.register("fault-test-works")
class Works(Backend):
    now = 0
    def send_many(self, src, dst, nbytes, plane, at, tag=0):
        self.messages_sent += len(src)
        self.bytes_delivered += int(nbytes.sum())
        self.open = [*getattr(self, "open", []), *range(self.messages_sent - len(src), self.messages_sent)]
        return self.messages_sent - len(src)
    def advance(self, until, *, slack=0):
        arrived, self.open = getattr(self, "open", []), []
        return arrived, [self.now] * len(arrived)
"""
FAILS = (
    WORKS
    + """
@backends.register("fault-test-init")
class Init(Works):
    def __init__(self, *args, **options):
        1 / 0  # fault-test-init
@backends.register("fault-test-send")
class Send(Works):
    def send_many(self, *args):
        return 1 / 0  # fault-test-send
@backends.register("fault-test-totals")
class Totals(Works):
    def totals(self):
        return 1 / 0  # fault-test-totals
"""
)
ON_WORKS = ("--backend", "fault-test-works")
SUBCLASS = """
from dataclasses import replace
from pyxsim.network.packet.packet_network import PacketNetwork
from pyxsim.plugins import backends
@backends.register("fault-test-works")
class Works(PacketNetwork):
    capabilities = replace(PacketNetwork.capabilities, open_traffic=False)
"""
OVERRIDDEN = """
    def {method}(self, *arguments, **options):
        return super().{method}(*arguments, **options)
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
    monkeypatch.setattr(library, "_current", set())  # as before any command with --library
    assert lines(caught.value)[0].startswith("this is a bug of pyxsim: KeyError: 0")


def test_a_fault_of_pyxsim_does_not_name_a_users_file(
    pyxsim: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's backend carries the messages, and pyxsim fails between two of its calls."""
    put(folder, "backends", WORKS)

    def fail(system: object) -> None:
        raise KeyError("end")

    monkeypatch.setattr("pyxsim.system.system.System._process_cycle", fail)
    ended = pyxsim("run", "small.toml", "--library", "mine", "--backend", "fault-test-works")
    assert ended.code == 1
    assert [line.partition(";")[0] for line in ended.lines] == [
        "pyxsim: this is a bug of pyxsim, or of a file of --library: KeyError: 'end'"
    ]


def test_a_call_of_pyxsim_with_wrong_arguments_is_the_callers_fault(pyxsim: Command, folder: Path) -> None:
    path = put(folder, "checks", CHECK.replace("{}[0]", "prepared.topology.relation.route('a', 'b', 0)"))
    ended = pyxsim("check", "small.toml", "--library", "mine")
    assert ended.code == 2
    (line,) = ended.lines
    assert line.startswith(f"pyxsim: {path}:5: "), line
    assert re.search(r", raised by pyxsim/routing/\w+\.py:\d+, which this line calls$", line), line


def test_compare_goes_on_after_an_exception_in_a_users_backend(pyxsim: Command, folder: Path) -> None:
    """It fails when it is made, while it sends, or when its counters are read: a row each, and the others run."""
    path = put(folder, "backends", FAILS)
    names = ["fault-test-init", "fault-test-send", "fault-test-totals"]
    words = [word for name in (*names, "analytical") for word in ("--backend", name)]
    ended = pyxsim("compare", "small.toml", "--library", "mine", *words, "--json")
    assert ended.code == 0, ended.err
    rows = {row["backend"]: row for row in json.loads(ended.out)["points"][0]["backends"]}
    assert rows["analytical"]["time_ns"] > 0
    source = FAILS.splitlines()
    for name in names:
        (line,) = (number for number, text in enumerate(source, 1) if f"1 / 0  # {name}" in text)
        assert "time_ns" not in rows[name]
        assert rows[name]["reason"] == f"{path}:{line}: ZeroDivisionError: division by zero"
    ended = pyxsim("compare", "small.toml", "--library", "mine", *words[2:6])
    assert ended.code == 3, "no backend could run it"


def test_compare_goes_on_after_a_wrong_number_of_a_users_backend(pyxsim: Command, folder: Path) -> None:
    path = put(folder, "backends", WORKS.replace("return self.messages_sent - len(src)", "return self.messages_sent"))
    ended = pyxsim("compare", "small.toml", "--library", "mine", *ON_WORKS, "--backend", "analytical", "--json")
    assert ended.code == 0, ended.err
    rows = {row["backend"]: row for row in json.loads(ended.out)["points"][0]["backends"]}
    assert rows["analytical"]["time_ns"] > 0
    assert re.match(
        rf"{re.escape(str(path))}:\d+: Works.send_many\(\) returned \d+; allowed: the number of the first "
        r"message, 0$",
        rows["fault-test-works"]["reason"],
    )


@pytest.mark.parametrize("methods", [("advance",), ("send_many",), ("advance", "send_many")])
@pytest.mark.parametrize("background", [False, True])
def test_a_users_subclass_of_a_shipped_backend_runs_as_that_one(
    pyxsim: Command, folder: Path, methods: tuple[str, ...], background: bool
) -> None:
    """Whichever methods it overrides; background packets take numbers between those of messages."""
    put(folder, "backends", SUBCLASS + "".join(OVERRIDDEN.format(method=method) for method in methods))
    text = (folder / "small.toml").read_text(encoding="utf-8")
    if background:
        text += '[traffic]\npattern = "uniform"\nload = 0.1\n'
    (folder / "beside.toml").write_text(text, encoding="utf-8")
    summaries = []
    for name in ("fault-test-works", "packet"):
        ended = pyxsim("run", "beside.toml", "--library", "mine", "--backend", name, "--json")
        assert ended.code == 0, ended.err
        summaries.append(json.loads(ended.out)["time_ns"])
    assert summaries[0] == summaries[1]


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
