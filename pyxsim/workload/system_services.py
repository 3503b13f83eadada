"""What carries out the tasks of a graph: the system layer, and executors for the tasks that it does not do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pyxsim.arrays import IntArray
from pyxsim.system.memory import Used

EndCallback = Callable[[int], None]
"""Called with a task in the cycle in which it ends."""


class SystemServices(Protocol):
    """The members of a system layer that a graph of tasks uses (see pyxsim.system.protocol.SystemLayer)."""

    shape: tuple[int, ...]
    options: Any
    endpoint: Any

    @property
    def communicator(self) -> Callable[..., Any]:
        """Return the communicator of a list of NPUs."""

    @property
    def cycle(self) -> int:
        """The current cycle."""

    @property
    def issue(self) -> Callable[..., Any]:
        """Issue a collective; with `open`, one that each NPU enters by itself."""

    def enter(self, collective: Any, npu: int) -> None:
        """Let an NPU begin its part of an open collective in the current cycle."""

    @property
    def send(self) -> Callable[..., Any]:
        """Send a message; with `open`, when `hand_over` is called."""

    def hand_over(self, message: Any) -> None:
        """Send an open message in the current cycle."""

    def at(self, cycle: int, action: Callable[[], None]) -> int:
        """Call `action` in a cycle, the current one or a later one; return its number."""


@dataclass(frozen=True)
class MemoryTotals:
    """Use of remote memory by a workload.

    Attributes
    ----------
    loaded, stored
        int64[npus], bytes of accesses that have begun. In a gather each NPU loads everything that it receives, although
        the memory reads it once.
    used
        The parts of the memory that carried them.
    """

    loaded: IntArray
    stored: IntArray
    used: list[Used]


class TaskExecutor(Protocol):
    """Carries out some tasks of a graph and calls back when they end, in the cycle of their start or a later one.

    Attributes
    ----------
    tasks
        The tasks that it carries out.
    joint
        Lists of tasks that are one access of all NPUs.
    """

    tasks: IntArray
    joint: Sequence[list[int]] = ()

    def start(self, task: int) -> None:
        """Start one of its tasks in the current cycle."""

    def waiting(self) -> list[str]:
        """Return a line for each started task that cannot end before another NPU acts."""
        return []

    def totals(self) -> MemoryTotals | None:
        """Return the use of remote memory so far; None for other executors."""
        return None
