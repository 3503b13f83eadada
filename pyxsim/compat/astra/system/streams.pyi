from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pyxsim.network.protocol import Backend

REQUEST_BYTES: int

class Bus(Protocol):
    """What lies between an NPU and its endpoint, if not a fixed delay."""

    def request(self, npu: int, who: int, size: int, pays: bool, back: bool, outward: bool, now: int) -> None: ...
    def event(self, number: int, now: int) -> None: ...

class Streams:
    """All streams of a network of `npus`. `room`: for each queue of an NPU, members at work at a time.

    `rate`, `scale`: a reduction of b bytes takes `reduction_delay + 3 * trunc(b / rate * scale)` cycles (rate 0: the
    delay alone). `together`: all members of a stream go into a phase at once. `boost`: only groups with NPU 0 work.
    `rendezvous`: each message is asked for first, by whoever expects it.
    """

    bus: Bus | None
    now: int
    def __init__(
        self,
        npus: int,
        slots_per_queue: Sequence[int],
        *,
        endpoint_delay: int,
        group_delay: int,
        reduction_delay: int,
        rate: float,
        scale: float,
        intra: str,
        barrier: bool,
        boost: bool,
        rendezvous: bool = False,
    ) -> None: ...
    def add_phase(
        self,
        algorithm: int,
        kind: int,
        pays: int,
        n: int,
        stride: int,
        direction: int,
        queue: int,
        plane: int,
        sends: int,
        parallel: int,
        others: int,
        slots: int,
        fast: bool,
        size: int,
        largest: int,
        table: Sequence[int],
    ) -> int:
        """A phase of groups of n members, `stride` ranks apart. Returns its number."""

    def add_stream(
        self,
        npus: NDArray[np.int32],
        tags: NDArray[np.int32],
        phases: Sequence[int],
        priority: int,
        rows: NDArray[np.int64],
        told: bool = False,
    ) -> int:
        """A chunk that goes through these phases on these NPUs (in order of rank). Returns its number.

        `tags`: whose traffic each of them sends. `rows`: int64[phases, NPUs, 6], filled with ready, start, end,
        messages, network (see /chunks), awaited: how long the messages were expected, together. `told`: `run` calls
        `ended` while a member goes out, before it leaves its queue; else after what is being done then.
        """

    def member(self, stream: int, rank: int) -> int:
        """The number of a member; those of a stream are consecutive."""

    def begin(self, members: NDArray[np.int64]) -> None:
        """Let members go into their first phase, in this order, now."""

    def enter(self, members: NDArray[np.int64], priority: int) -> None:
        """Let members of one NPU go into their first phases, with a priority of their own there."""

    def call_at(self, time: int, number: int, npu: int = -1) -> None:
        """`run` will call `call(number, time)` then, among the things of an NPU, or by itself (-1)."""

    def post(self, src: int, dst: int, size: int, plane: int, number: int, tag: int = 0) -> None:
        """A message from NPU to NPU now; `run` will call `arrived(number, time)`."""

    def on_bus(self, npu: int, delay: int, number: int) -> None:
        """`bus.event(number, time)` is called after a while, among the things of an NPU."""

    def across(self, who: int, size: int) -> None:
        """The bus has brought a message to member `who`; `size`: bytes to be reduced, or -1."""

    def run(
        self,
        network: Backend,
        call: Callable[[int, int], Any],
        ended: Callable[[int, int, int], Any],
        arrived: Callable[[int, int], Any],
    ) -> int:
        """Until nothing is left to do; the last cycle. `ended(stream, npu, time)`: a member is through."""

    def unfinished(self) -> list[tuple[int, int, int, bool, list[int]]]:
        """(stream, phase, rank, at work, slots that messages are missing in) of members that are not through."""
