"""The engine's Python face: docs/router.md is its contract. Everything counts in cycles, flits and link numbers."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

build_info: dict[str, Any]
LONGEST_DELAY: int
"""Cycles: a flit on a link, with the stages that follow, takes no longer."""

@dataclass
class Links:
    """Links in engine order: network links, then injection lanes, then ejection lanes. Arrays of one entry per link."""

    network: int
    injection: int
    ejection: int
    src: Ints
    dst: Ints
    vcs: Ints
    depth: Ints
    s_num: Ints
    s_den: Ints
    delay: Longs
    credit_delay: Longs
    output_queue: Ints
    classes: Ints
    group: Ints

@dataclass
class Routes:
    """Digit tables: see pyxsim/routing/relation.py, where they are built and explained."""

    digits: Ints
    own: Ints
    offset: Longs
    link: Ints
    vc_class: Ints

@dataclass
class RouterOptions:
    rc: int = 1
    va: int = 1
    drained: bool = False
    step_arbiter: bool = False
    interleaved: bool = False
    ordered: bool = False

@dataclass
class Stop:
    """Why `Engine.run` came back. `reason`: "until", "delivered", "window", "idle" or "deadlock"."""

    reason: str
    cycle: int
    delivered: list[tuple[int, int]] = field(default_factory=list)

class Engine:
    """One network, one `nogil` call for many cycles."""

    now: int
    flits_in_flight: int
    router_visits: int
    messages_pending: int

    def __init__(
        self, routers: int, links: Links, routes: Routes, options: RouterOptions, *, trace: bool = False
    ) -> None: ...
    def send(
        self, inject: int, eject: int, dst: int, plane: int, packets: int, flits: int, last_flits: int, at: int
    ) -> int:
        """Queue a message of `packets` packets of `flits` flits, the last one of `last_flits`, at cycle `at >= now`.

        `inject`, `eject`: lane numbers from 0 within their kind. Returns the message's number: from 0, in the order
        of the calls.
        """
    def run(self, until: int, *, slack: int = 0, window: int = 0) -> Stop:
        """Simulate to cycle `until`, of which the arrivals are still dealt with, or stop earlier: `slack` cycles after
        the first delivery, at a multiple of `window` (0: never), when nothing is left to do, or at a deadlock.

        Multiples of `window` before which nothing was counted are passed over.
        """
    def counters(self) -> dict[str, Longs]:
        """Running totals per link: flits, stall_credit, stall_vc, stall_arbitration, stall_serial."""
    def buffer_max(self) -> Ints:
        """The most flits ever seen in a buffer, per VC (links in order, VCs in order)."""
    def totals(self) -> dict[str, int]: ...
    def message_times(self, message: int) -> tuple[int, int, int]:
        """(start asked for, first flit launched, last flit arrived) of a message; -1 where it has not happened."""
    def check(self) -> None:
        """Raise AssertionError, naming the place, unless the invariants of docs/router.md hold."""
    def waiting(self) -> list[dict[str, int]]:
        """Every front flit: link and vc it sits in, link it wants, vc it holds there (-1: none; then any of
        [low, high) will do), its packet's front time, message, packet."""
    def trace(self) -> NDArray[np.int64]:
        """Rows (cycle, link, vc, message, packet, flit) of every launch so far, in order of (cycle, link).

        Empty unless the engine was made with `trace=True`.
        """
    def state(self, deciding: bool | None = None) -> dict[str, NDArray[Any]]:
        """Copies of the state arrays by name: those that decide (True), those that only count (False), or all."""
