"""Flits, packets and messages, and the hardware that they pass: virtual channels and links.

Written from docs/router.md alone, for reading. The engine in `pyxsim/core` is the fast implementation of the same page;
this code shares nothing with it.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from pyxsim.core.engine_options import WORMHOLE
from pyxsim.reference import draws

CAUSES = ("vc", "credit", "serial", "arbitration")


@dataclass(frozen=True)
class Kind:
    """A message class."""

    number: int
    vnet: int
    priority: int


@dataclass(eq=False)
class Message:
    """A message of `packets` packets of `flits` flits; the last packet has `last_flits`."""

    number: int
    inject: int
    eject: int
    dst: int
    plane: int
    packets: int
    flits: int
    last_flits: int
    at: int
    kind: Kind
    seed: int = 0
    tag: int = 0  # number of its traffic
    before: Message | None = None  # the message before it in its source queue, when it joined
    first: int = -1  # the cycle in which it becomes the first of its source queue
    opened: int = 0
    arrived: int = 0
    hops: int = 0  # routers visited by the heads of its packets that have arrived
    first_launch: int = -1
    last_arrival: int = -1
    sent: list[Packet] = field(default_factory=list)
    record: bool = True  # whether events and flits of its packets are kept

    @property
    def total(self) -> int:
        return (self.packets - 1) * self.flits + self.last_flits

    @property
    def next_size(self) -> int:
        """Flits of the next packet."""
        return self.last_flits if self.opened == self.packets - 1 else self.flits

    def next_packet(self) -> Packet:
        packet = Packet(self, self.opened, self.next_size, self.plane)
        if self.record:
            self.sent.append(packet)
        self.opened += 1
        return packet


@dataclass(eq=False)
class Packet:
    """`size` flits that follow one path; `launched` and `arrived` count them at the two interfaces."""

    message: Message
    index: int
    size: int
    plane: int  # -1: no route option chosen yet
    via: int | None = None  # the intermediate NPU
    last: int = -1  # the plane from the via on
    launched: int = 0
    arrived: int = 0
    first_launch: int = -1
    hops: int = 0  # routers visited
    vc_class: int = 0  # on the link that it took last
    events: list[Event] = field(default_factory=list)
    flits: list[Flit] = field(default_factory=list)  # launched on its lane

    def note(self, t: int, what: str, link: int, vc: int = -1, flit: int = -1) -> None:
        if self.message.record:
            self.events.append((t, what, link, vc, flit))

    def next_flit(self) -> Flit:
        flit = Flit(self, self.launched)
        self.launched += 1
        if self.message.record:
            self.flits.append(flit)
        return flit

    def draw(self, a: int, purpose: int) -> int:
        return draws.draw(draws.key(self.message.seed, self.message.number, self.index), a, purpose)


@dataclass(eq=False)
class Flit:
    """A flit. `arrival` is the cycle in which it reaches the end of its present link."""

    packet: Packet
    index: int
    arrival: int = -1
    entered: list[int] = field(default_factory=list)  # cycle in which it entered each output link, or its queue

    @property
    def head(self) -> bool:
        return self.index == 0

    @property
    def tail(self) -> bool:
        return self.index == self.packet.size - 1

    def price(self, flow: int) -> int:
        """Return the number of credits that it needs, and takes, when it leaves."""
        if flow == WORMHOLE:
            return 1
        return self.packet.size if self.head else 0


@dataclass(frozen=True, eq=False)
class Candidate:
    """A possible next hop of a packet: a link and the VCs that it may use there."""

    link: Link
    vcs: range
    vc_class: int = 0
    escape: bool = False
    room: int = 0  # free slots of its own that a VC must have to count as free
    credit: bool = False  # whether a VC counts as free only with a credit

    def unheld(self, u: int) -> list[int]:
        """Return its VCs without a holder in tick `u`, whatever their free slots."""
        return [v for v in self.vcs if self.link.outputs[v].free(u)]

    def free(self, u: int) -> list[int]:
        """Return its VCs that count as free."""
        outputs = self.link.outputs
        if self.credit and not self.room:
            return [v for v in self.unheld(u) if outputs[v].has(1)]
        return [v for v in self.unheld(u) if outputs[v].credits >= self.room]


@dataclass(frozen=True)
class State:
    """State of the front of an input VC, or of a lane, in a tick: "moving", "pipeline", "idle" or a stall cause."""

    what: str
    link: int = -1  # the link that it waits for; with the VC there if it lacks a credit
    vc: int = -1
    culprit: Packet | None = None
    packet: Packet | None = None  # the packet in this state
    since: int = -1  # first cycle without credits


MOVING, PIPELINE, IDLE = State("moving"), State("pipeline"), State("idle")


@dataclass(eq=False)
class Visit:
    """The stay of a packet in an input VC, to which it may return later. Times are ticks."""

    packet: Packet
    head: int  # arrival of its first flit
    tail: int = -1  # and of its last
    first: int = -1  # tick in which it became the first packet of the VC


@dataclass(eq=False)
class InputVC:
    """The downstream end of a VC: a FIFO, with the route and output VC of its front packet. Times are ticks."""

    number: int
    whole: bool  # store-and-forward: a packet is at the front only after its tail has arrived
    fifo: deque[Flit] = field(default_factory=deque)
    most: int = 0
    front_time: int = -1  # f of the front packet
    candidates: Sequence[Candidate] = ()  # its route, from f on
    output: Link | None = None  # the link and the VC that it has been granted
    granted: int = -1
    visits: list[Visit] = field(default_factory=list)  # in order
    left: int = 0  # number of visits that have ended
    filled: list[int] = field(default_factory=list)  # ticks in which a flit arrived at the empty buffer
    states: dict[int, State] = field(default_factory=dict)  # by cycle: state of its last tick
    rank: int = 0  # of the packet at the front, below its class
    lacking: int = -1  # first cycle in which its front lacks credits

    @property
    def front(self) -> Flit | None:
        if not self.fifo:
            return None
        flit = self.fifo[0]
        here = not self.whole or any(f.tail and f.packet is flit.packet for f in self.fifo)
        return flit if here else None

    def put(self, flit: Flit, u: int) -> None:
        """Buffer a flit that arrives in tick `u`."""
        before = self.front
        if flit.head:
            self.visits.append(Visit(flit.packet, u))
        if flit.tail:
            self.visits[-1].tail = u
        if not self.fifo:
            self.filled.append(u)
        self.fifo.append(flit)
        self.look(u)
        if before is None and self.front is not None and self.front.head:
            self.front_time = u
        self.most = max(self.most, len(self.fifo))

    def grant(self, link: Link, vc: int) -> None:
        self.output, self.granted = link, vc

    def take(self, u: int) -> Flit:
        """Remove the front flit; after a tail the next packet comes to the front."""
        flit = self.fifo.popleft()
        if flit.tail:
            self.output, self.granted, self.candidates = None, -1, ()
            self.front_time = u + 1 if self.front is not None else -1
            self.left += 1
            self.look(u + 1)
        return flit

    def look(self, u: int) -> None:
        """Record the tick in which a packet becomes the first."""
        if self.left < len(self.visits) and self.visits[self.left].first < 0:
            self.visits[self.left].first = u


@dataclass(eq=False)
class Pool:
    """Slots that the VCs of a link share."""

    size: int
    left: int


@dataclass(eq=False)
class OutputVC:
    """The upstream end of a VC: a credit counter, and the packet that holds it.

    Its times are those of its owner: ticks of a router, cycles of an injection lane.
    """

    number: int
    depth: int
    drained: bool
    pool: Pool
    credits: int  # of its own slots
    borrowed: int = 0  # slots of the pool
    holder: Packet | None = None
    sent: int = 0  # flits of the holder
    reserved: int = 0  # slots that the holder's head has taken for later flits of its packet
    tail_left: int = -1  # departure of the holder's tail, -1 before

    @property
    def out(self) -> int:
        """Slots in use downstream."""
        return self.depth - self.credits + self.borrowed

    def has(self, credits: int) -> bool:
        """Return whether it has this many credits, including those of the pool."""
        return self.credits + self.pool.left >= credits

    def free(self, now: int) -> bool:
        """Return whether the VC can be granted to a packet."""
        if self.holder is None:
            return True
        if self.tail_left < 0:
            return False
        return self.out == 0 if self.drained else now > self.tail_left

    def hold(self, packet: Packet) -> None:
        """Grant the VC to a packet."""
        self.holder, self.sent, self.tail_left = packet, 0, -1

    def spend(self, flit: Flit, flow: int, now: int) -> None:
        """Consume the credits of a departing flit of the holder."""
        price = flit.price(flow)
        if flit.packet is not self.holder or flit.index != self.sent or not self.has(price):
            raise AssertionError("a flit left without its VC, without a credit or out of order")
        self.sent += 1
        self.reserved += price - 1
        for _ in range(price):
            if self.credits > 0:
                self.credits -= 1
            else:
                self.pool.left -= 1
                self.borrowed += 1
        if flit.tail:
            self.tail_left = now

    def regain(self) -> None:
        """Add a returned credit."""
        if self.borrowed > 0:
            self.borrowed -= 1
            self.pool.left += 1
        else:
            self.credits += 1


Launch = tuple[int, int, int, int, int, int]  # (cycle, link, vc, message, packet, flit)
Event = tuple[int, str, int, int, int]  # (cycle, event, link, vc, flit), -1 for no number


@dataclass(eq=False)
class Link:
    """A directed link with the two ends of all its VCs; `src` or `dst` is -1 at an interface."""

    number: int
    src: int
    dst: int
    s: Fraction
    delay: int
    credit_delay: int
    output_queue: bool
    ranges: list[list[range]]  # by virtual network and VC class
    group: int
    pool: Pool
    inputs: list[InputVC]
    outputs: list[OutputVC]
    log: list[Launch] | None
    clear: Fraction = Fraction(0)  # `free` in the text: when the next flit can start
    queue: deque[tuple[Flit, int]] = field(default_factory=deque)
    traversing: list[tuple[int, Flit, int]] = field(default_factory=list)  # (cycle in the queue, flit, VC)
    limit: int = 0  # of its output queue; 0: none
    # With a limit, of every flit behind the switch: (tick, cycle of its launch or -1).
    queued: list[tuple[int, int]] = field(default_factory=list)
    flying: list[tuple[Flit, int]] = field(default_factory=list)
    returning: list[tuple[int, int]] = field(default_factory=list)  # (arrival, vc) of credits
    # Every flit passed to the link or its queue: cycle, message, whether its message had no other flit in the queue.
    entries: list[tuple[int, Message, bool]] = field(default_factory=list)
    flits: int = 0
    stalls: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CAUSES, 0))

    def available(self, t: int) -> bool:
        """Return whether a flit can start in cycle `t`."""
        return self.clear < t + 1

    @property
    def in_use(self) -> int:
        """Flits in use: used slots of all its VCs."""
        return sum(out.out for out in self.outputs)

    @property
    def busy(self) -> bool:
        """Whether a flit or a credit is in flight on it."""
        return bool(self.flying or self.returning or self.queue or self.traversing)

    def launch(self, flit: Flit, vc: int, t: int) -> None:
        """Send a flit in cycle `t`: the link is busy for `s` cycles, and the flit arrives `delay` cycles later."""
        if not self.available(t):
            raise AssertionError(f"link {self.number} is not available in cycle {t}")
        waiting = [k for k, (_, left) in enumerate(self.queued) if left < 0]
        if waiting:
            self.queued[waiting[0]] = (self.queued[waiting[0]][0], t)
        end = max(Fraction(t), self.clear) + self.s
        self.clear = end
        flit.arrival = math.ceil(end) + self.delay
        self.flying.append((flit, vc))
        self.flits += 1
        flit.packet.note(t, "launched", self.number, vc, flit.index)
        if self.log is not None:
            self.log.append((t, self.number, vc, flit.packet.message.number, flit.packet.index, flit.index))

    def accepts(self, t: int, u: int) -> bool:
        """Return whether the switch may grant this output in tick `u` of cycle `t`."""
        if not self.output_queue:
            return self.available(t)
        inside = [tick for tick, left in self.queued if tick < u and (left < 0 or left >= t)]
        return not self.limit or len(inside) < self.limit

    def accept(self, flit: Flit, vc: int, t: int, enters: int, tick: int) -> None:
        """Accept a flit from the switch in cycle `t`; with an output queue it may wait behind others.

        `enters` is the cycle in which it enters the queue, `tick` the tick; both may be later than now.
        """
        if self.limit:
            self.queued = [row for row in self.queued if row[1] < 0 or row[1] >= t] + [(tick, -1)]
        flit.entered.append(enters)
        if enters > t:
            self.traversing.append((enters, flit, vc))
            return
        self.enter(flit, t)
        if self.output_queue and (self.queue or not self.available(t)):
            self.queue.append((flit, vc))
        else:
            self.launch(flit, vc, t)

    def enter(self, flit: Flit, t: int) -> None:
        message = flit.packet.message
        if self.log is None:
            return
        self.entries.append((t, message, all(other.packet.message is not message for other, _ in self.queue)))

    def launch_queued(self, t: int) -> bool:
        """Do step 1 of the output queue. Return whether a flit was launched or joined the queue."""
        joining = [(flit, vc) for enters, flit, vc in self.traversing if enters == t]
        self.traversing = [row for row in self.traversing if row[0] != t]
        for flit, vc in joining:
            self.enter(flit, t)
            self.queue.append((flit, vc))
        launching = bool(self.queue) and self.available(t)
        if launching:
            self.launch(*self.queue.popleft(), t)
        return launching or bool(joining)

    def return_credit(self, vc: int, t: int) -> None:
        self.returning.append((t + self.credit_delay, vc))

    def arriving_flits(self, t: int) -> list[tuple[Flit, int]]:
        """Remove and return the flits that arrive in cycle `t`, with their VCs."""
        here = [(flit, vc) for flit, vc in self.flying if flit.arrival == t]
        self.flying = [(flit, vc) for flit, vc in self.flying if flit.arrival != t]
        return here

    def arriving_credits(self, t: int) -> list[int]:
        """Remove the credits that arrive in cycle `t` and return their VCs."""
        here = [vc for when, vc in self.returning if when == t]
        self.returning = [(when, vc) for when, vc in self.returning if when != t]
        return here

    def class_of(self, vc: int, vnet: int) -> int:
        return next(c for c, vcs in enumerate(self.ranges[vnet]) if vc in vcs)

    def check(self) -> None:
        """Check, for each VC, that credits + flits in the buffer, in flight, in the output queue and reserved + credits
        in flight = B."""
        places = [vc for _, vc in self.flying] + [vc for _, vc in self.queue] + [vc for _, _, vc in self.traversing]
        away = Counter(places + [vc for _, vc in self.returning])
        for out, buffer in zip(self.outputs, self.inputs, strict=True):
            total = out.credits - out.borrowed + len(buffer.fifo) + away[out.number] + out.reserved
            if total != out.depth or out.credits < 0 or (out.borrowed and out.credits):
                raise AssertionError(f"link {self.number} vc {out.number}: {total} slots of {out.depth} accounted for")
            if out.has(1) != (max(0, out.depth - out.out) + self.pool.left >= 1):
                raise AssertionError(f"link {self.number} vc {out.number}: credits and slots out do not fit")
        if self.pool.left < 0 or self.pool.left + sum(out.borrowed for out in self.outputs) != self.pool.size:
            raise AssertionError(f"link {self.number}: {self.pool.left} slots of the pool's {self.pool.size} left")
