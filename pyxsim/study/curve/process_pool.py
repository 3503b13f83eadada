"""Processes that simulate loads.

They are forks where the system forks, so they have the libraries and functions of the caller's program. A pool of the
standard library waits forever for a worker that a signal killed, and for its own threads after an interruption.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

from pyxsim.errors import PyxsimError
from pyxsim.study.sweep.crew import unheard

_TO_ALL = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SIGNAL_S = 1.0  # a signal to the process group kills workers before this process receives it


class ProcessPool:
    """`count` worker processes, as a context manager; its end kills them."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._workers: list[tuple[Any, Connection]] = []

    def __enter__(self) -> ProcessPool:
        try:
            for _ in range(self.count):
                with unheard(*_TO_ALL):
                    ours, theirs = multiprocessing.Pipe()
                    process = multiprocessing.Process(target=_work, args=(theirs,), daemon=True)
                    self._workers.append((process, ours))
                    process.start()
                    theirs.close()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with unheard(*_TO_ALL):
            while self._workers:
                process, pipe = self._workers[-1]
                pipe.close()
                if process.pid is not None:
                    process.kill()
                    process.join()
                self._workers.pop()

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Yield the value of a function for each item, as they are computed; both are pickled.

        Raises what the function raises, and PyxsimError if a worker has died.
        """
        waiting, busy = deque(items), set[Connection]()
        idle = [pipe for _, pipe in self._workers]
        while waiting or busy:
            while waiting and idle:
                busy.add(pipe := idle.pop())
                pipe.send((function, waiting.popleft()))
            ready = wait(list(busy))
            for pipe in [pipe for pipe in busy if pipe in ready]:
                try:
                    value, error = pipe.recv()
                except (EOFError, OSError):
                    time.sleep(_SIGNAL_S)
                    problem = "a worker process was killed, probably because memory ran out"
                    raise PyxsimError(problem) from None
                if error is not None:
                    raise error
                busy.remove(pipe)
                idle.append(pipe)
                yield value


def _work(pipe: Connection) -> None:
    """In a worker: compute until the pipe or the parent ends. The parent ends its workers, not Ctrl-C or a hangup."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    try:
        while True:
            function, item = pipe.recv()
            try:
                value, fault = function(item), None
            except Exception as error:
                value, fault = None, error
            pipe.send((value, fault))
    except (EOFError, OSError):  # the parent has ended
        return


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
