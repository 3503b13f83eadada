"""A router in one tick: RC, VA, SA and ST, in the order of docs/router.md. Without internal speed-up a tick is a cycle.

A front flit bids for the switch (`SwitchRequest`); `allocate_switch` selects winners, `traverse` moves them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate
from math import ceil

from pyxsim.core.engine_options import BY_AGE, BY_HOPS, BY_LOCAL_AGE, BY_NETWORK_AGE, BY_QUEUE, RouterOptions
from pyxsim.plugins import allocators
from pyxsim.reference.allocators import Matrix, Rank, best, rotate
from pyxsim.reference.components import Candidate, Flit, InputVC, Link, Packet
from pyxsim.reference.draws import TIE
from pyxsim.reference.routing import Routing, least

Place = tuple[int, int]  # (input port, VC) of a router
RANK_SHIFT, MOST_RANK = 16, 1 << 30  # of what ranks the packets of a class


@dataclass(eq=False)
class Front:
    """A flit at the front of an input VC."""

    number: int  # of the VC among the input VCs of the router
    place: Place
    vc: InputVC
    flit: Flit
    usable: list[Candidate] = field(default_factory=list)  # of a head that requests a VC: those with a free one

    @property
    def packet(self) -> Packet:
        return self.flit.packet


@dataclass(eq=False)
class SwitchRequest:
    """The switch request of an eligible front flit."""

    front: Front
    link: Link
    vc: int  # -1 for a speculative bid
    rank: Rank
    pair: tuple[int, int]  # input and output of the switch

    @property
    def speculative(self) -> bool:
        return self.vc < 0


@dataclass(eq=False)
class Router:
    """One router; `inputs` and `outputs` are its ports in order."""

    number: int
    inputs: list[Link]
    outputs: list[Link]
    options: RouterOptions
    routing: Routing
    visits: int = 0  # flits that have left it
    causes: set[tuple[Link, str]] = field(default_factory=set)  # of stalls in the present cycle
    # Pointers of "rotating" to a VC and a requester, by link and range of VCs.
    turns: dict[tuple[Link, range], tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        options = self.options
        # Numbers of the first VC of each port, and the total number of VCs.
        self.first_input, self.first_output = (
            list(accumulate((len(link.inputs) for link in links), initial=0)) for links in (self.inputs, self.outputs)
        )
        self.places = [((p, vc.number), vc) for p, link in enumerate(self.inputs) for vc in link.inputs]
        self.parts = len(self.inputs) * options.input_speedup  # inputs of the switch
        self.input_pointers = [0] * self.parts
        self.output_pointers = [0] * len(self.outputs)
        seed = int(options.seed)
        va = options.va_allocator, self.first_input[-1], self.first_output[-1], options.va_iterations
        sa = options.sa_allocator, self.parts, len(self.outputs) * options.output_speedup, options.sa_iterations
        self.va, self.sa = Matrix(*va, seed, self.number, "va"), Matrix(*sa, seed, self.number, "sa")
        self.held: dict[tuple[int, int], Place] = {}  # (input, output) of the switch: the VC that it stays with

    def fronts(self) -> list[Front]:
        """Return the flits at the front of their VCs."""
        fronts = ((k, place, vc, vc.front) for k, (place, vc) in enumerate(self.places) if vc.fifo)
        return [Front(number, place, vc, flit) for number, place, vc, flit in fronts if flit is not None]

    def tick(self, t: int, u: int) -> bool:
        """Do step 4 in tick `u` of cycle `t`: RC for new heads, VA, SA and ST.

        Return whether anything was routed, granted or moved.
        """
        if self.options.shared_limit < 0:
            for link in self.outputs:
                link.share_slots(self.options.shared_limit)
        fronts = self.fronts()
        new = [front for front in fronts if not front.vc.candidates]
        for front in new:
            self.route(front, t, u)
        heads = self.vc_requests(fronts, u) if self.options.va > 0 else []
        # All bids, speculative ones too, depend on the VCs before VA.
        bids = [self.bid(front, t, u) for front in fronts]
        if self.options.speculative:
            bids += [self.speculate(head, t, u) for head in heads]
        granted = self.allocate_vcs(heads, t, u)
        moved = self.allocate_switch([bid for bid in bids if bid is not None], t, u)
        return bool(new) or granted or moved

    def route(self, front: Front, t: int, u: int) -> None:
        """Do RC for a head that comes to the front in tick `u`."""
        if front.vc.front_time != u or not front.flit.head:
            raise AssertionError(f"router {self.number} missed the front time of {front}")
        port, vc = front.place
        front.vc.candidates = self.routing.candidates(front.packet, self.inputs[port], vc)
        front.vc.rank = self.standing(front.packet, u)

    def reroute(self, anew: bool, abandoned: set[int], discard: list[int]) -> int:
        """Route heads that wait for a VC again, after the routes have changed.

        `anew`: all of them; else those that request one link, an abandoned one, go to the sink `discard` of the router.
        Return how many that requested one link then request another.
        """
        moved = 0
        for front in self.fronts():
            vc = front.vc
            if not vc.candidates or vc.granted >= 0:
                continue
            before, one = vc.candidates[0].link, not vc.candidates[0].choice
            if anew:
                vc.candidates = self.routing.candidates(front.packet, self.inputs[front.place[0]], front.place[1])
            elif one and before.number in abandoned:
                sink = self.routing.links[discard[self.number]]
                vnet = front.packet.message.kind.vnet
                vc.candidates = [Candidate(sink, sink.ranges[vnet][0], credit=self.routing.credit)]
            elif not one:
                vc.candidates = self.routing.by_tables(front.packet, self.inputs[front.place[0]], front.place[1])
            moved += one and vc.candidates[0].link is not before
        return moved

    def stall(self, front: Front, link: Link, cause: str, vc: int) -> None:
        """Note a stall of a front flit in this tick. `vc`: the first VC of the link for which it waits."""
        self.causes.add((link, cause))

    # VA

    def vc_requests(self, fronts: list[Front], u: int) -> list[Front]:
        """Return the heads that request an output VC in this tick, with their usable candidates."""
        heads = []
        for front in fronts:
            due = front.vc.front_time + self.options.rc + self.options.va - 1
            if not front.flit.head or front.vc.granted >= 0 or u < due:
                continue
            first = front.vc.candidates[0]
            if self.options.ordered and self.older(front, first.link, heads=True) is not None:
                self.stall(front, first.link, "arbitration", first.vcs.start)
                continue
            front.vc.candidates = self.routing.anew(front.vc.candidates, front.packet, self.number)
            front.usable = [candidate for candidate in front.vc.candidates if candidate.free(u)]
            heads.append(front)
        return heads

    def allocate_vcs(self, heads: list[Front], t: int, u: int) -> bool:
        """Do VA. All requests are collected before any grant, so they see the VCs at the beginning of the step."""
        chosen = {head: self.choice(head) for head in heads if head.usable}
        allocate = self.rotate_vcs if self.options.va_allocator == "rotating" else self.match_vcs
        grants = allocate(chosen, u)
        for head in heads:
            if head.usable:
                continue
            for candidate in head.vc.candidates:
                unheld = candidate.unheld(u)
                self.stall(head, candidate.link, "credit" if unheld else "vc", min(unheld, default=candidate.vcs.start))
        for head, candidate in chosen.items():
            if head.number in grants:
                self.grant(head, *grants[head.number], t)
            else:
                self.stall(head, candidate.link, "arbitration", candidate.vcs.start)
        return bool(grants)

    def grant(self, head: Front, candidate: Candidate, vc: int, t: int) -> None:
        """Give a head the VC that it has won."""
        head.vc.grant(candidate.link, vc, head.packet)
        head.packet.vc_class = candidate.vc_class
        routes, plane = self.routing.routes, head.packet.plane
        if candidate.escape and routes.plane_sticky[plane]:
            head.packet.plane = int(routes.plane_escape[plane])

    def choice(self, head: Front) -> Candidate:
        """Return the candidate whose range a head requests ("rotating"), or the first with a free VC (matrix)."""
        if self.options.va_allocator != "rotating":
            return head.usable[0]
        own = [c for c in head.vc.candidates if not c.escape]
        if any(not c.escape for c in head.usable):
            return least(own, head.packet.draw(self.number, TIE) % len(own), head.usable)
        return least([c for c in head.vc.candidates if c.escape], 0, head.usable)

    def rotate_vcs(self, chosen: dict[Front, Candidate], u: int) -> dict[int, tuple[Candidate, int]]:
        """Allocate with "rotating": the free VCs of a range in turn. Return grants by number of the input VC."""
        ranges: dict[tuple[Link, range], dict[int, Candidate]] = {}  # requests by link and range of VCs, by number
        for head, candidate in chosen.items():
            ranges.setdefault((candidate.link, candidate.vcs), {})[head.number] = candidate
        ranks = {head.number: self.rank(head, "rotating") for head in chosen}
        grants = {}
        for (link, vcs), requests in ranges.items():
            vc_pointer, pointer = self.turns.get((link, vcs), (vcs.start, 0))
            winner = best({number: ranks[number] for number in requests}, pointer)
            vc = rotate(requests[winner].free(u), vc_pointer)
            self.turns[link, vcs] = vc + 1, winner + 1
            grants[winner] = requests[winner], vc
        return grants

    def rank(self, front: Front, allocator: str) -> Rank:
        message = front.packet.message
        top = max(self.options.class_priority)
        by = MOST_RANK - len(front.vc.fifo) if self.options.rank_by == BY_QUEUE else front.vc.rank
        age = message.at if allocators.traits(allocator).by_age else 0
        return (top - message.kind.priority, (by << RANK_SHIFT) + age)

    def standing(self, packet: Packet, u: int) -> int:
        """Return what ranks a packet that comes to the front in tick `u`, below its class; less is better."""
        ages = {BY_AGE: packet.message.at, BY_NETWORK_AGE: packet.first_launch, BY_LOCAL_AGE: u}
        return ages.get(self.options.rank_by, MOST_RANK - packet.hops if self.options.rank_by == BY_HOPS else 0)

    def match_vcs(self, heads: Iterable[Front], u: int) -> dict[int, tuple[Candidate, int]]:
        """Allocate with a matrix of input VCs and output VCs."""
        requests: dict[tuple[int, int], Rank] = {}
        meaning: dict[tuple[int, int], tuple[Candidate, int]] = {}
        for head in heads:
            equal, rank = self.routing.routes.plane_equal[head.packet.plane], self.rank(head, self.options.va_allocator)
            for candidate in head.usable:
                first = self.first_output[self.outputs.index(candidate.link)]
                for v in candidate.free(u):
                    # A VC counts for the first candidate that contains it; escape candidates are last.
                    if (head.number, first + v) not in requests:
                        requests[head.number, first + v] = (int(candidate.escape and not equal), *rank)
                        meaning[head.number, first + v] = candidate, v
        pairs = self.va.match(requests)
        for pair in pairs:
            self.va.settle(pair)
        return {pair[0]: meaning[pair] for pair in pairs}

    # SA: each front flit makes at most one bid, a head that speculates one more; a losing bid counts a stall.

    def bid(self, front: Front, t: int, u: int) -> SwitchRequest | None:
        """Return the switch request of a front flit; None if it cannot request, and count its stall."""
        vc, va = front.vc, self.options.va
        if vc.output is not None:
            link, vcs = vc.output, range(vc.granted, vc.granted + 1)
            usable = roomy = [link.outputs[vc.granted]]
        elif not front.flit.head:
            raise AssertionError(f"a flit without a VC in router {self.number}")
        elif va > 0 or u < vc.front_time + self.options.rc:
            return None  # VA counts its stall, or it is too early
        else:
            candidate = vc.candidates[0]
            link, vcs = candidate.link, candidate.vcs
            usable = [link.outputs[v] for v in candidate.unheld(u)]
            roomy = [link.outputs[v] for v in candidate.free(u)]
        ready = [out for out in roomy if out.has(front.flit.price(self.options.flow))]
        if self.options.ordered and self.older(front, link) is not None:
            cause = "arbitration"
        elif not ready:
            cause = "credit" if usable else "vc"
        elif not link.accepts(t, u):
            cause = "serial"
            if link.retry is not None:
                link.retry.stalls(link, t)
        else:
            first = self.turns.get((link, vcs), (0, 0))[0]
            return self.request(front, link, rotate([out.number for out in ready], first))
        self.stall(front, link, cause, vcs.start)
        return None

    def request(self, front: Front, link: Link, vc: int) -> SwitchRequest:
        """Make a switch request, with the input that serves the flit's VC and the output for its input port."""
        (port, number), output = front.place, self.outputs.index(link)
        ins, outs = self.options.input_speedup, self.options.output_speedup
        behind = vc < 0 or (self.options.next_vc and front.vc.output is None)
        rank = (int(behind), *self.rank(front, self.options.sa_allocator))
        return SwitchRequest(front, link, vc, rank, (port * ins + number % ins, output * outs + port % outs))

    def speculate(self, head: Front, t: int, u: int) -> SwitchRequest | None:
        """Return the speculative switch request of a head that requests a VC in this tick; it counts no stall."""
        price = head.flit.price(self.options.flow)
        rotating = self.options.va_allocator == "rotating" and head.usable
        requested = [self.choice(head)] if rotating else head.usable
        payable = [c for c in requested if any(c.link.outputs[v].has(price) for v in c.free(u))]
        if not payable or not payable[0].link.accepts(t, u):
            return None
        return self.request(head, payable[0].link, -1)

    def older(self, front: Front, link: Link, heads: bool = False) -> Packet | None:
        """Return the oldest packet at the same input port with the same output, if it is another one.

        `heads`: consider only heads without a VC.
        """
        rivals = [
            other
            for other in self.fronts()
            if other.place[0] == front.place[0]
            and (other.vc.output or other.vc.candidates[0].link) is link
            and not (heads and other.vc.granted >= 0)
        ]
        oldest = min(rivals, key=lambda other: (other.vc.front_time, other.vc.number))
        return None if oldest.packet is front.packet else oldest.packet

    def allocate_switch(self, bids: list[SwitchRequest], t: int, u: int) -> bool:
        """Do SA. Return whether a flit won."""
        stays = [bid for bid in bids if bid.front.place in self.held.values()]
        free = [bid for bid in bids if all(bid.pair[0] != i and bid.pair[1] != o for i, o in self.held)]
        separable = self.options.sa_allocator == "separable-input-first" and self.options.output_speedup == 1
        picked = self.input_first(free) if separable else self.match(free)
        picked.sort(key=lambda bid: bid.pair[0])
        won = [bid for bid in picked if self.counts(bid)] + stays
        for bid in bids:
            if bid not in won and not bid.speculative:
                self.stall(bid.front, bid.link, "arbitration", bid.vc)
        self.held.clear()
        for bid in won:
            tail = bid.front.flit.tail
            self.traverse(bid, t, u)
            if self.options.hold_switch and bid.front.vc.fifo and not tail:
                self.held[bid.pair] = bid.front.place
        return bool(won)

    def counts(self, bid: SwitchRequest) -> bool:
        """Return whether a winning bid can use the switch: a speculative one needs a VC of the link with credits."""
        if not bid.speculative:
            return True
        vc, price = bid.front.vc, bid.front.flit.price(self.options.flow)
        return vc.output is bid.link and bid.link.outputs[vc.granted].has(price)

    def input_first(self, bids: list[SwitchRequest]) -> list[SwitchRequest]:
        """Allocate separably: each input selects a VC, then each output an input. Return the winning bids."""
        step = self.options.step_arbiter
        picks: dict[int, SwitchRequest] = {}
        for i in range(self.parts):
            mine = {bid.front.vc.number: bid for bid in bids if bid.pair[0] == i}
            if mine:
                vc = best({v: bid.rank for v, bid in mine.items()}, self.input_pointers[i])
                picks[i] = mine[vc]
                if step:
                    self.input_pointers[i] = (self.input_pointers[i] + 1) % len(self.inputs[i].inputs)
        won = []
        for output, link in enumerate(self.outputs):
            ranks = {i: bid.rank for i, bid in picks.items() if bid.link is link}
            if not ranks:
                continue
            i = best(ranks, self.output_pointers[output])
            won.append(picks[i])
            if not self.counts(picks[i]):
                continue
            if step:
                self.output_pointers[output] = (self.output_pointers[output] + 1) % len(self.inputs)
            else:
                self.output_pointers[output] = i + 1
                self.input_pointers[i] = picks[i].front.vc.number + 1
        return won

    def match(self, bids: list[SwitchRequest]) -> list[SwitchRequest]:
        """Allocate with a matrix of inputs and outputs. Return the winning bids."""
        rivals: dict[tuple[int, int], dict[int, SwitchRequest]] = {}  # by input and output, by VC
        for bid in bids:
            rivals.setdefault(bid.pair, {})[bid.front.vc.number] = bid
        standing = {}
        for (i, o), bids_of_vcs in rivals.items():
            vc = best({v: bid.rank for v, bid in bids_of_vcs.items()}, self.input_pointers[i])
            standing[i, o] = bids_of_vcs[vc]
        won = []
        wasted = {pair for pair, bid in standing.items() if not self.counts(bid)}
        for pair in self.sa.match({pair: bid.rank for pair, bid in standing.items()}, wasted):
            bid = standing[pair]
            won.append(bid)
            if self.counts(bid):
                self.sa.settle(pair)
                self.input_pointers[pair[0]] = bid.front.vc.number + 1
        return won

    def traverse(self, bid: SwitchRequest, t: int, u: int) -> None:
        """Do ST: return the credit of the flit's slot, consume credits of its next VC, and pass it to the link."""
        port, number = bid.front.place
        source, target, vc = self.inputs[port], bid.link, bid.front.vc
        if vc.granted < 0:  # va = 0: the VC is taken together with the switch
            if self.options.next_vc:
                self.turns[target, vc.candidates[0].vcs] = bid.vc + 1, 0
            vc.grant(target, bid.vc, bid.front.packet)
        granted = vc.granted
        flit = vc.take(u)
        self.visits += 1
        source.give_back(number, t)
        target.outputs[granted].spend(flit, self.options.flow, u)
        done = u + self.options.st
        target.accept(flit, granted, t, cycle_of(done, self.options) if queue_after_st(self.options) else t, done)


def first_tick(t: int, options: RouterOptions) -> int:
    """Return the first tick of cycle `t`."""
    return int(t * Fraction(options.speedup) // 1)


def cycle_of(u: int, options: RouterOptions) -> int:
    """Return the cycle of tick `u`."""
    return ceil((u + 1) / Fraction(options.speedup)) - 1


def queue_after_st(options: RouterOptions) -> bool:
    """Return whether ST comes before the output queue, and takes ticks."""
    return options.speedup > 1 or options.output_speedup > 1
