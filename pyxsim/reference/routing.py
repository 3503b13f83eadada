"""Route computation: route options, tables, groups and selection (docs/router.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyxsim.core import engine_options as codes
from pyxsim.core.engine_options import RouterOptions, Routes
from pyxsim.reference.components import Candidate, Link, Packet
from pyxsim.reference.draws import OTHER, SELECT, VIA, WAY

ALWAYS = -1  # own digit of a router that always decides
MOST_DRAWS = 4096  # of a via
SKIP = -2  # own digit of a router that never decides
RANDOM_WAY, LEAST_IN_ORDER = 0, 1  # values of `choose`: "random", "least"; 2 is "least-drawn"

Entry = tuple[Link, int]  # a link and a VC class


@dataclass
class Routing:
    """The routing relation of a network, evaluated hop by hop."""

    routers: int
    routes: Routes
    links: Sequence[Link]
    lanes: Sequence[Link]  # the ejection lanes
    options: RouterOptions
    owed: dict[int, list[int]] = field(default_factory=dict)  # by weighted set: what each member is owed

    def __post_init__(self) -> None:
        self.homes = [int(home) for home in self.routes.home]
        self.credit = bool(self.options.va_credit)  # whether heads request only VCs with a credit

    @property
    def by_credits(self) -> bool:
        """Whether routes depend on credits: then heads are routed in step 4, else as they come to the front."""
        adaptive = any(select in (codes.LEAST, codes.TWO, codes.WEIGHTED) for select in self.routes.plane_select)
        return adaptive or (len(self.routes.way_last) > 0 and self.routes.choose != RANDOM_WAY)

    def candidates(self, packet: Packet, incoming: Link, vc: int) -> list[Candidate]:
        """Return the candidates of a packet at the front of an input VC: one, or all with `select = each`."""
        router, message = incoming.dst, packet.message
        turned = False  # whether it has reached its via here
        if packet.plane < 0:
            self.choose_way(packet, router)
        lane = self.lanes[message.eject]
        if packet.via is not None and (self.homes[packet.via] == router or (self.routes.early and lane.src == router)):
            packet.via, packet.plane, turned = None, packet.last, True
        if packet.via is None and lane.src == router:
            return [Candidate(lane, lane.ranges[message.kind.vnet][0], credit=self.credit)]
        incoming.inputs[vc].turned = turned
        candidates = self.by_tables(packet, incoming, vc)
        if not candidates:
            raise AssertionError(f"router {router} has no route to node {packet.target}")
        return candidates

    def by_tables(self, packet: Packet, incoming: Link, vc: int) -> list[Candidate]:
        """Return the candidates of a packet that is not at the router of its destination."""
        turned, router = incoming.inputs[vc].turned, incoming.dst
        entries = self.entries(packet.plane, router, packet.target)
        own = [self.candidate(entry, packet, incoming, vc, turned) for entry in entries]
        candidates = self.select(own, packet, router, packet.plane)
        if self.routes.plane_select[packet.plane] == codes.EACH:
            candidates += self.escape(packet, router)
        return candidates

    def entries(self, plane: int, router: int, npu: int) -> list[Entry]:
        """Return the entries of the tables of a plane."""
        routes, row = self.routes, plane * self.routers + router
        candidates: list[Entry] = []
        for own, offset, digit in zip(routes.own[row], routes.offset[row], routes.digits[npu], strict=True):
            if own == SKIP or (own != ALWAYS and own == digit):
                continue
            candidates += self.members(int(offset) + int(digit))
            if not routes.plane_any[plane]:
                break
        for link, _ in candidates:
            if link.src != router:
                raise AssertionError(f"the table of router {router} contains link {link.number} of another router")
        return candidates

    def members(self, entry: int) -> list[Entry]:
        """Return the candidates of an entry of the digit tables: none, one, or a set."""
        routes, link = self.routes, int(self.routes.link[entry])
        if link == -1:
            return []
        if link >= 0:
            return [(self.links[link], int(routes.vc_class[entry]))]
        first, last = routes.set_start[-2 - link], routes.set_start[-1 - link]
        return [(self.links[int(routes.set_link[k])], int(routes.set_class[k])) for k in range(first, last)]

    def candidate(self, entry: Entry, packet: Packet, incoming: Link, vc: int, turned: bool) -> Candidate:
        link, vc_class = entry
        vnet = packet.message.kind.vnet
        stays = link.group >= 0 and link.group == incoming.group and not turned
        if stays:
            vc_class = (
                packet.vc_class
                if self.options.shared_classes
                else next(c for c, vcs in enumerate(incoming.ranges[vnet]) if vc in vcs)
            )
        room, kept = self.room(packet, link), None
        if self.routes.bubble and link.group >= 0:
            room, kept = (0, vc) if stays else (packet.size + 1, None)
        several = self.routes.plane_select[packet.plane] == codes.EACH
        vcs = link.ranges[vnet][vc_class]
        return Candidate(link, vcs, vc_class, room=room, credit=self.credit, kept=kept, choice=several)

    def room(self, packet: Packet, link: Link) -> int:
        """Return the free slots that a VC needs for a packet with several candidates: a packet, if buffered whole."""
        if self.options.flow == codes.WORMHOLE or self.routes.plane_select[packet.plane] != codes.EACH:
            return 0
        return min(packet.size, link.outputs[0].depth)

    def anew(self, before: Sequence[Candidate], packet: Packet, router: int) -> list[Candidate]:
        """Return the candidates of another try of VA; the candidate of the escape plane may differ."""
        return [c for c in before if not c.escape] + (self.escape(packet, router) if before[-1].escape else [])

    def escape(self, packet: Packet, router: int) -> list[Candidate]:
        """Return the candidates of the escape plane of a plane with `each`, in the classes of its tables."""
        plane = int(self.routes.plane_escape[packet.plane])
        if plane < 0:
            return []
        vnet, entries = packet.message.kind.vnet, self.entries(plane, router, packet.target)
        escapes = [
            Candidate(
                link, link.ranges[vnet][vc_class], vc_class, True, self.room(packet, link), self.credit, choice=True
            )
            for link, vc_class in entries
        ]
        return self.select(escapes, packet, router, plane)

    def select(self, candidates: list[Candidate], packet: Packet, router: int, plane: int) -> list[Candidate]:
        """Return the selected candidate; with `select = each`, all."""
        n, select = len(candidates), self.routes.plane_select[plane]
        if n <= 1 or select == codes.EACH:
            return candidates
        if select == codes.WEIGHTED:
            return [candidates[self.select_by_weight(candidates, plane, router, packet.target)]]
        a = packet.draw(router, SELECT) % n
        if select == codes.RANDOM:
            return [candidates[a]]
        if select == codes.LEAST:
            return [least(candidates, a)]
        b = (a + 1 + packet.draw(router, OTHER) % (n - 1)) % n
        return [candidates[b] if candidates[b].link.in_use < candidates[a].link.in_use else candidates[a]]

    def select_by_weight(self, candidates: list[Candidate], plane: int, router: int, npu: int) -> int:
        """Return the number of the candidate whose turn it is: smooth weighted round robin over links that are up."""
        row = plane * self.routers + router
        number = -2 - int(self.routes.link[int(self.routes.offset[row, 0]) + int(self.routes.digits[npu, 0])])
        first = int(self.routes.set_start[number])
        owed = self.owed.setdefault(number, [0] * len(candidates))
        turns = [k for k, candidate in enumerate(candidates) if not candidate.link.down] or range(len(candidates))
        weights = {k: int(self.routes.set_weight[first + k]) for k in turns}
        for k, weight in weights.items():
            owed[k] += weight
        chosen = max(turns, key=lambda k: owed[k])  # of equals the first
        owed[chosen] -= sum(weights.values())
        return chosen

    def replace(self, routes: Routes) -> None:
        """Follow other routes. Weighted sets begin anew."""
        if routes is not self.routes:
            self.routes, self.owed = routes, {}

    # Ways

    def choose_way(self, packet: Packet, router: int) -> None:
        """Choose the route option of a packet at its first router."""
        routes = self.routes
        vias = [self.via(way, packet, router) for way in range(len(routes.way_last))]
        way = packet.draw(0, WAY) % len(vias) if routes.choose != LEAST_IN_ORDER else 0
        if routes.choose != RANDOM_WAY:
            costs = [self.cost(option, via, packet, router) for option, via in enumerate(vias)]
            way = min(((way + turn) % len(vias) for turn in range(len(vias))), key=lambda option: costs[option])
        packet.via, packet.last = vias[way], int(routes.way_last[way])
        packet.plane = packet.last if packet.via is None else int(routes.way_first[way])

    def via(self, way: int, packet: Packet, router: int) -> int | None:
        """Return the via of a packet with this route option, or None."""
        kind = self.routes.way_via[way]
        if kind == codes.VIA_NONE:
            return None
        if kind == codes.VIA_ANY:
            npu = packet.draw(0, VIA) % len(self.homes)
        else:
            npu = self.aligned(packet, router) if kind == codes.VIA_ALIGNED else self.in_the_box(packet, router)
        return None if self.homes[npu] == router else npu

    def aligned(self, packet: Packet, router: int) -> int:
        """Draw NPUs until one has the digits in which source and destination agree."""
        digits = self.routes.digits
        own, goal = digits[self.homes.index(router)], digits[packet.message.dst]
        agree = [dim for dim in range(len(own)) if own[dim] == goal[dim]]
        for turn in range(MOST_DRAWS):
            npu = packet.draw(turn, VIA) % len(self.homes)
            if all(digits[npu][dim] == own[dim] for dim in agree):
                return npu
        return packet.message.dst

    def in_the_box(self, packet: Packet, router: int) -> int:
        routes = self.routes
        source, npu = self.homes.index(router), 0
        pairs = zip(routes.digits[source], routes.digits[packet.message.dst], strict=True)
        for i, (here, there) in enumerate(pairs):
            n, step = int(routes.wrap[i]), int(there) - int(here)
            if n > 0:  # a ring: the shorter direction, upward if equal
                step = step % n - (n if step % n > -step % n else 0)
            drawn = packet.draw(i, VIA) % (abs(step) + 1)
            digit = int(here) + (drawn if step > 0 else -drawn)
            npu += (digit % n if n > 0 else digit) * int(routes.stride[i])
        return npu

    def cost(self, way: int, via: int | None, packet: Packet, router: int) -> int:
        routes, message = self.routes, packet.message
        path: list[Link] = []
        if via is not None:
            path = self.path(int(routes.way_first[way]), router, self.homes[via], via)
            router = self.homes[via]
        path += self.path(int(routes.way_last[way]), router, self.lanes[message.eject].src, message.dst)
        return (path[0].in_use * len(path) if path else 0) + int(routes.way_bias[way])

    def path(self, plane: int, router: int, end: int, npu: int) -> list[Link]:
        """Return the links from one router to another, by the first digit and number 0 of every set."""
        path: list[Link] = []
        while router != end:
            path.append(self.entries(plane, router, npu)[0][0])
            router = path[-1].dst
            if router < 0:  # a sink, where no other way is left
                break
            if len(path) > len(self.links):
                raise AssertionError(f"plane {plane} contains a cycle")
        return path


def least(candidates: list[Candidate], start: int, usable: Sequence[Candidate] | None = None) -> Candidate:
    """Return the candidate with the fewest flits in use, of equals the first from number `start` on.

    With `usable`, only those count.
    """
    order = [candidates[(start + k) % len(candidates)] for k in range(len(candidates))]
    return min((c for c in order if usable is None or c in usable), key=lambda c: c.link.in_use)
