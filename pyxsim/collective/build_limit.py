"""Stop an algorithm that grows without end, before the system kills the process."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from pyxsim.peak_memory import memory_limit, resident_mb

MOST_MB = 4000.0
MOST_SECONDS = 600.0
_PERIOD = 0.05  # seconds

P = ParamSpec("P")
R = TypeVar("R")


class TooLargeError(Exception):
    """A function took more memory or time than it may; its message says which."""


class _Stop(BaseException):
    """Raised inside the function."""


def limited(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a Python function; raise TooLargeError once it takes more than `MOST_MB` or `MOST_SECONDS`.

    A thread watches the process. It cannot stop compiled code before that returns to Python.
    """
    most_mb = min(MOST_MB, _available_mb() / 2)
    caller, ended, reasons = threading.get_ident(), threading.Event(), list[str]()
    ending = threading.Lock()
    first_mb, began = resident_mb(), time.monotonic()

    def watch() -> None:
        while not reasons and not ended.wait(_PERIOD):
            if resident_mb() - first_mb > most_mb:
                reasons.append(f"more than {most_mb:.0f} MB of memory")
            elif time.monotonic() - began > MOST_SECONDS:
                reasons.append(f"more than {MOST_SECONDS:.0f} seconds")
        with ending:
            if reasons and not ended.is_set():
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(caller), ctypes.py_object(_Stop))

    watcher = threading.Thread(target=watch, name="pyxsim-build-limit", daemon=True)
    watcher.start()
    try:
        try:
            return function(*args, **kwargs)
        finally:
            # A stop that was set before is raised here at the latest. Taking it back by SetAsyncExc(NULL) would leave
            # Python 3.11's eval breaker set: slow from then on, and an endless loop under a profiler.
            with ending:
                ended.set()
            watcher.join()
    except _Stop:
        raise TooLargeError(reasons[0]) from None


def _available_mb() -> float:
    """The memory of this machine, or a smaller limit of this process."""
    limit = memory_limit()
    return (os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if limit is None else limit[0]) / 1e6
