"""The least time of a synthesized collective on the links of a network."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from pyxsim.errors import InputError
from pyxsim.synthesis.link_graph import LinkGraph
from pyxsim.synthesis.scipy_extra import require_scipy
from pyxsim.topology.cut_bound import bottleneck_bandwidth

MOST_CUT = 128  # NPUs of a network whose bottleneck cut is computed; of larger ones, the cuts around single NPUs


def gather_bandwidth(graph: LinkGraph) -> Fraction:
    """Return the most data per time, in units of the graph, that an all-gather can deliver to every NPU.

    That of the bottleneck cut; for more than MOST_CUT NPUs, of the cuts around single NPUs, which may be more. Raises
    InputError if an NPU is out of reach.
    """
    enters, leaves = _at_npus(graph)
    n = graph.npus
    if not (enters.all() and leaves.all()):
        npu = int(np.argmin(np.minimum(enters, leaves)))
        raise InputError(f"NPU {npu} has no link in each direction", key="network", allowed="a connected network")
    if n > MOST_CUT:
        return Fraction(int(min(enters.min(), leaves.min())) * n, n - 1)
    try:
        return bottleneck_bandwidth(graph.links, list(range(n)))
    except ValueError as error:
        raise InputError(f"NPU {str(error).rpartition(' ')[2]} is not reached", key="network") from None


def scatter_bandwidth(graph: LinkGraph) -> Fraction:
    """Return the most data per time that a reduce-scatter can add up: an all-gather on the reversed links."""
    pairs = set(zip(graph.src.tolist(), graph.dst.tolist(), graph.rate.tolist(), strict=True))
    if pairs == {(b, a, rate) for a, b, rate in pairs}:
        return gather_bandwidth(graph)
    if graph.npus > MOST_CUT:
        return gather_bandwidth(graph)
    return bottleneck_bandwidth([(b, a, rate) for a, b, rate in graph.links], list(range(graph.npus)))


def least_seconds(graph: LinkGraph, kind: str, size: int, *, in_switch: bool = False) -> float:
    """Return a time below which no algorithm gets; for an all-reduce, no reduce-scatter and then all-gather.

    These have equal parts at all NPUs. Where NPUs differ, an all-reduce of another form may take less, as on a mesh;
    analysis/optimum.py bounds all of them. With switches that reduce and multicast (`in_switch`), every NPU sends and
    receives the buffer once. An all-to-all takes at least as long as the links of an NPU need for its data, and as all
    links together for the fewest links that every byte crosses.
    """
    n = graph.npus
    if kind == "all-to-all":
        return _exchange_seconds(graph, size)
    if in_switch and kind == "all-reduce":
        enters, leaves = _at_npus(graph)
        return size / (float(min(enters.min(), leaves.min())) * graph.unit)
    each = size if kind == "all-gather" else size / n
    phases = {
        "all-gather": [gather_bandwidth],
        "reduce-scatter": [scatter_bandwidth],
        "all-reduce": [scatter_bandwidth, gather_bandwidth],
    }[kind]
    return sum(each * n / (float(phase(graph)) * graph.unit) for phase in phases)


def _at_npus(graph: LinkGraph) -> tuple[np.ndarray, np.ndarray]:
    """What enters and leaves every NPU per time, in units."""
    n = graph.npus
    enters = np.bincount(graph.dst, weights=graph.rate, minlength=graph.nodes)[:n]
    leaves = np.bincount(graph.src, weights=graph.rate, minlength=graph.nodes)[:n]
    return enters, leaves


def _exchange_seconds(graph: LinkGraph, size: int) -> float:
    require_scipy("the bound of an all-to-all")
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import shortest_path

    n = graph.npus
    enters, leaves = _at_npus(graph)
    alone = size * (n - 1) / n / (float(min(enters.min(), leaves.min())) * graph.unit)
    links = csr_matrix((np.ones(len(graph.src)), (graph.src, graph.dst)), shape=(graph.nodes, graph.nodes))
    hops = shortest_path(links, unweighted=True, indices=np.arange(n))[:, :n]
    if not np.isfinite(hops).all():
        npu = int(np.argwhere(~np.isfinite(hops))[0][1])
        raise InputError(f"NPU {npu} is not reached", key="network", allowed="a connected network")
    together = float(hops.sum()) * size / n / (float(graph.rate.sum()) * graph.unit)
    return max(alone, together)
