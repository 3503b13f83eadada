"""A butterfly, or k-ary n-fly: n stages of switches with k inputs and k outputs (Dally and Towles, chapter 4).

NPUs send into the first stage and receive from the last one. Every packet passes all stages; there is one path for each
pair, and no cycle.
"""

from dataclasses import dataclass, replace

import numpy as np

from pyxsim.errors import InputError
from pyxsim.registry import topologies
from pyxsim.routing import Relation
from pyxsim.topology import Dimension, Topology, Wires, graph_network
from pyxsim.topology.place import levels
from pyxsim.topology.shape import MAX_NPUS, check_count


@topologies.register("butterfly", aliases=("fly",))
def butterfly(k: int, n: int) -> Topology:
    """A k-ary n-fly: `n` stages of k x k switches; NPUs send into the first stage and receive from the last."""
    check_count(k, "network.options.k")
    check_count(n, "network.options.n")
    if k**n > MAX_NPUS:
        raise InputError(f"{k}^{n} NPUs are too many", key="network.options.n", allowed=f"at most {MAX_NPUS}")
    rows = k ** (n - 1)
    address = np.arange(rows)
    links = []
    for stage in range(n - 1):
        shift = k ** (n - 2 - stage)  # stage s decides digit n - 1 - s of the destination
        here = address // shift % k
        for port in range(k):
            there = address + (port - here) * shift
            links += [(stage * rows + a, (stage + 1) * rows + b) for a, b in zip(address, there, strict=True)]
    npus = np.arange(k**n)
    return graph_network(
        "butterfly",
        (n - 1) * rows + npus // k,
        links,
        {"destination-tag": DestinationTag(k, n, rows).route},
        routers=n * rows,
        both_ways=False,
        dims=[Dimension("butterfly", k**n)],
        router_names=[f"({stage},{row})" for stage in range(n) for row in range(rows)],
        place=levels([rows] * n),
    )


@dataclass(frozen=True)
class DestinationTag:
    """Each stage follows one digit of the destination."""

    k: int
    n: int
    rows: int

    def route(self, wires: Wires) -> Relation:
        stage, there = wires.src // self.rows, wires.dst % self.rows
        shift = self.k ** (self.n - 2 - np.minimum(stage, self.n - 2))
        goal = wires.homes % self.rows
        allowed = there[:, None] // shift[:, None] % self.k == goal[None, :] // shift[:, None] % self.k
        return replace(wires.relation(allowed), entry=(np.arange(len(wires.home)) // self.k).astype(np.int32))
