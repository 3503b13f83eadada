"""Ctrl-C, SIGTERM and SIGHUP: at once where nothing is lost, else at the next place where a simulation can be left."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from pyxsim.cli.exit_codes import without_terminal

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SAME = 0.5  # seconds in which signals are one wish: `timeout` and batch systems tell a process and then its group


class Stop:
    """Listens to the signals that end a command. All arrive as KeyboardInterrupt; `number` tells which one it was."""

    def __init__(self) -> None:
        self.number = 0
        self._since = 0.0
        self._deferred = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stop:
        for number in SIGNALS:
            try:
                before = signal.getsignal(number)
                # What the shell had us ignore (nohup, a background job of a script) stays ignored.
                if before is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._heard)
            except ValueError:  # not in the main thread: signals are somebody else's business
                break
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _heard(self, number: int, frame: FrameType | None) -> None:
        again, now = self.number != 0, time.monotonic()
        if again and now - self._since < SAME:
            return
        self.number, self._since = number, now
        if number == signal.SIGHUP:
            without_terminal()
        if again or not self._deferred:
            raise KeyboardInterrupt

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Inside, the first signal only leaves a note for `obey`; a second one is impatient and comes through."""
        before, self._deferred = self._deferred, True
        try:
            yield
        finally:
            self._deferred = before

    def obey(self) -> None:
        """Raise KeyboardInterrupt if a signal has come."""
        if self.number:
            raise KeyboardInterrupt
