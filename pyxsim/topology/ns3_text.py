"""The topology text of ns-3's HPCC model, which ASTRA-sim's ns-3 front end and SimAI use, as a graph.

The first line has the numbers of nodes, switches and links; then come the numbers of the switches, and for each link
`node node rate delay error_rate`. SimAI's first line has nodes, GPUs of a server, NVSwitches, switches, links and the
type of the GPUs; PowerTCP's has nodes, switches, the switches with hosts, which have no effect, and links.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pyxsim.errors import InputError, raise_all
from pyxsim.textfile import read_text
from pyxsim.units import parse_bandwidth, parse_time

_MOST_NODES = 2**22
NOTES = "notes"  # attribute of a graph: warnings of its reader
ROUTING = "routing"  # attribute of a graph: its default routing
FASTEST = "fastest"
SPARE = "spare hosts"  # attribute of a graph: with `dims`, only its first hosts have NPUs


class Ns3Link(NamedTuple):
    """A line of a link: its ends, rate and delay as written, and the share of packets that it loses."""

    a: int
    b: int
    rate: str
    delay: str
    error: float
    place: str


class Ns3Topology(NamedTuple):
    """The content of a topology text; the links in file order, which numbers the ports of a node from 1."""

    nodes: int
    switches: frozenset[int]
    links: list[Ns3Link]
    nvswitches: frozenset[int] = frozenset()  # of SimAI's form: those of the switches that are within a server
    unread: str = ""  # what ns-3 does not read, if there is more

    @property
    def hosts(self) -> list[int]:
        """The nodes that are not switches, in ascending order: the NPUs."""
        return [node for node in range(self.nodes) if node not in self.switches]

    @property
    def has_forwarding_hosts(self) -> bool:
        """Whether some host has several links, so that others could reach each other through it."""
        links = Counter(node for ends, _ in self.routed() for node in ends)
        return any(links[host] > 1 for host in self.hosts)

    def routed(self) -> list[tuple[tuple[int, int], Ns3Link]]:
        """The links that ns-3 routes over, by their ends in descending order: of parallel links only the last one."""
        last = {(max(link.a, link.b), min(link.a, link.b)): link for link in self.links}
        return sorted(last.items(), reverse=True)


def is_ns3_text(text: str) -> bool:
    """Return whether the first line of a text is that of ns-3's topologies."""
    words = _first_line(text)
    return (len(words) in (3, 4) and all(map(str.isdecimal, words))) or (
        len(words) == 6 and all(map(str.isdecimal, words[:5])) and not words[5].isdecimal()
    )


def _first_line(text: str) -> list[str]:
    return text.lstrip().partition("\n")[0].split()


def read_ns3(path: Path) -> Ns3Topology:
    """Read a topology text. Raises InputError with all faults of its links."""
    text = read_text(path, "a topology of ns-3")
    if not is_ns3_text(text):
        allowed = "the numbers of nodes, switches and links in the first line"
        raise InputError("is not a topology of ns-3", file=f"{path}:1", allowed=allowed)
    words = _words(path, text)
    head = [next(words)[0] for _ in _first_line(text)]
    within = int(head[2]) if len(head) == 6 else 0
    nodes, links = int(head[0]), int(head[4] if len(head) == 6 else head[-1])
    switches = within + int(head[3]) if len(head) == 6 else int(head[1])
    if nodes > _MOST_NODES:
        raise InputError(f"{nodes} nodes are too many", file=f"{path}:1", allowed=f"at most {_MOST_NODES}")
    listed = [_node(*_next(words, path, "switches"), nodes) for _ in range(switches)]
    chosen = frozenset(listed)
    if len(chosen) < switches:
        raise InputError(f"names {len(chosen)} switches instead of {switches}", file=str(path), allowed="each one once")
    faults: list[InputError] = []
    found = []
    for _ in range(links):
        row = [_next(words, path, "links") for _ in range(5)]
        try:
            found.append(_link(row, nodes))
        except InputError as error:
            faults.append(error.at(file=row[0][1]))
    raise_all(faults)
    extra = next(words, None)
    unread = "" if extra is None else f"{extra[1]}: '{extra[0]}' follows the last of {links} links, and is not read"
    return Ns3Topology(nodes, chosen, found, frozenset(listed[:within]), unread)


def ns3_graph(path: Path) -> Any:
    """Return the graph of a topology text: an NPU for each node that is not a switch; with `dims`, only for the first.

    The links of a node are in descending order of their other end, the order of ns-3's next hops. The graph has no
    error rates: they are no property of the network, but of an experiment ([[network.ethernet.links]]). In SimAI's
    form, links of NVSwitches are of the kind `nvlink`, and routes are the fastest. Raises InputError.
    """
    import networkx as nx

    topology = read_ns3(path)
    graph = nx.Graph(**{SPARE: True, NOTES: [topology.unread] if topology.unread else []})
    for node in range(topology.nodes):
        graph.add_node(node, kind="switch" if node in topology.switches else "npu")
    if topology.nvswitches:
        graph.graph[ROUTING] = FASTEST
    for node in topology.nvswitches:
        graph.nodes[node]["label"] = f"nvswitch.{node}"
    for number, (ends, link) in enumerate(topology.routed()):
        kind = {} if topology.nvswitches.isdisjoint(ends) else {"kind": "nvlink"}
        graph.add_edge(*ends, bandwidth=link.rate, latency=link.delay, link=number, **kind)
    return graph


def _words(path: Path, text: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        for word in line.split():
            yield word, f"{path}:{number}"


def _next(words: Iterator[tuple[str, str]], path: Path, what: str) -> tuple[str, str]:
    word = next(words, None)
    if word is None:
        raise InputError(f"ends before the last of its {what}", file=str(path), allowed="what the first line says")
    return word


def _node(word: str, place: str, nodes: int) -> int:
    if not word.isdecimal() or int(word) >= nodes:
        raise InputError(f"'{word}' is not a node", file=place, allowed=f"0 to {nodes - 1}")
    return int(word)


def _link(row: list[tuple[str, str]], nodes: int) -> Ns3Link:
    (first, place), (second, _), (rate, _), (delay, _), (error, _) = row
    a, b = _node(first, place, nodes), _node(second, place, nodes)
    if a == b:
        raise InputError(f"a link leads from node {a} to itself", allowed="two nodes")
    if re.fullmatch(r"[\d.]+", rate):
        rate += "bps"  # as in ns-3
    if not parse_bandwidth(rate):
        raise InputError(f"'{rate}' is zero", allowed="a rate such as 100Gbps")
    parse_time(delay)
    try:
        share = float(error)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise InputError(f"'{error}' is not an error rate", allowed="a number from 0 to 1")
    return Ns3Link(a, b, rate, delay, share, place)
