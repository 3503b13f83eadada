"""Graphs that carry the settings of their network: what pyxsim writes reads back as the same network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyxsim.errors import InputError
from pyxsim.paths import created
from pyxsim.settings import Network
from pyxsim.settings.named import over_base
from pyxsim.topology.build import network_of
from pyxsim.topology.from_networkx import SETTINGS, read_graph
from pyxsim.topology.inventory.plain import plain
from pyxsim.topology.inventory.write_hpcc import hpcc_text
from pyxsim.topology.inventory.write_infragraph import infragraph_text
from pyxsim.topology.inventory.write_nccl import nccl_text
from pyxsim.topology.ns3_text import NOTES, ROUTING
from pyxsim.topology.topology import Topology
from pyxsim.units import Cycles, Duration, format_bandwidth, format_duration

FORMATS = {"graphml": ".graphml", "edges": ".edges", "infragraph": ".yaml", "nccl": ".xml", "hpcc": ".txt"}
"""The formats of networks and the endings of their files."""
OWN = ("graphml", "edges")  # formats that carry the settings of a network
GRAPH = "graph"  # the topology that reads files
_WRITERS = {"infragraph": infragraph_text, "nccl": nccl_text, "hpcc": hpcc_text}
_LOST = "[network] settings, dimensions, queues, routing, host links"
_OF_EDGES = ("link", "kind", "length", "bandwidth", "latency")
_OF_NODES = ("npus", "kind", "label")


def exported(topology: Topology, settings: Network) -> Any:
    """Return the networkx.MultiDiGraph of a network, with bandwidth and latency of every link, and with its settings.

    The attribute `pyxsim` of the graph has the settings as JSON, as [network] of an experiment has them.
    """
    graph = topology.to_networkx()
    kinds = len(topology.link_kinds)
    bandwidths, latencies = settings.bandwidths(kinds), settings.latencies(kinds)
    tables = settings.tables()
    if settings.topology == GRAPH:  # links without values of their own have those of the settings
        tables["options"] = {key: value for key, value in settings.options.items() if key == "dims"}
        graph.graph[ROUTING] = next(iter(topology.routings))
    else:
        for _, _, data in graph.edges(data=True):
            data.setdefault("bandwidth", format_bandwidth(bandwidths[data["dim"]]))
            data.setdefault("latency", format_duration(_times(data["length"], latencies[data["dim"]])))
    graph.graph[SETTINGS] = json.dumps(tables)
    return graph


def _times(length: int, latency: Duration) -> Duration:
    return Cycles(length * latency.count) if isinstance(latency, Cycles) else length * latency


def graph_text(topology: Topology, settings: Network, form: str) -> str:
    """Return a network as the text of a file in one of `FORMATS`.

    Warns of what a format cannot say. Raises InputError if that is the network itself.
    """
    import networkx as nx

    if form == "edges" and settings.topology == GRAPH:
        problem = "an edge list does not keep the attributes of nodes"
        raise InputError(problem, key="--export", allowed="graphml for a network from a file")
    graph = exported(topology, settings)
    if form not in OWN:
        return _WRITERS[form](plain(graph, topology, settings, form))
    if form == "edges":
        edges = ((a, b, {key: data[key] for key in _OF_EDGES if key in data}) for a, b, data in graph.edges(data=True))
        lines = (f"{a} {b} {data}" for a, b, data in edges)
        return "\n".join([f"#{SETTINGS} {graph.graph[SETTINGS]}", *lines]) + "\n"
    return "\n".join(nx.generate_graphml(graph)) + "\n"


def form_of(file: str | Path) -> str:
    """Return the format of `FORMATS` that the ending of a file names, or the ending."""
    ending = Path(file).suffix.lower()
    return next((form for form, own in FORMATS.items() if own == ending), ending.removeprefix("."))


def write_graph(topology: Topology, settings: Network, file: str | Path, form: str | None = None) -> None:
    """Write a network to a file in the format `form`, or that of its ending (`FORMATS`). Raises InputError."""
    form = form or form_of(file)
    if form not in FORMATS:
        raise InputError(f"unknown format '{form}' of a graph", file=str(file), allowed=FORMATS, given=form)
    text = graph_text(topology, settings, form)
    with created(str(file)) as out:
        out.write(text.encode())


def restored(network: Network, folder: str | Path = ".") -> tuple[Network, list[str]]:
    """Return the settings of the network that a graph was written from, overridden by those of the experiment.

    A graph without settings stays what it is. One that no longer matches its settings is read as a plain graph, and a
    warning says what is lost. Relative file names start in `folder`. Raises InputError for a file that cannot be read.
    """
    name = network.options.get("file") if network.topology == GRAPH else None
    if not isinstance(name, str) or network.shape is not None:
        return network, []
    graph = read_graph(Path(folder) / name, network.options.get("nodes", 1), network.options.get("rates"))
    if SETTINGS not in graph.graph:
        return complete(network), [f"{name}: {note}" for note in graph.graph.get(NOTES, ())]
    try:
        original = _original(graph, network, name, folder)
    except _Changed as error:
        lost = _LOST if _has_attributes(graph) else f"{_LOST}, names and NPUs of nodes"
        line = f"network.options.file: {name} {error}: it is read as a plain graph, which loses {lost}"
        return complete(network), [line]
    return original, []


def complete(network: Network) -> Network:
    """Return equal settings that all count as set, so that `Network.tables` shows the defaults."""
    return Network.model_validate(network.tables())


class _Changed(Exception):
    """Why a graph no longer is what pyxsim wrote."""


def _original(graph: Any, network: Network, name: str, folder: str | Path) -> Network:
    """Return the settings in a graph, overridden by those of the experiment. Raises _Changed."""
    try:
        tables = json.loads(graph.graph[SETTINGS])
        settings = Network.model_validate(tables)
        if settings.topology == GRAPH:
            settings = settings.model_copy(update={"options": {**settings.options, **network.options}})
        else:
            if more := sorted(set(network.options) - {"file"}):
                raise _Changed(f"is read with options.{more[0]}")
            _compare(graph, exported(network_of(settings, folder), settings))
    except (ValueError, TypeError, RecursionError) as error:  # ValueError: also InputError and pydantic's errors
        raise _Changed(f"has settings that cannot be used ({_first_line(error)})") from None
    own = network.tables(defaults=False)
    if settings.topology == GRAPH:
        own["options"] = settings.options
    else:
        del own["topology"], own["options"]
    return Network.model_validate(over_base(settings.name or "", settings.tables(), own, Path()))


def _first_line(error: Exception) -> str:
    return str(error if isinstance(error, InputError) else type(error).__name__).splitlines()[0]


def _has_attributes(graph: Any) -> bool:
    """Return whether nodes have attributes; in an edge list they have none."""
    return any(data for _, data in graph.nodes(data=True))


def _compare(read: Any, built: Any) -> None:
    """Raise _Changed unless the nodes and edges of a graph are those that its settings build."""
    nodes = {str(node): data for node, data in read.nodes(data=True)}
    if nodes.keys() != {str(node) for node in built.nodes}:
        raise _Changed("has other nodes than those of its settings")
    if _has_attributes(read):
        for node, data in built.nodes(data=True):
            for key in _OF_NODES:
                if nodes[str(node)].get(key) != data[key]:
                    raise _Changed(f"has another {key} of node {node} than its settings")
    if read.is_directed() != built.is_directed() or read.number_of_edges() != built.number_of_edges():
        raise _Changed(f"has {read.number_of_edges()} edges, not the {built.number_of_edges()} of its settings")
    edges = {data.get("link"): (str(a), str(b), data) for a, b, data in read.edges(data=True)}
    for a, b, data in built.edges(data=True):
        ends = edges.get(data["link"])
        if ends is None or ends[:2] != (str(a), str(b)):
            raise _Changed(f"has no edge {a} -> {b} with link = {data['link']}")
        for key in _OF_EDGES:
            if ends[2].get(key) != data[key]:
                raise _Changed(f"has another {key} of the edge {a} -> {b} than its settings")
