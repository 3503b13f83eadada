"""A random regular graph, as in Jellyfish (Singla, Hong, Popa and Godfrey 2012): all routers have the same degree."""

import numpy as np

from pyxsim.errors import InputError
from pyxsim.registry import topologies
from pyxsim.topology import Dimension, Topology, graph_network
from pyxsim.topology.routings import graph_routings

TRIES = 100


@topologies.register("random-regular", aliases=("jellyfish",))
def random_regular(routers: int, degree: int, p: int = 1, seed: int = 0) -> Topology:
    """A random regular graph: `routers` routers with `degree` links and `p` NPUs each, as Jellyfish.

    The first connected graph of those drawn from `seed` on.
    """
    import networkx as nx  # late: every command loads the shelf

    if not 2 <= degree < routers or routers * degree % 2 or p < 1:
        problem = f"no regular graph has {routers} routers of degree {degree} with {p} NPUs each"
        allowed = "a degree from 2 to routers - 1, an even routers * degree, p >= 1"
        raise InputError(problem, key="network.options", allowed=allowed)
    for attempt in range(TRIES):
        graph = nx.random_regular_graph(degree, routers, seed=seed * TRIES + attempt)
        if nx.is_connected(graph):
            break
    else:
        raise InputError(
            f"none of {TRIES} random graphs is connected", key="network.options.seed", allowed="another seed"
        )
    return graph_network(
        "random-regular",
        np.repeat(np.arange(routers), p),
        sorted((min(ends), max(ends)) for ends in graph.edges),
        graph_routings("up-down"),
        indirect=True,
        dims=[Dimension("router", p), Dimension("routers", routers)] if p > 1 else None,
        kind_dims=[1] if p > 1 else [0],
        place=np.zeros((0, 2)),  # no order: pictures arrange the routers by distance
    )
