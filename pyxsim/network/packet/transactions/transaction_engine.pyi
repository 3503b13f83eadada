"""The transactions of all NPUs: which requests and responses the network carries, and when (docs/memory_traffic.md).

Nodes are the NPUs, 0 to npus - 1, and the ports of the switch, npus + i that of NPU i. Times are cycles.
"""

from collections.abc import Sequence
from fractions import Fraction

from pyxsim.arrays import IntArray

class TransactionEngine:
    """The state of all accesses.

    Parameters
    ----------
    npus : int
        Number of NPUs.
    flit, size, switch_size, request, response : int
        Bytes of a flit, of the data of a transaction, of one at the switch, and of the headers.
    turnaround, memory_latency, switch_latency : int
        Cycles, at least 1.
    memory_rate, adder_rate : Fraction or None
        Bytes per cycle; None: no limit.
    outstanding, per_destination, entries : int
        Limits; the latter two: 0 for none.
    in_order, acks, fetches : bool
        As in the settings.
    units : bool
        Whether the network has a switch that reduces.
    """

    npus: int
    flit: int
    switch_size: int
    lookahead: int
    """Cycles from an arrival to its earliest effect."""
    open: int
    """Transactions that have not ended, those not yet issued included."""
    last_end: int
    """Cycle in which a transaction ended last."""
    stalls: int
    stall_cycles: int
    entry_cycles: int
    added_bytes: int
    most_waiting: int
    waiting_at_switch: int
    """Requests that wait for an entry of the reduction buffer."""
    def __init__(
        self,
        npus: int,
        flit: int,
        size: int,
        switch_size: int,
        request: int,
        response: int,
        *,
        turnaround: int,
        memory_latency: int,
        switch_latency: int,
        memory_rate: Fraction | None = None,
        adder_rate: Fraction | None = None,
        outstanding: int,
        per_destination: int = 0,
        entries: int = 0,
        in_order: bool = False,
        acks: bool = True,
        fetches: bool = False,
        units: bool = False,
    ) -> None: ...
    def access(
        self, kind: int, initiator: int, peer: int, size: int, message: int, *, there: int = 0, back: int = 0
    ) -> None:
        """Add a store (0) to, a load (1) from, or an atomic (2) at the memory of `peer`, for a message.

        `there`, `back`: the planes of requests and of responses.
        """
    def at_switch(self, kind: int, initiator: int, members: Sequence[int], messages: Sequence[int], size: int) -> None:
        """Add a load of the sum of all members (3), or a store to all members (4).

        `members`: with the initiator, in the order of their numbers. `messages`: of each member; -1 for none.
        """
    def push_sum(self, members: Sequence[int], messages: Sequence[int], size: int) -> None:
        """Add a sum to which every member sends its operands, and which every member gets."""
    def begin(self, at: int) -> None:
        """Issue requests of the accesses that have been added; those of an NPU to different targets take turns."""
    def outgoing(self) -> IntArray:
        """Return the packets to send, int64[6, K]: cycle, source, destination, flits, class (1: responses), plane."""
    def sent(self, first: int) -> None:
        """Note the serial number of the first one of the packets of `outgoing`; the others follow."""
    def packet(self, serial: int) -> tuple[int, int, int]:
        """Return (flits, initiator, target) of a packet that has not arrived."""
    def arrive(self, serials: IntArray, cycles: IntArray) -> None:
        """Process packets that have arrived, in the order of their arrival.

        No two arrivals between two calls may be more than `lookahead` cycles apart.
        """
    def next_release(self) -> int:
        """Return the cycle in which an entry becomes free for a sum that waits; -1: none waits, or none is known."""
    def release(self, now: int) -> None:
        """Free the entries that are free by cycle `now`, and let sums that wait take them."""
    def next_completion(self) -> int:
        """Return the cycle in which the next message is complete; -1: none is known yet."""
    def completed(self, now: int) -> tuple[IntArray, IntArray]:
        """Return (messages, cycles) of those that are complete by cycle `now`."""
    def packet_counts(self) -> IntArray:
        """Return int64[2, 6]: packets sent and arrived by type.

        Types: request, response, to the switch, to a member, from a member, from the switch.
        """
    def kinds(self) -> tuple[list[dict[str, int]], IntArray]:
        """Return the statistics of each kind, and int64[kinds, bins] of latencies.

        Bin b below 64 is a latency of b cycles; others have 64 bins for each power of two.
        """
    def outstanding_most(self) -> IntArray:
        """Return int64[npus]: most requests outstanding."""
    def switch(self, end: int) -> dict[str, float]:
        """Return the counters of the switch, which the run has until cycle `end`."""
