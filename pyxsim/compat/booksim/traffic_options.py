"""The traffic and the measurement of a BookSim2 configuration, as the table [traffic].

Loads are flits per node and cycle. In BookSim2 each node creates a packet per cycle with the probability
`injection_rate`, divided by the mean size with `injection_rate_uses_flits`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyxsim.compat.booksim.config import Config
from pyxsim.compat.booksim.random_permutation import random_permutation
from pyxsim.compat.booksim.syntax import Named, Value

MAX_CLASSES = 64
SAMPLES = 3  # BookSim2 ends after three samples within 5 %, in practice after the first three
ENDLESS = 2**40


@dataclass(frozen=True)
class Nodes:
    """The number of nodes, and the shape of the network that gives their digits, for patterns."""

    npus: int
    shape: tuple[int, ...]


def traffic_table(config: Config, nodes: Nodes) -> tuple[dict[str, Any], list[int] | None]:
    """Return [traffic], and the VCs of the virtual networks where requests and replies are separate."""
    classes = config.count("classes", least=1, most=MAX_CLASSES)
    answered = [value > 0 for value in config.counts("use_read_write", classes)]
    tables = [_class_table(config, c, classes, nodes, answered[c]) for c in range(classes)]
    networks = _virtual_networks(config, tables, answered) if any(answered) else None
    batch = _sim_type(config, tables)
    if classes == 1:
        table = tables[0]
    else:
        table = {"classes": [{"name": f"class {c}", **class_table} for c, class_table in enumerate(tables)]}
    if batch is not None:
        return {**table, "batch": batch}, networks
    return {**table, **_method(config)}, networks


def _class_table(config: Config, c: int, classes: int, nodes: Nodes, answered: bool) -> dict[str, Any]:
    sizes, weights = packet_sizes(config, c, classes)
    rate = config.numbers("injection_rate", classes)[c]
    table: dict[str, Any] = {**_pattern(config, c, classes, nodes)}
    if answered:
        replies, mean, given_flits = _replies(config, c, classes)
        table["replies"] = replies
    else:
        mean = given_flits = sum(s * w for s, w in zip(sizes, weights, strict=True)) / max(1, sum(weights))
        table["packet_flits"] = sizes if len(sizes) > 1 else sizes[0]
        if len(set(weights)) > 1:
            table["packet_weights"] = [float(w) for w in weights]
    packets = rate / given_flits if config.flag("injection_rate_uses_flits") else rate
    if not 0 < packets <= 1:
        allowed = f"above 0, at most {given_flits if config.flag('injection_rate_uses_flits') else 1:g}"
        config.fault("injection_rate", f"{rate:g} is {packets:g} packets per node and cycle", allowed=allowed)
        packets = 0.1
    table["load"] = float(f"{packets * mean:.12g}")
    process = _injection(config, c, classes, packets)
    if process is not None:
        table["injection"] = process
    if config.named("priority").name == "class":
        table["priority"] = config.counts("class_priority", classes)[c]
    return table


# --- sizes ---


def packet_sizes(config: Config, c: int, classes: int) -> tuple[list[int], list[int]]:
    """Return the packet sizes of a class in flits, and their weights."""
    sizes = _mix(config, "packet_size", c, classes, least=1)
    value = config.value("packet_size_rate")
    if not isinstance(value, tuple):
        config.count("packet_size_rate", least=0)
        return sizes, [1] * len(sizes)
    weights = _mix(config, "packet_size_rate", c, classes, least=0)
    weights = (weights + [weights[-1]] * len(sizes))[: len(sizes)]
    if not any(weights):
        config.fault("packet_size_rate", "all rates are zero")
        weights = [1] * len(sizes)
    return sizes, weights


def _mix(config: Config, key: str, c: int, classes: int, least: int) -> list[int]:
    """Return the sizes of a class: {{1,5}} is a mix for all classes, {1,5} one size per class."""
    value = config.value(key)
    items = value if isinstance(value, tuple) else (value,)
    if not items:
        config.fault(key, "is empty", allowed="{{1,5}} for a mix, {1,5} for one size per class")
        return [1]
    mine = items[min(c, len(items) - 1)]
    entries = mine if isinstance(mine, tuple) else (mine,)
    if len(items) > classes and config.sound(key):
        config.note(key, f"{config.text(key)} names more classes than there are; a mix of sizes is {{{{1,5}}}}")
    sizes = [n for n in entries if isinstance(n, int) and least <= n <= 2**20]
    if len(sizes) != len(entries) or not sizes:
        if config.sound(key):
            config.fault(key, "is not a list of sizes", allowed="{{1,5}} for a mix, {1,5} for one size per class")
        return [1]
    return sizes


# --- patterns ---

_PLAIN = {
    "uniform": "uniform",
    "transpose": "transpose",
    "bitcomp": "bit-complement",
    "bitrev": "bit-reverse",
    "shuffle": "shuffle",
    "diagonal": "diagonal",
    "asymmetric": "asymmetric",
    "taper64": "taper64",
    "badperm_yarc": "column",
}
_OTHER = ("tornado", "neighbor", "hotspot", "background", "randperm", "bad_dragon")


def _pattern(config: Config, c: int, classes: int, nodes: Nodes) -> dict[str, Any]:
    value = config.value("traffic")
    items: tuple[Value | None, ...] = value if isinstance(value, tuple) else (value,)
    named = items[min(c, len(items) - 1)] if items else None
    if not isinstance(named, Named):
        config.fault("traffic", "is not the name of a pattern", allowed=[*_PLAIN, *_OTHER])
        return {}
    if named.name in _PLAIN:
        return {"pattern": _PLAIN[named.name]}
    if named.name not in _OTHER:
        problem = f"'{named.name}' is not in this version"
        config.fault("traffic", problem, allowed=[*_PLAIN, *_OTHER], given=named.name)
        return {}
    if not named.braced:
        config.note("traffic", f"BookSim2 takes only the first argument of {named.name} without inner braces")
    return _BUILD[named.name](config, named, nodes)


def _digits(config: Config, named: Named, nodes: Nodes) -> dict[str, Any]:
    """tornado(k,n,xr), neighbor(k,n,xr): digits of k*xr values each."""
    shape_digits = [config.count("k"), config.count("n"), config.count("xr")]
    arguments = [argument for argument in named.arguments[:3] if isinstance(argument, int)]
    k, n, xr = arguments + shape_digits[len(arguments) :]
    if (k * xr,) * n != nodes.shape:
        shape = "x".join(map(str, nodes.shape))
        config.fault("traffic", f"{named.name} with {n} digits of {k * xr} does not suit a network of {shape}")
    return {"pattern": named.name}


def _hotspot(config: Config, named: Named, nodes: Nodes) -> dict[str, Any]:
    spots, rates = _lists(config, named, 2)
    if not spots or any(not 0 <= spot < nodes.npus for spot in spots):
        allowed = f"hotspot({{{{0,9}}}}) with nodes from 0 to {nodes.npus - 1}; a spot by chance is not in this version"
        config.fault("traffic", f"{named} names no hot spots", allowed=allowed)
        return {}
    rates = (rates + [rates[-1] if rates else 1] * len(spots))[: len(spots)]
    if any(rate < 1 for rate in rates):
        config.fault("traffic", f"{named} has rates below 1")
        return {}
    if not isinstance(named.arguments[0], tuple) and len(named.arguments) > 1:
        config.note("traffic", f"one hot spot, node {spots[0]}, as in BookSim2; several are hotspot({{{{0,9}}}})")
    return _spots(spots, rates)


def _spots(spots: list[int], rates: list[int]) -> dict[str, Any]:
    # The same node twice counts twice.
    rates_of: dict[int, float] = {}
    for spot, rate in zip(spots, rates, strict=True):
        rates_of[spot] = rates_of.get(spot, 0.0) + rate
    return {
        "pattern": "hotspot",
        "pattern_options": {"nodes": list(rates_of), "rates": list(rates_of.values())},
    }


def _background(config: Config, named: Named, nodes: Nodes) -> dict[str, Any]:
    """Uniform to all nodes except some, as hot spots."""
    (left_out,) = _lists(config, named, 1)
    others = [node for node in range(nodes.npus) if node not in left_out]
    if not left_out or not others:
        config.fault("traffic", f"{named} leaves out no nodes, or all", allowed="background({{0,1}})")
        return {}
    return _spots(others, [1] * len(others))


def _randperm(config: Config, named: Named, nodes: Nodes) -> dict[str, Any]:
    seed = named.arguments[0] if named.arguments else config.value("perm_seed")
    if not isinstance(seed, int) or seed < 0:
        config.fault("traffic", f"{named} has no seed", allowed="a whole number")
        return {}
    return {"pattern": "permutation", "pattern_options": {"destinations": random_permutation(nodes.npus, seed)}}


def _bad_dragon(config: Config, named: Named, nodes: Nodes) -> dict[str, Any]:
    """From each group to a random node of the next group."""
    k = config.count("k", least=1)
    size = named.arguments[0] if named.arguments else k
    group = 2 * int(size) ** 2 if isinstance(size, int) else 0
    if group < 1 or nodes.npus % group:
        config.fault("traffic", f"{named}: groups of {group} nodes do not suit {nodes.npus} nodes")
        return {}
    return {"pattern": "adversarial", "pattern_options": {"group": group}}


_BUILD: dict[str, Callable[[Config, Named, Nodes], dict[str, Any]]] = {
    "tornado": _digits,
    "neighbor": _digits,
    "hotspot": _hotspot,
    "background": _background,
    "randperm": _randperm,
    "bad_dragon": _bad_dragon,
}


def _lists(config: Config, named: Named, most: int) -> list[list[int]]:
    """Return the arguments as lists of integers: name({{a,b},{c,d}}), or name({a}) with a single one."""
    lists: list[list[int]] = []
    for argument in named.arguments[:most]:
        items = argument if isinstance(argument, tuple) else (argument,)
        lists.append([n for n in items if isinstance(n, int)])
    return lists + [[] for _ in range(most - len(lists))]


# --- injection ---


def _injection(config: Config, c: int, classes: int, packets: float) -> dict[str, Any] | None:
    value = config.value("injection_process")
    items: tuple[Value | None, ...] = value if isinstance(value, tuple) else (value,)
    named = items[min(c, len(items) - 1)] if items else None
    if not isinstance(named, Named) or named.name not in ("bernoulli", "on_off"):
        given = named.name if isinstance(named, Named) else ""
        config.fault(
            "injection_process", f"'{given}' is not in this version", allowed=("bernoulli", "on_off"), given=given
        )
        return None
    if named.name == "bernoulli":
        return None
    arguments = list(named.arguments)
    if not named.braced:
        config.note("injection_process", "BookSim2 takes only the first argument of on_off without inner braces")
        arguments = arguments[:1]
    if len(arguments) > 3:
        config.note("injection_process", "the initial states are drawn at random")
    keys = ("burst_alpha", "burst_beta", "burst_r1")
    values = [a if isinstance(a, int | float) else -1.0 for a in arguments[:3]]
    alpha, beta, r1 = values + [config.number(key) for key in keys[len(values) :]]
    known = {name: float(v) for name, v in (("alpha", alpha), ("beta", beta), ("r1", r1)) if v >= 0}
    if len(known) != 2 or any(v > 1 for v in known.values()):
        given = ", ".join(f"{name} = {v:g}" for name, v in known.items())
        allowed = "two of alpha, beta and r1, from 0 to 1; the others -1"
        config.fault("injection_process", f"on_off with {given or 'nothing'}", allowed=allowed)
        return None
    fault = on_off_fault(packets, known)
    if fault:
        config.fault("injection_process", fault)
    return {"process": "on-off", **known}


def on_off_fault(packets: float, known: dict[str, float]) -> str:
    """Return why no process with these two parameters has that rate, or an empty text."""
    if "r1" in known:
        return "" if packets < known["r1"] else f"r1 = {known['r1']:g} is below {packets:g} packets per cycle"
    alpha, beta = known["alpha"], known["beta"]
    on = alpha / (alpha + beta) if alpha + beta else 0.0
    return "" if packets <= on else f"a node is on for {on:.3g} of the time, too little for a rate of {packets:g}"


# --- requests and replies ---


def _replies(config: Config, c: int, classes: int) -> tuple[dict[str, Any], float, float]:
    """Return (table, flits per request in pyxsim, flits per request in BookSim2)."""
    sizes = {
        f"{kind}_{what}": config.counts(f"{kind}_{what}_size", classes, least=1, most=2**20)[c]
        for kind in ("read", "write")
        for what in ("request", "reply")
    }
    share = config.numbers("write_fraction", classes)[c]
    if not 0 <= share <= 1:
        config.fault("write_fraction", f"{share:g} is not a fraction", allowed="from 0 to 1")
        share = 0.5
    reads = sizes["read_request"] + sizes["read_reply"]
    writes = sizes["write_request"] + sizes["write_reply"]
    # BookSim2 assumes as many reads as writes when it converts flits to packets, in whole flits.
    return {**sizes, "write_share": share}, (1 - share) * reads + share * writes, (reads + writes) // 2


def _virtual_networks(config: Config, tables: list[dict[str, Any]], answered: list[bool]) -> list[int] | None:
    """Return the VCs of requests and of replies; the ranges of reads and writes are merged."""
    vcs = config.count("num_vcs", least=1)
    if not all(answered):
        config.fault("use_read_write", "either all classes are answered, or none", allowed="one value for all")
    ranges: dict[str, tuple[int, int]] = {}
    for what in ("request", "reply"):
        keys = [f"{kind}_{what}_{end}_vc" for kind in ("read", "write") for end in ("begin", "end")]
        values = [config.count(key, most=1023) for key in keys]
        for key, value in zip(keys, values, strict=True):
            if value >= vcs:
                config.fault(key, f"there is no VC {value}", allowed=f"0 to {vcs - 1}")
        ranges[what] = min(values), max(values)
        if values[:2] != values[2:]:
            low, high = ranges[what]
            config.note(keys[0], f"reads and writes share the VCs {low} to {high} here")
    (low, high), (first, last) = ranges["request"], ranges["reply"]
    if max(low, first) <= min(high, last):
        config.fault("read_reply_begin_vc", "requests and replies share VCs", allowed="ranges of their own")
        return None
    if high - low + 1 + last - first + 1 < vcs and config.sound("num_vcs"):
        config.note("num_vcs", f"{vcs - (high - low + 1) - (last - first + 1)} VCs belong to no range and are left out")
    for table in tables:
        table["virtual_network"] = 0
        if "replies" in table:
            table["replies"]["virtual_network"] = 1
    return [high - low + 1, last - first + 1]


# --- method ---


def _sim_type(config: Config, tables: list[dict[str, Any]]) -> dict[str, int] | None:
    kind = config.named("sim_type").name
    if kind not in ("latency", "throughput", "batch"):
        problem = f"'{kind}' is none of what is allowed"
        config.fault("sim_type", problem, allowed=("latency", "throughput", "batch"), given=kind)
    if kind != "batch":
        return None
    if len(tables) > 1:
        config.fault("sim_type", "a batch has one class here", allowed="classes = 1")
    for table in tables:
        table.pop("load", None)
        table.pop("injection", None)
    return {
        "size": config.count("batch_size", least=1),
        "count": config.count("batch_count", least=1),
        "outstanding": config.count("max_outstanding_requests"),
    }


def _method(config: Config) -> dict[str, Any]:
    period = config.count("sample_period", least=1)
    warmup = config.count("warmup_periods")
    limit = config.per_class("latency_thres", 1, _limit, "a number", 500)[0]
    throughput = config.named("sim_type").name == "throughput"
    cycles = period * (warmup + SAMPLES)
    return {
        "warmup": warmup * period if warmup else "auto",
        "measure": SAMPLES * period,
        "max_cycles": max(200_000, 10 * cycles),
        "latency_limit": ENDLESS if throughput or limit < 0 else max(1, limit),
    }


def _limit(value: Value) -> int:
    if not isinstance(value, int | float):
        raise ValueError
    return round(value)
