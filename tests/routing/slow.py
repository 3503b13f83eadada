"""The deadlock proof once more, slowly: every packet followed through every state that docs/router.md lets it have.

Nothing here is taken from pyxsim.routing but the arrays of a relation and its constants.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import networkx as nx

from pyxsim.routing import ALWAYS, EACH, FIRST_SET, NONE, SKIP, Relation, Way

assert (ALWAYS, NONE) == (-1, -1)

Channel = tuple[int, int]  # link, VC class
Row = tuple[int, int, int]  # source, destination, plane


class NoRoute(Exception):
    """Some packet has nowhere to go, or may go round forever."""


@dataclass(frozen=True)
class State:
    """A packet that came to a router. `via`: -1 behind it, or without one."""

    router: int
    came: Channel | None
    plane: int
    via: int
    dst: int
    last: int  # the plane behind the via


class Slow:
    """All that packets of some rows (source, destination, plane) can do. Raises NoRoute."""

    def __init__(self, relation: Relation, rows: Iterable[Row], *, whole: bool) -> None:
        self.relation, self.whole = relation, whole
        self.packets: list[nx.DiGraph] = []
        for row in rows:
            for begin in self.begins(*row):
                self.packets.append(self._follow(begin))
        self.waited = {c for packet in self.packets for _, d in packet.nodes(data=True) for c in d["waits"]}

    def graph(self) -> nx.DiGraph:
        """Which channel depends on which other one."""
        found = nx.DiGraph()
        for packet in self.packets:
            for _, after in packet.edges:
                if after.came not in self.waited:
                    continue
                seen, front = {after}, [after]
                while front:
                    state = front.pop()
                    found.add_edges_from((after.came, c) for c in packet.nodes[state]["waits"])
                    for ahead in packet.successors(state):
                        if ahead.came in self.waited:
                            found.add_edge(after.came, ahead.came)
                        elif ahead not in seen:
                            seen.add(ahead)
                            front.append(ahead)
        return found

    def begins(self, src: int, dst: int, plane: int, ways: Sequence[Way] | None = None) -> Iterator[State]:
        """Every state in which a packet of a row may begin, one for each via."""
        home = int(self.relation.home[src])
        if plane >= 0:
            yield State(home, None, plane, -1, dst, plane)
            return
        for way in self.relation.ways if ways is None else ways:
            for via in self._vias(way, src, dst):
                if via < 0 or self.relation.home[via] == home:
                    yield State(home, None, way.last, -1, dst, way.last)
                else:
                    yield State(home, None, way.first, via, dst, way.last)

    def _vias(self, way: Way, src: int, dst: int) -> list[int]:
        if way.via == "none":
            return [-1]
        if way.via == "any":
            return list(range(self.relation.npus))
        choices = []
        for dim in range(self.relation.digits.shape[1]):
            a, b = int(self.relation.digits[src, dim]), int(self.relation.digits[dst, dim])
            n = int(self.relation.wrap[dim])
            step = 1 if b > a else -1
            count = abs(b - a)
            if n:
                up, down = (b - a) % n, (a - b) % n
                step, count = (1, up) if up <= down else (-1, down)
            choices.append([(a + step * i) % n if n else a + step * i for i in range(count + 1)])
        stride = self.relation.stride.tolist()
        return sorted(
            {sum(x * s for x, s in zip(digits, stride, strict=True)) for digits in itertools.product(*choices)}
        )

    def _follow(self, begin: State) -> nx.DiGraph:
        packet = nx.DiGraph()
        front = [begin]
        while front:
            state = front.pop()
            if state in packet and "waits" in packet.nodes[state]:
                continue
            packet.add_node(state, waits=self._choices(state)[0])
            for _, after in self.step(state):
                packet.add_edge(state, after)
                front.append(after)
        if not nx.is_directed_acyclic_graph(packet):
            raise NoRoute("it may go round in a circle")
        return packet

    def step(self, state: State) -> list[tuple[Channel, State]]:
        """Every candidate, and where it leads."""
        turns = state.via >= 0 and state.router == self.relation.home[state.via]
        via = -1 if turns else state.via
        return [
            (channel, State(int(self.relation.link_dst[channel[0]]), channel, plane, via, state.dst, state.last))
            for channel, plane in self._choices(state)[1]
        ]

    def _choices(self, state: State) -> tuple[list[Channel], list[tuple[Channel, int]]]:
        """What the packet waits for, and (channel, plane from then on) of what it may be given."""
        relation = self.relation
        came, via, plane = state.came, state.via, state.plane
        if via >= 0 and state.router == relation.home[via]:
            came, via, plane = None, -1, state.last
        if via < 0 and state.router == relation.home[state.dst]:
            return [], []
        target = via if via >= 0 else state.dst
        own = self._candidates(state.router, came, plane, target)
        escape = int(relation.plane_escape[plane])
        if relation.plane_select[plane] != EACH or escape < 0:
            if not own:
                raise NoRoute("no route")
            return own, [(channel, plane) for channel in own]
        # The keep rule is for those who are on a plane, not for those who may enter it.
        escapes = self._candidates(state.router, None, escape, target)
        if not escapes:
            raise NoRoute("there is no escape")
        left = escape if relation.plane_sticky[plane] else plane
        moves = [(channel, plane) for channel in own]
        moves += [(channel, left) for channel in escapes if channel not in own]
        return (escapes if self.whole else own + escapes), moves

    def _candidates(self, router: int, came: Channel | None, plane: int, target: int) -> list[Channel]:
        relation = self.relation
        row = plane * relation.routers + router
        found: list[Channel] = []
        differs = False
        for dim, digit in enumerate(relation.digits[target].tolist()):
            mine = int(relation.own[row, dim])
            if mine in (SKIP, digit):
                continue
            differs = True
            entry = int(relation.offset[row, dim]) + digit
            link = int(relation.link[entry])
            if link >= 0:
                found.append((link, int(relation.vc_class[entry])))
            elif link <= FIRST_SET:
                members = range(*relation.set_start[FIRST_SET - link : FIRST_SET - link + 2].tolist())
                found += [(int(relation.set_link[m]), int(relation.set_class[m])) for m in members]
            if not relation.plane_any[plane]:
                break
        if not differs:
            raise NoRoute("the route ends at another NPU")
        return [self._kept(came, link, vc_class) for link, vc_class in found]

    def _kept(self, came: Channel | None, link: int, vc_class: int) -> Channel:
        group = self.relation.link_group
        stays = came is not None and group[link] >= 0 and group[came[0]] == group[link]
        return (link, came[1]) if stays and came is not None else (link, vc_class)


def everything(relation: Relation) -> list[Row]:
    npus, planes = range(relation.npus), range(-1, relation.planes)
    return list(itertools.product(npus, npus, planes))


def verdict(relation: Relation, rows: Iterable[Row], *, whole: bool) -> str:
    """ "proved", "deadlock" or "unreachable"."""
    try:
        graph = Slow(relation, rows, whole=whole).graph()
    except NoRoute:
        return "unreachable"
    return "proved" if nx.is_directed_acyclic_graph(graph) else "deadlock"
