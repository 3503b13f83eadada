"""A router in one tick: RC, VA, SA and ST. Without internal speed-up a tick is a cycle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil

from pyxsim.core.engine_options import BY_AGE, BY_HOPS, BY_LOCAL_AGE, BY_NETWORK_AGE, BY_QUEUE, RouterOptions
from pyxsim.core.user_allocator import UserAllocator
from pyxsim.plugins import allocators
from pyxsim.reference.allocators import Matrix, Rank, best, rotate
from pyxsim.reference.components import MOVING, PIPELINE, Candidate, Flit, InputVC, Link, Packet, State
from pyxsim.reference.draws import TIE
from pyxsim.reference.routing import Routing, least

Place = tuple[int, int]  # (input port, VC) of a router
RANK_SHIFT, MOST_RANK = 16, 1 << 30  # of what ranks the packets of a class


@dataclass
class Turn:
    """Round-robin pointers of VA for one VC range of an output port."""

    vc: int
    requester: int = 0


@dataclass(eq=False)
class Front:
    """A flit at the front of an input VC."""

    place: Place
    vc: InputVC
    flit: Flit


@dataclass(eq=False)
class VcRequest:
    """A head that requests an output VC; `usable` are its candidates with a free VC, in order."""

    number: int  # of its input VC among those of the router
    front: Front
    usable: list[Candidate]

    @property
    def packet(self) -> Packet:
        return self.front.flit.packet


@dataclass(eq=False)
class SwitchRequest:
    """The switch request of an eligible front flit: the output port, and the VC (-1 for a speculative bid)."""

    front: Front
    port: int
    vc: int
    rank: Rank

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
    record: bool = True  # whether the state of every VC in every cycle is kept
    visits: int = 0  # flits that have left it
    causes: set[tuple[int, str]] = field(default_factory=set)  # (link number, cause) of the present cycle
    turns: dict[tuple[int, range], Turn] = field(default_factory=dict)  # by link and range of VCs
    states: dict[Place, State] = field(default_factory=dict)  # in this tick, of VCs that moved or stalled

    def __post_init__(self) -> None:
        options = self.options
        self.first_input = offsets(self.inputs)  # numbers of the first VC of each port
        self.first_output = offsets(self.outputs)
        self.places = [((p, vc.number), vc) for p, link in enumerate(self.inputs) for vc in link.inputs]
        self.by_number = {link.number: link for link in self.outputs}
        self.parts = len(self.inputs) * options.input_speedup  # inputs of the switch
        self.input_pointers = [0] * self.parts
        self.output_pointers = [0] * len(self.outputs)
        self.va = self.matrix("va", options.va_allocator, options.va_iterations)
        self.sa = self.matrix("sa", options.sa_allocator, options.sa_iterations)
        self.held: dict[tuple[int, int], Place] = {}  # (input, output) of the switch: the VC that it stays with

    def matrix(self, stage: str, name: str, iterations: int) -> Matrix:
        """Make the allocator of a stage."""
        inputs, outputs = self.parts, len(self.outputs) * self.options.output_speedup
        if stage == "va":
            inputs, outputs = self.first_input[-1], self.first_output[-1]
        user = None
        if callable(allocators.get(name)) and (stage == "sa" or self.options.va > 0):
            seed = int(self.options.seed)
            user = UserAllocator(name, stage, self.number, inputs, outputs, iterations, seed)
        place = 2 * self.number + (stage == "va")
        return Matrix(name, inputs, outputs, iterations, user, seed=int(self.options.seed), place=place)

    def fronts(self) -> list[Front]:
        """Return the flits at the front of their VCs."""
        found = [(place, vc, vc.front) for place, vc in self.places if vc.fifo]
        return [Front(place, vc, flit) for place, vc, flit in found if flit is not None]

    def tick(self, t: int, u: int) -> bool:
        """Do step 4 in tick `u` of cycle `t`. Return whether anything was routed, granted or moved."""
        used = [(place, vc) for place, vc in self.places if vc.fifo]
        self.states.clear()
        fronts = self.fronts()
        changed = self.allocate(fronts, t, u) if fronts else False
        for place, vc in used:
            state = self.states.get(place, PIPELINE)
            vc.lacking = -1 if state.what != "credit" else t if vc.lacking < 0 else vc.lacking
            if self.record and cycle_of(u + 1, self.options) > t:
                vc.states[t] = state if vc.lacking < 0 else replace(state, since=vc.lacking)
        return changed

    def allocate(self, fronts: list[Front], t: int, u: int) -> bool:
        """Do RC for new heads, then VA and SA. Return whether anything was routed, granted or moved."""
        routed = False
        for front in fronts:
            if not front.vc.candidates:
                if front.vc.front_time != u or not front.flit.head:
                    raise AssertionError(f"router {self.number} missed the front time of {front}")
                front.vc.candidates = self.routing.candidates(
                    front.flit.packet, self.inputs[front.place[0]], front.place[1]
                )
                front.vc.rank = self.standing(front.flit.packet, u)
                front.flit.packet.note(t, "routed", front.vc.candidates[0].link.number, flit=0)
                routed = True
        requests = self.vc_requests(fronts, u) if self.options.va > 0 else []
        # All bids, speculative ones too, depend on the VCs before VA.
        bids = [bid for bid in (self.bid(front, t, u) for front in fronts) if bid is not None]
        if self.options.speculative:
            bids += [bid for bid in (self.speculate(head, t, u) for head in requests) if bid is not None]
        granted = self.allocate_vcs(requests, t, u)
        moved = self.allocate_switch(bids, t, u)
        return routed or granted or moved

    def count_stalls(self) -> None:
        """End a cycle: count each stall cause once per link."""
        for number, cause in self.causes:
            self.by_number[number].stalls[cause] += 1
        self.causes.clear()

    def stall(self, front: Front, link: Link, cause: str, vc: int = -1, culprit: Packet | None = None) -> None:
        """Record a stall. `vc`: for a lack of credits, the VC that the flit holds or could get."""
        self.causes.add((link.number, cause))
        self.states.setdefault(front.place, State(cause, link.number, vc, culprit, front.flit.packet))

    # VA

    def vc_requests(self, fronts: list[Front], u: int) -> list[VcRequest]:
        """Return the heads that request an output VC in this tick."""
        requests = []
        for front in fronts:
            due = front.vc.front_time + self.options.rc + self.options.va - 1
            if not front.flit.head or front.vc.granted >= 0 or u < due:
                continue
            older = self.older(front, front.vc.candidates[0].link, heads=True) if self.options.ordered else None
            if older is not None:
                self.stall(front, front.vc.candidates[0].link, "arbitration", culprit=older)
                continue
            front.vc.candidates = self.routing.anew(front.vc.candidates, front.flit.packet, self.number)
            usable = [candidate for candidate in front.vc.candidates if candidate.free(u)]
            requests.append(VcRequest(self.first_input[front.place[0]] + front.place[1], front, usable))
        return requests

    def allocate_vcs(self, requests: list[VcRequest], t: int, u: int) -> bool:
        """Do VA. All requests are collected before any grant, so they see the VCs at the beginning of the step."""
        for head in requests:
            if not head.usable:
                for candidate in head.front.vc.candidates:
                    link, unheld = candidate.link, candidate.unheld(u)
                    if unheld:
                        self.stall(head.front, link, "credit", unheld[0])
                    else:
                        self.stall(head.front, link, "vc", culprit=link.outputs[candidate.vcs.start].holder)
        requests = [head for head in requests if head.usable]
        chosen = [self.choice(head) for head in requests]
        if self.options.va_allocator == "rotating":
            grants = self.rotate_vcs(requests, chosen, u)
        else:
            grants = self.match_vcs(requests, u)
        winners = {(granted.link.number, vc): number for number, (granted, vc) in grants.items()}
        packets = {head.number: head.packet for head in requests}
        # The requested VCs by output port, before any is granted.
        wanted = {
            head.number: sorted((c.link.number, v) for c in self.requested(head, candidate) for v in c.free(u))
            for head, candidate in zip(requests, chosen, strict=True)
        }
        for head, candidate in zip(requests, chosen, strict=True):
            if head.number not in grants:
                won = [packets[winners[vc]] for vc in wanted[head.number] if vc in winners]
                self.stall(head.front, candidate.link, "arbitration", culprit=won[0] if won else None)
                continue
            candidate, vc = grants[head.number]
            head.front.vc.grant(candidate.link, vc)
            head.packet.note(t, "granted", candidate.link.number, vc, 0)
            candidate.link.outputs[vc].hold(head.packet)
            head.packet.vc_class = candidate.vc_class
            if candidate.escape:
                self.routing.stick(head.packet)
        return bool(grants)

    def requested(self, request: VcRequest, chosen: Candidate) -> list[Candidate]:
        """Return the candidates whose VCs a head requests: with a matrix allocator, all of them."""
        return [chosen] if self.options.va_allocator == "rotating" else request.usable

    def choice(self, request: VcRequest) -> Candidate:
        """Return the candidate whose range a head requests ("rotating"), or the first with a free VC (matrix)."""
        usable = request.usable
        if self.options.va_allocator != "rotating":
            return usable[0]
        everything = request.front.vc.candidates
        own = [c for c in everything if not c.escape]
        if any(not c.escape for c in usable):
            return least(own, request.packet.draw(self.number, TIE) % len(own), usable)
        return least([c for c in everything if c.escape], 0, usable)

    def rotate_vcs(self, waiting: list[VcRequest], chosen: list[Candidate], u: int) -> dict[int, tuple[Candidate, int]]:
        """Allocate with "rotating": the free VCs of a range in turn. Return grants by number of the input VC."""
        requests: dict[tuple[int, range], dict[int, Candidate]] = {}  # by link and range of VCs, by number
        for head, candidate in zip(waiting, chosen, strict=True):
            requests.setdefault((candidate.link.number, candidate.vcs), {})[head.number] = candidate
        ranks = {head.number: self.va_rank(head) for head in waiting}
        grants = {}
        for (link, vcs), heads in requests.items():
            turn = self.turns.setdefault((link, vcs), Turn(vcs.start))
            winner = best({number: ranks[number] for number in heads}, turn.requester)
            pick = rotate(heads[winner].free(u), turn.vc)
            turn.vc, turn.requester = pick + 1, winner + 1
            grants[winner] = (heads[winner], pick)
        return grants

    def va_rank(self, request: VcRequest) -> Rank:
        return self.rank(request.front, self.options.va_allocator)

    def rank(self, front: Front, allocator: str) -> Rank:
        message = front.flit.packet.message
        top = max(self.options.class_priority)
        by = MOST_RANK - len(front.vc.fifo) if self.options.rank_by == BY_QUEUE else front.vc.rank
        age = message.at if allocators.traits(allocator).by_age else 0
        return (top - message.kind.priority, (by << RANK_SHIFT) + age)

    def standing(self, packet: Packet, u: int) -> int:
        """Return what ranks a packet that comes to the front in tick `u`, below its class; less is better."""
        values = {
            BY_AGE: packet.message.at,
            BY_NETWORK_AGE: packet.first_launch,
            BY_LOCAL_AGE: u,
            BY_HOPS: MOST_RANK - packet.hops,
        }
        return values.get(self.options.rank_by, 0)

    def match_vcs(self, waiting: list[VcRequest], u: int) -> dict[int, tuple[Candidate, int]]:
        """Allocate with a matrix of input VCs and output VCs."""
        requests: dict[tuple[int, int], Rank] = {}
        meaning: dict[tuple[int, int], tuple[Candidate, int]] = {}
        for head in waiting:
            equal = self.routing.equal(head.packet)
            for candidate in head.usable:
                first = self.first_output[self.outputs.index(candidate.link)]
                for v in candidate.free(u):
                    # A VC counts for the first candidate that contains it; escape candidates are last.
                    if (head.number, first + v) not in requests:
                        requests[head.number, first + v] = (int(candidate.escape and not equal), *self.va_rank(head))
                        meaning[head.number, first + v] = candidate, v
        pairs = self.va.match(requests)
        for pair in pairs:
            self.va.settle(pair)
        return {pair[0]: meaning[pair] for pair in pairs}

    # SA

    def bid(self, front: Front, t: int, u: int) -> SwitchRequest | None:
        """Return the switch request of a front flit; None if it cannot request, and count its stall."""
        vc, flit, va = front.vc, front.flit, self.options.va
        if flit.head and vc.granted < 0:
            if va > 0 or u < vc.front_time + self.options.rc:
                return None  # VA counts its stall, or it is too early
            link, vcs = vc.candidates[0].link, vc.candidates[0].vcs
            usable = [link.outputs[v] for v in vcs if link.outputs[v].free(u)]
        else:
            if vc.output is None:
                raise AssertionError(f"a flit without a VC in router {self.number}")
            link = vc.output
            vcs = range(vc.granted, vc.granted + 1)
            usable = [link.outputs[vc.granted]]
        older = self.older(front, link) if self.options.ordered else None
        if older is not None:
            self.stall(front, link, "arbitration", culprit=older)
            return None
        if not usable:
            self.stall(front, link, "vc", culprit=link.outputs[vcs.start].holder)
            return None
        ready = [out for out in usable if out.has(flit.price(self.options.flow))]
        if not ready:
            self.stall(front, link, "credit", vcs.start)
            return None
        if not link.accepts(t, u):
            self.stall(front, link, "serial")
            return None
        return SwitchRequest(front, self.outputs.index(link), ready[0].number, self.sa_rank(front, False))

    def sa_rank(self, front: Front, speculative: bool) -> Rank:
        return (int(speculative), *self.rank(front, self.options.sa_allocator))

    def speculate(self, request: VcRequest, t: int, u: int) -> SwitchRequest | None:
        """Return the speculative switch request of a head that requests a VC in this tick; it counts no stall."""
        flit = request.front.flit
        price = flit.price(self.options.flow)
        rotating = self.options.va_allocator == "rotating" and request.usable
        wanted = [self.choice(request)] if rotating else request.usable
        payable = [c for c in wanted if any(c.link.outputs[v].has(price) for v in c.free(u))]
        if not payable:
            return None
        link = payable[0].link
        if not link.accepts(t, u):
            return None
        return SwitchRequest(request.front, self.outputs.index(link), -1, self.sa_rank(request.front, True))

    def older(self, front: Front, link: Link, heads: bool = False) -> Packet | None:
        """Return the oldest packet at the same input port with the same output, if it is another one.

        `heads`: consider only heads without a VC.
        """
        rivals = {
            (other.vc.front_time, other.vc.number): other.flit.packet
            for other in self.fronts()
            if other.place[0] == front.place[0]
            and (other.vc.output or other.vc.candidates[0].link) is link
            and not (heads and (not other.flit.head or other.vc.granted >= 0))
        }
        first = rivals[min(rivals)]
        return None if first is front.flit.packet else first

    def allocate_switch(self, bids: list[SwitchRequest], t: int, u: int) -> bool:
        """Do SA. Return whether a flit won."""
        held = dict(self.held)
        blocked = {i for i, _ in held} | {-1 - o for _, o in held}
        stays = [bid for bid in bids if bid.front.place in held.values()]
        free = [bid for bid in bids if self.part(bid.front) not in blocked and -1 - self.exit(bid) not in blocked]
        separable = self.options.sa_allocator == "separable-input-first" and self.options.output_speedup == 1
        picked = self.input_first(free) if separable else self.match(free)
        picked.sort(key=lambda bid: self.part(bid.front))
        won = [bid for bid in picked if self.counts(bid)] + stays
        for bid in picked:
            if bid not in won:
                bid.front.flit.packet.note(t, "wasted", self.outputs[bid.port].number, flit=0)
        self.held = {pair: place for pair, place in held.items() if any(b.front.place == place for b in stays)}
        by_output = {bid.port: bid.front.flit.packet for bid in won}
        by_input = {self.part(bid.front): bid.front.flit.packet for bid in won}
        for bid in bids:
            if bid not in won and not bid.speculative:
                winner = by_output.get(bid.port, by_input.get(self.part(bid.front)))
                self.stall(bid.front, self.outputs[bid.port], "arbitration", culprit=winner)
        for bid in won:
            self.states[bid.front.place] = MOVING
            vc, tail, pair = bid.front.vc, bid.front.flit.tail, (self.part(bid.front), self.exit(bid))
            self.traverse(bid, t, u)
            self.held.pop(pair, None)
            if self.options.hold_switch and vc.fifo and not tail:
                self.held[pair] = bid.front.place
        return bool(won)

    def exit(self, bid: SwitchRequest) -> int:
        """Return the output of the switch that a request is for."""
        p = self.options.output_speedup
        return bid.port * p + bid.front.place[0] % p

    def part(self, front: Front) -> int:
        """Return the switch input that serves a VC."""
        port, vc = front.place
        p = self.options.input_speedup
        return port * p + vc % p

    def counts(self, bid: SwitchRequest) -> bool:
        """Return whether a winning bid can use the switch: a speculative one needs a VC of the link with credits."""
        if not bid.speculative:
            return True
        vc, link = bid.front.vc, self.outputs[bid.port]
        return vc.output is link and link.outputs[vc.granted].has(bid.front.flit.price(self.options.flow))

    def input_first(self, bids: list[SwitchRequest]) -> list[SwitchRequest]:
        """Allocate separably: each input selects a VC, then each output an input. Return the winning bids."""
        step = self.options.step_arbiter
        picks: dict[int, SwitchRequest] = {}
        for i in range(self.parts):
            mine = {bid.front.vc.number: bid for bid in bids if self.part(bid.front) == i}
            if mine:
                vc = best({v: bid.rank for v, bid in mine.items()}, self.input_pointers[i])
                picks[i] = mine[vc]
                if step:
                    self.input_pointers[i] = (self.input_pointers[i] + 1) % len(self.inputs[i].inputs)
        won = []
        for output in range(len(self.outputs)):
            ranks = {i: bid.rank for i, bid in picks.items() if bid.port == output}
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
            rivals.setdefault((self.part(bid.front), self.exit(bid)), {})[bid.front.vc.number] = bid
        standing = {
            pair: some[best({v: bid.rank for v, bid in some.items()}, self.input_pointers[pair[0]])]
            for pair, some in rivals.items()
        }
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
        source, target, vc = self.inputs[port], self.outputs[bid.port], bid.front.vc
        if vc.granted < 0:  # va = 0: the VC is taken together with the switch
            vc.grant(target, bid.vc)
            target.outputs[bid.vc].hold(bid.front.flit.packet)
        granted = vc.granted
        flit = vc.take(u)
        self.visits += 1
        flit.packet.note(t, "switched", target.number, granted, flit.index)
        source.return_credit(number, t)
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


def offsets(links: Sequence[Link]) -> list[int]:
    """Return the number of the first VC of each port, and the total number of VCs."""
    numbers = [0]
    for link in links:
        numbers.append(numbers[-1] + len(link.inputs))
    return numbers
