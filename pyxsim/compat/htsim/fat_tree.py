"""htsim's fat trees: generated ones, and those of topology files (.topo)."""

from __future__ import annotations

from dataclasses import dataclass

from pyxsim.compat.htsim.htsim_options import HtsimOptions, whole
from pyxsim.errors import InputError

_HEADER = ("nodes", "tiers", "podsize")
_KEYS = (
    "downlink_speed_gbps",
    "radix_up",
    "radix_down",
    "queue_up",
    "queue_down",
    "oversubscribed",
    "bundle",
    "switch_latency_ns",
    "downlink_latency_ns",
)
MOST = 10**9


@dataclass(frozen=True)
class Tier:
    """A tier of switches: 0 ToRs, 1 aggregation or spine, 2 core. Speed and latency are of the links downwards.

    Rates in bit/s, latencies in picoseconds.
    """

    speed: int
    link_latency: int
    switch_latency: int
    radix_down: int
    radix_up: int = 0
    bundle: int = 1
    oversubscription: int = 1


@dataclass(frozen=True)
class FatTree:
    """The shape of a network.

    Attributes
    ----------
    tors, aggs, cores
        Numbers of switches; `aggs` are the spines of two tiers.
    hosts_per_pod, tors_per_pod, aggs_per_pod
        Two tiers are one pod.
    diameter_latency
        Picoseconds over the longest path, one way, without transmission.
    """

    hosts: int
    tiers: tuple[Tier, ...]
    tors: int
    aggs: int
    cores: int
    hosts_per_pod: int
    tors_per_pod: int
    aggs_per_pod: int
    diameter_latency: int
    from_file: bool = False

    @property
    def diameter(self) -> int:
        """The links of the longest path."""
        return 2 * len(self.tiers)

    @property
    def oversubscription(self) -> int:
        """The product of the ratios of the tiers."""
        ratio = self.tiers[0].oversubscription
        return ratio * self.tiers[1].oversubscription if len(self.tiers) == 3 else ratio

    @property
    def core_links(self) -> int:
        """Cores that an aggregation switch reaches."""
        return self.tiers[1].radix_up // self.tiers[2].bundle if len(self.tiers) == 3 else 0

    def latency(self, src: int, dst: int) -> int:
        """Return the latency between two hosts (ps), one way, as -enable_accurate_base_rtt takes it."""
        first, second = self.tiers[:2]
        if src // first.radix_down == dst // first.radix_down:
            # Generated trees count a switch for each of the two links.
            return 2 * first.link_latency + (1 if self.from_file else 2) * first.switch_latency
        if len(self.tiers) == 3 and src // self.hosts_per_pod == dst // self.hosts_per_pod:
            if not self.from_file:
                return 4 * (first.link_latency + first.switch_latency)
            links, switches = first.link_latency + second.link_latency, 2 * first.switch_latency
            return 2 * links + switches + second.switch_latency
        return self.diameter_latency


def generated(options: HtsimOptions, hosts: int) -> FatTree:
    """Return the fat tree that htsim generates for a number of hosts. Raises InputError."""
    three = options.tiers == 3
    radix = 1
    while _hosts(radix, three) < hosts:
        radix += 1
    if _hosts(radix, three) != hosts:
        smaller, larger = _hosts(radix - 1, three), _hosts(radix, three)
        shape = "k^3/4" if three else "k^2/2"
        allowed = f"{shape} hosts, such as {smaller} or {larger}; or a -topo file"
        raise InputError(
            f"there is no fat tree of {options.tiers} tiers with {hosts} hosts", key="Nodes", allowed=allowed
        )
    half = radix // 2
    if half < 1:
        raise InputError(f"{hosts} hosts are too few", key="Nodes", allowed="2 hosts or more")
    common = options.line, options.hop_latency, options.switch_latency
    tiers = [Tier(*common, half, half), Tier(*common, half, half)]
    latency = 2 * options.tiers * options.hop_latency + (2 * options.tiers - 1) * options.switch_latency
    if three:
        switches = radix * radix // 2
        shape_ = (switches, switches, radix * radix // 4, hosts // radix, half, half)
        tree = FatTree(hosts, (*tiers, Tier(*common, radix)), *shape_, latency)
    else:
        tree = FatTree(hosts, tuple(tiers), radix, radix // 2, 0, hosts, radix, half, latency)
    if tree.tors * half != hosts:
        allowed = "a number of hosts with an even k, such as 16 (k = 4) or 128 (k = 8); or a -topo file"
        raise InputError(f"{hosts} hosts do not fill the switches (k = {radix})", key="Nodes", allowed=allowed)
    return tree


def _hosts(radix: int, three: bool) -> int:
    return radix**3 // 4 if three else radix**2 // 2


def read_topology(text: str, file: str) -> FatTree:
    """Return the fat tree of a topology file. Raises InputError with file and line."""
    header: dict[str, int] = {}
    tiers: dict[int, dict[str, int]] = {}
    tier = None
    for row, line in enumerate(text.split("\n"), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        key, place = words[0].lower(), f"{file}:{row}"
        if len(words) != 2:
            raise InputError("is not a key and a value", file=place, key=words[0], allowed="KEY VALUE")
        value = whole(words[1], words[0], 0, MOST, place)
        if key == "tier":
            tier = whole(words[1], words[0], 0, 2, place)
            tiers.setdefault(tier, {})
        elif tier is None:
            _add(header, key, value, _HEADER, place, "before the first 'Tier'")
        elif key == "radix_up" and tier == 2:
            raise InputError("tier 2 has no links upwards", file=place, key=words[0])
        else:
            _add(tiers[tier], key, value, _KEYS, place, f"of tier {tier}")
    return _tree(header, tiers, file)


def _add(values: dict[str, int], key: str, value: int, allowed: tuple[str, ...], place: str, where: str) -> None:
    if key not in allowed:
        raise InputError(f"unknown key '{key}' {where}", file=place, allowed=allowed, given=key)
    if key in values:
        raise InputError(f"'{key}' is there twice {where}", file=place)
    values[key] = value


def _tree(header: dict[str, int], tables: dict[int, dict[str, int]], file: str) -> FatTree:
    """Return the fat tree with these numbers."""
    for key in _HEADER:
        if not header.get(key):
            raise InputError(f"'{key.capitalize()} N' is missing", file=file)
    hosts, count, pod = header["nodes"], header["tiers"], header["podsize"]
    if count not in (2, 3):
        raise InputError(f"{count} is out of range", file=file, key="Tiers", allowed="2 or 3")
    tiers = tuple(_tier(tables, level, level == count - 1, file) for level in range(count))
    if hosts % pod or pod % tiers[0].radix_down:
        problem = f"{hosts} hosts do not fill pods of {pod} hosts and ToRs of {tiers[0].radix_down}"
        raise InputError(problem, file=file, key="Podsize")
    if count == 2 and pod != hosts:
        raise InputError(f"{pod} hosts; two tiers are one pod", file=file, key="Podsize", allowed=str(hosts))
    pods = hosts // pod
    aggs, uplinks = _aggs_per_pod(tiers, hosts, pods, file)
    cores = _cores(tiers, uplinks, aggs, file) if count == 3 else 0
    latency = 2 * (tiers[0].link_latency + tiers[1].link_latency) + 2 * tiers[0].switch_latency
    latency += tiers[1].switch_latency
    if count == 3:
        latency += 2 * tiers[2].link_latency + tiers[1].switch_latency + tiers[2].switch_latency
    tors = pod // tiers[0].radix_down
    return FatTree(hosts, tiers, tors * pods, aggs * pods, cores, pod, tors, aggs, latency, from_file=True)


def _tier(tables: dict[int, dict[str, int]], level: int, top: bool, file: str) -> Tier:
    if level not in tables:
        raise InputError(f"'Tier {level}' is missing", file=file)
    table = tables[level]
    for key in ("downlink_speed_gbps", "radix_down", *(() if top else ("radix_up",))):
        if not table.get(key):
            raise InputError(f"'{key}' of tier {level} is missing", file=file)
    bundle, ratio = table.get("bundle", 1), table.get("oversubscribed", 1)
    if not bundle or not ratio:
        raise InputError(f"0 in tier {level}", file=file, key="Bundle, Oversubscribed", allowed="1 or more")
    if level == 0 and bundle != 1:
        raise InputError(f"{bundle} in tier 0", file=file, key="Bundle", allowed="1: a host has one link")
    if table["radix_down"] % bundle:
        problem = f"{table['radix_down']} of tier {level} is not a multiple of its bundle of {bundle}"
        raise InputError(problem, file=file, key="Radix_Down")
    return Tier(
        table["downlink_speed_gbps"] * 10**9,
        table.get("downlink_latency_ns", 0) * 1000,
        table.get("switch_latency_ns", 0) * 1000,
        table["radix_down"],
        table.get("radix_up", 0),
        bundle,
        ratio,
    )


def _aggs_per_pod(tiers: tuple[Tier, ...], hosts: int, pods: int, file: str) -> tuple[int, int]:
    """Return the aggregation switches of a pod, and the uplinks of all ToRs."""
    tor, agg = tiers[0], tiers[1]
    uplinks, rest = divmod(hosts * tor.speed, agg.speed * tor.oversubscription)
    if tor.radix_down // tor.radix_up != tor.oversubscription:
        problem = f"tier 0 has {tor.radix_down} links down and {tor.radix_up} up, which is not {tor.oversubscription}:1"
        raise InputError(problem, file=file, key="Oversubscribed", allowed=str(tor.radix_down // tor.radix_up))
    aggs, over = divmod(uplinks, pods * agg.radix_down)
    if rest or over or aggs * agg.bundle != tor.radix_up:
        problem = (
            f"{uplinks} uplinks of ToRs in {pods} pods do not fill aggregation switches with {agg.radix_down} links "
            f"down and {tor.radix_up} up from each ToR"
        )
        raise InputError(problem, file=file, key="Radix_Up, Radix_Down, Bundle")
    return aggs, uplinks


def _cores(tiers: tuple[Tier, ...], tor_uplinks: int, aggs: int, file: str) -> int:
    agg, core = tiers[1], tiers[2]
    uplinks, rest = divmod(tor_uplinks * agg.speed, core.speed * agg.oversubscription)
    cores, over = divmod(uplinks, core.radix_down)
    if rest or over or cores % aggs or cores * core.bundle // aggs != agg.radix_up:
        problem = (
            f"{uplinks} uplinks of aggregation switches do not fill core switches with {core.radix_down} links down "
            f"and {agg.radix_up} up from each aggregation switch"
        )
        raise InputError(problem, file=file, key="Radix_Up, Radix_Down, Bundle")
    return cores
