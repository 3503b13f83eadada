"""The reference engine with a record of what every part did in every cycle, for comparisons and attribution."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from pyxsim.reference.allocators import rotate
from pyxsim.reference.components import Candidate, Flit, InputVC, Link, Message, Packet
from pyxsim.reference.engine import ReferenceEngine
from pyxsim.reference.lane import Lane
from pyxsim.reference.router import Front, Place, Router, SwitchRequest, cycle_of

Launch = tuple[int, int, int, int, int, int]  # (cycle, link, vc, message, packet, flit)
Event = tuple[int, str, int, int, int]  # (cycle, event, link, vc, flit), -1 for no number


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
class Log:
    """What flits and packets did."""

    launches: list[Launch] = field(default_factory=list)
    starts: list[Launch] = field(default_factory=list)
    """The launches of flits that are not sent again."""
    events: defaultdict[Packet, list[Event]] = field(default_factory=lambda: defaultdict(list))
    entered: defaultdict[tuple[Packet, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    """Cycles in which a flit entered each output link, or its queue."""
    sound: defaultdict[tuple[Packet, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    """Cycles in which a flit would arrive at the end of each link without faults and retry."""
    before: dict[Message, Message] = field(default_factory=dict)
    """The message before it in its source queue, when it joined."""
    first: dict[Message, int] = field(default_factory=dict)
    """The cycle in which it becomes the first of its source queue."""

    def note(self, packet: Packet, t: int, what: str, link: int, vc: int = -1, flit: int = -1) -> None:
        self.events[packet].append((t, what, link, vc, flit))


@dataclass(eq=False)
class RecordingVC(InputVC):
    visits: list[Visit] = field(default_factory=list)  # in order
    left: int = 0  # number of visits that have ended
    filled: list[int] = field(default_factory=list)  # ticks in which a flit arrived at the empty buffer
    states: dict[int, State] = field(default_factory=dict)  # by cycle: state of its last tick
    lacking: int = -1  # first cycle in which its front lacks credits

    def put(self, flit: Flit, u: int) -> None:
        if flit.head:
            self.visits.append(Visit(flit.packet, u))
        if flit.tail:
            self.visits[-1].tail = u
        if not self.fifo:
            self.filled.append(u)
        super().put(flit, u)
        self.mark_first(u)

    def take(self, u: int) -> Flit:
        flit = super().take(u)
        if flit.tail:
            self.left += 1
            self.mark_first(u + 1)
        return flit

    def mark_first(self, u: int) -> None:
        if self.left < len(self.visits) and self.visits[self.left].first < 0:
            self.visits[self.left].first = u


@dataclass(eq=False)
class RecordingLink(Link):
    log: Log = field(default_factory=Log)
    # Every flit passed to the link or its queue: cycle, message, whether its message had no other flit in the queue.
    entries: list[tuple[int, Message, bool]] = field(default_factory=list)
    # What it would be without faults: cycles per flit, delays, when the next flit could start after the last one that
    # is not sent again, and the earlier values of that with the cycles from which on they hold.
    sound_s: Fraction = Fraction(0)
    sound_delay: int = 0
    sound_credit_delay: int = 0
    sound_clear: Fraction = Fraction(0)
    sound_from: list[int] = field(default_factory=list)
    sound_was: list[Fraction] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sound_s, self.sound_delay, self.sound_credit_delay = self.s, self.delay, self.credit_delay

    def launch(self, flit: Flit, vc: int, t: int) -> None:
        start, new = max(Fraction(t), self.clear), self.retry is None or not self.retry.again
        super().launch(flit, vc, t)
        packet = flit.packet
        row = (t, self.number, vc, packet.message.number, packet.index, flit.index)
        self.log.launches.append(row)
        if new:
            self.log.note(packet, t, "launched", self.number, vc, flit.index)
            self.log.starts.append(row)
            self.log.sound[packet, flit.index].append(math.ceil(start + self.sound_s) + self.sound_delay)
            self.set_sound(t, start + self.sound_s)

    def set_sound(self, since: int, clear: Fraction) -> None:
        self.sound_clear = clear
        self.sound_from.append(since)
        self.sound_was.append(clear)

    def lacks_only_faults(self, t: int) -> bool:
        """Return whether it would be available at the end of cycle `t`, before step 5, without faults and retry."""
        number = bisect_right(self.sound_from, t)
        return number == 0 or self.sound_was[number - 1] < t + 1

    def accept(self, flit: Flit, vc: int, t: int, enters: int, tick: int) -> None:
        self.log.entered[flit.packet, flit.index].append(enters)
        if enters <= t:
            self.enter([flit], t)
        super().accept(flit, vc, t, enters, tick)

    def launch_queued(self, t: int) -> bool:
        self.enter([flit for enters, (flit, _) in self.traversing if enters == t], t)
        return super().launch_queued(t)

    def enter(self, flits: list[Flit], t: int) -> None:
        queued = {flit.packet.message for flit, _ in self.queue}
        for flit in flits:
            self.entries.append((t, flit.packet.message, flit.packet.message not in queued))
            queued.add(flit.packet.message)


@dataclass(eq=False)
class RecordingLane(Lane):
    log: Log = field(default_factory=Log)
    states: dict[int, State] = field(default_factory=dict)  # by cycle
    lacking: int = -1  # first cycle without credits

    def join(self, message: Message, t: int) -> None:
        queue = self.queues[message.kind.number]
        if queue:
            self.log.before[message] = queue[-1]
        else:
            self.log.first[message] = t
        super().join(message, t)

    def step(self, t: int) -> tuple[bool, Flit | None]:
        transmits, busy = self.link.sound_clear >= t + 1, self.busy
        opened, flit = super().step(t)
        for queue in self.queues:
            if queue:
                self.log.first.setdefault(queue[0], t + 1)
        if not busy:
            state = MOVING if transmits else IDLE
        else:
            state = MOVING if flit is not None or transmits else self.silence(t)
        self.lacking = -1 if state.what != "credit" else t if self.lacking < 0 else self.lacking
        self.states[t] = state if self.lacking < 0 else replace(state, since=self.lacking)
        return opened, flit

    def silence(self, t: int) -> State:
        """Return why a lane does not launch a flit although its link would be available without faults."""
        first = [rotate(list(self.open), self.launch_pointer)] if self.open and self.options.ordered else self.open
        if any(self.payable(vc) for vc in first):
            return State("fault")
        if not self.open and self.paused:
            return State("fault") if any(self.queues) else IDLE
        if self.open:
            return State("credit", self.link.number, rotate(list(self.open), self.launch_pointer))
        waiting = [kind for kind in self.kinds if self.queues[kind.number]]
        if not waiting:
            return IDLE
        vcs = self.link.ranges[waiting[0].vnet][0]
        free = [vc for vc in vcs if self.link.outputs[vc].free(t)]
        if free:
            return State("credit", self.link.number, free[0])
        return State("vc", culprit=self.link.outputs[vcs.start].holder)

    def open_packet(self, t: int) -> bool:
        before = set(self.open)
        opened = super().open_packet(t)
        for vc in self.open.keys() - before:
            self.log.note(self.open[vc], t, "opened", self.link.number, vc)
        return opened


@dataclass(eq=False)
class RecordingRouter(Router):
    log: Log = field(default_factory=Log)
    states: dict[Place, State] = field(default_factory=dict)  # in this tick, of VCs that moved or stalled
    oldest: Packet | None = None  # the last result of `older`
    cycle: int = 0

    def tick(self, t: int, u: int) -> bool:
        used = [(place, vc) for place, vc in self.places if vc.fifo]
        self.states.clear()
        self.cycle = t
        if not used:  # no flit, no request: most routers in most cycles
            return False
        changed = super().tick(t, u)
        for place, vc in used:
            state = self.states.get(place, PIPELINE)
            vc.lacking = -1 if state.what != "credit" else t if vc.lacking < 0 else vc.lacking
            if cycle_of(u + 1, self.options) > t:
                vc.states[t] = state if vc.lacking < 0 else replace(state, since=vc.lacking)
        return changed

    def route(self, front: Front, t: int, u: int) -> None:
        super().route(front, t, u)
        self.log.note(front.packet, t, "routed", front.vc.candidates[0].link.number, flit=0)

    def grant(self, head: Front, candidate: Candidate, vc: int, t: int) -> None:
        super().grant(head, candidate, vc, t)
        self.log.note(head.packet, t, "granted", candidate.link.number, vc, 0)

    def older(self, front: Front, link: Link, heads: bool = False) -> Packet | None:
        self.oldest = super().older(front, link, heads)
        return self.oldest

    def stall(self, front: Front, link: Link, cause: str, vc: int) -> None:
        super().stall(front, link, cause, vc)
        first = front.vc.candidates[0]
        if cause == "serial":
            full = link.output_queue and link.available(self.cycle)
            cause = "fault" if link.sound_clear < self.cycle + 1 and not full else cause
        elif cause in ("vc", "credit") and front.vc.granted < 0 and first.choice and first.link is link and link.down:
            cause = "fault"
        culprit = self.oldest if cause == "arbitration" else link.outputs[vc].holder if cause == "vc" else None
        state = State(cause, link.number, vc if cause == "credit" else -1, culprit, front.packet)
        self.states.setdefault(front.place, state)

    def allocate_vcs(self, heads: list[Front], t: int, u: int) -> bool:
        """Losers of VA blame the winner of the range ("rotating"), or of the first VC that they requested and lost.

        The winner of a range may take a VC that the loser did not request because it has no room for a longer packet.
        """
        rotating = self.options.va_allocator == "rotating"
        requested: dict[Front, list[tuple[int, Any]]] = {}
        for head in heads:
            if rotating:
                requested[head] = [(c.link.number, c.vcs) for c in [self.choice(head)]] if head.usable else []
            else:
                requested[head] = sorted((c.link.number, vc) for c in head.usable for vc in c.free(u))
        granted = super().allocate_vcs(heads, t, u)
        winners: dict[tuple[int, Any], Packet] = {}
        for head in heads:
            if head.vc.output:
                won = requested[head][0] if rotating else (head.vc.output.number, head.vc.granted)
                winners[won] = head.packet
        for head in heads:
            ahead = [winners[each] for each in requested[head] if each in winners]
            self.blame(head, ahead[0] if ahead else None)
        return granted

    def allocate_switch(self, bids: list[SwitchRequest], t: int, u: int) -> bool:
        """Losers of SA blame the winner of their output, else of their input."""
        held = set(self.held.values())
        won = super().allocate_switch(bids, t, u)
        winners = [bid for bid in bids if self.states.get(bid.front.place) is MOVING]
        winners.sort(key=lambda bid: (bid.front.place in held, bid.pair[0]))
        by_output = {bid.link: bid.front.packet for bid in winners}
        by_input = {bid.pair[0]: bid.front.packet for bid in winners}
        for bid in bids:
            if not bid.speculative and self.states[bid.front.place] is not MOVING:
                self.blame(bid.front, by_output.get(bid.link, by_input.get(bid.pair[0])))
        return won

    def blame(self, front: Front, culprit: Packet | None) -> None:
        state = self.states.get(front.place, PIPELINE)
        if state.what == "arbitration":
            self.states[front.place] = replace(state, culprit=culprit)

    def input_first(self, bids: list[SwitchRequest]) -> list[SwitchRequest]:
        return self.with_wasted(super().input_first(bids))

    def match(self, bids: list[SwitchRequest]) -> list[SwitchRequest]:
        return self.with_wasted(super().match(bids))

    def with_wasted(self, picked: list[SwitchRequest]) -> list[SwitchRequest]:
        for bid in picked:
            if not self.counts(bid):
                self.log.note(bid.front.packet, self.cycle, "wasted", bid.link.number, flit=0)
        return picked

    def traverse(self, bid: SwitchRequest, t: int, u: int) -> None:
        vc, flit = bid.front.vc, bid.front.flit
        granted = vc.granted if vc.granted >= 0 else bid.vc
        self.states[bid.front.place] = MOVING
        self.log.note(flit.packet, t, "switched", bid.link.number, granted, flit.index)
        super().traverse(bid, t, u)


def check_credits(link: Link) -> None:
    """Check, for each VC, that credits + flits in the buffer, in flight, in the output queue and reserved + credits
    in flight, pending, lost and in a replay buffer = B."""
    flits = [place for _, place in (*link.flying, *link.traversing)] + list(link.queue)
    flits += [(sent.flit, sent.vc) for sent in (link.retry.buffer if link.retry else ()) if sent.arrival < 0]
    away = Counter([vc for _, vc in flits] + [vc for _, vc in link.returning])
    if link.credits is not None:
        away.update({vc.number: vc.pending + vc.lost for vc in link.credits.vcs})
        for sent in link.credits.out.retry.buffer if link.credits.out.retry else ():
            away.update(sent.credits if sent.arrival < 0 else ())
    for out, buffer in zip(link.outputs, link.inputs, strict=True):
        total = out.credits - out.borrowed + len(buffer.fifo) + away[out.number] + out.reserved
        if total != out.depth or out.credits < 0 or (out.borrowed and out.credits):
            raise AssertionError(f"link {link.number} vc {out.number}: {total} slots of {out.depth} accounted for")
        if not link.pool.limit and out.has(1) != (max(0, out.depth - out.out) + link.pool.left >= 1):
            raise AssertionError(f"link {link.number} vc {out.number}: credits and slots out do not fit")
    if link.pool.left < 0 or link.pool.left + sum(out.borrowed for out in link.outputs) != link.pool.size:
        raise AssertionError(f"link {link.number}: {link.pool.left} slots of the pool's {link.pool.size} left")


class RecordingEngine(ReferenceEngine):
    """A reference engine that keeps every launch and event, and the state of every VC and lane in every cycle.

    `shuffle` is called with the lanes and the routers before every visit to them, to change their order; `every` is the
    number of cycles between two checks of the credit invariant.
    """

    link, input_vc, lane, router = RecordingLink, RecordingVC, RecordingLane, RecordingRouter

    def __init__(self, *args: Any, shuffle: Callable[[list[Any]], None] | None = None, every: int = 1) -> None:
        super().__init__(*args)
        self.log = Log()
        self.shuffle = shuffle
        self.every = every
        for part in (*self.links, *self.lanes, *self.routers):
            part.log = self.log

    def step(self) -> None:
        carrying = [(link, link.carrying, link.carrying.messages) for link in self.links if link.carrying is not None]
        super().step()
        for link, carried, before in carrying:
            if carried.messages > before and carried.rules.share:
                link.set_sound(self.now, link.clear)
        if (self.now - 1) % self.every == 0:
            for link in self.links:
                check_credits(link)

    def step_to(self, until: int) -> None:
        """Step to the beginning of cycle `until`."""
        while self.now < until:
            self.step()

    @property
    def finished(self) -> bool:
        return all(m.last_arrival >= 0 for m in self.messages)

    def message_times(self, message: int) -> tuple[int, int, int]:
        """Return (start, first flit launched, last flit arrived) in cycles; -1 for events that have not happened."""
        m = self.messages[message]
        return m.at, m.first_launch, m.last_arrival

    @property
    def launches(self) -> list[Launch]:
        return self.log.launches

    def watched(self, message: int, packet: int) -> list[Event]:
        """Return the events of a packet, in order of cycle."""
        rows = [events for p, events in self.log.events.items() if (p.message.number, p.index) == (message, packet)]
        return rows[0] if rows else []

    def order(self, parts: list[Any]) -> list[Any]:
        if self.shuffle is None:
            return parts
        order = list(parts)
        self.shuffle(order)
        return order

    def _arrivals(self, link: Link, t: int) -> None:
        for arrival, (flit, vc) in link.flying:
            if arrival == t:
                self.log.note(flit.packet, t, "arrives", link.number, vc, flit.index)
        super()._arrivals(link, t)
