"""A twisted torus: the wrap-around links of a short dimension are shifted by half of the long dimensions.

For dimensions of k and 2 k NPUs (Camara and others 2010). All dimensions are then equivalent, and routes are shorter:
2 k x k x k NPUs form the face-centered cubic lattice, 2 k x 2 k x k the body-centered one. TPU v4 slices use it.
"""

from collections.abc import Sequence
from itertools import product

import numpy as np

from pyxsim.errors import InputError
from pyxsim.registry import topologies
from pyxsim.topology import Dimension, Topology, check_shape, graph_network
from pyxsim.topology.routings import graph_routings


@topologies.register("twisted-torus")
def twisted_torus(shape: Sequence[int]) -> Topology:
    shape = check_shape(shape)
    short, long = min(shape), max(shape)
    if long != 2 * short or set(shape) != {short, long}:
        problem = f"{' x '.join(map(str, shape))} cannot be twisted"
        raise InputError(problem, key="network.shape", allowed="dimensions of k and of 2 k NPUs, such as [4, 4, 8]")
    strides = np.cumprod([1, *shape[:-1]])
    links, kind = [], []
    for dim, backwards in product(range(len(shape)), product(*map(range, reversed(shape)))):
        src = np.array(backwards[::-1])
        dst = src.copy()
        dst[dim] += 1
        if dst[dim] == shape[dim] == short:
            dst += np.where(np.array(shape) == long, short, 0)
        links.append((int(src @ strides), int(dst % shape @ strides)))
        kind.append(dim)
    return graph_network(
        "twisted-torus",
        range(int(np.prod(shape))),
        links,
        graph_routings("minimal"),
        dims=[Dimension(f"d{dim}", npus) for dim, npus in enumerate(shape)],
        kinds=[f"d{dim}" for dim in range(len(shape))],
        kind=kind,
        router_names=[f"({','.join(map(str, at[::-1]))})" for at in product(*map(range, reversed(shape)))],
    )
