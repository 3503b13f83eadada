"""A dragonfly (Kim, Dally, Scott and Abts 2008): groups of fully connected routers, and links between all groups.

The arrangement determines which router has the link to which group (Camarero, Vallejo and Beivide 2014):
- consecutive: port j of a group, counted through its routers, leads to the j-th of the other groups;
- palm-tree: port j of group i leads to group i - 1 - j, modulo the number of groups.

Routes are at most local, global, local. Links have two VC classes: a packet is in class 0 up to its global link and in
class 1 after it, so no cycle spans several groups.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pyxsim.arrays import BoolArray
from pyxsim.errors import InputError
from pyxsim.registry import topologies
from pyxsim.routing import Relation, Way
from pyxsim.topology import Dimension, Topology, Wires, graph_network
from pyxsim.topology.place import circles
from pyxsim.topology.routings import over
from pyxsim.topology.shape import check_count
from pyxsim.topology.size import check_size


@topologies.register("dragonfly")
def dragonfly(p: int, a: int, h: int, g: int = 0, arrangement: str = "consecutive") -> Topology:
    """A dragonfly: groups of fully connected routers, and links between all groups.

    `p` NPUs per router, `a` routers per group, `h` global links per router, `g` groups (0: a * h + 1, the maximum).
    With fewer groups several links connect each pair of groups.
    """
    for name, value in (("p", p), ("a", a), ("h", h)):
        check_count(value, f"network.options.{name}")
    g = g or a * h + 1
    if not 1 <= g <= a * h + 1:
        raise InputError(f"{g} groups", key="network.options.g", allowed=f"1 to a * h + 1 = {a * h + 1}")
    if arrangement not in ORDER:
        key = "network.options.arrangement"
        raise InputError(f"unknown arrangement '{arrangement}'", key=key, allowed=list(ORDER), given=arrangement)
    check_size(g * a * (a - 1) + g * a * h, (a * g) ** 2 * p, key="network.options")
    local = [(i * a + s, i * a + r) for i in range(g) for r in range(a) for s in range(r)]
    across = global_links(a, h, g, ORDER[arrangement])
    routes = Routes(a)
    return graph_network(
        "dragonfly",
        np.repeat(np.arange(a * g), p),
        local + across,
        {"minimal": routes.minimal, **over(routes.minimal), "ugal-booksim2": routes.ugal_booksim2},
        routers=a * g,
        indirect=True,
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

    Each pair of groups gets the same number of links. Remaining ports lead to the groups at distance 1, 2, ... in both
    directions, as long as every group has two (and one more to the opposite group).
    """
    rounds = [set(range(1, g))] * (a * h // (g - 1)) if g > 1 else []
    rest = a * h - len(rounds) * (g - 1)
    rounds += [{d for d in range(1, g) if min(d, g - d) <= rest // 2 or (2 * d == g and rest % 2)}]
    port: dict[tuple[int, int, int], int] = {}
    for i in range(g):
        ends = sorted((n, order(i, j, g), j) for n, far in enumerate(rounds) for j in range(g) if (j - i) % g in far)
        port |= {(i, j, n): number for number, (n, _, j) in enumerate(ends)}
    return [(i * a + port[i, j, n] // h, j * a + port[j, i, n] // h) for i, j, n in sorted(port) if i < j]


@dataclass(frozen=True)
class Routes:
    """Routing functions for groups of `a` routers."""

    a: int

    def minimal(self, wires: Wires, spread: bool = False, class_vcs: int = 0) -> Relation:
        """Minimal routes.

        `spread`: global links have one class, so packets on them may use all VCs. `class_vcs`: VCs of each class; 0: an
        even share of all.
        """
        is_global, inside, allowed = self._links(wires)
        if spread:
            return wires.relation(allowed, inside & ~is_global, classes=np.where(is_global[:, 0], 1, 2))
        # Links are grouped by the group in which they end, so a packet keeps class 1 in the group that it enters.
        relation = wires.relation(allowed, is_global, classes=2, group=wires.dst // self.a)
        return replace(relation, fixed_vcs=(class_vcs, class_vcs))

    def ugal_booksim2(self, wires: Wires, bias: int = 30) -> Relation:
        """UGAL with the three VC classes of BookSim2, which can deadlock.

        A packet is in class 0 up to its via, then in class 1, and in class 2 after its last global link. On the route
        to the via, it is in class 0 both before and after its global link.
        """
        is_global, inside, allowed = self._links(wires)
        classes = [np.zeros_like(inside), np.where(is_global | inside, 2, 1)]
        relation = wires.relation([allowed, allowed], classes, classes=3)
        ways = (Way(last=1), Way(first=0, last=1, via="any", bias=bias))
        return replace(relation, ways=ways, choose="least")

    def _links(self, wires: Wires) -> tuple[BoolArray, BoolArray, BoolArray]:
        """Per link and home: whether the link is global, starts in the group of the home, and may be taken."""
        begin, end, goal = wires.src // self.a, wires.dst // self.a, wires.homes // self.a
        is_global = begin != end
        leads = np.zeros((wires.routers, int(goal.max()) + 1), np.bool_)  # whether a router has a link to a group
        leads[wires.src[is_global], end[is_global]] = True
        inside = begin[:, None] == goal[None, :]
        gate = leads[wires.dst][:, goal] & ~leads[wires.src][:, goal] & ~inside
        last = wires.dst[:, None] == wires.homes[None, :]
        across = end[:, None] == goal[None, :]
        allowed = np.where(is_global[:, None], across & ~inside, np.where(inside, last, gate))
        return is_global[:, None], inside, allowed
