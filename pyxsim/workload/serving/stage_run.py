"""The NPUs of a pipeline stage in one iteration: each computes, enters a collective, goes on when it is through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import ceil
from typing import Any, Protocol

from pyxsim.workload.serving.plan import Exchange, Step


class Services(Protocol):
    """What a stage uses of its job."""

    def now(self) -> int:
        """Return the current cycle."""

    def at(self, cycle: int, action: Callable[[], None]) -> None:
        """Call an action in a cycle."""

    def issue(self, role: str, exchange: Exchange, group: int, npus: Sequence[int], joined: Callable[..., None]) -> Any:
        """Issue an open collective of one group."""

    def enter(self, collective: Any, npu: int) -> None:
        """Let an NPU enter a collective."""


class StageRun:
    """Carries out the steps of a stage; `done` is called with the position of each NPU that is through."""

    def __init__(
        self, services: Services, role: str, npus: Sequence[int], steps: Sequence[Step], done: Callable[[int], None]
    ) -> None:
        self._services, self._role, self._npus, self._steps, self._done = services, role, npus, steps, done
        self._at = [0] * len(npus)  # step of each NPU
        self._began = [0] * len(npus)  # cycle in which it began the blocks that are simulated
        self._open: dict[tuple[int, int], Any] = {}  # collectives by step and group
        self._group = [_groups(step.exchange) for step in steps]
        self._position = {npu: position for position, npu in enumerate(npus)}

    def begin(self, position: int) -> None:
        """Let an NPU begin with its first step in the current cycle."""
        if self._at[position] == len(self._steps):
            self._done(position)
            return
        step, now = self._steps[self._at[position]], self._services.now()
        if step.begins:
            self._began[position] = now
        ticks = step.ticks[position]
        if step.others is not None:
            ticks = ceil((now - self._began[position]) * step.others)
        if ticks:
            self._services.at(now + ticks, partial(self._computed, position))
        else:
            self._computed(position)

    def _computed(self, position: int) -> None:
        number = self._at[position]
        group = self._group[number].get(position)
        if group is None:
            self._next(position)
            return
        exchange = self._steps[number].exchange
        assert exchange is not None
        key = number, group
        if key not in self._open:
            npus = [self._npus[at] for at in exchange.groups[group]]
            self._open[key] = self._services.issue(self._role, exchange, group, npus, self._joined)
        self._services.enter(self._open[key], self._npus[position])

    def _joined(self, collective: Any, npu: int) -> None:
        self._next(self._position[npu])

    def _next(self, position: int) -> None:
        self._at[position] += 1
        self.begin(position)


def _groups(exchange: Exchange | None) -> dict[int, int]:
    """The group of each position that communicates."""
    if exchange is None:
        return {}
    rows = zip(exchange.groups, exchange.sizes, strict=True)
    active = [number for number, (group, size) in enumerate(rows) if size and len(group) > 1]
    return {position: number for number in active for position in exchange.groups[number]}
