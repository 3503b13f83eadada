"""The files of BookSim2's anynet: a line per router or node with its links and their latencies in cycles.

    router 0 node 0 node 1 router 1 10 router 2

A link to a router has the latency behind it (1 without) in this direction, and 1 in the other unless given there. The
network becomes a GraphML file, which the topology `graph` reads.
"""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from pyxsim.errors import InputError

KINDS = ("router", "node")
MOST = 2**20


@dataclass
class AnyNet:
    """Routers with their nodes, and directed links (from, to) with their latencies."""

    routers: set[int] = field(default_factory=set)
    home: dict[int, int] = field(default_factory=dict)
    links: dict[tuple[int, int], int] = field(default_factory=dict)
    node_latency: dict[int, int] = field(default_factory=dict)

    def join(self, head: tuple[str, int], other: tuple[str, int], latency: int | None) -> None:
        """Add a link between two ends. Raises InputError."""
        if head[0] == other[0] == "node":
            raise InputError(f"nodes {head[1]} and {other[1]} cannot be joined", allowed="a node has one router")
        if head[0] == other[0]:
            a, b = head[1], other[1]
            self.routers |= {a, b}
            self.links[a, b] = latency or 1
            self.links.setdefault((b, a), 1)
            return
        router, node = (head[1], other[1]) if head[0] == "router" else (other[1], head[1])
        if self.home.setdefault(node, router) != router:
            raise InputError(f"node {node} has two routers, {self.home[node]} and {router}", allowed="one")
        self.routers.add(router)
        self.node_latency[node] = latency or 1


def parse(text: str, file: str) -> AnyNet:
    """Parse a file. Raises InputError with the line."""
    net = AnyNet()
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words:
            continue
        try:
            _line(net, words)
        except InputError as error:
            raise error.at(file=f"{file}:{number}") from None
    if not net.home:
        raise InputError("has no nodes", file=file)
    for kind, numbers in (("node", set(net.home)), ("router", net.routers)):
        if numbers != set(range(len(numbers))):
            raise InputError(f"{kind}s are not numbered from 0 to {len(numbers) - 1}", file=file)
    return net


def _line(net: AnyNet, words: list[str]) -> None:
    head, at = _end(words, 0)
    while at < len(words):
        other, at = _end(words, at)
        latency = None
        if at < len(words) and words[at] not in KINDS:
            latency = _number(words[at])
            at += 1
        net.join(head, other, latency)


def _end(words: list[str], at: int) -> tuple[tuple[str, int], int]:
    if words[at] not in KINDS or at + 1 == len(words):
        allowed = "'router N' or 'node N', then what it is joined to"
        raise InputError(f"'{' '.join(words[at : at + 2])}' is not an end of a link", allowed=allowed)
    return (words[at], _number(words[at + 1])), at + 2


def _number(word: str) -> int:
    if not word.isascii() or not word.isdigit() or not int(word[:9]) <= MOST:
        raise InputError(f"'{word}' is not a number", allowed=f"a whole number up to {MOST}")
    return int(word)


def next_hops(net: AnyNet, start: int) -> list[int]:
    """Return the router behind the first link toward each router, by the least latency from `start` (Dijkstra).

    Of equal paths it is the one found first: nearer routers first, of equally near ones the lower number.
    """
    away, first = {start: 0}, {start: start}
    neighbors: dict[int, list[int]] = {}
    for a, b in sorted(net.links):
        neighbors.setdefault(a, []).append(b)
    left = set(net.routers)
    while near := {router for router in left if router in away}:
        router = min(near, key=lambda each: (away[each], each))
        left.remove(router)
        for other in neighbors.get(router, ()):
            distance = away[router] + net.links[router, other]
            if other not in away or distance < away[other]:
                away[other], first[other] = distance, other if router == start else first[router]
    return [first.get(router, start) for router in sorted(net.routers)]


def write_graphml(net: AnyNet) -> Path:
    """Write the network as a GraphML file into the temporary folder, named by its hash; return the path."""
    import networkx as nx

    graph = nx.MultiDiGraph()
    for router in sorted(net.routers):
        mine = sorted(node for node, home in net.home.items() if home == router)
        hops = " ".join(map(str, next_hops(net, router)))
        graph.add_node(router, npus=len(mine), npu_ids=" ".join(map(str, mine)), next_hops=hops)
    for (a, b), latency in sorted(net.links.items()):
        graph.add_edge(a, b, length=latency)
    text = "\n".join(nx.generate_graphml(graph))
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"pyxsim-anynet-{name}.graphml"
    path.write_text(text, encoding="utf-8")
    return path
