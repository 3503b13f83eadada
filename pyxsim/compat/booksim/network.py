"""The topology and the routing of a BookSim2 configuration, as the table [network]."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyxsim.compat.booksim.anynet import parse, write_graphml
from pyxsim.compat.booksim.config import Config
from pyxsim.compat.booksim.traffic_options import Nodes
from pyxsim.errors import InputError
from pyxsim.textfile import read_text

MAX_NODES = 2**20
_BY_CREDITS = "adaptive_xy_yx", "adaptive_xyyx", "ugal", "ugal_pni", "ugal_xyyx", "anca"
_SIMPLE = "islip", "pim", "loa", "max_size"


@dataclass(frozen=True)
class Routing:
    """The routing of a routing function. `note`: how it differs."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Net:
    """The network of a configuration."""

    table: dict[str, Any]
    routings: Mapping[str, Routing]
    nodes: Nodes


NOTHING = Net({}, {}, Nodes(1, (1,)))
_VALIANT = "packets keep to the VCs of their phase up to the last router, in BookSim2 not: 1 % of latency"
_UNSAFE = "with BookSim2's VC classes, which can deadlock (network.router.routing = 'ugal' cannot): 1.5 % of latency"


def network_table(config: Config) -> tuple[dict[str, Any], dict[str, Any], Nodes]:
    """Return ([network] without the router, the routing with its options, the nodes for patterns)."""
    build = config.word("topology", _BUILD)
    net = NOTHING if build is None else build(config)
    routing = _routing(config, net)
    if net.nodes.npus > MAX_NODES:
        config.fault("k", f"{net.nodes.npus} nodes are too many", allowed=f"at most {MAX_NODES}")
    width = config.count("channel_width", least=1, most=2**20)
    if width % 8:
        config.note("channel_width", f"{width} bits are taken for {-(-width // 8)} bytes, which changes no cycle")
    flit = -(-width // 8)
    table = {
        **net.table,
        "clock": "1 GHz",
        "flit": f"{flit} B",
        "bandwidth": f"{flit * 10**9} B/s",
        "lane_latency": "1 cycle",
        "lanes": 1,
    }
    return table, routing, net.nodes


_NOT_HERE: dict[str, str] = {
    "chaos": "it does not run in BookSim2, either",
    "dim_order_ni": "it needs as many VCs as nodes",
    "dim_order_pni": "it needs as many VCs as nodes in a dimension",
    "romm_ni": "it needs as many VCs as nodes",
    "valiant_ni": "it needs as many VCs as nodes, and ends in an assertion in BookSim2",
    "ugal_pni": "it needs as many VCs as routers in a dimension, twice",
    "ugal_xyyx": "ugal chooses between the same routes in one order of the dimensions",
}


def _routing(config: Config, net: Net) -> dict[str, Any]:
    """Return routing and routing_options of [network.router]."""
    name = config.named("routing_function").name
    if not net.routings:
        return {}
    if name not in net.routings:
        topology = config.named("topology").name
        problem = f"'{name}' is not in this version for '{topology}'" if name != "none" else "is missing"
        if name in _NOT_HERE:
            problem = f"'{name}' is not in this version: {_NOT_HERE[name]}"
        config.fault("routing_function", problem, allowed=list(net.routings), given=name)
        return {}
    routing = net.routings[name]
    _earlier_choice(config, name)
    if config.flag("noq"):
        routing = _by_next_output(config, routing)
    if routing.note:
        config.note("routing_function", routing.note)
    return {"routing": routing.name, **({"routing_options": dict(routing.options)} if routing.options else {})}


def _earlier_choice(config: Config, name: str) -> None:
    """Note where look-ahead or speculation make a difference to an adaptive routing."""
    if name in _BY_CREDITS and not config.count("routing_delay"):
        what = "the route is chosen at the front of the buffer, in BookSim2 before the packet enters it"
        config.note("routing_delay", f"{what}: 5 % of latency near saturation")
    ties = config.named("topology").name == "torus" and config.count("k", least=1) % 2 == 0
    if name == "min_adapt" and ties and config.flag("speculative"):
        what = "a head bids for one link, in BookSim2 also for that of its escape VC, which may lead the other way"
        config.note("speculative", f"{what}: 7 % more latency near saturation")


def _by_next_output(config: Config, routing: Routing) -> Routing:
    """The routing with VCs for every output of the next router (noq)."""
    outputs = 2 * config.count("n") + 1
    if config.named("topology").name != "mesh" or routing.name != "dimension-order":
        config.fault("noq", "is not in this version for this network and routing", allowed="0, or dor on a mesh")
    elif config.count("routing_delay"):
        config.fault("noq", "needs lookahead routing, as in BookSim2", allowed="routing_delay = 0")
    elif config.count("num_vcs", least=1) < outputs:
        config.fault("num_vcs", "noq needs a VC for every output", allowed=f"at least {outputs}")
    why = "packets enter the network on any VC here, in BookSim2 on those of their first output"
    config.note("noq", f"{why}: 5 % less latency near saturation with one VC for each")
    return Routing("next-output", {"class_vcs": max(1, config.count("num_vcs", least=1) // outputs)})


def _cube(config: Config) -> tuple[int, int]:
    return config.count("k", least=1, most=MAX_NODES), config.count("n", least=1, most=20)


def _power(k: int, n: int) -> int:
    return int(min(k**n, 2 * MAX_NODES))


def _torus(config: Config) -> Net:
    k, n = _cube(config)
    # Adaptive packets use VC 3 in BookSim2, independent of num_vcs.
    adaptive = {"adaptive_vcs": 1, "ties": "-", **_adaptive(config)}
    return Net(
        {"topology": "torus", "shape": [k] * n, "latency": "2 cycles" if _noc(config) else "1 cycle"},
        {
            "dim_order": Routing("dimension-order"),
            "dim_order_bal": Routing("dimension-order-balanced"),
            "min_adapt": Routing("minimal-adaptive", adaptive),
            "valiant": Routing("valiant", {}, "BookSim2 aborts here"),
        },
        Nodes(_power(k, n), (k,) * n),
    )


def _mesh(config: Config) -> Net:
    k, n = _cube(config)
    return Net(
        {"topology": "mesh", "shape": [k] * n, "latency": "1 cycle"},
        {
            "dor": Routing("dimension-order"),
            "dim_order": Routing("dimension-order"),
            "xy_yx": Routing("xy-yx"),
            "adaptive_xy_yx": Routing("adaptive-xy-yx", {"draw_ties": True}),
            "min_adapt": Routing("minimal-adaptive", _adaptive(config)),
            "planar_adapt": Routing(
                "planar-adaptive", {"plane_vcs": config.count("num_vcs", least=1) // 3, "dimensions": "first"}
            ),
            "romm": Routing("romm"),
            "valiant": Routing("valiant", {}, _VALIANT),
        },
        Nodes(_power(k, n), (k,) * n),
    )


def _adaptive(config: Config) -> dict[str, Any]:
    """Options of minimal-adaptive routing: BookSim2 requests escape VCs at a lower priority, which some of its
    allocators
    ignore, and keeps only the first of equal outputs, so packets never choose between dimensions."""
    return {"sticky": True, "equal": config.named("vc_allocator").name in _SIMPLE, "dimensions": "first"}


def _concentrated_mesh(config: Config) -> Net:
    k, n = _cube(config)
    if n != 2 or config.count("c") != 4 or (config.count("xr"), config.count("yr")) != (2, 2):
        config.fault("topology", "a cmesh has two dimensions of routers with 2x2 nodes", allowed="n=2, c=4, xr=2, yr=2")
    express = config.named("routing_function").name in ("dor", "xy_yx")
    if express and k != 4:
        config.note("routing_function", "express links are taken here only where they make the way shorter")
    return Net(
        {
            "topology": "concentrated-mesh",
            "options": {"routers": [k, k], "concentration": [2, 2], "express": express, "floor_plan": _noc(config)},
            "latency": "1 cycle",
        },
        {
            "dor_no_express": Routing("dimension-order"),
            "dor": Routing("dimension-order"),
            "xy_yx_no_express": Routing("xy-yx"),
            "xy_yx": Routing("xy-yx"),
        },
        Nodes(4 * _power(k, 2), (2 * k, 2 * k)),
    )


def _flattened_butterfly(config: Config) -> Net:
    k, n = _cube(config)
    c, side = config.count("c", least=1), config.count("xr", least=1)
    if c != side * config.count("yr", least=1) or side != config.count("yr"):
        config.fault("c", "the nodes of a router do not form a square of xr by yr", allowed="c = xr * yr, xr = yr")
    laid_out = n == 2 and config.count("x") == config.count("y") == k
    if not laid_out and (_noc(config) or c > 1):
        allowed = "n = 2 and x = y = k; without them use_noc_latency = 0 and c = 1"
        config.fault("topology", "the routers have no place in a grid of x by y", allowed=allowed)
    if side > 3 and _noc(config):
        config.note("xr", "nodes are 1 cycle from their router here, in BookSim2 some are further")
    tile = [side] * n if n == 2 else [c] + [1] * (n - 1)
    ugal = {"bias": 2, "via": "aligned"}
    return Net(
        {
            "topology": "hyperx",
            "options": {"routers": [k] * n, "concentration": tile, "floor_plan": _noc(config)},
            "latency": "1 cycle",
        },
        {
            "ran_min": Routing("dimension-order"),
            "xyyx": Routing("xy-yx"),
            "adaptive_xyyx": Routing("adaptive-xy-yx", {"draw_ties": True}),
            "valiant": Routing("valiant", {"early": True}),
            "ugal": Routing("ugal", ugal),
        },
        Nodes(_power(k, n) * c, (k * side, k * side) if n == 2 else (k,) * n),
    )


def _tree(config: Config) -> Net:
    k, n = _cube(config)
    return Net(
        {"topology": "k-ary-n-tree", "options": {"k": k, "n": n}, "latency": "1 cycle"},
        {
            "nca": Routing("nearest-common-ancestor"),
            "anca": Routing(
                "adaptive-nearest-common-ancestor",
                {},
                "two different links up are compared, in BookSim2 perhaps the same twice: below 1 % of latency",
            ),
        },
        Nodes(_power(k, n), (k,) * n),
    )


def _quad_tree(config: Config) -> Net:
    k, n = _cube(config)
    return Net(
        {
            "topology": "folded-clos",
            "options": {"children": [k] * n, "parents": [1] * (n - 1)},
            "latency": "1 cycle",
        },
        {"nca": Routing("nearest-common-ancestor")},
        Nodes(_power(k, n), (k,) * n),
    )


_ANY_VC = "packets leave on any VC, in BookSim2 on one: 16 % less latency if most traffic stays at its router, else 1 %"
LOCAL, GLOBAL = 10, 100  # cycles, constants in BookSim2


def _dragonfly(config: Config) -> Net:
    p, n = _cube(config)
    if n != 1:
        config.fault("n", "a group of a dragonfly has one dimension", allowed="1")
    a, groups, vcs = 2 * p, 2 * p * p + 1, config.count("num_vcs", least=1)
    return Net(
        {
            "topology": "dragonfly",
            "options": {"p": p, "a": a, "h": p},
            "latency": [f"{LOCAL} cycles", f"{GLOBAL} cycles"],
        },
        {
            "min": Routing("minimal", {} if vcs == 2 else {"class_vcs": 1}, _ANY_VC),
            "ugal": Routing("ugal-booksim2", {"bias": 60}, _UNSAFE),
        },
        Nodes(min(p * a * groups, 2 * MAX_NODES), (p * a, groups)),
    )


def _any_network(config: Config) -> Net:
    """The network of a file, relative to the current folder as in BookSim2."""
    file = config.text("network_file").strip('"')
    if not file:
        config.fault("network_file", "is missing", allowed="the file of the anynet")
        return NOTHING
    try:
        net = parse(read_text(file, "a network of BookSim2's anynet"), file)
    except InputError as error:
        config.faults.append(error)
        return NOTHING
    if any(latency != 1 for latency in net.node_latency.values()):
        config.note("network_file", "all nodes are 1 cycle from their router here")
    path = write_graphml(net)
    config.note("network_file", f"the network is read from {path}, which was written for it")
    return Net(
        {"topology": "graph", "options": {"file": str(path)}, "latency": "1 cycle"},
        {"min": Routing("table")},
        Nodes(len(net.home), (len(net.home),)),
    )


def _butterfly(config: Config) -> Net:
    k, n = _cube(config)
    return Net(
        {"topology": "butterfly", "options": {"k": k, "n": n}, "latency": "1 cycle"},
        {"dest_tag": Routing("destination-tag")},
        Nodes(_power(k, n), (k,) * n),
    )


def _tree4(config: Config) -> Net:
    if _cube(config) != (4, 3):
        config.fault("k", "tree4 has 64 nodes", allowed="k = 4, n = 3")
    return Net(
        {"topology": "tree4", "latency": "1 cycle"},
        {
            "nca": Routing("nearest-common-ancestor"),
            # Of equal outputs BookSim2 requests only the first.
            "anca": Routing("nearest-common-ancestor", {"only_first_up": True}),
        },
        Nodes(64, (4, 4, 4)),
    )


def _noc(config: Config) -> bool:
    return config.count("use_noc_latency") == 1


_BUILD: dict[str, Callable[[Config], Net]] = {
    "torus": _torus,
    "mesh": _mesh,
    "cmesh": _concentrated_mesh,
    "flatfly": _flattened_butterfly,
    "fattree": _tree,
    "qtree": _quad_tree,
    "dragonflynew": _dragonfly,
    "fly": _butterfly,
    "tree4": _tree4,
    "anynet": _any_network,
}
