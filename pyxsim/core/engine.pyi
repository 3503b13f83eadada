"""The engine's Python face: docs/router.md is its contract. Everything counts in cycles, flits and link numbers.

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
pyxsim/routing/relation.py. What is left out of planes stands for: the first digit decides, random, no escape.

`RouterOptions`: `rc`, `va`, `st` in cycles (with `speedup` above 1: in ticks; `st` counts only then); the numbers for
allocators, flow control and so on are named in pyxsim/core/options.py; `class_vnet`, `class_priority`: one entry per
message class.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyxsim.arrays import Int32Array, IntArray
from pyxsim.core.options import Links, RouterOptions, Routes, Stop

__all__ = ["LONGEST_DELAY", "Engine", "Links", "RouterOptions", "Routes", "Stop", "build_info"]

build_info: dict[str, Any]
LONGEST_DELAY: int
"""Cycles: a flit on a link, with the stages that follow, takes no longer."""

class Engine:
    """One network, one `nogil` call for many cycles."""

    now: int
    flits_in_flight: int
    router_visits: int
    messages_pending: int
    skipped: int
    watching: bool
    nbytes: int
    """Of all arrays, the calendar and the pools, as they are now."""

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
        by_masks: bool = True,
    ) -> None:
        """`trace`: keep a list of all launches. `recycle`: forget messages that have arrived (see `deliveries`).

        `attribution`: 1 keeps the books of docs/attribution.md (`waits`, `splits`), 2 also lists every stay (`stays`).
        `by_masks`: False always takes the switch with all its options (docs/router.md), which is slower.
        """
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
        """Queue a message of `packets` packets of `flits` flits, the last one of `last_flits`, at cycle `at >= now`.

        `inject`, `eject`: lane numbers from 0 within their kind. `plane`: -1 for one of the relation's ways. `tag`:
        whose traffic it is, below MOST_TAGS of pyxsim/core/options.py (for attribution). Returns the message's number:
        from 0, in the order of the calls.
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
        """`send` for arrays of messages (a number stands for all). Returns the first number; the others follow."""
    def divide(self, part_of: ArrayLike) -> None:
        """Make parts of the network, one thread each, for `run(apart=True)`: the number of the part of each router,
        from 0. If `divisible`. See docs/threads.md."""
    divisible: bool
    """Whether it may be run in parts: without attribution, and while no packet is watched."""
    lookahead: int
    """Cycles for which the parts can go on without each other."""
    epochs: int
    """How often they have."""
    def run(self, until: int, *, slack: int = 0, window: int = 0, repeats_until: int = 0, apart: bool = False) -> Stop:
        """Simulate to cycle `until`, of which the arrivals are still dealt with, or stop earlier: `slack` cycles after
        the first delivery, at a multiple of `window` (0: never), when nothing is left to do, or at a deadlock.

        `repeats_until`: stop also ("repeats") where the state is one that was met before, and what followed then may be
        skipped before this cycle: see `ahead`. That is not looked for in a run that is traced or watched, or with
        attribution 2.

        `apart`: by the parts that `divide` has made, with the same result; without `repeats_until` and `watch` only.
        What looks inside (`state`, `check`, `waiting`) and the next run that is not apart bring them together again.

        Multiples of `window` before which nothing was counted are passed over. With `recycle`, `Stop.delivered` is
        empty: see `deliveries`.
        """
    ahead: int
    """The cycle up to which may be skipped now, after `run` has stopped for "repeats"; else this one."""
    def totals_ahead(self, cycles: ArrayLike, links: int) -> IntArray:
        """int64[cycles, COUNTERS, links]: the running totals of the first `links` network links at the beginning of
        `cycles` from now on to `ahead`. They are known if `run` was told of a `window`."""
    def skip(self) -> None:
        """Let the cycles before `ahead` pass at once: exact in all that decides and all that is counted."""
    def deliveries(self) -> dict[str, IntArray]:
        """With `recycle`: messages that have arrived completely since the last call, in order of (last, serial).

        serial, klass, at (sent), first (flit launched), last (flit arrived), hops (routers passed by the heads, summed
        over packets), packets, flits; with attribution also parts, int64[messages, 8] in the order of CAUSES.
        """
    def waits(self) -> dict[str, IntArray]:
        """With attribution: what the packets delivered so far spent their time on, summed by where, who and why.

        link, victim, culprit (traffic; -1: nobody), cause (place in CAUSES), cycles (more than 0), packets (stays).
        """
    def splits(self) -> IntArray:
        """With attribution, without `recycle`: the parts of the latency of each message, int64[messages, 8] in the
        order of CAUSES; -1 where it is not delivered."""
    def stays(self) -> IntArray:
        """Rows (message, packet, link, the eight parts) of the packets delivered so far: a stay for the source and for
        each router. Of all of them with attribution 2, of the watched message with 1."""
    def watch(self, message: int, packet: int) -> None:
        """From now on, note what happens to this packet."""
    def watched(self) -> list[tuple[int, str, int, int, int]]:
        """Rows (cycle, event, link, vc, flit) in order of the cycle; -1 where an event has no such number.

        Events: opened (given a VC of its lane), routed (wants this link), granted (has a VC of it), switched (a flit
        wins the switch), wasted (a speculative bid won it for nothing), launched (a flit starts on the link), arrives.
        """
    def counters(self) -> dict[str, IntArray]:
        """Running totals per link: flits, stall_credit, stall_vc, stall_arbitration, stall_serial."""
    def buffer_max(self) -> Int32Array:
        """The most flits ever seen in a buffer, per VC (links in order, VCs in order)."""
    def totals(self) -> dict[str, int]: ...
    def message_times(self, message: int) -> tuple[int, int, int]:
        """(start asked for, first flit launched, last flit arrived) of a message; -1 where it has not happened."""
    def packets_left(self, messages: ArrayLike) -> IntArray:
        """int64[2, messages], without `recycle`: how many packets of each have not left their source queue yet, and how
        many have not arrived."""
    plain: bool
    """Whether ports of a router decide by themselves: what is asked of one output does not matter to another, unless
    the same input asks. So messages that share no link and no lane know nothing of each other."""
    def check(self) -> None:
        """Raise AssertionError, naming the place, unless the invariants of docs/router.md hold."""
    def waiting(self) -> list[dict[str, Any]]:
        """Every front flit: link and vc it sits in, link it wants, vc it holds there (-1: none), its packet's front
        time, message, packet, flits left of it; `asks`: what it would take, as (link, low, high), if it holds none."""
    def trace(self) -> NDArray[np.int64]:
        """Rows (cycle, link, vc, message, packet, flit) of every launch so far, in order of (cycle, link).

        Empty unless the engine was made with `trace=True`.
        """
    def snapshot(self) -> dict[str, Any]:
        """All of its state, to be written before it goes on: arrays are its own. What fast-forward and `divide` know is
        left out: they begin anew."""
    def restore(self, snapshot: dict[str, Any]) -> None:
        """Take over the snapshot of an engine that was made of the same, in one that was just made. Pickling an engine
        makes it again, and does this."""
    def state(self, deciding: bool | None = None) -> dict[str, NDArray[Any]]:
        """Copies of the state arrays by name: those that decide (True), those that only count (False), or all."""
