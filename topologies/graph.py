"""Any network from a file: GraphML, GML or an edge list, as networkx reads them, with a width and latency per link."""

from collections.abc import Sequence
from pathlib import Path

from pyxsim.registry import topologies
from pyxsim.topology import Topology
from pyxsim.topology.from_networkx import from_networkx, read_graph


@topologies.register("graph")
def graph(file: Path, npus: int = 1, dims: Sequence[int] | None = None) -> Topology:
    """Any network from a file: GraphML, GML or an edge list.

    `file`: nodes with an attribute `npus` (how many NPUs), edges with `bandwidth` and `latency` ("25 GB/s").

    If no node has the attribute, each has `npus` NPUs. `dims`: the shape of the NPUs for collectives.
    """
    return from_networkx(read_graph(file), npus=npus, dims=dims, file=str(file))
