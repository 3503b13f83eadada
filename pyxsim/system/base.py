"""Base of all system layers: checks issued work, chooses planes of messages, ends a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from pyxsim.collective.communicator import Communicator, coordinates
from pyxsim.errors import StuckError
from pyxsim.network.protocol import Backend
from pyxsim.system.endpoint import Endpoints
from pyxsim.system.options import Options
from pyxsim.system.work import Collective, PointToPoint

BARRIER_BYTES = 1  # of the messages of a barrier, which has no data


@lru_cache(maxsize=1024)
def _listed(members: tuple[int, ...], shape: tuple[int, ...]) -> Communicator:
    return Communicator.of(members, shape)


class SystemBase:
    """Base of the implementations of `SystemLayer` (see protocol.py)."""

    pays_endpoint_delays = False
    independent_messages = False

    def __init__(self, network: Backend, shape: Sequence[int], options: Options) -> None:
        self.network = network
        self.shape = tuple(shape)
        self.options = options
        self.collectives: list[Collective] = []
        self.messages: list[PointToPoint] = []
        self.bytes_planned = 0
        self.endpoint: Endpoints | None = None
        self._whole = Communicator.whole(self.shape)
        self._algorithms: dict[Any, Sequence[str]] = {}
        self._planes: dict[tuple[int, int], int] = {}

    def communicator(self, members: Sequence[int]) -> Communicator:
        return _listed(tuple(members), self.shape)

    def issue(
        self,
        kind: str,
        size: int,
        *,
        at: int = 0,
        communicator: Communicator | None = None,
        algorithms: Sequence[str] | None = None,
        root: int = 0,
        priority: int | None = None,
        name: str = "",
        tag: int = 0,
        open: bool = False,  # noqa: A002
        joined: Callable[[Collective, int], None] | None = None,
        done: Callable[[Collective], None] | None = None,
    ) -> Collective:
        """Issue a collective (see SystemLayer.issue)."""
        if open and at:
            raise ValueError("an open collective begins when its NPUs enter it, not at a given cycle")
        collective = Collective(
            kind,
            BARRIER_BYTES if kind == "barrier" else size,
            -1 if open else at,
            communicator or self._whole,
            name=name,
            root=root,
            tag=tag,
            joined=joined,
            done=done,
        )
        self._issue(collective, algorithms, priority)
        return collective

    def _issue(self, collective: Collective, algorithms: Sequence[str] | None, priority: int | None) -> None:
        """Plan a collective: set its algorithms and priority, add it to `collectives`, schedule its start."""
        raise NotImplementedError

    def _algorithms_for(self, collective: Collective) -> Sequence[str]:
        """The algorithms of the options for a collective, one per dimension of its communicator."""
        key = collective.kind, collective.communicator.dims
        if key not in self._algorithms:
            self._algorithms[key] = self.options.algorithms_for(collective.kind, collective.communicator)
        return self._algorithms[key]

    def _message(
        self,
        src: int,
        dst: int,
        size: int,
        *,
        at: int,
        name: str,
        tag: int,
        open: bool,  # noqa: A002
        number: int,
        done: Callable[[PointToPoint], None] | None,
    ) -> PointToPoint:
        """Register a message of `send`. Raises ValueError if an open one has a time."""
        if open and at:
            raise ValueError("an open message leaves when it is handed over, not at a given cycle")
        message = PointToPoint(src, dst, size, -1 if open else at, name=name, tag=tag, number=number, done=done)
        self.messages.append(message)
        self.bytes_planned += size
        return message

    def plane_between(self, src: int, dst: int) -> int:
        """Return the plane of the first queue of the first dimension in which two NPUs differ."""
        pair = src, dst
        if pair not in self._planes:
            places = zip(coordinates(src, self.shape), coordinates(dst, self.shape), strict=True)
            differs = next((dim for dim, (a, b) in enumerate(places) if a != b), 0)
            self._planes[pair] = self.options.queues[differs][0].plane
        return self._planes[pair]

    def _check_time(self, cycle: int) -> None:
        """Raise ValueError for a cycle in the past."""
        if cycle < self.cycle:
            raise ValueError(f"cycle {cycle} is over: the current cycle is {self.cycle}")

    def _last_end(self) -> int:
        """The cycle in which the last collective or message ended. Raises StuckError if one has not."""
        if lines := self.stuck():
            raise StuckError(f"nothing moves after cycle {self.cycle}, and not all is done: {lines[0]}", lines[1:])
        ends = [collective.end for collective in self.collectives] + [message.end for message in self.messages]
        return max(ends, default=0)

    cycle: int

    def stuck(self) -> list[str]:
        """See SystemLayer.stuck."""
        raise NotImplementedError
