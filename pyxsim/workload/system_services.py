"""Between a graph of tasks and those who carry it out: the system layer, and stations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from pyxsim.workload.graph import Longs

EndCallback = Callable[[int], None]
"""A task has ended, in this cycle."""


class SystemServices(Protocol):
    """What the system layer does for a graph: collectives and messages that begin when they are told to."""

    shape: tuple[int, ...]
    options: Any
    endpoint: Any

    @property
    def communicator(self) -> Callable[..., Any]:
        """The communicator of a list of NPUs."""

    @property
    def cycle(self) -> int:
        """The present."""

    @property
    def issue(self) -> Callable[..., Any]:
        """A collective; with `open`, one that nobody has begun."""

    def enter(self, collective: Any, npu: int) -> None:
        """An NPU begins its part, now."""

    @property
    def send(self) -> Callable[..., Any]:
        """A message; with `open`, one that is not sent yet."""

    def hand_over(self, message: Any) -> None:
        """A message is sent, now."""

    def at(self, cycle: int, action: Callable[[], None]) -> None:
        """Do something in a cycle, this or a later one."""


class TaskExecutor(Protocol):
    """Carries out tasks, and tells when they end: in the cycle of their start, or a later one."""

    tasks: Longs

    def start(self, task: int) -> None:
        """One of its tasks starts, now."""

    def waiting(self) -> list[str]:
        """For each task that cannot end before another NPU does something, a line that says so."""
