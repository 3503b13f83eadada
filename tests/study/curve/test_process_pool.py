"""Worker processes end with their pool, whatever signals arrive, and a killed one is an error, not a hang."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pyxsim.errors import InputError, PyxsimError
from pyxsim.runner.signals import StopSignals
from pyxsim.study.curve.process_pool import ProcessPool
from tests import fork_server

ORPHANS = """
import os, signal, sys, time
from pathlib import Path
from pyxsim.study.curve.process_pool import ProcessPool

def stay(file):
    Path(file).write_text(str(os.getpid()))
    time.sleep(600)

with ProcessPool(2) as pool:
    list(pool.map(stay, sys.argv[1:]))
"""


def square(number: int) -> int:
    return number * number


def signalled(number: int) -> int:
    """Send a signal that `killpg` sends to all: only to this worker."""
    os.kill(os.getpid(), number)
    return number


def terminated(_: int) -> None:
    """As `timeout` ends a process group: this worker receives the signal before its parent."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    if os.fork() == 0:
        time.sleep(0.3)
        os.kill(int(os.environ["POOL"]), signal.SIGTERM)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGTERM)


def refuse(_: int) -> None:
    raise InputError("no such load", key="loads", allowed="others")


def alive(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def test_every_item_is_computed_once() -> None:
    with ProcessPool(3) as pool:
        for count in (0, 1, 20):
            assert sorted(pool.map(square, range(count))) == [number * number for number in range(count)]


def test_errors_are_raised_here() -> None:
    with ProcessPool(2) as pool, pytest.raises(InputError, match="no such load; allowed: others"):
        list(pool.map(refuse, [1]))


def test_a_killed_worker_is_an_error() -> None:
    with ProcessPool(2) as pool, pytest.raises(PyxsimError, match="a worker process was killed"):
        list(pool.map(signalled, [signal.SIGKILL]))


def test_ctrl_c_and_a_hangup_do_not_end_workers() -> None:
    with ProcessPool(1) as pool:
        assert list(pool.map(signalled, [signal.SIGINT, signal.SIGHUP])) == [signal.SIGINT, signal.SIGHUP]


def test_a_signal_to_the_process_group_is_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POOL", str(os.getpid()))
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with StopSignals.of_command(lambda: None), ProcessPool(2) as pool, pytest.raises(KeyboardInterrupt):
            list(pool.map(terminated, [1]))
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    files = [tmp_path / "first", tmp_path / "second"]
    program = tmp_path / "program.py"
    program.write_text(ORPHANS, encoding="utf-8")
    parent = fork_server.Popen([sys.executable, str(program), *map(str, files)])
    assert within(60.0, lambda: all(file.exists() and file.read_text() for file in files))
    workers = [int(file.read_text()) for file in files]
    assert all(map(alive, workers))
    parent.kill()
    parent.wait()
    assert within(20.0, lambda: not any(map(alive, workers)))
