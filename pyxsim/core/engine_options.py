"""Input and output types of the engine, and the numbers that stand for choices. engine.pyi describes the arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Flow control.
WORMHOLE, CUT_THROUGH, STORE_AND_FORWARD = range(3)

# Selection of one of several candidates.
RANDOM, LEAST, TWO, EACH, WEIGHTED = range(5)

# First destination of a way.
VIA_NONE, VIA_ANY, VIA_BOX, VIA_ALIGNED = range(4)

# Purposes of draws.
WAY, VIA, SELECT, OTHER, TIE = range(1, 6)

# What packets of a message class are ranked by in allocators.
BY_CLASS, BY_AGE, BY_NETWORK_AGE, BY_LOCAL_AGE, BY_HOPS, BY_QUEUE = range(6)

# What bounds the slots of a link that a VC may use, besides a number: equal parts for the VCs that packets hold, or all
# slots over their number, rounded up to a power of two.
EQUAL_SHARE, POWER_SHARE = -1, -2

# Events of a watched packet.
EVENTS = ("opened", "routed", "granted", "switched", "launched", "arrives", "wasted")

# Parts of a message's latency: the columns of its split (docs/attribution.md). The last six are waits.
CAUSES = ("source", "serialisation", "hops", "vc", "credit", "link", "arbitration", "queue", "fault")
MOST_TAGS = 32  # traffics that attribution distinguishes

# Limits of partitions: how many (one thread each), and the cycles of an epoch.
MOST_PARTS = 64
LONGEST_EPOCH = 64


@dataclass
class CreditReturns:
    """Credits as messages: how links return their credits (docs/credits.md).

    Attributes
    ----------
    opposite
        int32[links]: the link in the opposite direction, which carries the messages; -1: the credits of the link return
        ideally. No two links have the same one.
    timeout
        int64[links]: cycles after which fewer credits than a batch are returned.
    share
        Time of a message on a link over that of a flit; 0: messages take no time and no bandwidth.
    batch
        Credits of a VC that are returned together.
    wait
        Cycles in which due credits wait for a flit to carry them; -1: no flit does.
    all_vcs
        Whether a message has the credits of all VCs, or those of one.
    data_first
        Whether messages wait while flits take the opposite link.
    cumulative
        Whether a message restores the lost credits of its VCs, as its counters say how many there were in all.
    resync
        Lost credits are sent again in cycles that are multiples of it; 0: they are not.
    advertise
        Whether senders have no credits until a message brings them, also when a link that lost flits comes up again.
    bound
        uint64[links]: a draw below it is a bit error in a message on this link. None: no errors.
    """

    opposite: Any
    timeout: Any
    share: Fraction = Fraction(1)
    batch: int = 1
    wait: int = -1
    all_vcs: bool = True
    data_first: bool = False
    cumulative: bool = True
    resync: int = 0
    advertise: bool = False
    bound: Any = None

    def with_ideal_links(self, count: int) -> CreditReturns:
        """Return the same for `count` more links, whose credits return ideally."""
        bound = None if self.bound is None else np.append(self.bound, np.zeros(count, np.uint64))
        opposite = np.append(self.opposite, np.full(count, -1, np.int64))
        return replace(self, opposite=opposite, timeout=np.append(self.timeout, np.ones(count, np.int64)), bound=bound)


@dataclass
class Links:
    """Links in engine order: network links, then injection lanes, then ejection lanes. See engine.pyi.

    Attributes
    ----------
    counted
        The first links, for which `Engine.totals_ahead` has totals (default: network links).
    varies, longest
        Whether `Engine.change_links` changes links, and the most cycles that a flit or credit then spends on one.
    lossy
        Whether flits may be lost: by bit errors, or on links that go down.
    reports_losses
        Whether `Engine.run` stops where messages lose packets, too (see Stop).
    error_bound, nack_bound
        Per link: a draw of 64 bits below it is a bit error in a flit, or in a nack. None: no errors.
    replay, ack, timeout
        Per link: slots of its replay buffer (0: no retry), cycles of an acknowledgement beyond `credit_delay`, cycles
        after a flit without an answer. None: no retry.
    credits
        How credits return by messages. None: ideally, each `credit_delay` cycles after its slot is empty.
    """

    network: int
    injection: int
    ejection: int
    src: Any
    dst: Any
    vcs: Any
    depth: Any
    s_num: Any
    s_den: Any
    delay: Any
    credit_delay: Any
    output_queue: Any
    group: Any
    pool: Any
    classes: Any
    ranges: Any
    low: Any
    high: Any
    counted: int | None = None
    varies: bool = False
    longest: int = 0
    lossy: bool = False
    reports_losses: bool = False
    error_bound: Any = None
    nack_bound: Any = None
    replay: Any = None
    ack: Any = None
    timeout: Any = None
    credits: CreditReturns | None = None


@dataclass
class Routes:
    """The routing relation as arrays. See engine.pyi."""

    home: Any
    digits: Any
    own: Any
    offset: Any
    link: Any
    vc_class: Any
    set_start: Any = (0,)
    set_link: Any = ()
    set_class: Any = ()
    set_weight: Any = ()
    plane_any: Any = ()
    plane_select: Any = ()
    plane_escape: Any = ()
    plane_sticky: Any = ()
    plane_equal: Any = ()
    way_first: Any = ()
    way_last: Any = ()
    way_via: Any = ()
    way_bias: Any = ()
    choose: int = 0
    early: bool = False
    bubble: bool = False
    wrap: Any = ()
    stride: Any = ()


@dataclass
class RouterOptions:
    """Options of all routers and lanes, as in docs/router.md. Allocators go by their registered names."""

    rc: int = 1
    va: int = 1
    drained: bool = False
    step_arbiter: bool = False
    interleaved: bool = False
    ordered: bool = False
    va_allocator: str = "rotating"
    va_iterations: int = 1
    sa_allocator: str = "separable-input-first"
    sa_iterations: int = 1
    speculative: bool = False
    input_speedup: int = 1
    output_speedup: int = 1
    speedup: int | Fraction = 1
    st: int = 0
    queue_limit: int = 0
    shared_limit: int = 0
    next_vc: bool = False
    hold_switch: bool = False
    va_credit: bool = False
    shared_classes: bool = False
    rank_by: int = BY_CLASS
    flow: int = WORMHOLE
    vnets: int = 1
    class_vnet: Sequence[int] = (0,)
    class_priority: Sequence[int] = (0,)
    seed: int = 0


@dataclass
class Stop:
    """Why `Engine.run` returned.

    reason: "until", "delivered", "window", "idle", "deadlock" or "repeats". messages, cycles: int64, the delivered
    messages and their cycles, sorted by (cycle, message); with `Links.reports_losses` also ~message for each packet
    that is lost: in the cycle in which its link or route fails, and in that in which it is dropped.
    """

    reason: str
    cycle: int
    messages: NDArray[np.int64]
    cycles: NDArray[np.int64]

    @property
    def delivered(self) -> list[tuple[int, int]]:
        """The deliveries as pairs (message, cycle)."""
        return list(zip(self.messages.tolist(), self.cycles.tolist(), strict=True))
