"""What others do while a network lets time pass. It is no part of the network: a copy has nobody who looks on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def nothing() -> None:
    """There is nobody."""


class Between:
    """A network calls `tick` every now and then, which may raise; and `pause` where it may be left and taken up again:
    whatever has arrived was told, and all that matters stands in objects, nothing on the stack."""

    tick: Callable[[], None] = staticmethod(nothing)
    pause: Callable[[], None] = staticmethod(nothing)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("tick", "pause")}
