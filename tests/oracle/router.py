"""Who may go next: an injection lane and a router, in one cycle."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from tests.oracle.parts import Flit, InputVC, Link, Message, OutputVC, Packet


def rotate(candidates: Collection[int], pointer: int) -> int:
    """Round robin: the first candidate at or after the pointer, else the first of all."""
    return min((c for c in candidates if c >= pointer), default=min(candidates))


@dataclass
class Pipeline:
    """The options that steer a router or a lane; the other stage delays are part of the links' delays."""

    rc: int
    va: int
    step_arbiter: bool
    interleaved: bool
    ordered: bool


@dataclass(eq=False)
class Lane:
    """An injection lane with its source queue."""

    link: Link
    pipeline: Pipeline
    queue: deque[Message] = field(default_factory=deque)
    open: dict[int, Packet] = field(default_factory=dict)  # by VC
    opening_pointer: int = 0
    launch_pointer: int = 0

    def open_packet(self, t: int) -> bool:
        """Open at most one packet. True if one was opened."""
        if not self.queue or (self.open and not self.pipeline.interleaved):
            return False
        vcs = [out.number for out in self.link.outputs if out.free(t) and out.credits > 0]
        if not vcs:
            return False
        vc = rotate(vcs, self.opening_pointer)
        self.opening_pointer = (vc + 1) % len(self.link.outputs)
        message = self.queue[0]
        self.open[vc] = message.next_packet()
        self.link.outputs[vc].hold(self.open[vc])
        if len(self.open) == 1:
            self.launch_pointer = vc
        if message.opened == message.packets:
            self.queue.popleft()
        return True

    def launch_flit(self, t: int) -> Flit | None:
        """Launch at most one flit of the open packets, and return it."""
        vcs = list(self.open)
        if not self.pipeline.ordered:
            vcs = [vc for vc in vcs if self.link.outputs[vc].credits > 0]
        if not vcs or not self.link.available(t):
            return None
        vc = rotate(vcs, self.launch_pointer)
        if self.link.outputs[vc].credits == 0:
            return None
        flit = self.open[vc].next_flit()
        self.launch_pointer = (vc + 1) % len(self.link.outputs) if flit.tail else vc
        self.link.outputs[vc].spend(flit, t)
        self.link.launch(flit, vc, t)
        if flit.tail:
            del self.open[vc]
        return flit


Place = tuple[int, int]  # (input port, VC) of a router


@dataclass
class Turn:
    """Whose turn it is in VA, for one range of VCs of an output port."""

    vc: int
    requester: int = 0


@dataclass
class Bid:
    """An eligible front flit: the output port it wants and the VC it would use there."""

    port: int
    vc: int


@dataclass(eq=False)
class Router:
    """`inputs` and `outputs` are its ports in order; `route` gives a flit's output port and VC range."""

    number: int
    inputs: list[Link]
    outputs: list[Link]
    pipeline: Pipeline
    route: Callable[[Packet, Link, int], tuple[Link, range]]
    input_pointers: list[int] = field(init=False)
    output_pointers: list[int] = field(init=False)
    turns: dict[tuple[int, range], Turn] = field(default_factory=dict)  # by link and range of VCs

    def __post_init__(self) -> None:
        self.input_pointers = [0] * len(self.inputs)
        self.output_pointers = [0] * len(self.outputs)

    def fronts(self) -> list[tuple[Place, InputVC, Flit]]:
        return [((p, vc.number), vc, vc.fifo[0]) for p, link in enumerate(self.inputs) for vc in link.inputs if vc.fifo]

    def wish(self, place: Place, flit: Flit) -> tuple[Link, range]:
        return self.route(flit.packet, self.inputs[place[0]], place[1])

    def step(self, t: int) -> bool:
        """One cycle: VCs, then the switch. True if anything was granted."""
        causes: set[tuple[int, str]] = set()  # (link number, cause), each counted once
        granted = self.pipeline.va > 0 and self.allocate_vcs(t, causes)
        moved = self.allocate_switch(t, causes)
        by_number = {link.number: link for link in self.outputs}
        for number, cause in causes:
            by_number[number].stalls[cause] += 1
        return granted or moved

    def allocate_vcs(self, t: int, causes: set[tuple[int, str]]) -> bool:
        """VA. Every head asks before any VC is granted, so all see the VCs of the beginning of the step."""
        requests: dict[tuple[int, range], list[int]] = {}  # (link, range of VCs) -> numbers of input VCs
        asking: dict[int, tuple[InputVC, Flit, Link]] = {}
        for place, vc, flit in self.fronts():
            due = vc.front_time + self.pipeline.rc + self.pipeline.va - 1
            if not flit.head or vc.granted >= 0 or t < due:
                continue
            link, vcs = self.wish(place, flit)
            number = sum(len(port.inputs) for port in self.inputs[: place[0]]) + place[1]
            requests.setdefault((link.number, vcs), []).append(number)
            asking[number] = (vc, flit, link)
        granted = False
        for (link_number, vcs), numbers in requests.items():
            link = asking[numbers[0]][2]
            free = [v for v in vcs if link.outputs[v].free(t)]
            if not free:
                causes.add((link_number, "vc"))
                continue
            turn = self.turns.setdefault((link_number, vcs), Turn(vcs.start))
            pick, winner = rotate(free, turn.vc), rotate(numbers, turn.requester)
            turn.vc, turn.requester = pick + 1, winner + 1
            vc, flit, _ = asking[winner]
            vc.granted, vc.granted_at = pick, t
            link.outputs[pick].hold(flit.packet)
            granted = True
            if len(numbers) > 1:
                causes.add((link_number, "arbitration"))
        return granted

    def bid(self, place: Place, vc: InputVC, flit: Flit, t: int, causes: set[tuple[int, str]]) -> Bid | None:
        """What a front flit asks of the switch in cycle `t`; None, and the cause if it is one, when it cannot ask."""
        link, vcs = self.wish(place, flit)
        usable: list[OutputVC]
        if flit.head and vc.granted < 0:
            if self.pipeline.va > 0 or t < vc.front_time + self.pipeline.rc:
                return None  # VA has counted its stall, or its time has not come
            usable = [link.outputs[v] for v in vcs if link.outputs[v].free(t)]
        elif flit.head and vc.granted_at == t:
            return None
        else:
            usable = [link.outputs[vc.granted]]
        if self.pipeline.ordered and self.is_behind(place, vc, link):
            causes.add((link.number, "arbitration"))
            return None
        if not usable:
            causes.add((link.number, "vc"))
            return None
        ready = [out for out in usable if out.credits > 0]
        if not ready:
            causes.add((link.number, "credit"))
            return None
        if not link.output_queue and not link.available(t):
            causes.add((link.number, "serial"))
            return None
        return Bid(self.outputs.index(link), ready[0].number)

    def is_behind(self, place: Place, vc: InputVC, link: Link) -> bool:
        """Whether an older packet at the same input port wants the same output."""
        mine = (vc.front_time, vc.number)
        others = [(p, other, flit) for p, other, flit in self.fronts() if p[0] == place[0] and other is not vc]
        return any((o.front_time, o.number) < mine and self.wish(p, flit)[0] is link for p, o, flit in others)

    def allocate_switch(self, t: int, causes: set[tuple[int, str]]) -> bool:
        """SA. True if a flit won."""
        bids: dict[Place, Bid] = {}
        for place, vc, flit in self.fronts():
            bid = self.bid(place, vc, flit, t, causes)
            if bid is not None:
                bids[place] = bid
        picks: dict[int, int] = {}  # input port -> VC
        for port, link in enumerate(self.inputs):
            eligible = [v for p, v in bids if p == port]
            if eligible:
                picks[port] = rotate(eligible, self.input_pointers[port])
                if self.pipeline.step_arbiter:
                    self.input_pointers[port] = (self.input_pointers[port] + 1) % len(link.inputs)
        winners: set[Place] = set()
        for output in range(len(self.outputs)):
            ports = [port for port, v in picks.items() if bids[port, v].port == output]
            if not ports:
                continue
            port = rotate(ports, self.output_pointers[output])
            winners.add((port, picks[port]))
            if self.pipeline.step_arbiter:
                self.output_pointers[output] = (self.output_pointers[output] + 1) % len(self.inputs)
            else:
                self.output_pointers[output] = (port + 1) % len(self.inputs)
                self.input_pointers[port] = (picks[port] + 1) % len(self.inputs[port].inputs)
        for place, bid in bids.items():
            if place in winners:
                self.traverse(place, bid, t)
            else:
                causes.add((self.outputs[bid.port].number, "arbitration"))
        return bool(winners)

    def traverse(self, place: Place, bid: Bid, t: int) -> None:
        """A granted flit goes: its slot's credit back, a credit of its next VC taken, the flit on its way."""
        source, target = self.inputs[place[0]], self.outputs[bid.port]
        vc, out = source.inputs[place[1]], target.outputs[bid.vc]
        if vc.granted < 0:  # va = 0: the VC comes with the switch
            vc.granted = bid.vc
            out.hold(vc.fifo[0].packet)
        flit = vc.take(t)
        source.return_credit(place[1], t)
        out.spend(flit, t)
        target.accept(flit, bid.vc, t)
