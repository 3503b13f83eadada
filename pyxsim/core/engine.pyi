"""The interface of the engine to Python. docs/router.md is its contract; units are cycles, flits and link numbers.

The arrays of `Links`, one entry per link (network links, then injection lanes, then ejection lanes):

    src, dst        routers at the ends, -1 for an interface
    vcs, depth      VCs, and slots of each VC of its own
    pool            slots that the VCs share besides
    s_num, s_den    cycles per flit, as a fraction
    delay, credit_delay   docs/router.md, "Time on a link"
    output_queue    1: an unbounded queue in front of the link
    group           -1, or the group in which a packet keeps its class
    classes, ranges the VCs of virtual network v and class c are low[k] to high[k] - 1, k = ranges + v * classes + c;
                    lanes have one class

The arrays of `Routes`: `home`, the router of each node; the digit tables, candidate sets, planes and ways of
pyxsim/routing/relation.py. Planes left out default to: the first digit decides, random selection, no escape.

`RouterOptions`: `rc`, `va`, `st` in cycles (in ticks if `speedup` is above 1; `st` counts only then). Allocators go by
their names in `pyxsim.plugins.allocators`; the numbers of flow control and so on are in pyxsim/core/engine_options.py;
`class_vnet`, `class_priority`: one entry per message class.
"""

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import ArrayLike, NDArray

from pyxsim.arrays import Int32Array, IntArray
from pyxsim.core.engine_options import Links, RouterOptions, Routes, Stop

__all__ = ["LONGEST_DELAY", "Engine", "Links", "RouterOptions", "Routes", "Stop", "build_info"]

build_info: dict[str, Any]
LONGEST_DELAY: int
"""The longest delay of a flit, in cycles: on a link, with the stages that follow."""

class Engine:
    """A packet-level simulator of one network, without the GIL while it runs.

    Parameters
    ----------
    routers : int
        Number of routers.
    links, routes, options : Links, Routes, RouterOptions
        The network; see the module's docstring.
    trace : bool
        Log every launch (see `trace`).
    recycle : bool
        Reuse the records of delivered messages (see `deliveries`).
    attribution : int
        1 attributes latencies (docs/attribution.md; `waits`, `splits`), 2 also logs every stay (`stays`).
    silent_class : int
        First message class whose deliveries do not end `run`; `deliveries` returns them. Not with `recycle`.
    bitmask : bool
        False runs the full-option router (docs/router.md), which is slower.

    Raises
    ------
    ValueError
        If the network is inconsistent or exceeds a limit of the engine.
    """

    now: int
    """Current cycle."""
    flits_in_flight: int
    """Flits launched and not yet consumed."""
    router_visits: int
    """Flits that have passed a router."""
    messages_pending: int
    """Messages sent and not yet delivered."""
    skipped: int
    """Cycles skipped by fast-forward."""
    watching: bool
    """Whether a packet is watched."""
    nbytes: int
    """Bytes of all arrays, the calendar and the pools."""
    router: tuple[str, tuple[str, ...]]
    """Which router runs ("full-option", "bitmask" or "batch"), and the conditions that exclude a faster one."""

    def __init__(
        self,
        routers: int,
        links: Links,
        routes: Routes,
        options: RouterOptions,
        *,
        trace: bool = False,
        recycle: bool = False,
        attribution: int = 0,
        bitmask: bool = True,
        silent_class: int = ...,
    ) -> None: ...
    def send(
        self,
        inject: int,
        eject: int,
        dst: int,
        plane: int,
        packets: int,
        flits: int,
        last_flits: int,
        at: int,
        klass: int = 0,
        tag: int = 0,
    ) -> int:
        """Send a message.

        Parameters
        ----------
        inject, eject : int
            Injection and ejection lane, from 0 within their kind.
        dst : int
            Destination node.
        plane : int
            Plane of the routing relation; -1 lets the first router choose a way.
        packets, flits, last_flits : int
            Number of packets, flits per packet, flits of the last packet.
        at : int
            Cycle in which it joins its source queue; at least `now`.
        klass : int
            Message class.
        tag : int
            Traffic, for attribution; below MOST_TAGS.

        Returns
        -------
        int
            Number of the message: 0, 1, ... in the order of the calls.
        """
    def send_many(
        self,
        inject: ArrayLike,
        eject: ArrayLike,
        dst: ArrayLike,
        plane: ArrayLike,
        packets: ArrayLike,
        flits: ArrayLike,
        last_flits: ArrayLike,
        at: ArrayLike,
        klass: ArrayLike,
        tag: ArrayLike = 0,
    ) -> int:
        """Send several messages; arguments as in `send`, broadcast. Return the number of the first one."""
    def divide(
        self,
        part_of: ArrayLike,
        rank: int = -1,
        exchange: Callable[[Sequence[memoryview]], Sequence[Any]] | None = None,
    ) -> None:
        """Partition the network for `run(apart=True)`, with one thread or one process per partition (docs/threads.md).

        With a `rank`, this engine simulates that partition only, and engines in other processes the others. They all
        get the same calls: messages are sent to each of them. Totals, deliveries and `message_times` of messages that
        have arrived are those of the whole network; `counters`, `buffer_max`, `slots` and `waiting` are those of the
        partition.

        Parameters
        ----------
        part_of : array_like of int, shape (routers,)
            Partition of each router, from 0.
        rank : int
            The only partition of this engine; -1: all.
        exchange : callable
            Sends a mail to each rank, and returns the mail of each.

        Raises
        ------
        ValueError
            If the network is not `divisible`, or if a message has been sent before it gets a rank.
        """
    divisible: bool
    """Whether it may be partitioned: no attribution, no watched packet."""
    lookahead: int
    """Cycles that partitions run without synchronising."""
    epochs: int
    """Number of epochs so far."""
    def run(
        self,
        until: int,
        *,
        slack: int = 0,
        window: int = 0,
        repeats_until: int = 0,
        apart: bool = False,
        patient: bool = False,
    ) -> Stop:
        """Simulate up to cycle `until`, including its arrivals, or until something earlier stops the run.

        Parameters
        ----------
        until : int
            Last cycle.
        slack : int
            Cycles to continue after the first delivery.
        window : int
            Stop at multiples of this, unless nothing was counted before; 0: never.
        repeats_until : int
            Stop with "repeats" if the state repeats and cycles before this one can be skipped (see `ahead`). Ignored
            with a trace, a watched packet or attribution 2.
        apart : bool
            Run the partitions of `divide` on threads, with the same result; not with `repeats_until` or `watch`.
        patient : bool
            Flits that cannot move are neither a deadlock nor the end: links will change (`change_links`).

        Returns
        -------
        Stop
            Why it stopped, and the deliveries (empty with `recycle`: see `deliveries`).

        Raises
        ------
        MemoryError
            If the state does not fit into memory.
        """
    def change_links(
        self,
        links: ArrayLike,
        num: ArrayLike,
        delay: ArrayLike,
        credit_delay: ArrayLike,
        down: ArrayLike,
        *,
        lose: ArrayLike = False,
        error_bound: ArrayLike = 0,
        nack_bound: ArrayLike = 0,
        credit_bound: ArrayLike = 0,
    ) -> None:
        """Change links from step 2 of the current cycle on, whose arrivals have been processed.

        Parameters
        ----------
        links, num, delay, credit_delay, down : array_like, shape (n,)
            Links, each once; cycles per flit in units of 1 / `Links.s_den`; delays; whether it accepts no flit.
        lose : array_like of bool, shape (n,)
            Whether flits on the wire are lost as the link goes down.
        error_bound, nack_bound, credit_bound : array_like of uint64, shape (n,)
            As in `Links`, and as `CreditReturns.bound`.

        Raises
        ------
        ValueError
            Without `Links.varies`; for losses without `Links.lossy`; at the end of a window.
        """
    def change_routes(
        self,
        routes: Routes,
        *,
        drops: ArrayLike,
        discard: ArrayLike,
        abandoned: ArrayLike = (),
        broken: ArrayLike = (),
        anew: bool = True,
        paused: bool = False,
    ) -> tuple[int, int]:
        """Use other routes from step 2 of the current cycle on, whose arrivals have been processed.

        Parameters
        ----------
        routes : Routes
            As many planes as before; sets of links of one router.
        drops : array_like of bool, shape (links,)
            Sinks that drop all packets, and links from NPUs on which none is opened.
        discard : array_like of int, shape (routers,)
            A sink of each router that drops packets, as a link; -1: none.
        abandoned : array_like of int
            Links: without `anew`, heads that request a VC of one of them, and no other link, go to `discard`.
        broken : array_like of int
            Links: packets that hold a VC of one of them are lost.
        anew : bool
            Packets in the network choose their route option again, and heads that wait for a VC are routed again.
        paused : bool
            Lanes open no packets from now on.

        Returns
        -------
        tuple of int
            Heads that requested one link and now request another; packets lost.

        Raises
        ------
        ValueError
            If flits cannot be lost (`Links.lossy`), or the arrivals of the cycle have not been processed.
        """
    @property
    def empty(self) -> bool:
        """Whether no flit is in the network, and no packet is open."""
    def still_until(self, patient: bool) -> int:
        """Return the cycle before which nothing moves and counters grow by the same in each cycle; `now`: unknown.

        Also `now` if `run` with the same `patient` would end by itself. 2^63 - 1: until links change.
        """
    def losses(self) -> dict[str, IntArray]:
        """Return counts of each link: "errors", flits with a bit error; "lost", flits lost on the wire."""
    def retries(self) -> dict[str, IntArray]:
        """Return counts of each link with retry, empty without any.

        "resent", "timeouts"; "full": cycles in which a flit waited for a full replay buffer; "count_most": most flits
        in it; "held": cycles that flits were in it, together.
        """
    def credit_returns(self) -> dict[str, NDArray[Any]]:
        """Return counts of credits as messages.

        Of each link: "messages" of its own with its credits, "riding": flits that carried some, "destroyed" of both,
        "resent": messages that were retransmitted, "busy": cycles that the messages took on the opposite link. Of each
        VC, absent without messages: "vc_returned", "vc_carried" (in so many messages), "vc_destroyed", "vc_restored"
        (destroyed ones that were sent again), "vc_pending" and "vc_lost" now, "vc_empty": cycles in which the sender
        had no credit of its own.
        """
    def lost_messages(self) -> IntArray:
        """Return int64[n, 2]: messages that lost packets, and how many. Raises ValueError with `recycle`."""
    ahead: int
    """The cycle that `skip` reaches, after `run` has stopped for "repeats"; else `now`."""
    def totals_ahead(self, cycles: ArrayLike, links: int) -> IntArray:
        """Return the counters at the beginning of some cycles up to `ahead`, if `run` had a `window`.

        Parameters
        ----------
        cycles : array_like of int, shape (n,)
            Cycles from `now` to `ahead`.
        links : int
            Number of network links, from the first on.

        Returns
        -------
        ndarray of int64, shape (n, COUNTERS, links)
        """
    def skip(self) -> None:
        """Advance to cycle `ahead` at once: exact in everything that decides or is counted."""
    def deciding_state(self) -> bytes | None:
        """Return the deciding state relative to the current cycle; None while messages are under way.

        Also None with options for which fast-forward is off. Engines of one network with equal states behave alike.
        """
    def shift_time(self, cycles: int) -> None:
        """Let the current state be that of a cycle `cycles` later, or earlier if negative; counters stay.

        Raises ValueError while messages are under way.
        """
    def take_peaks(self) -> Int32Array:
        """Return `buffer_max`, and begin it anew."""
    def deliveries(self) -> dict[str, IntArray]:
        """Return the messages delivered since the last call, with `recycle` or of silent classes, by (last, serial).

        Returns
        -------
        dict of ndarray, shape (messages,)
            serial, klass, at (sent), first (flit launched), last (flit arrived), hops (routers passed, summed over
            packets), packets, flits; with attribution parts, shape (messages, 9), in the order of CAUSES.
        """
    def waits(self) -> dict[str, IntArray]:
        """Return what the packets delivered so far spent their time on, with attribution.

        Returns
        -------
        dict of ndarray, shape (rows,)
            link, victim, culprit (traffic; -1: none, -2: faults), cause (index in CAUSES), cycles (above 0), packets
            (stays).
        """
    def splits(self) -> IntArray:
        """Return the parts of each message's latency, with attribution and without `recycle`.

        Returns
        -------
        ndarray of int64, shape (messages, 8)
            In the order of CAUSES; -1 where the message is not delivered.
        """
    def stays(self) -> IntArray:
        """Return the stays of the packets delivered so far, at their sources and in each router.

        Returns
        -------
        ndarray of int64, shape (rows, 11)
            message, packet, link, the parts; of all packets with attribution 2, of the watched message with 1.
        """
    def watch(self, message: int, packet: int) -> None:
        """Note the events of a packet from now on."""
    def watched(self) -> list[tuple[int, str, int, int, int]]:
        """Return rows (cycle, event, link, vc, flit) of the watched packet, sorted by cycle; -1: no such number.

        Events: opened (has a VC of its lane), routed (requests this link), granted (has a VC of it), switched (a flit
        wins the switch), wasted (a speculative bid won it without a VC), launched (a flit starts on the link), arrives.
        """
    def counters(self) -> dict[str, IntArray]:
        """Return running totals per link: flits, stall_credit, stall_vc, stall_arbitration, stall_serial."""
    def buffer_max(self) -> Int32Array:
        """Return the most flits ever in each buffer, by link and VC."""
    def totals(self) -> dict[str, int]:
        """Return the running totals of the network: messages, packets, flits, visits, sums of latencies and hops."""
    def message_times(self, message: int) -> tuple[int, int, int]:
        """Return when a message was to start, its first flit was launched, its last flit arrived; -1: not yet."""
    def packets_left(self, messages: ArrayLike) -> IntArray:
        """Return what is left of messages that have not arrived, without `recycle`.

        Returns
        -------
        ndarray of int64, shape (4, messages)
            Packets that have not left the source queue, and that have not arrived; the cycle in which the last packet
            left the queue (this cycle, if it has not); flits of the last packet.
        """
    independent_ports: bool
    """Whether messages that share no link and no lane cannot affect each other: each output port of a router decides
    among its own requests, and each input port among its own VCs."""
    def check(self) -> None:
        """Check the invariants of docs/router.md.

        Raises
        ------
        AssertionError
            Names the place of a violation.
        """
    def slots(self) -> tuple[Int32Array, Int32Array, Int32Array]:
        """Return the slots behind the links as the credits of each VC, the flits in its buffer, by link and VC, and
        the free slots of the pool of each link."""
    def waiting(self) -> list[dict[str, Any]]:
        """Return every front flit in an input VC.

        Returns
        -------
        list of dict
            link, vc (where it is), wants (output link), holds (VC there, -1: none), asks (if it holds none: what it
            would take, as (link, low, high)), front (front time of its packet), message, packet, left (flits).
        """
    def trace(self) -> IntArray:
        """Return rows (cycle, link, vc, message, packet, flit) of every launch, sorted by (cycle, link)."""
    def snapshot(self) -> dict[str, Any]:
        """Return the complete state, sharing the engine's arrays: save it before the engine runs on.

        The state of fast-forward and of partitions is not included; they start anew.
        """
    def restore(self, snapshot: dict[str, Any]) -> None:
        """Load the snapshot of an engine made from the same arguments into a new one. Pickling uses this."""
    def state(self, deciding: bool | None = None) -> dict[str, NDArray[Any]]:
        """Return copies of the state arrays by name: deciding ones (True), the others (False), or all (None)."""
