"""Flits, packets and messages, and the hardware that they pass: virtual channels and links (docs/router.md)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeVar

from pyxsim.core.engine_options import EQUAL_SHARE, WORMHOLE
from pyxsim.reference import draws
from pyxsim.reference.credit_return import CreditReturn
from pyxsim.reference.retry import FLIT_ERROR, ErrorDraws, Retry, Sent

CAUSES = ("vc", "credit", "serial", "arbitration")
IN_USE_IF_DOWN = 1 << 30


Item = TypeVar("Item")
Timed = deque[tuple[int, Item]]  # items with the cycles in which they arrive, in order


def due(items: Timed[Item], t: int) -> list[Item]:
    """Remove and return the items that arrive in cycle `t`."""
    arrived = []
    while items and items[0][0] == t:
        arrived.append(items.popleft()[1])
    return arrived


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
    opened: int = 0
    arrived: int = 0
    hops: int = 0  # routers visited by the heads of its packets that have arrived
    lost: int = 0  # packets that arrived with a lost flit
    first_launch: int = -1
    last_arrival: int = -1

    @property
    def total(self) -> int:
        return (self.packets - 1) * self.flits + self.last_flits

    @property
    def next_size(self) -> int:
        """Flits of the next packet."""
        return self.last_flits if self.opened == self.packets - 1 else self.flits

    def next_packet(self) -> Packet:
        size = self.next_size
        self.opened += 1
        return Packet(self, self.opened - 1, size, self.plane)


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
    lost: bool = False  # a flit of it was lost on a link
    vc_class: int = 0  # on the link that it took last

    @property
    def target(self) -> int:
        """The node to which it is routed now."""
        return self.message.dst if self.via is None else self.via

    def next_flit(self) -> Flit:
        self.launched += 1
        return Flit(self, self.launched - 1)

    def draw(self, a: int, purpose: int) -> int:
        return draws.draw(draws.key(self.message.seed, self.message.number, self.index), a, purpose)


@dataclass(eq=False)
class Flit:
    """A flit."""

    packet: Packet
    index: int

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
    kept: int | None = None  # the only VC that the packet may take, as it keeps it
    choice: bool = False  # whether the packet requests other candidates, too

    def unheld(self, u: int) -> list[int]:
        """Return its VCs without a holder in tick `u`, whatever their free slots."""
        return [v for v in self.vcs if self.link.outputs[v].free(u) and self.kept in (None, v)]

    def free(self, u: int) -> list[int]:
        """Return its VCs that count as free."""
        outputs = self.link.outputs
        if self.choice and self.link.down:
            return []
        if self.credit and not self.room:
            return [v for v in self.unheld(u) if outputs[v].has(1)]
        return [v for v in self.unheld(u) if outputs[v].credits >= self.room]


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
    rank: int = 0  # of the packet at the front, below its class
    turned: bool = False  # whether the packet at the front has reached its via here

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
        self.fifo.append(flit)
        if before is None and self.front is not None and self.front.head:
            self.front_time = u
        self.most = max(self.most, len(self.fifo))

    def grant(self, link: Link, vc: int, packet: Packet) -> None:
        """Give its front packet an output VC."""
        self.output, self.granted = link, vc
        link.outputs[vc].hold(packet)

    def take(self, u: int) -> Flit:
        """Remove the front flit; after a tail the next packet comes to the front."""
        flit = self.fifo.popleft()
        if flit.tail:
            self.output, self.granted, self.candidates = None, -1, ()
            self.front_time = u + 1 if self.front is not None else -1
        return flit


@dataclass(eq=False)
class Pool:
    """Slots that the VCs of a link share."""

    size: int
    left: int
    limit: int = 0  # slots that one VC may use in all, its own included; 0: all


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
        within = not self.pool.limit or self.out + credits <= self.pool.limit
        return within and self.credits + self.pool.left >= credits

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
        own = min(price, self.credits)
        self.credits -= own
        self.pool.left -= price - own
        self.borrowed += price - own
        if flit.tail:
            self.tail_left = now

    def regain(self) -> None:
        """Add a returned credit."""
        if self.borrowed > 0:
            self.borrowed -= 1
            self.pool.left += 1
        else:
            self.credits += 1


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
    clear: Fraction = Fraction(0)  # `free` in the text: when the next flit can start
    queue: deque[tuple[Flit, int]] = field(default_factory=deque)
    traversing: Timed[tuple[Flit, int]] = field(default_factory=deque)  # flits and their VCs, until the queue
    limit: int = 0  # of its output queue; 0: none
    # With a limit, of every flit behind the switch: (tick, cycle of its launch or -1).
    queued: list[tuple[int, int]] = field(default_factory=list)
    flying: Timed[tuple[Flit, int]] = field(default_factory=deque)  # until its end
    returning: Timed[int] = field(default_factory=deque)  # credits: their VCs
    flits: int = 0
    stalls: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CAUSES, 0))
    down: bool = False
    end: Fraction = Fraction(0)  # of the last flit at the sender
    bound: Fraction | None = None  # and with its delay
    retry: Retry | None = None
    errors: ErrorDraws = field(default_factory=lambda: ErrorDraws(0))
    lost: int = 0  # flits lost on the wire
    drops: bool = False  # whether, as a sink, it drops all packets, and as a lane opens none
    credits: CreditReturn | None = None  # how its credits return, if by messages
    carrying: CreditReturn | None = None  # whose messages it carries
    new_flit_at: int = -1  # cycle in which it launched a new flit last
    new_flit_arrives: int = -1
    new_flit_wrong: bool = False

    def change(self, t: int, s: Fraction, delay: int, credit_delay: int, *, down: bool, lose: bool) -> None:
        """Change the link from step 2 of cycle `t` on. `lose`: flits on the wire are lost as it goes down."""
        if self.bound is None:
            self.bound = self.end + self.delay
        self.clear = max(self.end, self.bound - delay)  # no flit overtakes the last one
        self.s, self.delay, self.credit_delay = s, delay, credit_delay
        if down and lose and not self.down:
            self.lost += len(self.flying)
            if self.retry is None:
                for _, (flit, _) in self.flying:
                    flit.packet.lost = True
            else:
                self.flying.clear()
                self.retry.lose(t)
            if self.carrying is not None:
                self.carrying.wreck()
            if self.credits is not None:
                self.credits.reset = self.credits.rules.advertise and self.retry is None
        was_down, self.down = self.down, down
        if down:
            self.new_flit_at = -1
        elif was_down and self.credits is not None and self.credits.reset:
            self.credits.reset = False
            self.credits.advertise(t)
            for vc in self.carrying.vcs if self.carrying is not None else ():
                vc.restore(t)

    def share_slots(self, policy: int) -> None:
        """Divide all slots among the VCs that packets hold, those whose tail has been sent excepted."""
        active = sum(out.holder is not None and out.tail_left < 0 for out in self.outputs)
        slots = self.pool.size + sum(out.depth for out in self.outputs)
        parts = active if policy == EQUAL_SHARE else 1 << (active - 1).bit_length()
        self.pool.limit = max(1, slots // parts) if active > 1 else slots

    def available(self, t: int) -> bool:
        """Return whether a flit can start in cycle `t`."""
        return not self.down and self.clear < t + 1

    @property
    def in_use(self) -> int:
        """Flits in use: used slots of all its VCs; of a link that is down more than any has."""
        if self.down:
            return IN_USE_IF_DOWN
        return sum(out.out for out in self.outputs)

    @property
    def busy(self) -> bool:
        """Whether a flit or a credit is in flight on it."""
        sending = self.retry is not None and bool(self.retry.waiting)
        return bool(self.flying or self.returning or self.queue or self.traversing or sending)

    @property
    def timed(self) -> bool:
        """Whether a flit or a credit on it will move by itself."""
        return bool(self.flying or self.returning) or (self.busy and not self.down)

    def give_back(self, vc: int, t: int) -> None:
        """Send the credit of a slot that is emptied in cycle `t`."""
        if self.credits is not None:
            self.credits.collect(vc, t)
            return
        self.returning.append((t + self.credit_delay, vc))
        self.sort_returning()

    def sort_returning(self) -> None:
        """Put the credits in the order of their arrival, after one more has started."""
        if len(self.returning) > 1 and self.returning[-2][0] > self.returning[-1][0]:  # the link is faster now
            self.returning = deque(sorted(self.returning, key=lambda credit: credit[0]))

    def launch(self, flit: Flit, vc: int, t: int) -> None:
        """Send a flit in cycle `t`: the link is busy for `s` cycles, and the flit arrives `delay` cycles later."""
        if not self.available(t):
            raise AssertionError(f"link {self.number} is not available in cycle {t}")
        waiting = [k for k, (_, left) in enumerate(self.queued) if left < 0]
        if waiting:
            self.queued[waiting[0]] = (self.queued[waiting[0]][0], t)
        end = max(Fraction(t), self.clear) + self.s
        self.clear = self.end = end
        self.bound = end + self.delay
        launch, self.flits = self.flits, self.flits + 1
        arrival = math.ceil(end) + self.delay
        new, accepted, self.new_flit_wrong = True, True, False
        if self.retry is not None:
            new = not self.retry.again
            launch += 0 if self.carrying is None else self.carrying.launched
            sent, accepted = self.retry.launched(self, flit, vc, t, launch, math.ceil(end))
            if accepted and self.carrying is not None:
                self.carrying.arrive(sent.credits, arrival)
        elif self.errors.hits(launch, FLIT_ERROR):
            flit.packet.lost = self.new_flit_wrong = True
        if new:
            self.new_flit_at, self.new_flit_arrives = t, arrival
        if accepted:
            self.flying.append((arrival, (flit, vc)))

    def repeat_message(self, sent: Sent, t: int) -> None:
        """Send a message with credits again."""
        assert self.carrying is not None
        self.carrying.transmit(sent, t)

    def accepts(self, t: int, u: int) -> bool:
        """Return whether the switch may grant this output in tick `u` of cycle `t`."""
        if not self.output_queue:
            return self.available(t) and (self.retry is None or self.retry.accepts(t))
        inside = [tick for tick, left in self.queued if tick < u and (left < 0 or left >= t)]
        return not self.limit or len(inside) < self.limit

    def accept(self, flit: Flit, vc: int, t: int, enters: int, tick: int) -> None:
        """Accept a flit from the switch in cycle `t`; with an output queue it may wait behind others.

        `enters` is the cycle in which it enters the queue, `tick` the tick; both may be later than now.
        """
        if self.limit:
            self.queued = [row for row in self.queued if row[1] < 0 or row[1] >= t] + [(tick, -1)]
        if enters > t:
            self.traversing.append((enters, (flit, vc)))
        elif self.output_queue and (self.queue or not self.available(t)):
            self.queue.append((flit, vc))
        else:
            self.launch(flit, vc, t)

    def launch_queued(self, t: int) -> bool:
        """Do step 1 of the output queue. Return whether a flit was launched or joined the queue."""
        if self.retry is not None:
            return self.retry.send_again(self, t)
        joining = due(self.traversing, t)
        self.queue.extend(joining)
        launching = bool(self.queue) and self.available(t)
        if launching:
            self.launch(*self.queue.popleft(), t)
        return launching or bool(joining)
