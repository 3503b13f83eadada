"""The graph of an inventory while it is read: named parts, links of a few kinds, and what the reader wants to say."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from pyxsim.errors import InputError
from pyxsim.topology.ns3_text import FASTEST, NOTES, ROUTING
from pyxsim.units import format_bandwidth, parse_bandwidth

MOST_PARTS = 2**20  # parts and links of an inventory together; a graph of them takes about 1 kB each
NETWORK = "network"  # the switch that joins several nodes
_MOST_NODES = 2**16
_MOST_STEPS = 2**22  # parts and links that the lines of a file stand for, with repetitions


class _Link(NamedTuple):
    rate: Fraction | None
    latency: str | None
    bonded: int


class Parts:
    """Named parts and the links between them.

    Parameters
    ----------
    file
        The file that is read, for errors.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.notes: list[str] = []
        self.ports: list[tuple[str, Fraction | None]] = []
        """Parts that a network outside the inventory joins, each with its bandwidth."""
        self._steps = 0
        self._npus: dict[str, bool] = {}
        self._links: dict[tuple[str, str, str], _Link] = {}

    @property
    def names(self) -> list[str]:
        """Names of the parts."""
        return list(self._npus)

    @property
    def kinds(self) -> list[str]:
        """Kinds of the links."""
        return list(dict.fromkeys(kind for *_, kind in self._links))

    def count(self, more: int = 0) -> None:
        """Raise InputError if `more` parts and links would be too many."""
        total = len(self._npus) + len(self._links) + more
        if total > MOST_PARTS:
            problem = f"{total} parts and links are too many"
            raise InputError(problem, file=self.file, allowed=f"at most {MOST_PARTS}")

    def spend(self, steps: int) -> None:
        """Raise InputError if the lines of the file stand for too many parts and links, repeated or not."""
        self._steps += steps
        if self._steps > _MOST_STEPS:
            problem = f"{self._steps} parts and links are too many"
            raise InputError(problem, file=self.file, allowed=f"at most {MOST_PARTS}")

    def part(self, name: str, npu: bool = False) -> None:
        """Add a part: an NPU, or something that passes messages on."""
        self.count(1)
        if name in self._npus:
            raise InputError(f"two parts are named '{name}'", file=self.file)
        self._npus[name] = npu

    def has(self, name: str) -> bool:
        """Return whether a part is known."""
        return name in self._npus

    def link(
        self,
        a: str,
        b: str,
        kind: str,
        bandwidth: Fraction | None = None,
        latency: str | None = None,
        *,
        bonded: int = 1,
    ) -> None:
        """Join two parts in both directions. A second link of the same kind between them is the same link.

        `bandwidth` is that of one of the links that are bonded.
        """
        ends = (a, b, kind) if a <= b else (b, a, kind)
        if a != b and ends not in self._links:
            self.count(1)
            self._links[ends] = _Link(bandwidth, latency, bonded)

    def groups_of(self, names: list[str], kinds: tuple[str, ...]) -> int:
        """Return in how many groups the links of some kinds join some parts."""
        import networkx as nx

        graph = nx.Graph((a, b) for a, b, kind in self._links if kind in kinds)
        graph.add_nodes_from(names)
        return len({frozenset(group & set(names)) for group in nx.connected_components(graph)} - {frozenset()})

    def graph(self, nodes: int = 1, rates: Mapping[str, str] | None = None) -> Any:
        """Return the networkx graph.

        Parameters
        ----------
        nodes
            How many such nodes a switch, `network`, joins by their ports.
        rates
            Kind of links -> bandwidth of one of them, instead of the inventory's.

        Raises
        ------
        InputError
            For an unknown kind, or several nodes without ports.
        """
        import networkx as nx

        given = self._rates(rates)
        missing = dict.fromkeys(kind for (*_, kind), link in self._links.items() if given.get(kind, link.rate) is None)
        notes = list(self.notes)
        if nodes > 1 and any(given.get(NETWORK, rate) is None for _, rate in self.ports):
            missing[NETWORK] = None
        if missing:
            words = ", ".join(missing)
            notes.append(f"no bandwidth of links {words}: that of [network]; options.rates = {{ kind = rate }} sets it")
        graph = nx.MultiGraph(**{NOTES: notes, ROUTING: FASTEST})
        self._check_nodes(nodes)
        prefixes = [f"node{node}." for node in range(nodes)] if nodes > 1 else [""]
        for prefix in prefixes:
            for name, npu in self._npus.items():
                graph.add_node(prefix + name, label=prefix + name, kind="npu" if npu else "switch")
            for (a, b, kind), (rate, latency, bonded) in self._links.items():
                one = given.get(kind, rate)
                _join(graph, prefix + a, prefix + b, kind, None if one is None else bonded * one, latency)
        if nodes > 1:
            graph.add_node(NETWORK, label=NETWORK, kind="switch")
            for prefix in prefixes:
                for port, rate in self.ports:
                    _join(graph, prefix + port, NETWORK, NETWORK, given.get(NETWORK, rate), None)
        if not any(self._npus.values()):
            raise InputError("has no NPU", file=self.file)
        return graph

    def _rates(self, rates: Mapping[str, str] | None) -> dict[str, Fraction]:
        key = "network.options.rates"
        if rates is None:
            return {}
        if not isinstance(rates, Mapping):
            raise InputError(f"{rates!r} is not a table", key=key, allowed='a table such as { nvlink = "25 GB/s" }')
        kinds = [*self.kinds, NETWORK]
        found = {}
        for kind, text in rates.items():
            if kind not in kinds:
                raise InputError("no links of this kind", key=f"{key}.{kind}", allowed=kinds, given=str(kind))
            try:
                found[kind] = parse_bandwidth(text)
            except InputError as error:
                raise error.at(key=f"{key}.{kind}") from None
            if not found[kind]:
                raise InputError("is zero", key=f"{key}.{kind}", allowed="a bandwidth such as '25 GB/s'")
        return found

    def _check_nodes(self, nodes: int) -> None:
        key = "network.options.nodes"
        if isinstance(nodes, bool) or not isinstance(nodes, int) or not 1 <= nodes <= _MOST_NODES:
            raise InputError(f"{nodes!r} is not a number of nodes", key=key, allowed=f"1 to {_MOST_NODES}")
        if nodes > 1 and not self.ports:
            problem = f"{nodes} nodes cannot be joined: {self.file} names no network port"
            raise InputError(problem, key=key, allowed="1")
        if NETWORK in self._npus and nodes > 1:
            raise InputError(f"a part of {self.file} is already named '{NETWORK}'", key=key, allowed="1")
        self.count((nodes - 1) * (len(self._npus) + len(self._links)) + nodes * len(self.ports))


def _join(graph: Any, a: str, b: str, kind: str, rate: Fraction | None, latency: str | None) -> None:
    values = {"bandwidth": None if rate is None else format_bandwidth(rate), "latency": latency}
    graph.add_edge(a, b, kind=kind, **{key: text for key, text in values.items() if text is not None})
