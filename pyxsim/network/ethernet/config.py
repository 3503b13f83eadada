"""The arrays of the Ethernet engine, from a topology and [network.ethernet]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import BoolArray, FloatArray, Int32Array, IntArray
from pyxsim.errors import InputError
from pyxsim.network.ethernet.ns3_random import streams
from pyxsim.network.link_paths import link_rates_of
from pyxsim.network.name_patterns import matches
from pyxsim.settings import Network
from pyxsim.settings.ethernet import Ethernet
from pyxsim.topology.topology import Topology
from pyxsim.units import Duration, to_seconds

PICOSECONDS = 10**12
DEFAULT_TIMEOUT = 10**9  # ps
CLASSES = 8  # as in records.pxd
SCHEDULE = {"strict": 0, "round-robin": 1, "weighted": 2}
BALANCE = {"ecmp": 0, "spray": 1, "adaptive": 2, "flowlet": 3}
DATA_CLASS = 1
NONE = -1
UNREACHED = np.iinfo(np.int16).max
PINT = 2  # of the rule `telemetry`, as in records.pxd


@dataclass(frozen=True, eq=False)
class EthernetConfig:
    """What the engine knows of the network. Nodes are the routers, then the NPUs if they have host links.

    Attributes
    ----------
    ports
        int64[ports, 9], a row per directed link: node, peer, port of the opposite direction, picoseconds per byte as a
        fraction (2 columns), delay (ps), kmin, kmax, headroom (bytes).
    pmax, alpha
        float64[ports].
    nodes
        int64[nodes, 5]: NPU, uplink, group (-1: none), bytes of the buffer's shared part, seed.
    route, set_start, set_port
        int32[routers, groups]: the set of ports that lead from a router to a group of NPUs on shortest routes; the
        ports of each set.
    group, down, home
        int32[npus]: group of an NPU, the host link to it, its node.
    rules
        The fields of `Rules` (records.pxd).
    streams
        Fields of `Streams` (ns3_random.pxd); None: marks take the random numbers of each switch.
    npus_forward
        Whether routes lead through routers with NPUs.
    shift
        Binary logarithm of the slots of the timing wheel, in picoseconds.
    survival
        float64[ports, 2]: logarithms of the probability that a packet, and a byte of it, is not lost on the link.
    """

    ports: IntArray
    pmax: FloatArray
    alpha: FloatArray
    nodes: IntArray
    route: Int32Array
    set_start: Int32Array
    set_port: Int32Array
    group: Int32Array
    down: Int32Array
    home: Int32Array
    rules: dict[str, Any]
    shift: int
    survival: FloatArray
    npus_forward: bool
    streams: dict[str, list[int]] | None


def picoseconds(time: Duration, clock: Fraction) -> int:
    """Return a time in whole picoseconds, rounded to the nearest."""
    return round(to_seconds(time, clock) * PICOSECONDS)


def make_config(
    topology: Topology,
    network: Network,
    *,
    seed: int,
    header: int = 0,
    reply: int = 0,
    telemetry: int = 0,
    rules: Mapping[str, Any] | None = None,
) -> EthernetConfig:
    """Return the arrays of a network.

    `header`, `reply`: bytes that the transport adds to data packets and to replies. `telemetry`: what switches write
    into packets. `rules`: rules that the transport sets. Raises InputError.
    """
    settings = network.ethernet
    ns3 = settings.ecn.random == "ns-3"
    if not topology.hosts and (np.bincount(topology.home) > 1).any():
        problem = "several NPUs share a router without host links"
        raise InputError(problem, key="--backend ethernet", allowed="network.host_links = true, without lanes")
    hosts = topology.hosts
    routers, npus = topology.routers, topology.npus
    every = np.arange(npus, dtype=np.int64)
    home = topology.home.astype(np.int64)
    node, peer = topology.link_src.astype(np.int64), topology.link_dst.astype(np.int64)
    if hosts:
        node, peer = np.concatenate([node, routers + every, home]), np.concatenate([peer, home, routers + every])
    ports = np.zeros((len(node), 9), np.int64)
    ports[:, 0], ports[:, 1], ports[:, 2] = node, peer, _reverse(node, peer)
    rates, latencies = link_rates_of(topology, network)
    latency = picoseconds(settings.switch_latency, network.clock)
    memo: dict[tuple[int, int], tuple[int, int, int]] = {}
    is_switch = np.ones(routers + (npus if hosts else 0), bool)
    is_switch[routers + every if hosts else home] = False
    for port, (rate, wire) in enumerate(zip(rates, latencies, strict=True)):
        key = id(rate), id(wire)
        if key not in memo:
            per_byte = PICOSECONDS / (rate * network.clock)
            memo[key] = per_byte.numerator, per_byte.denominator, round(wire / network.clock * PICOSECONDS)
        ports[port, 3:6] = memo[key]
    ports[:, 5] += np.where(is_switch[peer], latency, 0)
    pmax, alpha = _set_marks(ports, settings)
    _set_headroom(ports, settings, topology.counted_link_name)
    nodes = np.full((len(is_switch), 5), NONE, np.int64)
    nodes[routers + every if hosts else home, 0] = every
    if hosts:
        nodes[routers + every, 1] = topology.links + every
    homes, group = np.unique(home, return_inverse=True)
    nodes[homes, 2] = np.arange(len(homes))
    count = np.bincount(peer, minlength=len(nodes))
    pausing = (_mask(settings, "pfc") & ((1 << len(settings.classes) + 2) - 1)).bit_count()
    held = pausing * (np.bincount(peer, ports[:, 8], len(nodes)) + settings.buffer.reserve * count)
    nodes[:, 3] = settings.buffer.capacity - held.astype(np.int64)
    if (nodes[is_switch, 3] <= 0).any():
        needed = int(held[is_switch].max())
        raise InputError(
            f"the headroom of a switch takes {needed} bytes, more than its buffer of {settings.buffer.capacity}",
            key="network.ethernet.buffer.capacity",
            allowed=f"more than {needed} B, or a smaller network.ethernet.pfc.headroom",
        )
    nodes[:, 4] = (np.arange(len(nodes)) + 1) * 0x5DEECE66D + seed
    route, set_start, set_port = routes_of(topology, homes, npus_forward=settings.npus_forward)
    down = (topology.links + npus + every if hosts else np.full(npus, NONE)).astype(np.int32)
    return EthernetConfig(
        ports,
        pmax,
        alpha,
        nodes,
        route,
        set_start,
        set_port,
        group.astype(np.int32),
        down,
        (routers + every if hosts else home).astype(np.int32),
        _rules(settings, network.clock, header, reply, telemetry)
        | {"pint_seed": 1 if ns3 else seed}
        | dict(rules or {}),
        _shift(ports, settings),
        np.zeros((len(ports), 2)),
        settings.npus_forward,
        _streams(settings, routers, seed) if ns3 else None,
    )


def _streams(settings: Ethernet, nodes: int, run: int) -> dict[str, list[int]]:
    """The streams of ns-3 that are left for marks: each node takes nine, and each link with errors of its own two."""
    lossy = sum(fault.packet_error_rate > 0 and "*" not in fault.link for fault in settings.links)
    return streams(2 + 9 * nodes + 2 * lossy, run)


def _shift(ports: IntArray, settings: Ethernet) -> int:
    """Length of a slot of the timing wheel: its 4,096 slots hold twice the time of a packet on the slowest link."""
    packet = (settings.mtu + settings.header + 128) * ports[:, 3] // ports[:, 4] + ports[:, 5]
    return min(31, max(0, int(2 * packet.max(initial=1)).bit_length() - 12))  # offsets have 32 bits


def _reverse(node: IntArray, peer: IntArray) -> IntArray:
    """The link of the opposite direction of each link: the n-th of several parallel links has the n-th back."""
    order = np.lexsort((np.arange(len(node)), peer, node))
    back = np.lexsort((np.arange(len(node)), node, peer))
    if not (node[order] == peer[back]).all() or not (peer[order] == node[back]).all():
        raise InputError(
            "the network has a link without a link in the opposite direction",
            key="--backend ethernet",
            allowed="networks whose links exist in both directions",
        )
    reverse = np.zeros(len(node), np.int64)
    reverse[order] = back
    return reverse


def _set_marks(ports: IntArray, settings: Ethernet) -> tuple[FloatArray, FloatArray]:
    """Set kmin and kmax, by default 1 and 4 us at the rate of the port, and return pmax and alpha."""
    microsecond = 10**6 * ports[:, 4] // ports[:, 3]
    ports[:, 6] = microsecond if settings.ecn.kmin is None else settings.ecn.kmin
    ports[:, 7] = np.maximum(4 * ports[:, 6], ports[:, 6]) if settings.ecn.kmax is None else settings.ecn.kmax
    if settings.ecn.kmin is None and settings.ecn.kmax is not None:
        ports[:, 6] = np.minimum(ports[:, 6], settings.ecn.kmax)
    pmax = np.full(len(ports), float(settings.ecn.pmax))
    alpha = np.full(len(ports), float(settings.buffer.alpha))
    for row in settings.ports:
        rate = PICOSECONDS / row.rate
        own = (ports[:, 3] == rate.numerator) & (ports[:, 4] == rate.denominator)
        for column, value in (ports[:, 6], row.kmin), (ports[:, 7], row.kmax), (pmax, row.pmax), (alpha, row.alpha):
            if value is not None:
                column[own] = value
    return pmax, alpha


def _set_headroom(ports: IntArray, settings: Ethernet, names: Sequence[str]) -> None:
    """Set the bytes that may arrive after a switch has decided to pause: on the wire both ways, and in transmission.

    Before the pause frame leaves, a packet of the largest size may be in transmission on the way back, and one more
    may have begun when the frame arrives. A slower way back holds the frame up for longer.
    """
    packet = settings.mtu + settings.header + 128
    there_and_back = 2 * ports[:, 5] * ports[:, 4] // ports[:, 3]
    time = ports[:, 3] / ports[:, 4]  # of a byte
    back = (time / _least_rate_factor(ports, settings, names))[ports[:, 2]]
    held_up = (packet + settings.pfc.frame) * np.maximum(back / time, 1)
    ports[:, 8] = there_and_back + 2 * packet + np.ceil(held_up).astype(np.int64)
    if settings.pfc.headroom_delays is not None:
        ports[:, 8] = ports[:, 5] * ports[:, 4] // ports[:, 3] * settings.pfc.headroom_delays
    elif settings.pfc.headroom is not None:
        ports[:, 8] = settings.pfc.headroom


def _least_rate_factor(ports: IntArray, settings: Ethernet, names: Sequence[str]) -> FloatArray:
    """float64[links]: the share of its rate that a link has if all entries for it hold at once."""
    factor = np.ones(len(ports))
    for fault in settings.links:
        links = np.fromiter((matches(name, fault.link) for name in names), np.bool_, len(names))
        if fault.both_directions:
            links[ports[links, 2]] = True
        factor[links] *= float(fault.rate_factor)
    return factor


def _rules(settings: Ethernet, clock: Fraction, header: int, reply: int, telemetry: int) -> dict[str, Any]:
    weights = [1, *(entry.weight for entry in settings.classes)]
    weights += [1] * (CLASSES - len(weights))
    return {
        "mtu": settings.mtu,
        "header": settings.header + header,
        "ack": settings.ack,
        "pause_size": settings.pfc.frame,
        "telemetry_header": reply,
        "step": max(1, picoseconds(settings.resolution, clock)),
        "queue": settings.buffer.queue or 0,
        "reserve": settings.buffer.reserve,
        "resume_offset": settings.pfc.resume,
        "trim": settings.trim or 0,
        "retry": DEFAULT_TIMEOUT if settings.timeout is None else picoseconds(settings.timeout, clock),
        "retries": settings.retries,
        "nack_interval": picoseconds(settings.nack_interval, clock),
        "cnp_interval": picoseconds(settings.cnp_interval, clock),
        "ack_every": settings.ack_interval,
        "cut_bytes": settings.header if settings.forwarding == "cut-through" else 0,
        "balance": BALANCE[settings.load_balancing],
        "flowlet_gap": picoseconds(settings.flowlet_gap, clock),
        "flowlets": settings.flowlet_entries if settings.load_balancing == "flowlet" else 0,
        "pfc": _mask(settings, "pfc"),
        "ecn": _mask(settings, "ecn"),
        "mark_at_dequeue": settings.ecn.mark == "dequeue",
        "telemetry": telemetry,
        "pint_trip": 0,
        "pint_base": 1.05,
        "selective": settings.reliability == "selective",
        "ack_ends": settings.end == "acknowledged",
        "ack_class": DATA_CLASS,
        "schedule": SCHEDULE[settings.scheduling],
        "classes": len(settings.classes) + 1,
        "tail_order": False,
        "pulls": False,
        "attribution": False,
        "control_turns": 0,
        "ns3_random": settings.ecn.random == "ns-3",
        "port_timer": settings.pacing == "port",
        "deaf": not settings.pfc.obeyed,
        "log_frames": settings.pfc.log,
        "weight": [weight * (settings.mtu + settings.header) for weight in weights],
    }


def _mask(settings: Ethernet, key: str) -> int:
    """The classes for which `key`, "pfc" or "ecn", is enabled: bit c for class c, bit 0 for control packets."""
    if not getattr(settings, key).enabled:
        return 0
    of_classes = [getattr(entry, key) for entry in settings.classes] + [True] * (CLASSES - 1 - len(settings.classes))
    return sum(enabled << number for number, enabled in enumerate([key == "ecn", *of_classes]))


def routes_of(
    topology: Topology, homes: IntArray, avoided: BoolArray | None = None, *, npus_forward: bool = True
) -> tuple[Int32Array, Int32Array, Int32Array]:
    """Return (route, set_start, set_port): the links on shortest routes from each router to each of `homes`.

    `npus_forward`: whether a route leads through routers with NPUs (without host links) where no other leads to its
    destination. `avoided`: bool[links], links that no route takes. Raises InputError where a router cannot reach one.
    """
    routers, groups = topology.routers, len(homes)
    order = np.argsort(topology.link_src, kind="stable")
    if avoided is not None:
        order = order[~avoided[order]]
    src, dst = topology.link_src[order], topology.link_dst[order]
    begin = np.searchsorted(src, np.arange(routers + 1))
    switch = np.ones(routers, np.bool_)
    switch[homes] = topology.hosts
    behind = _hops(routers, src, dst, homes, switch)
    onward = np.where(switch[:, np.newaxis] | (behind == 0), behind, UNREACHED)
    everywhere = npus_forward and not switch.all()
    away = _hops(routers, src, dst, homes, np.ones_like(switch)) if everywhere else behind
    route = np.zeros((routers, groups), np.int32)
    starts, members = [0, 0], []  # set 0 is empty
    for router in range(routers):
        links = slice(begin[router], begin[router + 1])
        nearer = onward[dst[links]] == behind[router] - 1  # [links of the router, groups]
        if everywhere:
            nearer = np.where(behind[router] < UNREACHED, nearer, away[dst[links]] == away[router] - 1)
        if not len(nearer):
            continue
        sets, which = _distinct(nearer)
        numbers = np.zeros(len(sets), np.int32)
        for i, chosen in enumerate(sets):
            if chosen.any():
                numbers[i] = len(starts) - 1
                members.append(order[links][chosen])
                starts.append(starts[-1] + len(members[-1]))
        route[router] = numbers[which]
    lost = np.argwhere((route == 0) & (away > 0))
    if len(lost):
        router, group = lost[0]
        if (away[topology.home, group] == UNREACHED).any():
            problem = f"{topology.router_name[router]} does not reach {topology.router_name[homes[group]]}"
            raise InputError(problem, key="network", allowed="a network that connects all NPUs")
    port = np.concatenate(members) if members else np.zeros(1, np.int64)
    return route, np.array(starts, np.int32), port.astype(np.int32)


def _distinct(nearer: BoolArray) -> tuple[BoolArray, IntArray]:
    """The distinct columns of bool[links, groups], as rows, and which of them each group has."""
    packed = np.packbits(nearer, axis=0).T
    width = max(8, packed.shape[1])
    columns = np.zeros((len(packed), width), np.uint8)
    columns[:, : packed.shape[1]] = packed
    rows = columns.view(">u8" if width == 8 else f"V{width}").ravel()
    if width == 8:  # words are sorted faster than texts
        rows = rows.astype(np.uint64)
    _, first, which = np.unique(rows, return_index=True, return_inverse=True)
    return nearer[:, first].T, which


def _hops(routers: int, src: Int32Array, dst: Int32Array, homes: IntArray, passed: BoolArray) -> NDArray[np.int16]:
    """int16[routers, homes]: links on the shortest route; UNREACHED without one. Links are sorted by source.

    `passed`: bool[routers], the routers between the ends of a route.
    """
    away = np.full((routers, len(homes)), UNREACHED, np.int16)
    away[homes, np.arange(len(homes))] = 0
    first = np.flatnonzero(np.diff(src, prepend=-1))
    rows = src[first]  # the routers with links
    reached = _packed(away == 0)
    seen = reached.copy()
    for hops in range(1, routers + 1):
        if not len(src):
            break
        fresh = np.bitwise_or.reduceat(reached[dst], first, axis=0) & ~seen[rows]
        if not fresh.any():
            break
        seen[rows] |= fresh
        block = away[rows]
        block[np.unpackbits(fresh.view(np.uint8), axis=1, count=len(homes)).view(np.bool_)] = hops
        away[rows] = block
        reached = np.zeros_like(seen)
        reached[rows] = np.where(passed[rows, np.newaxis], fresh, 0)
    return away


def _packed(bits: BoolArray) -> NDArray[np.uint64]:
    """Rows of bits as words."""
    padded = np.zeros((len(bits), -(-bits.shape[1] // 64) * 8), np.uint8)
    columns = np.packbits(bits, axis=1)
    padded[:, : columns.shape[1]] = columns
    return padded.view(np.uint64)
