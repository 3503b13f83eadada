"""Signals that end a process. A run handles them where it can stop without losing simulated work."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SWALLOWED = 0.01  # seconds after which a signal that Python ignored is sent again
REPEAT = 0.5  # seconds in which signals count as one: `timeout` and batch systems signal a process, then its group


class StopSignals:
    """Record the signals that end a process; each is raised as KeyboardInterrupt.

    As a context manager it installs its handlers; nested contexts share them. Outside `deferred` a signal raises at
    once. Inside, the first one is only recorded in `number`, and a second one raises.

    Parameters
    ----------
    numbers
        Signals to handle.
    replaces
        Whether to replace the present handler of a signal: called with its number and that handler.
    repeat
        Seconds in which further signals count as the first one.
    hangup
        Called when SIGHUP arrives.
    reraise
        Send a signal again when the handlers are removed, if nothing obeyed it, or if it was SIGTERM and ended Python.
    """

    def __init__(
        self,
        numbers: tuple[signal.Signals, ...],
        replaces: Callable[[int, Any], bool],
        *,
        repeat: float = 0.0,
        hangup: Callable[[], None] | None = None,
        reraise: bool = False,
    ) -> None:
        self.number = 0
        self._numbers = numbers
        self._replaces = replaces
        self._repeat = repeat
        self._hangup = hangup
        self._reraise = reraise
        self._since = 0.0
        self._deferred = False
        self._depth = 0
        self._received: set[int] = set()
        self._obeyed = False
        self._previous: dict[int, Any] = {}
        self._timer: threading.Timer | None = None

    @classmethod
    def of_command(cls, hangup: Callable[[], None]) -> StopSignals:
        """Handle every signal that ends a command, except those that the shell made it ignore (nohup)."""
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        return cls(numbers, lambda _, handler: handler is not signal.SIG_IGN, repeat=REPEAT, hangup=hangup)

    @classmethod
    def of_library(cls, *, terminate: bool = False) -> StopSignals:
        """Handle Ctrl-C and SIGTERM where they raise KeyboardInterrupt; leave the handlers of the user's program.

        Parameters
        ----------
        terminate
            Also delay a SIGTERM that ends Python, until the handlers are removed.
        """

        def replaces(number: int, handler: Any) -> bool:
            ends = terminate and number == signal.SIGTERM and handler == signal.SIG_DFL
            return bool(ends or handler == signal.default_int_handler)

        return cls((signal.SIGINT, signal.SIGTERM), replaces, reraise=True)

    def __enter__(self) -> StopSignals:
        self._depth += 1
        if self._depth == 1 and threading.current_thread() is threading.main_thread():
            for number in self._numbers:
                handler = signal.getsignal(number)
                if self._replaces(number, handler):
                    self._previous[number] = handler
                    signal.signal(number, self._handle)
            if self._previous:
                self._hook, sys.unraisablehook = sys.unraisablehook, self._unraisable
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth:
            return
        previous, self._previous = self._previous, {}
        if previous:
            sys.unraisablehook = self._hook
        if self._timer is not None:
            self._timer.cancel()
        for number, handler in previous.items():
            signal.signal(number, handler)
        for number in self._received if self._reraise else ():
            if not self._obeyed or previous.get(number) == signal.SIG_DFL:
                signal.raise_signal(number)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._received.add(number)
        repeated, now = self.number != 0, time.monotonic()
        if repeated and now - self._since < self._repeat:
            return
        self.number, self._since = number, now
        if number == signal.SIGHUP and self._hangup is not None:
            self._hangup()
        if repeated or not self._deferred:
            self._obeyed = True
            raise KeyboardInterrupt

    def _unraisable(self, unraisable: Any) -> None:
        """Send a signal again that arrived in a destructor or in a callback at a fork: Python ignores its exception."""
        if unraisable.exc_type is not KeyboardInterrupt or not self.number:
            self._hook(unraisable)
            return
        started = False
        while not started:
            number, self.number = self.number, 0
            self._timer = threading.Timer(SWALLOWED, os.kill, (os.getpid(), number))
            self._timer.daemon = True
            try:
                self._timer.start()
                started = True
            except KeyboardInterrupt:  # on a busy machine, the signal is back before `start` returns
                continue

    def obey(self) -> None:
        """Raise KeyboardInterrupt for a signal that was recorded."""
        self._obeyed = True
        raise KeyboardInterrupt

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Install the handlers and defer signals: those of a run wait for the next place where it can stop."""
        with self.deferred(), self:
            yield

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Inside, record the first signal instead of raising it."""
        previous, self._deferred = self._deferred, True
        try:
            yield
        finally:
            self._deferred = previous
