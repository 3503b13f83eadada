"""Stop an algorithm of a user that never ends or grows without end, before the system kills the process."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import ParamSpec, TypeVar

from pyxsim.library import file_of_module
from pyxsim.peak_memory import memory_limit, resident_mb

MOST_MB = 4000.0
# Of the function, or of a user's code that it calls, not of pyxsim's work on what that returned. The slowest shipped
# algorithm takes 1.3 CPU seconds on 4096 ranks; a million calls of `Schedule.send` take about 5.
MOST_CPU_SECONDS = 60.0
MOST_SECONDS = 600.0  # asleep, too
_PERIOD = 0.05  # seconds

P = ParamSpec("P")
R = TypeVar("R")


class TooLargeError(Exception):
    """A function took more memory or time than it may; its message says which.

    Attributes
    ----------
    place
        "file:line" of the user's code that ran last; None if none ran.
    """

    def __init__(self, reason: str, place: str | None) -> None:
        super().__init__(reason)
        self.place = place


class _Stop(BaseException):
    """Raised inside the function."""


def limited(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a Python function; raise TooLargeError once it exceeds `MOST_MB`, `MOST_CPU_SECONDS` or `MOST_SECONDS`.

    A thread watches the process. It cannot stop compiled code before that returns to Python.
    """
    most_mb = min(MOST_MB, _available_mb() / 2)
    caller, ended, reasons = threading.get_ident(), threading.Event(), list[tuple[str, str | None]]()
    ending = threading.Lock()
    first_mb = resident_mb()

    def watch() -> None:
        cpu_time = _cpu_clock(caller)
        before, used = (cpu_time(), time.monotonic()), [0.0, 0.0]
        while not reasons and not ended.wait(_PERIOD):
            now = cpu_time(), time.monotonic()
            place = _users_place(sys._current_frames().get(caller))
            if place is not None:
                used = [used[0] + now[0] - before[0], used[1] + now[1] - before[1]]
            before = now
            if resident_mb() - first_mb > most_mb:
                reasons.append((f"more than {most_mb:.0f} MB of memory", place))
            elif used[0] > MOST_CPU_SECONDS:
                reasons.append((f"more than {MOST_CPU_SECONDS:.0f} CPU seconds", place))
            elif used[1] > MOST_SECONDS:
                reasons.append((f"more than {MOST_SECONDS:.0f} seconds", place))
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
        raise TooLargeError(*reasons[0]) from None


def _users_place(frame: FrameType | None) -> str | None:
    """Return "file:line" of the innermost user's frame below `limited`, else of the function unless it is pyxsim's."""
    place = None
    while frame is not None and frame.f_code is not limited.__code__:
        name = str(frame.f_globals.get("__name__", ""))
        if file := file_of_module(name):
            return f"{file}:{frame.f_lineno}"
        place = None if name.startswith("pyxsim.") else f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return place


def _cpu_clock(thread: int) -> Callable[[], float]:
    """Return a clock of the CPU seconds of a thread; of the process where threads have no clock."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.process_time
    return partial(time.clock_gettime, time.pthread_getcpuclockid(thread))


def _available_mb() -> float:
    """The memory of this machine, or a smaller limit of this process."""
    limit = memory_limit()
    return (os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if limit is None else limit[0]) / 1e6
