"""Any network from a file: GraphML, GML or an edge list, or an inventory of machines, with a rate for each link."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pyxsim.registry import topologies
from pyxsim.topology import Topology
from pyxsim.topology.from_networkx import from_networkx, read_graph


@topologies.register("graph")
def graph(
    file: Path, npus: int = 1, dims: Sequence[int] | None = None, nodes: int = 1, rates: Mapping[str, str] | None = None
) -> Topology:
    """Any network from a file: GraphML, GML, an edge list or an inventory.

    `file`: nodes with an attribute `npus` (how many NPUs), edges with `bandwidth` and `latency` ("25 GB/s").

    If no node has the attribute, each has `npus` NPUs. `dims`: the shape of the NPUs for collectives.
    Of an inventory: `nodes`, how many such nodes a switch joins; `rates`, the bandwidth of kinds of links.
    """
    return from_networkx(read_graph(file, nodes, rates), npus=npus, dims=dims, file=str(file))
