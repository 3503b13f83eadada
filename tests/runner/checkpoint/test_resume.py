"""Checkpoints in Python: `[run] checkpoint` of an experiment is honoured, and `pyxsim.resume` goes on."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pyxsim
from pyxsim.cli.app import main
from pyxsim.errors import DeadlockError, InputError
from pyxsim.reports.files import Outputs
from pyxsim.runner.checkpoint.context import CheckpointContext, checkpoint_writer
from pyxsim.runner.hooks import Progress, ProgressHooks
from pyxsim.runner.lifecycle import simulate
from pyxsim.runner.prepare import prepare
from pyxsim.study.curve.load_curve import points_of
from tests import fork_server
from tests.runner.checkpoint.test_checkpoint import Boundaries, assert_same, everything

RING: dict[str, Any] = {
    "network": {"topology": "ring", "shape": [8], "latency": "50 ns"},
    "collective": {"kind": "all-reduce", "size": "1 MiB"},
    "run": {"skip": False, "checkpoint": "10 min"},
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of its own; Ctrl-C as Python has it, which a background job of a script ignores."""
    monkeypatch.chdir(tmp_path)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield tmp_path
    signal.signal(signal.SIGINT, before)


class Impatient:
    """Presses Ctrl-C, or sends another signal, when it is first told how far a run is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: signal.Signals = signal.SIGINT) -> None:
        self.number = number
        clock = iter(range(10_000_000))
        monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))  # it is told at once
        self.pressed = False

    def __call__(self, now: Progress) -> None:
        if not self.pressed:
            self.pressed = True
            signal.raise_signal(self.number)


def test_ctrl_c_leaves_a_checkpoint_that_goes_on(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = everything(pyxsim.run({**RING, "run": {"skip": False}}), here / "whole.h5")
    with monkeypatch.context() as patch:
        result = pyxsim.run(RING, progress=Impatient(patch))
    assert not result.complete
    assert (here / "run.checkpoint").exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(InputError, match=r"it is the checkpoint .*; allowed: pyxsim\.resume\('/.*'\), or"):
        pyxsim.run(RING)
    result = pyxsim.resume("run.checkpoint")
    assert (result.complete, result.counts["resumed"]) == (True, 1)
    found = everything(result, here / "again.h5")
    for each in (wanted, found):
        each.pop("@experiment")  # which tells the time of the checkpoints
    assert_same(found, wanted)
    assert not (here / "run.checkpoint").exists()


def test_sigterm_made_like_ctrl_c_gives_the_result_back(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with monkeypatch.context() as patch:
            result = pyxsim.run(RING, progress=Impatient(patch, signal.SIGTERM))
        assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, before)
    assert not result.complete
    assert pyxsim.resume("run.checkpoint").complete


SCRIPT = f"""
import json, signal, sys
import pyxsim
seen = []
def progress(now):
    seen.append(now)
    signal.raise_signal(signal.SIGTERM)
pyxsim.run(json.loads({json.dumps(json.dumps(RING))}), progress=progress, checkpoint_file="mine.checkpoint",
           overrides=["collective.size=64 MiB"])
print("not reached")
"""


def test_sigterm_ends_the_process_after_a_last_checkpoint(here: Path) -> None:
    done = fork_server.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGTERM, "", "")
    # The command goes on as well, and is told where its result goes.
    assert main(["resume", "mine.checkpoint", "-o", "out.h5", "--quiet"]) == 0
    found = pyxsim.load("out.h5")
    assert found.complete
    assert found.time_ns == pyxsim.run({**RING, "run": {}}, overrides=["collective.size=64 MiB"]).time_ns
    assert sorted(each.name for each in here.iterdir()) == ["out.h5"]


def test_a_run_that_ends_leaves_no_checkpoint(here: Path) -> None:
    (here / "ring.toml").write_text('run.checkpoint = "0.001 s"\n[network]\ntopology = "ring"\nshape = [8]\n')
    words = ["collective.kind=all-reduce", "collective.size=1 MiB", "run.skip=false"]
    assert pyxsim.run(here / "ring.toml", overrides=words).complete
    assert [each.name for each in here.iterdir()] == ["ring.toml"]


def test_what_a_command_was_to_write_is_written(here: Path) -> None:
    """And a run that fails has ended, too."""
    for name, tables in {"out": RING, "bad": {**RING, **DEADLOCK}}.items():
        prepared = prepare(pyxsim.load_experiment(tables), allow_deadlock=True)
        rest = CheckpointContext(Outputs(str(here / f"{name}.h5")))
        path = here / f"{name}.h5.checkpoint"
        at = checkpoint_writer(str(path), None, rest, stop_requested=Boundaries(2), warn=pytest.fail)
        assert not simulate(prepared, hooks=ProgressHooks(checkpoints=at)).complete
        copy = here / f"{name}.copy"
        copy.write_bytes(path.read_bytes())
    assert pyxsim.resume("out.h5.checkpoint").complete
    assert pyxsim.load("out.h5").complete
    assert pyxsim.resume("out.copy", keep=True).complete
    with pytest.raises(DeadlockError):
        pyxsim.resume("bad.h5.checkpoint")
    assert not pyxsim.load("bad.h5").complete
    assert sorted(each.name for each in here.iterdir()) == ["bad.copy", "bad.h5", "out.copy", "out.h5"]
    with pytest.raises(InputError, match=r"the run has ended; allowed: nothing to resume; the result is out\.h5"):
        pyxsim.resume("out.h5.checkpoint")


def test_names_of_files_are_told_as_they_are_typed(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Below the present folder from there; elsewhere whole, or as they are typed now."""
    path = here / "out.h5.checkpoint"
    rest = CheckpointContext(Outputs(str(here / "out.h5")))
    prepared = prepare(pyxsim.load_experiment(RING))
    at = checkpoint_writer(str(path), None, rest, stop_requested=Boundaries(2), warn=pytest.fail)
    assert not simulate(prepared, hooks=ProgressHooks(checkpoints=at)).complete
    assert main(["resume", "out.h5.checkpoint", "--keep"]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "wrote out.h5"
    (here / "sub").mkdir()
    monkeypatch.chdir(here / "sub")
    for words, told in (([], str(here / "out.h5")), (["-o", "../other.h5"], "../other.h5")):
        assert main(["resume", "../out.h5.checkpoint", "--keep", *words]) == 0
        assert capsys.readouterr().err.splitlines()[-1] == f"wrote {told}"
    assert main(["resume", "../out.h5.checkpoint", "-o", "no/x.h5"]) == 2
    assert "pyxsim: no/x.h5: cannot be written: there is no folder 'no'" in capsys.readouterr().err


# Every NPU sends two hops ahead round a circle without datelines: one VC, little buffer.
DEADLOCK = {
    "network": {
        "topology": "garnet-torus",
        "shape": [4, 1, 1],
        "router": {"vcs": 1, "buffer": 2, "routing": "ring"},
    },
    "system": {"all_reduce": "direct"},
}


@pytest.mark.parametrize("work", [pyxsim.compare, lambda tables: pyxsim.sweep(tables, "points"), points_of])
def test_who_writes_no_checkpoints_refuses_them(here: Path, work: Any) -> None:
    traffic = {"pattern": "uniform", "load": 0.1}
    tables = {**RING, "traffic": traffic} if work is points_of else RING
    tables = {key: table for key, table in tables.items() if work is not points_of or key != "collective"}
    problem = "run.checkpoint: this command writes no checkpoints; allowed: with `pyxsim run`"
    with pytest.raises(InputError, match=f"^{re.escape(problem)}$"):
        work(tables)
    assert not list(here.iterdir())


LIBRARY = """
from pyxsim.collective.schedule import Schedule
from pyxsim.registry import collectives
@collectives.register("{name}")
def relay(kind, n):
    schedule = Schedule(kind, n, blocks=1)
    for rank in range(1, n):
        schedule.send(rank - 1, rank, 0)
    return schedule
"""


def test_other_libraries_of_a_process_are_no_part_of_a_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And one that it wants, and nobody told, is named in the fault."""
    for name in ("relay-a", "relay-b"):
        shelf = here / name / "collectives"
        shelf.mkdir(parents=True)
        (shelf / f"{name.replace('-', '_')}.py").write_text(LIBRARY.replace("{name}", name), encoding="utf-8")
    script = f"""
import itertools, json, signal, time
import pyxsim
from pyxsim import library
clock = itertools.count()
time.monotonic = lambda: float(next(clock))  # progress is told at once
library.load_all(["relay-a"])
tables = json.loads({json.dumps(json.dumps(RING))})
def run(name, **options):
    seen = []
    def progress(now):
        seen or signal.raise_signal(signal.SIGINT)
        seen.append(now)
    kind = "all-reduce" if name == "ring" else "broadcast"
    tables["collective"] = {{"kind": kind, "size": "2 MiB", "algorithm": name}}
    done = pyxsim.run(tables, checkpoint_file=name + ".checkpoint", progress=progress, **options)
    assert not done.complete
run("ring")
run("relay-b", libraries=["relay-b"])
run("relay-a")
"""
    fork_server.run([sys.executable, "-c", script], check=True)
    assert main(["resume", "relay-a.checkpoint", "--quiet"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("pyxsim: unknown collective algorithm 'relay-a'")
    assert line.endswith("--library DIR")
    for name in ("ring", "relay-b"):
        assert main(["resume", f"{name}.checkpoint", "--quiet"]) == 0


def test_a_file_for_checkpoints_wants_a_time(here: Path) -> None:
    with pytest.raises(InputError, match=r"run\.checkpoint: the interval is missing; allowed: a time such as '60 s'"):
        pyxsim.run({**RING, "run": {}}, checkpoint_file="mine.checkpoint")


def test_a_folder_is_no_checkpoint(here: Path) -> None:
    with pytest.raises(InputError, match="cannot be written: it is a folder"):
        pyxsim.run(RING, checkpoint_file=here)
