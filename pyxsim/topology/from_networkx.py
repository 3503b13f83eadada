"""Networks from networkx graphs, and from the files that networkx reads."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from pyxsim.arrays import Int32Array
from pyxsim.errors import InputError
from pyxsim.paths import missing
from pyxsim.routing.relation import Relation
from pyxsim.textfile import read_text
from pyxsim.topology.fastest import costs_of, fastest
from pyxsim.topology.graph import graph_network
from pyxsim.topology.inventory.read import read_inventory, refuse_options
from pyxsim.topology.ns3_text import FASTEST, ROUTING, SPARE, is_ns3_text, ns3_graph
from pyxsim.topology.routings import graph_routings
from pyxsim.topology.shape import MAX_NPUS, check_shape
from pyxsim.topology.topology import Dimension, Topology
from pyxsim.topology.wires import Wires, WiresRouting
from pyxsim.units import parse_bandwidth, parse_duration

P = ParamSpec("P")
T = TypeVar("T")

KEY = "network.options"
NODE = ("npus", "kind", "npu_ids", "label", "next_hops")
EDGE = ("bandwidth", "latency", "length", "kind", "link")
KINDS = ("npu", "switch")
SETTINGS = "pyxsim"  # attribute of a graph: the settings that it was written from (exported.py), as JSON
_HEAD = f"#{SETTINGS} "
NO_EDGE_LISTS = (".json", ".toml", ".csv", ".dot", ".gexf", ".net")
UNITS: Mapping[str, Callable[[object], object]] = {"bandwidth": parse_bandwidth, "latency": parse_duration}


def _named_by_the_setting(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a reader: its faults name the setting first, then the file of the graph."""

    @wraps(function)
    def wrapper(*args: P.args, **options: P.kwargs) -> T:
        try:
            return function(*args, **options)
        except InputError as error:
            raise error.named_by(f"{KEY}.file") from None

    return wrapper


@_named_by_the_setting
def read_graph(path: Path, nodes: int = 1, rates: Mapping[str, str] | None = None) -> Any:
    """Read a networkx graph from a file: .graphml, .gml, an inventory, an edge list or a topology of ns-3.

    Of an inventory, `nodes` and `rates` are those of `Parts.graph`. An edge list has one line `a b` per link, or
    `a b {"bandwidth": "50 GB/s", "latency": "10 ns"}`. If every line has the attribute `link`, links are directed, as
    pyxsim writes them. Raises InputError.
    """
    import networkx as nx

    parts = read_inventory(path)
    if parts is not None:
        return parts.graph(nodes, rates)
    refuse_options(path, nodes, rates)
    try:
        if path.suffix.lower() == ".graphml":
            return nx.read_graphml(path, force_multigraph=True)
        if path.suffix.lower() == ".gml":
            return nx.read_gml(path, label="id")
    except FileNotFoundError:
        raise missing(path) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=str(path)) from None
    except Exception as error:
        raise InputError(f"networkx cannot read this graph: {error}", file=str(path)) from None
    if path.suffix.lower() in NO_EDGE_LISTS:
        allowed = ".graphml, .gml, an edge list such as net.edges, or an inventory (.yaml, .xml)"
        raise InputError(f"unknown format '{path.suffix}' of a graph", allowed=allowed, file=str(path))
    text = read_text(path, "a graph or an inventory")
    if is_ns3_text(text):
        return ns3_graph(path)
    lines = text.splitlines()
    settings = {SETTINGS: lines[0].removeprefix(_HEAD)} if lines and lines[0].startswith(_HEAD) else {}
    words_of = {number: line.partition("#")[0].split(None, 2) for number, line in enumerate(lines, 1)}
    edges = [_edge(words, f"{path}:{number}") for number, words in words_of.items() if words]
    graph = (nx.MultiDiGraph if all("link" in data for *_, data in edges) else nx.MultiGraph)(**settings)
    graph.add_edges_from(edges)
    return graph


def _edge(words: Sequence[str], file_line: str) -> tuple[str, str, dict[str, Any]]:
    """Return a line of an edge list: the two ends, and optional attributes."""
    if len(words) < 2:
        allowed = "one line `a b` per link"
        raise InputError(f"'{words[0]}' is not a link", allowed=allowed, file=file_line)
    a, b, *rest = words
    try:
        data = ast.literal_eval(rest[0].strip()) if rest else {}
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        data = None
    if not isinstance(data, dict) or not all(isinstance(name, str) for name in data):
        allowed = 'a table such as {"bandwidth": "50 GB/s"}'
        raise InputError(f"invalid attributes '{rest[0].strip()}'", allowed=allowed, file=file_line)
    _check_names(data, EDGE, f"the edge from {a} to {b}", file_line)
    return a, b, data


@_named_by_the_setting
def from_networkx(
    graph: Any, *, npus: int = 1, dims: Sequence[int] | None = None, name: str = "graph", file: str | None = None
) -> Topology:
    """Return the network of a networkx graph: a router per node, a link per directed edge, two per undirected edge.

    Parameters
    ----------
    graph
        Attributes of a node: `npus`, its number of NPUs (an integer or a boolean), or `kind`, "npu" or "switch";
        `npu_ids`, the numbers of its NPUs; `label`, its name; `next_hops`, the next node on the way to each node (the
        routing `table` then follows these). Without `npu_ids`, NPUs are numbered in order of the
        nodes: by node number if all are numbers, else in file order.
        Attributes of an edge: `bandwidth` and `latency`, texts with a unit; `length`, an integer; `kind`, a word.
    npus
        NPUs of each node if no node has `npus` or `kind`.
    dims
        Shape of the NPUs for collectives; default: one dimension.
    name, file
        Name of the network; file for error messages.

    Raises
    ------
    InputError
        For wrong attributes or an unconnected graph.
    """
    nodes = list(graph.nodes)
    if all(str(node).isdecimal() for node in nodes):
        nodes.sort(key=int)
    if not nodes:
        raise InputError("the graph has no nodes", file=file)
    number = {node: i for i, node in enumerate(nodes)}
    names = [str(graph.nodes[node].get("label", f"({node})")) for node in nodes]
    edges = list(graph.edges(data=True))
    _check_words(graph, nodes, edges, file)
    home = _homes(graph, nodes, npus, file)
    for a, b, _ in edges:
        if a == b:
            raise InputError(f"a link leads from {names[number[a]]} to itself", file=file)
    _check_connected(graph, [nodes[router] for router in home], [names[router] for router in home], file)
    shape = check_shape(dims, key=f"{KEY}.dims") if dims is not None else (len(home),)
    if graph.graph.get(SPARE):
        home = home[: int(np.prod(shape))]
    if int(np.prod(shape)) != len(home):
        raise InputError(f"{shape} is not a shape of {len(home)} NPUs", key=f"{KEY}.dims")
    if all("link" in data for *_, data in edges):
        edges.sort(key=lambda edge: int(edge[2]["link"]))
    next_hops = _given_routes(graph, nodes, file)
    kinds = list(dict.fromkeys(str(data.get("kind", "link")) for *_, data in edges)) or ["link"]
    bandwidths = _texts(edges, "bandwidth", file)
    topology = graph_network(
        name,
        home,
        [(number[a], number[b]) for a, b, _ in edges],
        _routings(graph, bandwidths, next_hops),
        routers=len(nodes),
        both_ways=not graph.is_directed(),
        indirect=len(set(home)) < len(home),
        dims=[Dimension(f"d{i}" if len(shape) > 1 else name, size) for i, size in enumerate(shape)],
        kinds=kinds,
        kind=[kinds.index(str(data.get("kind", "link"))) for *_, data in edges],
        kind_dims=[min(i, len(shape) - 1) for i in range(len(kinds))],
        length=[_length(edge, file) for edge in edges],
        bandwidth=bandwidths,
        latency=_texts(edges, "latency", file),
        router_names=names,
    )
    return replace(topology, next_hops=next_hops)


def _routings(
    graph: Any, bandwidths: Sequence[str | None] | None, next_hops: Int32Array | None
) -> dict[str, WiresRouting]:
    """The routings of a graph; the first is that which the graph names, or the default.

    The default is `up-down`; `minimal` where a link has no opposite, as then down is not the opposite of up.
    """
    found = graph_routings("up-down") | ({} if next_hops is None else {"table": partial(_follow, next_hops)})
    if bandwidths is not None:
        costs = costs_of([None if text is None else parse_bandwidth(text) for text in bandwidths])
        found[FASTEST] = partial(fastest, costs if graph.is_directed() else np.repeat(costs, 2))
    first = graph.graph.get(ROUTING)
    if first not in found and graph.is_directed() and any(not graph.has_edge(b, a) for a, b, *_ in graph.edges):
        first = "minimal"
    return {first: found[first], **found} if first in found else found


def _given_routes(graph: Any, nodes: Sequence[Any], file: str | None) -> Int32Array | None:
    """Return int32[nodes, nodes], the routes that nodes give; None if they give none."""
    texts = [graph.nodes[node].get("next_hops") for node in nodes]
    if all(text is None for text in texts):
        return None
    rows = []
    for node, text in zip(nodes, texts, strict=True):
        words = str(text or "").split()
        if len(words) != len(nodes) or not all(word.isdecimal() and int(word) < len(nodes) for word in words):
            problem = f"node {node} has next_hops = {text!r}"
            allowed = f"{len(nodes)} node numbers: the next hop towards each node"
            raise InputError(problem, allowed=allowed, file=file)
        rows.append([int(word) for word in words])
    return np.array(rows, np.int32)


def _follow(next_hops: Int32Array, wires: Wires) -> Relation:
    """Return the relation of next_hops[router, destination]."""
    return wires.relation(next_hops[wires.src][:, wires.homes] == wires.dst[:, None])


def _check_words(graph: Any, nodes: Sequence[Any], edges: Sequence[Any], file: str | None) -> None:
    """Refuse misspelt attributes and unknown kinds of nodes."""
    for node in nodes:
        data = graph.nodes[node]
        _check_names(data, NODE, f"node {node}", file)
        kind = data.get("kind", "npu")
        if kind not in KINDS:
            given = kind if isinstance(kind, str) else None
            raise InputError(f"node {node} has kind = {kind!r}", allowed=KINDS, given=given, file=file)
    for a, b, data in edges:
        _check_names(data, EDGE, f"the edge from {a} to {b}", file)


def _check_names(data: Iterable[Any], known: tuple[str, ...], what: str, file: str | None) -> None:
    """Refuse misspelt attributes; a graph may have any other attributes."""
    for name in data:
        if _misspelt(str(name), known):
            raise InputError(
                f"{what} has the unknown attribute '{name}'",
                allowed=known,
                given=str(name),
                file=file,
            )


@cache
def _misspelt(name: str, known: tuple[str, ...]) -> bool:
    return name not in known and bool(difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.8))


def _check_connected(graph: Any, homes: Sequence[Any], names: Sequence[str], file: str | None) -> None:
    """Refuse a graph in which NPUs are not connected."""
    import networkx as nx

    if not homes:
        raise InputError("no node has an NPU", file=file)
    component = nx.node_connected_component(graph.to_undirected(as_view=True), homes[0])
    for node, name in zip(homes, names, strict=True):
        if node not in component:
            problem = f"the graph is not connected: no path leads from {names[0]} to {name}"
            raise InputError(problem, file=file)


def _homes(graph: Any, nodes: Sequence[Any], npus: int, file: str | None) -> Sequence[int]:
    """The router of each NPU."""
    any_attribute = any(key in data for _, data in graph.nodes(data=True) for key in ("npus", "kind"))
    count = []
    for node in nodes:
        data = graph.nodes[node]
        node_npus = data.get("npus", data.get("kind") == "npu" if any_attribute else npus)
        if not isinstance(node_npus, int) or node_npus < 0:
            allowed = "a whole number, true or false"
            raise InputError(f"node {node} has npus = {node_npus!r}", allowed=allowed, file=file)
        count.append(int(node_npus))
    if sum(count) > MAX_NPUS:
        raise InputError(f"{sum(count)} NPUs are too many", allowed=f"at most {MAX_NPUS}", file=file)
    home = np.repeat(np.arange(len(nodes)), count)
    if not any("npu_ids" in graph.nodes[node] for node in nodes):
        return home.tolist()
    ids = [int(word) for node in nodes for word in str(graph.nodes[node].get("npu_ids", "")).split()]
    if sorted(ids) != list(range(len(home))):
        raise InputError("npu_ids do not contain each NPU exactly once", file=file)
    placed = np.empty(len(home), np.int64)
    placed[ids] = home
    return placed.tolist()


def _length(edge: tuple[Any, Any, Mapping[str, Any]], file: str | None) -> int:
    a, b, data = edge
    length = data.get("length", 1)
    if isinstance(length, bool) or not isinstance(length, int) or length < 1:
        text = f"the edge from {a} to {b} has length = {length!r}"
        raise InputError(text, allowed="a whole number from 1", file=file)
    return length


def _texts(edges: Sequence[Any], what: str, file: str | None) -> list[str | None] | None:
    """The attribute of every edge, checked; None where no edge has it."""
    for a, b, data in edges:
        try:
            if data.get(what) is not None:
                UNITS[what](data[what])
        except InputError as error:
            text = f"the edge from {a} to {b}: {error}"
            raise InputError(text, file=file) from None
    texts = [data.get(what) for *_, data in edges]
    return texts if any(text is not None for text in texts) else None
