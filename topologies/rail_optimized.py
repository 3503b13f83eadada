"""Rail-optimized networks: NPU i of every server attaches to the leaf switches of rail i; a switch joins each server.

Within a server, NPUs use its scale-up switch (NVLink); NPUs of the same number use their rail. Spines join the rails.
Without spines, messages between rails pass through an NPU of the other server, as NCCL's PXN does it.
"""

from functools import partial
from itertools import product

import numpy as np

from pyxsim.errors import InputError
from pyxsim.registry import topologies
from pyxsim.routing.graph import nca
from pyxsim.topology import Dimension, Topology, graph_network
from pyxsim.topology.place import levels
from pyxsim.topology.routings import graph_routings
from pyxsim.topology.shape import MAX_NPUS, check_count


@topologies.register("rail-optimized", aliases=("rail",))
def rail_optimized(
    servers: int, npus: int = 8, pod: int = 0, spines: int = 0, parallel: int = 1, planes: int = 1
) -> Topology:
    """Servers of `npus` NPUs with a rail for each of them; each NPU has a NIC port in each of `planes` copies.

    `pod`: servers of a leaf switch (0: all); `spines` of each plane, with `parallel` links to each leaf switch.
    """
    counts = [("servers", servers), ("npus", npus), ("parallel", parallel), ("planes", planes)]
    for name, value in counts:
        check_count(value, f"network.options.{name}")
    pod = pod or servers
    total = servers * npus
    if total > MAX_NPUS:
        raise InputError(
            f"{total} NPUs are too many", key="network.options.servers", allowed=f"at most {MAX_NPUS} NPUs"
        )
    if not 1 <= pod <= servers or servers % pod:
        raise InputError(f"a pod of {pod} servers", key="network.options.pod", allowed=f"a divisor of {servers}")
    if spines < 0 or (pod < servers and not spines):
        allowed = "at least 1, as leaf switches are smaller than a rail" if pod < servers else "at least 0"
        raise InputError(f"{spines} spines", key="network.options.spines", allowed=allowed)
    leaves = planes * npus * (servers // pod)  # by plane, pod, rail
    first_leaf, first_spine = total + servers, total + servers + leaves
    links = [(npu, total + npu // npus) for npu in range(total)]
    links += [
        (npu, first_leaf + (plane * (servers // pod) + npu // npus // pod) * npus + npu % npus)
        for plane, npu in product(range(planes), range(total))
    ]
    links += [
        (first_leaf + leaf, first_spine + leaf // (leaves // planes) * spines + spine)
        for leaf, spine, _ in product(range(leaves), range(spines), range(parallel))
    ]
    sizes = [total, total * planes, leaves * spines * parallel]
    level = np.repeat([0, 1, 2], [total, servers + leaves, planes * spines])
    return graph_network(
        "rail-optimized",
        np.arange(total),
        links,
        {"nearest-common-ancestor": partial(nca, level=level)} if spines else graph_routings("minimal"),
        routers=len(level),
        dims=[Dimension("server", npus, "ring"), Dimension("rail", servers, "ring")],
        kinds=["scale-up", "rail", *(["spine"] if spines else [])],
        kind=np.repeat([0, 1, 2], sizes),
        kind_dims=[0, 1, 1][: 3 if spines else 2],
        router_names=[
            *(f"({npu % npus},{npu // npus})" for npu in range(total)),
            *(f"(*,{server})" for server in range(servers)),
            *(
                f"leaf{plane}:({rail},{first})"
                for plane, first, rail in product(range(planes), range(servers // pod), range(npus))
            ),
            *(f"spine{plane}:{spine}" for plane, spine in product(range(planes), range(spines))),
        ],
        place=levels([total, servers + leaves, *([planes * spines] if spines else [])]),
    )
