"""Folded Clos networks: levels of switches with any number of links up. NPUs are at the leaves.

Packets take any links up until they are above their destination, then the only path down. Packets that go up never wait
for packets that go down, so no VC classes are needed.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod

import numpy as np

from pyxsim.errors import InputError
from pyxsim.registry import topologies
from pyxsim.routing.graph import nca
from pyxsim.topology import Dimension, Topology, check_shape, graph_network
from pyxsim.topology.place import levels
from pyxsim.topology.shape import MAX_NPUS, check_count


@topologies.register("folded-clos", aliases=("fat-tree",))
def folded_clos(children: Sequence[int], parents: Sequence[int], parallel: Sequence[int] | None = None) -> Topology:
    """A folded Clos of any radix and taper: switches above switches, NPUs at the leaves.

    `children` = NPUs of a leaf, leaves of a pod, pods ..; `parents` = switches above each switch, level by level
    from the leaves up, one level less than `children`; `parallel`: links to each of them. The taper of a leaf is
    children[0] / (parents[0] * parallel[0]).
    """
    children = check_shape(children, key="network.options.children")
    tops = len(children) - 1
    parents = check_shape(parents, tops, "network.options.parents") if tops else ()
    parallel = check_shape(parallel or [1] * tops, tops, "network.options.parallel") if tops else ()
    # At each level, subtrees with some switches on top of each: (subtree, top) is number subtree * tops + top.
    subtrees = [prod(children[level + 1 :]) for level in range(tops + 1)]
    on_top = [prod(parents[:level]) for level in range(tops + 1)]
    first = np.cumsum([0, *(s * t for s, t in zip(subtrees, on_top, strict=True))]).tolist()
    level_of = np.repeat(np.arange(tops + 1), np.diff(first))
    links, kind = [], []
    for level in range(tops):
        for tree, top, up, _ in product(*map(range, (subtrees[level], on_top[level], parents[level], parallel[level]))):
            above = tree // children[level + 1] * on_top[level + 1] + top * parents[level] + up
            links.append((first[level] + tree * on_top[level] + top, first[level + 1] + above))
            kind.append(level)

    return graph_network(
        "folded-clos",
        np.arange(prod(children)) // children[0],
        links,
        {
            "nearest-common-ancestor": partial(nca, level=level_of, select="random"),
            "adaptive-nearest-common-ancestor": partial(nca, level=level_of, select="two"),
        },
        routers=first[-1],
        indirect=True,
        dims=[Dimension(f"level {level}", npus) for level, npus in enumerate(children)],
        kinds=[f"level{level + 1}" for level in range(tops)] or ["link"],
        kind=kind,
        kind_dims=range(1, tops + 1),
        place=levels([s * t for s, t in zip(subtrees, on_top, strict=True)]),
    )


@topologies.register("k-ary-n-tree")
def k_ary_n_tree(k: int, n: int) -> Topology:
    """A full fat tree: `n` levels of switches with k links down and k up, k^n NPUs (Petrini and Vanneschi 1997)."""
    check_count(k, "network.options.k")
    check_count(n, "network.options.n")
    if k**n > MAX_NPUS:
        raise InputError(f"{k}^{n} NPUs are too many", key="network.options.n", allowed=f"at most {MAX_NPUS} NPUs")
    return replace(folded_clos([k] * n, [k] * (n - 1)), name="k-ary-n-tree")


@topologies.register("leaf-spine")
def leaf_spine(npus: int, leaves: int, spines: int, parallel: int = 1) -> Topology:
    """Leaves and spines: `leaves` switches with `npus` NPUs each, `parallel` links from each leaf to each spine."""
    for name, value in (("npus", npus), ("leaves", leaves), ("spines", spines), ("parallel", parallel)):
        check_count(value, f"network.options.{name}")
    if npus * leaves > MAX_NPUS:
        problem = f"{npus * leaves} NPUs are too many"
        raise InputError(problem, key="network.options.leaves", allowed=f"at most {MAX_NPUS} NPUs")
    return replace(folded_clos([npus, leaves], [spines], [parallel]), name="leaf-spine")
