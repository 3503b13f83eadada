"""Where the time of a packet's tail went: docs/attribution.md by brute force, over every cycle of every stay.

Written from that page alone. The oracle notes what every input VC and every lane did in every cycle; here it is asked.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field

from pyxsim.core.engine_options import CAUSES, STORE_AND_FORWARD
from pyxsim.reference.components import Kind, Message, Packet
from tests.reference.recording import Event, Log, RecordingEngine, RecordingLane, RecordingVC, State, Visit

HELD_UP = ("vc", "credit", "link", "arbitration", "queue", "fault")  # and in this order, where it matters
NO_TRAFFIC = -1
FAULTS = Message(-2, 0, 0, 0, 0, 0, 0, 0, 0, Kind(0, 0, 0), tag=-2)  # no message, but a culprit

StayRow = tuple[int, ...]  # message, packet, link, and the parts
Blame = tuple[int, int, int, str]  # link, victim, culprit, cause
Wait = tuple[int, int]  # for credits: which states, since when


@dataclass
class Stay:
    """Of a tail, at the source or in an input buffer, up to its arrival in the next one."""

    link: int  # by which it leaves
    parts: Counter[str] = field(default_factory=Counter)
    culprits: dict[str, int] = field(default_factory=dict)  # the traffic blamed for each cause

    def spend(self, part: str, cycles: int = 1) -> None:
        if cycles < 0:
            raise AssertionError(f"{cycles} cycles of {part} on link {self.link}")
        self.parts[part] += cycles

    def blame(self, part: str, culprit: Message | None) -> None:
        """The last one who is blamed stays; nobody only if nobody ever was."""
        if culprit is not None or part not in self.culprits:
            self.culprits[part] = NO_TRAFFIC if culprit is None else culprit.tag


@dataclass
class Tail:
    """The events of the last flit of a packet, in their order."""

    packet: Packet
    log: Log
    launched: list[Event] = field(init=False)  # on its lane, on the link that it leaves each router by
    switched: list[Event] = field(init=False)  # in each router
    arrives: list[Event] = field(init=False)  # in each input VC, at its sink
    entered: list[int] = field(init=False)  # when it could first be launched on those links
    sound: list[int] = field(init=False)  # when it would arrive at the end of each link without faults and retry

    def __post_init__(self) -> None:
        mine = [event for event in self.log.events[self.packet] if event[4] == self.packet.size - 1]
        self.launched, self.switched, self.arrives = (
            [event for event in mine if event[1] == what] for what in ("launched", "switched", "arrives")
        )
        self.entered = self.log.entered[self.packet, self.packet.size - 1]
        self.sound = self.log.sound[self.packet, self.packet.size - 1]

    def on_the_link(self, stay: Stay, i: int) -> None:
        """From its launch on the `i`-th link to its arrival."""
        launch, end = self.launched[i][0], self.arrives[i][0]
        sound = min(self.sound[i], end)
        stay.spend("hops", sound - launch)
        stay.spend("fault", end - sound)


class Attribution:
    """What a machine's packets that have arrived spent their time on."""

    def __init__(self, machine: RecordingEngine) -> None:
        self.machine = machine
        options = machine.options
        self.whole = options.flow == STORE_AND_FORWARD
        self.ticks = int(options.speedup)
        stages = options.rc + options.va + (options.st if self.ticks > 1 else 0) - int(options.speculative)
        self.alone = int(stages) // self.ticks  # from the arrival of a head to its link, if nothing is in its way
        self.starts: dict[int, tuple[list[int], list[Message]]] = {}  # by link: when flits started, of which message
        for t, link, _, message, _, _ in machine.log.starts:
            cycles, messages = self.starts.setdefault(link, ([], []))
            cycles.append(t)
            messages.append(machine.messages[message])
        self.ends: dict[Wait, int] = {}  # of waits for credits: the last cycle
        self.guilty: dict[Wait, Message | None] = {}
        self.packets = [(packet, self.stays_of(packet)) for packet, _ in machine.done]
        for (packet, stays), (_, end) in zip(self.packets, machine.done, strict=True):
            spent = sum(sum(stay.parts.values()) for stay in stays)
            if spent != end - packet.message.at:
                raise AssertionError(f"{packet.message.number}.{packet.index}: {spent} of {end - packet.message.at}")

    # What is told

    def stays(self) -> list[StayRow]:
        """Every stay of every packet that has arrived, sorted."""
        return sorted(
            (packet.message.number, packet.index, stay.link, *(stay.parts[part] for part in CAUSES))
            for packet, stays in self.packets
            for stay in stays
        )

    def splits(self) -> list[list[int]]:
        """The parts of every message; -1 for those that have not arrived."""
        rows = [[-1] * len(CAUSES) for _ in self.machine.messages]
        for packet, stays in self.packets:  # in the order in which they arrived: the last one counts
            if packet.message.last_arrival >= 0:
                rows[packet.message.number] = [sum(stay.parts[part] for stay in stays) for part in CAUSES]
        return rows

    def waits(self) -> dict[Blame, tuple[int, int]]:
        """Cycles, and the number of stays, by link, victim, culprit and cause."""
        cycles: Counter[Blame] = Counter()
        times: Counter[Blame] = Counter()
        for packet, stays in self.packets:
            victim = packet.message.tag
            for stay in stays:
                for part, spent in stay.parts.items():
                    if spent:
                        blamed = stay.culprits.get(part, FAULTS.tag if part == "fault" else victim)
                        key = (stay.link, victim, blamed, part)
                        cycles[key] += spent
                        times[key] += 1
        return {key: (cycles[key], times[key]) for key in cycles}

    # How it is found

    def stays_of(self, packet: Packet) -> list[Stay]:
        tail = Tail(packet, self.machine.log)
        places = [self.at_source(tail)]
        for i, (_, _, link, vc, _) in enumerate(tail.arrives[:-1]):
            places.append(self.in_a_buffer(tail, i, self.machine.links[link].inputs[vc]))
        return places

    def last_on(self, link: int, t: int) -> Message | None:
        """Whose flit started last on a link, at the end of cycle `t`; None: it has only sent messages with credits."""
        cycles, messages = self.starts[link]
        before = bisect_right(cycles, t)
        return messages[before - 1] if before else None

    def at_source(self, tail: Tail) -> Stay:
        message, link = tail.packet.message, tail.launched[0][2]
        stay, lane = Stay(link), next(lane for lane in self.machine.lanes if lane.link.number == link)
        launch = tail.launched[0][0]
        for t in range(message.at, launch):
            part, culprit = self.source_part(lane, message, t)
            stay.spend(part)
            stay.blame(part, culprit)
        tail.on_the_link(stay, 0)
        return stay

    def source_part(self, lane: RecordingLane, message: Message, t: int) -> tuple[str, Message | None]:
        before = self.machine.log.before.get(message)
        if t < self.machine.log.first[message]:
            return "source", before
        state = lane.states[t]
        if state.what == "moving":
            last = self.last_on(lane.link.number, t)
            return ("serialisation", message) if last is message else ("source", before or last)
        return state.what, self.culprit(lane.states, t)

    def in_a_buffer(self, tail: Tail, i: int, vc: RecordingVC) -> Stay:
        """The `i`-th one that it came to: in the VC, across the switch, in the output queue, on its way."""
        won, entered = tail.switched[i][0], tail.entered[i]
        launch = tail.launched[i + 1][0]
        stay = Stay(tail.switched[i][2])
        across = min(entered - won, self.alone)
        stay.spend("hops", across)
        tail.on_the_link(stay, i + 1)
        stay.spend("serialisation", entered - won - across)
        hops = self.in_the_vc(stay, tail.packet, vc, range(tail.arrives[i][0], won), self.alone - across)
        self.in_the_queue(stay, tail.packet.message, range(entered, launch), self.alone - across - hops)
        return stay

    def in_the_vc(self, stay: Stay, packet: Packet, vc: RecordingVC, cycles: range, alone: int) -> int:
        """`alone`: the K of the page. Returns H."""
        arrival, won = cycles.start, cycles.stop
        run, before = self.run(vc, packet, arrival)
        began, first_flit = run[0].first // self.ticks, run[0].head // self.ticks
        filled = max(u // self.ticks for u in vc.filled if u // self.ticks <= arrival)

        here = self.states(vc, range(max(arrival, began), won))
        counts = Counter(here.values())
        stay.spend("queue", max(0, began - arrival))
        for part in HELD_UP:
            stay.spend(part, counts[part])
        own = counts["pipeline"] + counts["moving"]
        hops = min(own, alone)
        stay.spend("hops", hops)

        earlier = self.states(vc, range(max(began, filled), arrival))
        held = Counter(earlier.values())
        held["queue"] = max(0, min(arrival, began) - max(filled, first_flit))
        self.share(stay, own - hops, {part: 0 if self.whole else held[part] for part in HELD_UP})

        if before is not None:
            stay.blame("queue", before)
        for t, part in (earlier | here).items():
            if part in HELD_UP:
                stay.blame(part, self.culprit(vc.states, t))
        return hops

    def in_the_queue(self, stay: Stay, message: Message, cycles: range, alone: int) -> None:
        """`alone`: what is left of the cycles that it would spend here if nobody else were there, K - H."""
        entries = self.machine.links[stay.link].entries
        since = max(t for t, other, first in entries if other is message and first and t <= cycles.start)
        queued = range(since, cycles.stop)
        faults = [t for t in queued if self.machine.links[stay.link].lacks_only_faults(t)]
        others = [t for t in queued if t not in faults and self.last_on(stay.link, t) is not message]
        before, late = (sum(t < cycles.start for t in some) for some in (others, faults))
        behind, outage = len(others) - before, len(faults) - late
        own = len(cycles) - behind - outage
        hops = min(own, alone)
        delayed = min(own - hops, late)
        held = min(own - hops - delayed, before)
        stay.spend("hops", hops)
        stay.spend("fault", outage + delayed)
        stay.spend("link", behind + held)
        stay.spend("serialisation", own - hops - delayed - held)
        if others:
            stay.blame("link", self.last_on(stay.link, others[-1]))

    def share(self, stay: Stay, rest: int, held: dict[str, int]) -> None:
        """What the tail waited for the flits before it goes to what had held those up."""
        total = sum(held.values())
        if rest >= total:
            stay.spend("serialisation", rest - total)
            shares = held
        else:
            shares = {part: rest * cycles // total for part, cycles in held.items()}
            most = max(HELD_UP, key=lambda part: held[part])  # of equals the first
            shares[most] += rest - sum(shares.values())
        for part, cycles in shares.items():
            stay.spend(part, cycles)

    def run(self, vc: RecordingVC, packet: Packet, arrival: int) -> tuple[list[Visit], Message | None]:
        """Those of its message that came one after the other, up to this one; and whose packet was before them."""
        visits = vc.visits
        last = next(i for i, v in enumerate(visits) if v.packet is packet and v.tail // self.ticks == arrival)
        first = last
        while first > 0 and visits[first - 1].packet.message is packet.message:
            first -= 1
        return visits[first : last + 1], visits[first - 1].packet.message if first else None

    def states(self, vc: RecordingVC, cycles: range) -> dict[int, str]:
        """The parts of the states of a VC in some cycles."""
        return {t: self.part(vc.states[t], t) for t in cycles}

    def part(self, state: State, t: int) -> str:
        """What is lost to the same message is no wait for others."""
        if state.what not in ("serial", "arbitration"):
            return state.what
        culprit = self.last_on(state.link, t) if state.what == "serial" else message_of(state.culprit)
        if culprit is not None and culprit is message_of(state.packet):
            return "moving"
        return "link" if state.what == "serial" else state.what

    # Who is to blame

    def culprit(self, states: dict[int, State], t: int) -> Message | None:
        """Whose packet made the front of a VC, or a lane, wait in a cycle."""
        state = states[t]
        if state.what == "serial":
            return self.last_on(state.link, t)
        if state.what == "fault":
            return FAULTS
        if state.what == "credit":
            return self.passed_on(states, t)
        return message_of(state.culprit)

    def passed_on(self, states: dict[int, State], t: int) -> Message | None:
        """A wait for credits has the culprit of the last wait downstream that counted when it was over."""
        wait = id(states), states[t].since
        if wait not in self.guilty:
            self.guilty[wait] = self.downstream(states, states[t].since, self.last_of(states, t))
        return self.guilty[wait]

    def downstream(self, states: dict[int, State], start: int, end: int) -> Message | None:
        link = self.machine.links[states[end].link]
        downstream = link.inputs[states[end].vc].states
        for t in range(end, start - link.sound_credit_delay - 1, -1):
            part = self.part(downstream[t], t) if t in downstream else "nothing"
            if part == "credit" and self.last_of(downstream, t) >= end:
                continue  # it is not over
            culprit = self.culprit(downstream, t) if part in HELD_UP else None
            if culprit is not None:
                return culprit
        return None

    def last_of(self, states: dict[int, State], t: int) -> int:
        """The last cycle of the wait for credits of cycle `t`."""
        wait = id(states), states[t].since
        if wait not in self.ends:
            while t + 1 in states and states[t + 1].since == states[t].since:
                t += 1
            self.ends[wait] = t
        return self.ends[wait]


def message_of(packet: Packet | None) -> Message | None:
    return None if packet is None else packet.message
