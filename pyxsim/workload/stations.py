"""Where the tasks of a graph are carried out that do not say themselves how long they take.

Collectives and messages are the business of the system layer. Other tasks have stations: a table, a row for each kind
of them. A station says which tasks it takes, is told when one of them starts, and tells when it ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from pyxsim.errors import InputError
from pyxsim.workload.graph import Kind, Longs, TaskGraph

Tell = Callable[[int], None]
"""A task has ended, in this cycle."""


class Hands(Protocol):
    """What the system layer does for a graph: collectives and messages that begin when they are told to."""

    shape: tuple[int, ...]
    options: Any

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


class Station(Protocol):
    """Carries out tasks, and tells when they end: in the cycle of their start, or a later one."""

    tasks: Longs

    def start(self, task: int) -> None:
        """One of its tasks starts, now."""


Maker = Callable[[TaskGraph, Hands, Tell], Station | None]
"""Makes the station of a graph on a system, or None where there is nothing for it to do. Raises InputError."""


def remote_memory(graph: TaskGraph, system: Hands, tell: Tell) -> Station | None:
    """Remote accesses: the tasks of kind MEMORY that have a size."""
    tasks = np.flatnonzero((graph.kind == Kind.MEMORY) & (graph.size > 0))
    if not len(tasks):
        return None
    problem = f"{graph.label(int(tasks[0]))}: it is about {graph.size[tasks[0]]} bytes of remote memory"
    raise InputError(f"{problem}, and there is none", allowed="a graph without remote accesses")


STATIONS: tuple[Maker, ...] = (remote_memory,)
