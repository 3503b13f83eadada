"""The contract between a system layer and everything that uses one, with what all system layers share.

`System` (pyxsim/system/system.py) implements it with pyxsim's own semantics; a wing of `pyxsim.compat` registers one
for each simulator whose order of events it reproduces. Callers use these members and never ask which class they hold.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.collective.byte_matrix import ByteMatrix
from pyxsim.collective.communicator import Communicator, coordinates
from pyxsim.collective.plan import Phase
from pyxsim.errors import InputError, LockstepLost, StuckError
from pyxsim.network.lines import Lines
from pyxsim.network.protocol import Backend
from pyxsim.system.data_carrier import DataCarrier
from pyxsim.system.endpoint import Endpoints
from pyxsim.system.options import Options
from pyxsim.system.work import Collective, PointToPoint

Work = Collective | PointToPoint
BARRIER_BYTES = 1  # of the messages of a barrier, which has no data


@lru_cache(maxsize=1024)
def _listed(members: tuple[int, ...], shape: tuple[int, ...]) -> Communicator:
    return Communicator.of(members, shape)


class SystemLayer(ABC):
    """Carry out collectives and messages on a network of `shape` (NPUs per dimension, the first varies fastest).

    A system layer is picklable between two calls of its network: checkpoints store it.

    Attributes
    ----------
    cycle
        The current cycle.
    collectives, messages
        Everything issued so far, in the order of the calls.
    bytes_planned
        Bytes of all messages that the issued work sends.
    bytes_abandoned
        Those of them that are never sent, because their work was abandoned.
    endpoint
        The endpoint that computation and communication share; None if they do not.
    pays_endpoint_delays
        Whether every message pays the endpoint delay at both ends.
    independent_messages
        Whether messages that share no link may be simulated separately: the order of events within a cycle then has
        no influence on the result.
    """

    pays_endpoint_delays = False
    independent_messages = False
    cycle: int

    def __init__(self, network: Backend, shape: Sequence[int], options: Options) -> None:
        self.network = network
        self.shape = tuple(shape)
        self.options = options
        self.collectives: list[Collective] = []
        self.messages: list[PointToPoint] = []
        self.bytes_planned = 0
        self.bytes_abandoned = 0
        self.endpoint: Endpoints | None = None
        self._whole = Communicator.whole(self.shape)
        self._algorithms: dict[Any, Sequence[str]] = {}
        self._planes: dict[tuple[int, int], int] = {}

    @property
    @abstractmethod
    def sends_planned_bytes(self) -> bool:
        """Whether every collective sends exactly the bytes of its plan on all its NPUs."""

    # -- work --

    def communicator(self, members: Sequence[int]) -> Communicator:
        """Return the communicator of a list of NPUs: a grid of dimensions where it is one and the layer makes use of
        it, else one group."""
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
        matrix: ByteMatrix | None = None,
    ) -> Collective:
        """Issue a collective in cycle `at`, or with `open` one that each NPU enters by itself (see `enter`).

        Parameters
        ----------
        size
            Bytes per NPU, as the collective counts them.
        communicator
            The NPUs that take part; None for all.
        algorithms
            One for each dimension of the communicator; None for those of the options.
        root
            A position in the communicator.
        priority
            Used with `scheduling = "explicit"`.
        tag
            Labels the traffic of its messages.
        joined
            Called with each NPU in the cycle in which it has finished its part.
        done
            Called in the cycle in which the last NPU has finished.
        matrix
            Of an all-to-all whose pairs exchange different amounts: their bytes, by positions in the communicator; then
            `size` has no effect.

        Raises
        ------
        InputError
            If there is no plan for it, or its bytes cannot be counted.
        ValueError
            If an open collective has a time.
        """
        if open and at:
            raise ValueError("an open collective begins when its NPUs enter it, not at a given cycle")
        if matrix is not None:
            if self.options.compat is not None:
                problem = f"{self.options.compat} has no all-to-all with different amounts"
                raise InputError(problem, key="collective.matrix", allowed="size, or no system.compat")
            if self.options.carry:
                problem = "the data of an all-to-all with a matrix are not carried"
                raise InputError(problem, key="output.carry", allowed="false")
            size = matrix.size
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
            number=len(self.collectives),
            matrix=matrix,
        )
        self._issue(collective, algorithms, priority)
        return collective

    @abstractmethod
    def _issue(self, collective: Collective, algorithms: Sequence[str] | None, priority: int | None) -> None:
        """Plan a collective: set its algorithms and priority, add it to `collectives`, schedule its start."""

    def _algorithms_for(self, collective: Collective) -> Sequence[str]:
        """The algorithms of the options for a collective, one per dimension of its communicator."""
        key = collective.kind, collective.communicator.dims
        if key not in self._algorithms:
            self._algorithms[key] = self.options.algorithms_for(collective.kind, collective.communicator)
        return self._algorithms[key]

    @abstractmethod
    def enter(self, collective: Collective, npu: int) -> None:
        """Let an NPU begin its part of an open collective in the current cycle.

        Raises ValueError if the NPU is no member or has already entered.
        """

    def send(
        self,
        src: int,
        dst: int,
        size: int,
        *,
        at: int = 0,
        name: str = "",
        tag: int = 0,
        open: bool = False,  # noqa: A002
        done: Callable[[PointToPoint], None] | None = None,
    ) -> PointToPoint:
        """Send a message in cycle `at`, or with `open` when `hand_over` is called.

        `done` is called when the receiver has taken it in. Raises ValueError if an open message has a time.
        """
        if open and at:
            raise ValueError("an open message leaves when it is handed over, not at a given cycle")
        message = PointToPoint(src, dst, size, -1 if open else at, name=name, tag=tag, done=done)
        self.messages.append(message)
        self.bytes_planned += size
        self._send(message)
        return message

    @abstractmethod
    def _send(self, message: PointToPoint) -> None:
        """Number a message, and schedule its start unless it is open."""

    @abstractmethod
    def hand_over(self, message: PointToPoint) -> None:
        """Send an open message in the current cycle. Raises ValueError if it was already sent."""

    def abandon(self, work: Iterable[Work]) -> None:
        """End work that has not ended in the current cycle, as when its job fails.

        It sends nothing more and calls nothing back. What it has handed to the network is delivered, and ignored.
        """
        raise NotImplementedError

    def cancel(self, actions: Iterable[int]) -> None:
        """Forget actions that `at` has numbered and that have not been called."""
        raise NotImplementedError

    @abstractmethod
    def at(self, cycle: int, action: Callable[[], None], npu: int | None = None) -> int:
        """Call `action` in a cycle, after what was scheduled for that cycle before; return its number for `cancel`.

        `npu`: whose action it is, for layers that order the events of a cycle by NPU. Raises ValueError for a cycle in
        the past.
        """

    @abstractmethod
    def run(self) -> int:
        """Carry out everything that was issued and return the cycle in which the last of it ended.

        Raises StuckError if that never happens, and what the network raises.
        """

    @abstractmethod
    def carrier(self, seed: int) -> DataCarrier:
        """Return a carrier of real data that follows all collectives from now on (needs `options.carry`)."""

    # -- inspection --

    def plane_between(self, src: int, dst: int) -> int:
        """Return the plane of messages between two NPUs: of the first queue of the first dimension in which they
        differ."""
        pair = src, dst
        if pair not in self._planes:
            places = zip(coordinates(src, self.shape), coordinates(dst, self.shape), strict=True)
            differs = next((dim for dim, (a, b) in enumerate(places) if a != b), 0)
            self._planes[pair] = self.options.queues[differs][0].plane
        return self._planes[pair]

    def _check_time(self, cycle: int) -> None:
        """Raise ValueError for a cycle in the past."""
        if cycle < self.cycle:
            raise ValueError(f"cycle {cycle} is in the past; the current cycle is {self.cycle}")

    def _last_end(self) -> int:
        """The cycle in which the last collective or message ended. Raises StuckError if one has not."""
        if lines := self.stuck():
            raise StuckError(
                f"nothing moves after cycle {self.cycle}, but some work has not ended: {lines[0]}", lines[1:]
            )
        ends = [collective.end for collective in self.collectives] + [message.end for message in self.messages]
        return max(ends, default=0)

    @abstractmethod
    def schedules(self) -> Iterator[Phase]:
        """Yield one phase for each different schedule that the issued work uses."""

    @abstractmethod
    def traffic(self, work: Iterable[Work] | None = None) -> IntArray:
        """Return what is sent: int64[K, 5], rows (source, destination, plane, bytes, count).

        `work`: only the messages of these collectives and messages; None for everything issued.
        """

    def accesses(self) -> IntArray:
        """Return how everything issued accesses memory: int64[K, 7], rows (kind, initiator, target, bytes, members,
        plane, count).

        Kinds: pyxsim/collective/accesses.py. Target: -1 for an access of the switch, which concerns `members` NPUs.
        Plane: of the data.
        """
        src, dst, plane, size, count = self.traffic().T
        none = np.zeros_like(src)
        return np.stack([none, src, dst, size, none + 2, plane, count], axis=1)

    def traffic_by_copies(self) -> list[tuple[IntArray, int]]:
        """Return everything sent as (rows as of `traffic`, times): rows that stand for several groups of NPUs.

        The ends of a message differ in the same dimensions in all of these groups.
        """
        return [(self.traffic(), 1)]

    def lines(self) -> list[Lines]:
        """Return the groups of all phases with what they send; with `lockstep` only the first of each kind is
        simulated. Raises LockstepLost in a system layer that does not support this."""
        raise LockstepLost("the system layer does not support it")

    @abstractmethod
    def chunk_table(self) -> Mapping[str, IntArray]:
        """Return the columns of /chunks (see table.COLUMNS): one row per chunk, phase and member NPU."""

    @abstractmethod
    def phase_kinds(self) -> Iterator[tuple[int, int, str]]:
        """Yield (index in `collectives`, phase, collective kind of that phase) of every planned chunk."""

    @abstractmethod
    def queue_times(self, chunks: dict[str, IntArray]) -> tuple[IntArray, IntArray]:
        """Return when chunks left their queues and how long their messages were expected, int64[rows] each.

        `chunks`: rows of `chunk_table` of one NPU, sorted by chunk and phase.
        """

    @abstractmethod
    def stuck(self) -> list[str]:
        """Return one line for each unfinished part, with what it waits for; empty if all has ended."""

    @abstractmethod
    def may_stall(self, chunks: int) -> bool:
        """Whether chunks can fill a queue while they wait for other NPUs, so that the run never ends.

        `chunks`: how many there are per NPU; 0 if unknown.
        """
