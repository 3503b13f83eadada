"""A ring: every NPU has a link to the next one and, in a bidirectional ring, one to the previous.

Packets take the shorter direction; to the opposite node of an even ring, plane 0 takes +, plane 1 takes -.

The channels of a ring form a cycle, so the links have two VC classes. In a bidirectional ring a packet keeps the class
with which it starts: 1 if its route crosses the dateline (from the last NPU to the first, or back), else 0. Class 0
never crosses the dateline, and class 1 never uses the links opposite to it, since no route is longer than half the
ring: neither class forms a cycle. (BookSim2's `dim_order_torus` does the same.) In a unidirectional ring routes are
longer; there a packet changes from class 1 to class 0 at the dateline (Dally and Seitz 1987).
"""

from collections.abc import Sequence

import numpy as np

from pyxsim.registry import blocks, topologies
from pyxsim.topology import Block, Topology, check_npus, check_shape, product


@blocks.register("ring")
def ring(npus: int, bidirectional: bool = True) -> Block:
    npus = check_npus(npus)
    ids = np.arange(npus)
    router, goal = ids[:, None], ids[None, :]
    up, down = (goal - router) % npus, (router - goal) % npus  # hops to go by + and by -
    if bidirectional:
        by_plus = np.stack([up <= down, up < down])
    else:
        by_plus = np.ones((1, npus, npus), dtype=bool)
    ends = ids if npus > 1 else ids[:0]  # a ring of one has no links
    return Block(
        name="ring",
        npus=npus,
        src=np.concatenate([ends, ends] if bidirectional else [ends]),
        dst=np.concatenate([ends + 1, ends - 1] if bidirectional else [ends + 1]) % npus,
        link_names=["+"] * len(ends) + ["-"] * len(ends) * bidirectional,
        next=np.where(router == goal, -1, np.where(by_plus, router, npus + router)),
        vc_class=np.where(by_plus, router > goal, router < goal).astype(int),
        classes=2,
        keep_class=bidirectional,
        directions=2 if bidirectional else 1,
        algorithm="ring",
    )


@topologies.register("ring")
def ring_network(shape: Sequence[int], bidirectional: bool = True) -> Topology:
    (npus,) = check_shape(shape, dimensions=1)
    return product("ring", [ring(npus, bidirectional)])
