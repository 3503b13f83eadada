"""Configuration of the engine from a topology and [network]: links, lanes, buffers, delays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import BoolArray, Int32Array, unique_by_identity
from pyxsim.core import engine_options as core
from pyxsim.core.engine_options import Links, RouterOptions, Routes
from pyxsim.errors import InputError
from pyxsim.network.credit_returns import with_credit_returns
from pyxsim.network.lanes import Lanes, make_lanes
from pyxsim.network.link_params import Keys, LinkParams, LinkParamsFactory
from pyxsim.network.retry import retry_arrays, share_of_bandwidth
from pyxsim.routing.relation import EACH, Relation, vc_ranges
from pyxsim.settings import Network, RouterSettings, Stages, per_dimension
from pyxsim.topology.topology import Topology
from pyxsim.units import Cycles, parse_bandwidth, parse_duration, rounding_warnings, to_cycles

Q = TypeVar("Q")

FLOWS = {
    "wormhole": core.WORMHOLE,
    "virtual-cut-through": core.CUT_THROUGH,
    "store-and-forward": core.STORE_AND_FORWARD,
}
PRIORITIES = {
    "class": core.BY_CLASS,
    "age": core.BY_AGE,
    "network-age": core.BY_NETWORK_AGE,
    "local-age": core.BY_LOCAL_AGE,
    "hops": core.BY_HOPS,
    "queue": core.BY_QUEUE,
}
SHARED_LIMITS = {"equal": core.EQUAL_SHARE, "power-of-two": core.POWER_SHARE}
VIAS = {"none": core.VIA_NONE, "any": core.VIA_ANY, "box": core.VIA_BOX, "aligned": core.VIA_ALIGNED}
CHOICES = {"random": 0, "least": 1, "least-drawn": 2}


class MessageClass(NamedTuple):
    """A message class: its virtual network, and its priority (higher goes first)."""

    vnet: int = 0
    priority: int = 0


@dataclass(frozen=True)
class EngineConfig:
    """The input of the engine, and the lanes by which messages enter and leave.

    Attributes
    ----------
    links, routes, options
        Input of `pyxsim.core.engine.Engine`.
    stages
        Cycles of each pipeline stage.
    wires
        Parameters of each kind of links, without settings of single links.
    link_params
        Parameters of each link.
    inject, eject
        Lanes of all NPUs.
    warnings
        Lines for the user.
    """

    links: Links
    routes: Routes
    options: RouterOptions
    stages: Stages
    wires: Sequence[LinkParams]
    link_params: Sequence[LinkParams]
    inject: Lanes
    eject: Lanes
    warnings: list[str]

    def params_of_counted(self, topology: Topology) -> Sequence[LinkParams]:
        """Return the parameters of the links that tables list: host links are behind the others."""
        if not topology.hosts:
            return self.link_params
        hosts = [lanes.wires[kind] for lanes in (self.inject, self.eject) for kind in lanes.wire.tolist()]
        return [*self.link_params, *hosts]

    @property
    def head_wait(self) -> int:
        """Minimum of the cycles that a head spends in a router before it leaves its buffer: RC and VA."""
        ticks = self.stages.rc + self.stages.va - self.options.speculative
        return ticks if self.options.speedup == 1 else (ticks + self.stages.st) // self.options.speedup


def build_engine_config(
    topology: Topology,
    network: Network,
    *,
    classes: Sequence[MessageClass] = (MessageClass(),),
    open_traffic: bool = False,
    packet: int | None = None,
    seed: int = 0,
) -> EngineConfig:
    """Build the configuration of the engine.

    Parameters
    ----------
    topology, network
        The network and its settings.
    classes
        Message classes.
    open_traffic
        Whether an NPU has one lane by default.
    packet
        Flits of the longest packet; default: a full packet of the settings.
    seed
        Seed of the draws in routers.

    Raises
    ------
    InputError
        If the settings do not fit the topology or its routing.
    """
    router, relation = network.router, topology.relation
    _check_routing(relation, network)
    wiring = LinkParamsFactory(network)
    wires, link_params = _links_of(topology, network, wiring)
    numbered = _numbered(topology, network, open_traffic)
    into, out = (
        make_lanes(topology, network, wires, link_params, numbered, wiring, incoming=incoming)
        for incoming in (False, True)
    )
    of_links, which = unique_by_identity(link_params)
    kinds = [*of_links, *into.wires, *out.wires]
    # Every link's and lane's kind, in the numbers of the engine.
    kind = np.concatenate([which, len(of_links) + into.wire, len(of_links) + len(into.wires) + out.wire])
    longest = -(-(network.packet + network.header) // network.flit) if packet is None else packet
    depths = {wire: wiring.depth(wire, longest, relation.bubble) for wire in dict.fromkeys(kinds)}
    homes = relation.home
    lanes = len(into.npu) + len(out.npu)
    nowhere = np.full(lanes, -1)
    link_classes = np.concatenate([relation.link_classes, np.ones(lanes, np.int32)]).astype(np.int32)
    low, high, ranges = _ranges(link_classes, topology.links, relation.fixed_vcs, network)
    queues = router.output_queue or router.queue_after_st
    link_layer = _with_link_layer(topology, link_params, into, out)
    retry = retry_arrays(network, link_layer)
    links = Links(
        network=topology.links,
        injection=len(into.npu),
        ejection=len(out.npu),
        src=_ints(topology.link_src, nowhere[: len(into.npu)], homes[out.npu]),
        dst=_ints(topology.link_dst, relation.starts[into.npu], nowhere[: len(out.npu)]),
        vcs=np.full(len(kind), router.vcs, np.int32),
        depth=np.array([depths[wire] for wire in kinds], np.int32)[kind],
        s_num=np.array([wire.s.numerator for wire in kinds], np.int64)[kind],
        s_den=np.array([wire.s.denominator for wire in kinds], np.int64)[kind],
        delay=np.array([wire.delay for wire in kinds], np.int64)[kind],
        credit_delay=np.array([wire.credit_delay for wire in kinds], np.int64)[kind],
        output_queue=_ints(
            np.full(topology.links, queues),
            np.zeros(len(into.npu)),
            np.full(len(out.npu), router.queue_after_st),
        ),
        group=_ints(relation.link_group, nowhere),
        pool=np.full(len(kind), router.shared_buffer, np.int32),
        classes=link_classes,
        ranges=ranges,
        low=low,
        high=high,
        counted=topology.counted_links,
        **({} if retry is None else retry._asdict()),
    )
    return EngineConfig(
        links=with_credit_returns(links, topology, network, link_layer),
        routes=routes_of(relation),
        options=_options(network, wiring.stages, classes, seed),
        stages=wiring.stages,
        wires=wires,
        link_params=link_params,
        inject=into,
        eject=out,
        warnings=wiring.warnings,
    )


def _with_link_layer(
    topology: Topology, link_params: Sequence[LinkParams], into: Lanes, out: Lanes
) -> list[LinkParams | None]:
    """The parameters of all links of the engine; None for lanes inside NPUs, which have no retry and ideal credits."""
    lanes = [lanes.wires[kind] if topology.hosts else None for lanes in (into, out) for kind in lanes.wire.tolist()]
    return [*link_params, *lanes]


def _check_routing(relation: Relation, network: Network) -> None:
    """Raise InputError for settings that exclude bubble flow control, or heads that request several links at a time."""
    if relation.bubble:
        _check_bubble(network.router)
    if EACH not in relation.plane_select:
        return
    if not network.router.stages().va:
        raise InputError(
            "adaptive routing requests VCs of several links, but the pipeline has no VC allocation (va = 0)",
            key="network.router.pipeline",
            allowed="va of at least 1",
        )
    if network.router.ordered:
        raise InputError("adaptive routing cannot keep packets in order", key="network.router.ordered")


def _check_bubble(router: RouterSettings) -> None:
    """Raise InputError for settings with which the empty slot of a ring could be lost."""
    required = {
        "flow_control": "wormhole",  # a hole for a whole packet may be split into holes for parts of it
        "vc_reuse": "tail",  # with "drained", a packet cannot use the empty slot behind another one
        "ordered": False,
        "hold_switch": False,
        "shared_buffer": 0,
    }
    for name, allowed in required.items():
        if getattr(router, name) != allowed:
            shown = str(allowed).lower() if isinstance(allowed, bool) else repr(allowed)
            raise InputError("cannot be combined with routing bubble", key=f"network.router.{name}", allowed=shown)


def _links_of(
    topology: Topology, network: Network, wiring: LinkParamsFactory
) -> tuple[list[LinkParams], list[LinkParams]]:
    """The wires of each kind of links, and of each link."""
    router, kinds = network.router, len(topology.link_kinds)
    share = share_of_bandwidth(network)
    bandwidths = [bandwidth * share for bandwidth in network.bandwidths(kinds)]
    latencies = [to_cycles(latency, network.clock)[0] for latency in network.latencies(kinds)]
    credits: tuple[int | None, ...] = per_dimension(router.serdes_credit, kinds)
    used = set(topology.link_dim.tolist())  # where each link has its own bandwidth, that of its kind may be any
    wires = [
        wiring.wire(
            bandwidths[kind],
            latencies[kind],
            serdes_credit=credits[kind],
            unused=kind not in used or topology.link_bandwidth is not None,
        )
        for kind in range(kinds)
    ]
    memo: dict[object, LinkParams] = {}
    if topology.link_bandwidth is None:
        memo = {(kind, 1, None, None): wire for kind, wire in enumerate(wires)}
    params_of_links = []
    for link, row in enumerate(topology.link_rows()):
        if row not in memo:
            kind, length, width, latency = row
            keys = Keys(*(f"{what} of link {topology.link_name[link]}" for what in ("bandwidth", "latency")))
            bandwidth = bandwidths[kind] if width is None else share * _quantity(parse_bandwidth, width, keys.bandwidth)
            cycles = latencies[kind] * length
            if latency is not None:
                duration = _quantity(parse_duration, latency, keys.latency)
                wiring.warnings += rounding_warnings([(keys.latency, duration)], network.clock)
                cycles = to_cycles(duration, network.clock)[0]
            memo[row] = wiring.wire(bandwidth, cycles, serdes_credit=credits[kind], keys=keys)
        params_of_links.append(memo[row])
    return wires, params_of_links


def _quantity(parse: Callable[[object], Q], text: str, key: str) -> Q:
    """Parse a quantity that the topology gives for one link. Raises InputError."""
    try:
        value = parse(text)
    except InputError as error:
        raise error.at(key=key) from None
    if value in (0, Cycles(0)):
        raise InputError(f"{text!r} is zero", key=key)
    return value


def _numbered(topology: Topology, network: Network, open_traffic: bool) -> BoolArray:
    """bool[npus]: whether the lanes of an NPU are plain numbers."""
    if topology.lane_per_plane or network.lanes != "auto":
        return np.full(topology.npus, isinstance(network.lanes, int) and not topology.lane_per_plane)
    shared: BoolArray = np.bincount(topology.home, minlength=topology.routers)[topology.home] > 1
    return shared | open_traffic | topology.hosts


def _ranges(
    classes: Int32Array, links: int, fixed: Sequence[int], network: Network
) -> tuple[Int32Array, Int32Array, Int32Array]:
    """(low, high, first entry of each link): the VC range of each virtual network and VC class. Raises InputError.

    A link with `C` classes has `C` entries for each virtual network, in order.
    """
    networks = network.router.networks()
    low: list[int] = []
    high: list[int] = []
    rows: list[int] = []
    keys, which = np.unique(classes * 2 + (np.arange(len(classes)) >= links), return_inverse=True)
    for count, lane in (divmod(key, 2) for key in keys.tolist()):
        rows.append(len(low))
        first = 0
        for number, vcs in enumerate(networks):
            try:
                begins, ends = vc_ranges(
                    vcs, count, () if lane else fixed, shared=network.router.vc_classes == "shared"
                )
            except InputError as error:
                _check_adaptive(vcs, count, network)
                where = f"virtual_networks[{number}]" if len(networks) > 1 else "vcs"
                problem = f"{vcs} VCs per link are too few: the routing requires {count} VC classes"
                raise InputError(problem, key=f"network.router.{where}", allowed=error.allowed) from None
            low += (first + begins).tolist()
            high += (first + ends).tolist()
            first += vcs
    return np.array(low, np.int32), np.array(high, np.int32), np.array(rows, np.int32)[which]


def _check_adaptive(vcs: int, count: int, network: Network) -> None:
    """Raise InputError if fewer adaptive VCs would leave enough VCs for the escape."""
    adaptive = network.router.routing_options.get("adaptive_vcs")
    limit = vcs - (count - 1)  # the escape has one of each class
    if adaptive and limit >= 1:
        classes = "class" if count == 2 else "classes"
        raise InputError(
            f"{adaptive} adaptive VCs are too many: the escape requires {count - 1} VC {classes} of the {vcs} VCs",
            key="network.router.routing_options.adaptive_vcs",
            allowed=f"0 (all that remain) to {limit}",
        )


def routes_of(relation: Relation) -> Routes:
    """Return the relation as the engine reads it."""
    ways = relation.ways
    return Routes(
        home=relation.home,
        digits=relation.digits,
        own=relation.own,
        offset=relation.offset,
        link=np.asarray(relation.link),
        vc_class=np.asarray(relation.vc_class),
        set_start=relation.set_start,
        set_link=relation.set_link,
        set_class=relation.set_class,
        set_weight=relation.set_weight,
        plane_any=relation.plane_any,
        plane_select=relation.plane_select,
        plane_escape=relation.plane_escape,
        plane_sticky=relation.plane_sticky,
        plane_equal=relation.plane_equal,
        way_first=np.array([way.first for way in ways], np.int32),
        way_last=np.array([way.last for way in ways], np.int32),
        way_via=np.array([VIAS[way.via] for way in ways], np.int32),
        way_bias=np.array([way.bias for way in ways], np.int64),
        choose=CHOICES[relation.choose],
        early=relation.early,
        bubble=relation.bubble,
        wrap=relation.wrap,
        stride=relation.stride,
    )


def _options(network: Network, stages: Stages, classes: Sequence[MessageClass], seed: int) -> RouterOptions:
    router = network.router
    networks = len(router.networks())
    for number, message_class in enumerate(classes):
        if not 0 <= message_class.vnet < networks:
            raise InputError(
                f"message class {number} uses virtual network {message_class.vnet} of {networks}",
                key="network.router.virtual_networks",
                allowed=f"at least {message_class.vnet + 1} networks",
            )
    va, va_iterations = router.allocator("va")
    sa, sa_iterations = router.allocator("sa")
    return RouterOptions(
        rc=stages.rc,
        va=stages.va,
        drained=router.vc_reuse == "drained",
        step_arbiter=router.arbiter == "step",
        interleaved=router.injection == "interleaved",
        ordered=router.ordered,
        va_allocator=va,
        va_iterations=va_iterations,
        sa_allocator=sa,
        sa_iterations=sa_iterations,
        speculative=router.speculation,
        input_speedup=router.input_speedup,
        output_speedup=router.output_speedup,
        speedup=router.steps,
        st=stages.st if router.queue_after_st else 0,
        queue_limit=router.queue_limit,
        shared_limit=SHARED_LIMITS[limit] if isinstance(limit := router.shared_limit, str) else limit,
        next_vc=router.vc_choice == "next",
        hold_switch=router.hold_switch,
        va_credit=router.vc_requests == "credit",
        shared_classes=router.vc_classes == "shared",
        rank_by=PRIORITIES[router.priority],
        flow=FLOWS[router.flow_control],
        vnets=networks,
        class_vnet=[message_class.vnet for message_class in classes],
        class_priority=[message_class.priority for message_class in classes],
        seed=seed & (2**64 - 1),
    )


def _ints(*parts: NDArray[np.generic]) -> Int32Array:
    return np.concatenate(parts).astype(np.int32)
