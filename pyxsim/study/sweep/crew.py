"""Worker processes of this machine. One that dies loses its task, and is replaced.

They are child processes with a pipe each. A pool of the standard library would break as a whole when one of its
processes is killed, and would import the script of the user once more in each of them.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Protocol

from pyxsim.errors import InputError, PyxsimError
from pyxsim.study.sweep.task import DIED, Outcome, Work

# As in cli/app.py: garbage collection during the imports takes long.
_BEGIN = (
    "import gc, sys; gc.set_threshold(50_000, *gc.get_threshold()[1:]); sys.path[:] = {path!r}; "
    "from pyxsim.study.sweep.worker import main; main({tasks}, {lifeline})"
)
_TO_ALL = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_HOPELESS = 3  # consecutive workers that died during their start, so the points are not the cause


def processes(workers: int | None) -> int:
    """Return the number of workers, by default that of processors. Raises InputError for an invalid number."""
    if workers is None:
        return os.cpu_count() or 1
    if not isinstance(workers, int) or workers < 1:
        raise InputError(f"{workers!r} is not a number of workers", key="--workers", allowed="a whole number from 1")
    return workers


class Crew(Protocol):
    """A pool of workers."""

    @property
    def begun(self) -> bool:
        """Whether a worker has started."""

    def free(self) -> int:
        """Return how many more tasks it can take."""

    def submit(self, number: int, task: Work) -> None:
        """Start a task with a number that identifies it."""

    def wait(self, seconds: float) -> list[tuple[int, Outcome]]:
        """Return the tasks that end within `seconds`. Raises PyxsimError if no worker is left."""

    def close(self) -> None:
        """End all workers; unfinished tasks are lost."""


class _Worker:
    """A worker process. `log`: the file of its output."""

    def __init__(self, log: Path) -> None:
        self.number: int | None = None  # number of its task
        self.begun = False
        ours, theirs = socket.socketpair()
        lifeline, self._lifeline = os.pipe()
        code = _BEGIN.format(path=sys.path, tasks=theirs.fileno(), lifeline=lifeline)
        with ours, theirs, log.open("ab") as out, unheard(*_TO_ALL):
            self.process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                pass_fds=(theirs.fileno(), lifeline),
            )
            self.pipe = Connection(ours.detach())
        os.close(lifeline)

    def begin(self, number: int, task: Work) -> bool:
        """Send a task; return whether that succeeded."""
        self.number = number
        try:
            self.pipe.send(task)
        except OSError:
            return False
        return True

    def take(self) -> Outcome | None:
        """Return its outcome; None for the first message, that it has started. Raises EOFError if it has died."""
        try:
            outcome: Outcome | None = self.pipe.recv()
        except OSError as error:
            raise EOFError from error
        self.begun = True
        return outcome

    def end(self) -> int:
        """Kill the process if it is alive; return its exit code."""
        self.process.kill()
        self.pipe.close()
        os.close(self._lifeline)
        return self.process.wait()


@contextmanager
def unheard(*numbers: signal.Signals) -> Iterator[None]:
    """Context manager in which new processes and threads block these signals: a batch system sends them to all
    processes, and the parent ends its workers itself."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Local:
    """Worker processes of this machine, started when tasks arrive."""

    def __init__(self, count: int, log: Path) -> None:
        self.count, self.log = count, log
        self._idle: list[_Worker] = []
        self._busy: list[_Worker] = []
        self._useless = 0

    @property
    def begun(self) -> bool:
        return any(worker.begun for worker in [*self._idle, *self._busy])

    def free(self) -> int:
        return self.count - len(self._busy)

    def submit(self, number: int, task: Work) -> None:
        worker = self._idle.pop() if self._idle else _Worker(self.log)
        self._busy.append(worker)
        worker.begin(number, task)  # `wait` reports a worker that has died

    def wait(self, seconds: float) -> list[tuple[int, Outcome]]:
        ready = wait([worker.pipe for worker in self._busy], seconds)
        ended = []
        for worker in [worker for worker in self._busy if worker.pipe in ready]:
            number = worker.number
            assert number is not None
            try:
                outcome = worker.take()
            except EOFError:
                self._busy.remove(worker)
                outcome = self._died(worker)
            else:
                self._useless = 0
                if outcome is None:
                    continue
                self._busy.remove(worker)
                self._idle.append(worker)
            ended.append((number, outcome))
        return ended

    def _died(self, worker: _Worker) -> Outcome:
        code = worker.process.wait()
        worker.end()
        self._useless += not worker.begun
        if self._useless >= _HOPELESS:
            raise PyxsimError(f"workers cannot be started; the last one {_how(code)}; see {self.log}")
        return Outcome(kind=DIED, reason=f"its process {_how(code)}")

    def close(self) -> None:
        for worker in [*self._idle, *self._busy]:
            worker.end()
        self._idle.clear()
        self._busy.clear()


def _how(code: int) -> str:
    """Describe how a process has ended."""
    if code == -signal.SIGKILL:
        return "was killed, probably because memory ran out"
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
