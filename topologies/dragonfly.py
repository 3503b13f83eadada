"""A dragonfly (Kim, Dally, Scott and Abts 2008): groups of fully connected routers, and links between all groups.

Which router has the link to which group is the arrangement. Names as in Camarero, Vallejo and Beivide (2014):
- consecutive: port j of a group, counted through its routers, leads to the j-th of the other groups;
- palm-tree: port j of group i leads to group i - 1 - j, going round.

Routes go at most local, global, local. Links have two VC classes: a packet is in class 0 until it takes a global link,
and in class 1 from there on, so that no circle closes over several groups.
"""

from collections.abc import Callable

import numpy as np

from pyxsim.errors import InputError
from pyxsim.registry import topologies
from pyxsim.routing import Relation
from pyxsim.topology import Dimension, Topology, Wires, graph_network
from pyxsim.topology.place import circles


@topologies.register("dragonfly")
def dragonfly(p: int, a: int, h: int, g: int = 0, arrangement: str = "consecutive") -> Topology:
    """`p` NPUs per router, `a` routers per group, `h` global links per router, `g` groups (0: a * h + 1, the most).

    With fewer groups than the most several links join each pair of groups.
    """
    g = g or a * h + 1
    if min(p, a, h, g) < 1 or g > a * h + 1:
        raise InputError(f"{g} groups", key="network.options.g", allowed=f"1 to a * h + 1 = {a * h + 1}")
    if arrangement not in ORDER:
        raise InputError(f"no arrangement '{arrangement}'", key="network.options.arrangement", allowed=list(ORDER))
    local = [(i * a + s, i * a + r) for i in range(g) for r in range(a) for s in range(r)]
    across = global_links(a, h, g, ORDER[arrangement])

    def minimal(wires: Wires, spread: bool = False) -> Relation:
        """`spread`: a global link has one class only, so that packets on it may use all of its VCs."""
        begin, end, goal = wires.src // a, wires.dst // a, wires.homes // a
        is_global = begin != end
        leads = np.zeros((wires.routers, g), bool)  # whether a router has a link to a group
        leads[wires.src[is_global], end[is_global]] = True
        inside = begin[:, None] == goal[None, :]
        gate = leads[wires.dst][:, goal] & ~leads[wires.src][:, goal] & ~inside
        last = wires.dst[:, None] == wires.homes[None, :]
        allowed = np.where(is_global[:, None], end[:, None] == goal[None, :], np.where(inside, last, gate))
        if spread:
            classes = np.where(is_global, 1, 2)
            return wires.relation(allowed, inside & ~is_global[:, None], classes=classes)
        # Links are grouped by where they lead, so a packet keeps class 1 in the group that it comes to.
        return wires.relation(allowed, is_global[:, None].astype(int), classes=2, group=end)

    return graph_network(
        "dragonfly",
        np.repeat(np.arange(a * g), p),
        local + across,
        {"minimal": minimal},
        routers=a * g,
        dims=[Dimension("group", a * p), Dimension("groups", g)],
        kinds=["local", "global"],
        kind=[0] * len(local) + [1] * len(across),
        router_names=[f"({i},{r})" for i in range(g) for r in range(a)],
        place=circles(g, a),
    )


# The order in which the ports of group i lead to the other groups: by this number of the other group j.
ORDER: dict[str, Callable[[int, int, int], int]] = {
    "consecutive": lambda i, j, g: j,
    "palm-tree": lambda i, j, g: (i - 1 - j) % g,
}


def global_links(a: int, h: int, g: int, order: Callable[[int, int, int], int]) -> list[tuple[int, int]]:
    """(router, router) of each global link.

    Each pair of groups gets as many links as all can have; what is then left goes to groups 1, 2 .. further, as long as
    there are two ports for it in every group (or one, to the opposite group).
    """
    rounds = [set(range(1, g))] * (a * h // max(g - 1, 1)) if g > 1 else []
    rest = a * h - len(rounds) * (g - 1)
    rounds += [{d for d in range(1, g) if min(d, g - d) <= rest // 2 or (2 * d == g and rest % 2)}]
    port: dict[tuple[int, int, int], int] = {}
    for i in range(g):
        ends = sorted((n, order(i, j, g), j) for n, far in enumerate(rounds) for j in range(g) if (j - i) % g in far)
        port |= {(i, j, n): number for number, (n, _, j) in enumerate(ends)}
    return [(i * a + port[i, j, n] // h, j * a + port[j, i, n] // h) for i, j, n in sorted(port) if i < j]
