"""What bounds a collective on a network, and the trees that it is made of: the optimum of analysis/optimum.py."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from pyxsim.analysis.optimum import NetworkOptimum
from pyxsim.errors import InputError
from pyxsim.network.link_paths import link_rates_of
from pyxsim.settings import Network
from pyxsim.synthesis.link_graph import LinkGraph
from pyxsim.topology import Topology


@dataclass(frozen=True)
class Bounds:
    """Least times of any algorithm.

    Attributes
    ----------
    seconds, limit
        Of the collective, and what limits it.
    trees
        Of its trees without latency, for data of 1 at every NPU at link rates in units of the graph: of an all-reduce
        in which NPUs add, of a reduce-scatter, else of an all-gather.
    gather
        The same of an all-gather; for a reduce-scatter, of one on the reversed links.
    exchange
        The same of an all-to-all, equally much for each NPU; None for other collectives.
    """

    seconds: float
    limit: str
    trees: Fraction
    gather: Fraction
    exchange: Fraction | None = None


def bounds_of(
    topology: Topology,
    network: Network,
    graph: LinkGraph,
    kind: str,
    size: int,
    *,
    in_switch: bool = False,
    endpoint: int = 0,
) -> Bounds:
    """Return the bounds of a collective of all NPUs of a network.

    Parameters
    ----------
    size
        Bytes, as in the settings of the collective.
    in_switch
        Whether switches add data.
    endpoint
        Cycles that an NPU takes to send a message, and to receive one.

    Raises
    ------
    InputError
        If an NPU is out of reach.
    """
    rates, latencies = link_rates_of(topology, network)
    optimum = NetworkOptimum(topology, rates, latencies, endpoint, thorough=True)

    def per_byte(kind: str, share: int) -> Fraction:
        limit = optimum.limit(kind, optimum.all_npus)
        if limit is None:
            raise InputError("some NPU is not reached", key="network", allowed="a network that connects all NPUs")
        return limit.per_byte * share / network.clock * graph.unit

    gather = per_byte("reduce-scatter" if kind == "reduce-scatter" else "all-gather", 1)
    trees = per_byte(kind, graph.npus) if kind == "all-reduce" else gather
    exchange = per_byte(kind, 1) / graph.npus if kind == "all-to-all" else None
    found = optimum.of_all(kind, size, in_network=in_switch)
    assert found is not None
    # What is over before the first cycle ends counts as one.
    return Bounds(float(max(found.cycles, 1) / network.clock), found.limit, trees, gather, exchange)
