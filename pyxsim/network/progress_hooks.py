"""Callbacks that a backend makes while simulated time passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def nothing() -> None:
    """Do nothing: the default hook."""


class ProgressHooks:
    """Two callbacks without arguments; a copy or a pickle of the object has the defaults.

    Attributes
    ----------
    tick
        Called regularly, for progress and signals. It may raise.
    pause
        Called where a checkpoint can be written: all arrivals are reported, and the whole state is in objects.
    """

    tick: Callable[[], None] = staticmethod(nothing)
    pause: Callable[[], None] = staticmethod(nothing)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("tick", "pause")}
