from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pyxsim.network.protocol import Backend

REQUEST_BYTES: int

class Bus(Protocol):
    """The connection between an NPU and its endpoint, if not a fixed delay."""

    def request(self, npu: int, who: int, size: int, pays: bool, back: bool, outward: bool, now: int) -> None: ...
    def event(self, number: int, now: int) -> None: ...

class Streams:
    """All streams of a network of `npus`.

    Parameters
    ----------
    slots_per_queue
        For each queue of an NPU: number of running members.
    rate, scale
        A reduction of b bytes takes `reduction_delay + 3 * trunc(b / rate * scale)` cycles (rate 0: the delay alone).
    barrier
        All members of a stream enter a phase together.
    boost
        Only groups with NPU 0 run.
    rendezvous
        The receiver requests each message.
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
        """Add a phase of groups of n members, `stride` ranks apart. Returns its number."""

    def add_stream(
        self,
        npus: NDArray[np.int32],
        tags: NDArray[np.int32],
        phases: Sequence[int],
        priority: int,
        rows: NDArray[np.int64],
        at_once: bool = False,
    ) -> int:
        """Add a chunk with these phases on these NPUs (in order of rank). Returns its number.

        `tags`: label the traffic of each. `rows`: int64[phases, NPUs, 6], filled with ready, start, end, messages,
        network (see /chunks) and awaited, the total time for which messages were expected. `at_once`: `run` calls
        `ended` before a member leaves its queue, otherwise after the current event.
        """

    def member(self, stream: int, rank: int) -> int:
        """Return the number of a member; those of a stream are consecutive."""

    def begin(self, members: NDArray[np.int64]) -> None:
        """Let members enter their first phase now, in this order."""

    def enter(self, members: NDArray[np.int64], priority: int) -> None:
        """Let members of one NPU enter their first phases, with a priority of its own."""

    def call_at(self, time: int, number: int, npu: int = -1) -> None:
        """Let `run` call `call(number, time)`, among the events of an NPU, or by itself (-1)."""

    def post(self, src: int, dst: int, size: int, plane: int, number: int, tag: int = 0) -> None:
        """Send a point-to-point message now; `run` calls `arrived(number, time)`."""

    def on_bus(self, npu: int, delay: int, number: int) -> None:
        """Schedule `bus.event(number, time)` among the events of an NPU."""

    def across(self, who: int, size: int) -> None:
        """Note that a message of member `who` has crossed the bus; `size`: bytes to reduce, or -1."""

    def run(
        self,
        network: Backend,
        call: Callable[[int, int], Any],
        ended: Callable[[int, int, int], Any],
        arrived: Callable[[int, int], Any],
    ) -> int:
        """Run until nothing is left to do; return the last cycle. `ended(stream, npu, time)`: a member has finished."""

    def unfinished(self) -> list[tuple[int, int, int, bool, list[int]]]:
        """Return (stream, phase, rank, running, slots that miss a message) of unfinished members."""
