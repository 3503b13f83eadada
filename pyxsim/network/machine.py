"""From a topology and the settings of [network] to the numbers the engine wants: links, lanes, buffers, delays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import NamedTuple

import numpy as np

from pyxsim.core.engine import LONGEST_DELAY, Links, RouterOptions, Routes
from pyxsim.errors import InputError
from pyxsim.settings import Network, Stages, per_dimension
from pyxsim.topology.topology import Topology
from pyxsim.units import Duration, format_bandwidth, to_cycles

MAX_SLOTS = 2**31 - 1
MAX_DENOMINATOR = 2**22  # times on a link are counted in 1/denominator cycles, in 64 bits: enough for 2^40 cycles


class Wire(NamedTuple):
    """What all links of one kind have in common: flit time `s` (cycles), latency and credit latency (cycles)."""

    s: Fraction
    latency: int
    delay: int  # from the end of serialisation to the input VC
    credit_delay: int

    @property
    def loop(self) -> int:
        """Cycles from a body flit's launch to the use of its credit, on an idle link."""
        return ceil(self.s) + self.delay + self.credit_delay


@dataclass(frozen=True)
class Lane:
    """Where a node meets the network: a lane is as wide as its links, and has their flit time."""

    npu: int
    wire: Wire


@dataclass(frozen=True)
class Machine:
    """The engine's input, and what is needed to speak to it.

    `wires`: per dimension; `inject[npu]`, `eject[npu]`: lane numbers of an NPU by key. What the keys are depends on the
    lanes: links of the router ("per-link"), dimensions, planes, or plain numbers.
    """

    links: Links
    routes: Routes
    options: RouterOptions
    stages: Stages
    wires: Sequence[Wire]
    inject: Sequence[dict[int, int]]
    eject: Sequence[dict[int, int]]
    warnings: list[str]


def build_machine(topology: Topology, network: Network) -> Machine:
    """Resolve everything that the settings leave open. Raises InputError."""
    router = network.router
    stages = router.stages()
    warnings: list[str] = []
    dimensions = len(topology.dims)
    wires = [
        _wire(network, stages, bandwidth, latency, stages.st, True, credit, warnings)
        for bandwidth, latency, credit in zip(
            network.bandwidths(dimensions),
            network.latencies(dimensions),
            per_dimension(router.serdes_credit, dimensions),
            strict=True,
        )
    ]
    inject, into = _lanes(topology, network, wires, stages, warnings, incoming=False)
    eject, out = _lanes(topology, network, wires, stages, warnings, incoming=True)
    if (topology.relation.link_classes > router.vcs).any():
        needed = int(topology.relation.link_classes.max())
        raise InputError(
            f"{router.vcs} VCs per link are too few: the routing needs {needed} VC classes (datelines)",
            key="network.router.vcs",
            allowed=f"at least {needed}",
        )
    every = [wires[dim] for dim in topology.link_dim] + [lane.wire for lane in into] + [lane.wire for lane in out]
    depths = {wire: _depth(network, stages, wire) for wire in set(every)}
    lanes = len(into) + len(out)
    count = len(every)
    links = Links(
        network=topology.links,
        injection=len(into),
        ejection=len(out),
        src=np.array([*topology.link_src, *(-1 for _ in into), *(lane.npu for lane in out)], dtype=np.int32),
        dst=np.array([*topology.link_dst, *(lane.npu for lane in into), *(-1 for _ in out)], dtype=np.int32),
        vcs=np.full(count, router.vcs, dtype=np.int32),
        depth=np.array([depths[wire] for wire in every], dtype=np.int32),
        s_num=np.array([wire.s.numerator for wire in every], dtype=np.int64),
        s_den=np.array([wire.s.denominator for wire in every], dtype=np.int64),
        delay=np.array([wire.delay for wire in every], dtype=np.int64),
        credit_delay=np.array([wire.credit_delay for wire in every], dtype=np.int64),
        output_queue=np.array([router.output_queue] * topology.links + [False] * lanes, dtype=np.int32),
        classes=np.concatenate([topology.relation.link_classes, np.ones(lanes, dtype=np.int32)]).astype(np.int32),
        group=np.concatenate([topology.relation.link_group, np.full(lanes, -1)]).astype(np.int32),
    )
    relation = topology.relation
    routes = Routes(relation.digits, relation.own, relation.offset, relation.link, relation.vc_class)
    options = RouterOptions(
        rc=stages.rc,
        va=stages.va,
        drained=router.vc_reuse == "drained",
        step_arbiter=router.arbiter == "step",
        interleaved=router.injection == "interleaved",
        ordered=router.ordered,
    )
    return Machine(links, routes, options, stages, wires, inject, eject, warnings)


def _wire(
    network: Network,
    stages: Stages,
    bandwidth: Fraction,
    duration: Duration,
    sender: int,
    into_router: bool,
    serdes_credit: int | None,
    warnings: list[str],
    lane: str = "",
) -> Wire:
    """`lane`: "lane_" for one, in the keys that are told."""
    s = network.cycles_per_flit(bandwidth)
    latency = to_cycles(duration, network.clock)[0]
    if s < 1:
        most = network.flit * network.clock
        text = (
            f"network.{lane}bandwidth: {format_bandwidth(bandwidth)} is more than a flit per cycle; "
            f"simulated as {format_bandwidth(most)} (a larger flit or a faster clock carries more)"
        )
        if text not in warnings:
            warnings.append(text)
        s = Fraction(1)
    router = network.router
    serdes = router.serdes if s > 1 else 0
    credit = serdes + ceil(s) - 1 if serdes else 0
    if serdes_credit is not None:
        credit = serdes_credit if s > 1 else 0
    receiver = stages.bw + stages.sa - 1 if into_router else 0
    wire = Wire(s, latency, latency + sender + serdes + receiver, 1 + latency + credit)
    _check_range(wire, f"network.{lane}latency", f"network.{lane}bandwidth", stages)
    return wire


def _check_range(wire: Wire, latency_key: str, bandwidth_key: str, stages: Stages) -> None:
    """What the engine can count. Raises InputError."""
    if wire.s.denominator > MAX_DENOMINATOR:
        raise InputError(
            f"a flit would take {wire.s} cycles, which is too fine a fraction to be kept exactly",
            key=bandwidth_key,
            allowed=f"a bandwidth at which flit * clock / bandwidth has a denominator of at most {MAX_DENOMINATOR}",
        )
    longest = ceil(wire.s) + max(wire.delay, wire.credit_delay) + stages.rc + stages.va + 4
    if longest > LONGEST_DELAY:
        raise InputError(
            f"a flit would be {longest} cycles on a link",
            key=latency_key if wire.latency > wire.s else bandwidth_key,
            allowed=f"at most {LONGEST_DELAY} cycles of the clock",
        )


def _depth(network: Network, stages: Stages, wire: Wire) -> int:
    """Flits per VC. "auto": one VC alone keeps its link busy, also across the RC and VA of a head."""
    if network.router.buffer != "auto":
        return network.router.buffer
    depth = ceil((wire.loop + stages.rc + stages.va) / wire.s) + 1
    if depth > MAX_SLOTS:
        raise InputError("a buffer that covers the credit loop would be too large", key="network.router.buffer")
    return depth


def _lanes(
    topology: Topology, network: Network, wires: Sequence[Wire], stages: Stages, warnings: list[str], *, incoming: bool
) -> tuple[list[dict[int, int]], list[Lane]]:
    """The injection lanes (or, `incoming`, the ejection lanes) of all NPUs: numbers by key, and the lanes in order."""
    latency, sender = network.lane_latency, stages.st if incoming else 0
    own = None
    if network.lane_bandwidth is not None:
        own = _wire(network, stages, network.lane_bandwidth, latency, sender, not incoming, None, warnings, "lane_")

    def like(speeds: Sequence[Fraction]) -> Wire:
        """As wide as the widest of these links."""
        if own is not None:
            return own
        bandwidth = network.flit * network.clock / min(speeds)
        return _wire(network, stages, bandwidth, latency, sender, not incoming, None, [], "lane_")

    ends = topology.link_dst if incoming else topology.link_src
    order = np.argsort(ends, kind="stable")
    starts = np.searchsorted(ends[order], np.arange(topology.npus + 1))
    numbers: list[dict[int, int]] = []
    lanes: list[Lane] = []
    memo: dict[tuple[Fraction, ...], Wire] = {}
    for npu in range(topology.npus):
        mine = order[starts[npu] : starts[npu + 1]].tolist()
        dims = [int(topology.link_dim[link]) for link in mine]
        keys: dict[int, list[Fraction]] = {}
        if topology.lane_per_plane:
            keys = {plane: [wires[d].s for d in dims] or [w.s for w in wires] for plane in range(topology.planes)}
        elif isinstance(network.lanes, int):
            keys = {number: [wires[d].s for d in dims] or [w.s for w in wires] for number in range(network.lanes)}
        else:
            for link, dim in zip(mine, dims, strict=True):
                keys.setdefault(link if network.lanes in ("auto", "per-link") else dim, []).append(wires[dim].s)
        numbers.append({})
        for key, speeds in keys.items():
            numbers[npu][key] = len(lanes)
            if tuple(speeds) not in memo:
                memo[tuple(speeds)] = like(speeds)
            lanes.append(Lane(npu, memo[tuple(speeds)]))
    return numbers, lanes
