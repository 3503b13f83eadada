"""Links that err, fail and come up again: goodput with retry, no lost flit, and throughput around failed links."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import expm1, floor, log1p, sqrt
from random import Random
from typing import Any

import networkx as nx
import numpy as np

import pyxsim
from pyxsim.errors import StuckError
from pyxsim.results.result import Result
from pyxsim.routing.degraded import Degraded, degraded
from pyxsim.settings import load_experiment
from pyxsim.topology.build import network_of
from pyxsim.topology.topology import Topology
from validation.case import Case, Found, Picture, Series, exact
from validation.max_flow import equal_rate

SEED = 1
DRAWN = 24
FLIT = 64
DECADES = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
LINE = {
    "topology": "mesh",
    "shape": [2],
    "bandwidth": "128 GB/s",  # a flit in two cycles
    "lane_bandwidth": "256 GB/s",  # so the link always has a flit to send
    "latency": "100 ns",
    "flit": "256 B",
    "packet": "4 KiB",
    "retry": {},
}
TRIP = 2 + 101 + 101  # cycles until a flit is sent again: s, delay, credit delay (docs/router.md)


def _tree(children: list[int], parents: list[int], host: str) -> dict[str, Any]:
    return {
        "topology": "folded-clos",
        "options": {"children": children, "parents": parents},
        "bandwidth": [host, *["64 GB/s"] * len(parents)],  # 64 GB/s: a flit per cycle
        "latency": "20 ns",
        "flit": f"{FLIT} B",
        "packet": "256 B",
        "router": {"vcs": 16, "buffer": 64, "internal_speedup": 2},
        "reroute": {},
    }


def _built(network: dict[str, Any]) -> Topology:
    message = [{"src": 0, "dst": 1, "size": "1 B"}]
    return network_of(load_experiment({"network": network, "message": message}, ()).network)


def _failed(topology: Topology, count: int, seed: int) -> tuple[list[dict[str, Any]], Degraded]:
    """Cables that are down, as faults, and the routes around them."""
    cables = np.random.default_rng(seed).choice(topology.links // 2, count, replace=False) * 2
    down = np.concatenate([cables, cables + 1]).astype(np.int64)
    faults = [{"link": topology.link_name[link], "down": True} for link in cables.tolist()]
    return faults, degraded(topology.relation, down, "least")


def goodput() -> Found:
    """Compare the time of a message over a link with bit errors with the closed form of go-back-N."""
    flits, bits, worst = 2**16, 8 * 256, 0.0
    found: list[float] = []
    wanted: list[float] = []

    def cycles(*faults: dict[str, Any]) -> int:
        message = [{"src": 0, "dst": 1, "size": f"{flits * 256} B"}]
        return pyxsim.run({"network": LINE, "message": message, "faults": list(faults)}).time_cycles

    plain = cycles()
    for rate in DECADES:
        p = -expm1(bits * log1p(-rate))
        deviation = TRIP * sqrt(flits * p) / (1 - p)  # of the sum of geometric numbers of errors
        more = cycles({"link": "d0+:(0)->(1)", "both_directions": False, "bit_error_rate": rate}) - plain
        worst = max(worst, abs(more - TRIP * flits * p / (1 - p)) / deviation)
        found.append(256 * flits / (plain + more))
        wanted.append(256 / (2 + TRIP * p / (1 - p)))
    rates = list(DECADES)
    exponents = [round(np.log10(rate)) for rate in rates]
    curves = [Series("closed form", exponents, wanted), Series("simulated", exponents, found, "points")]
    picture = Picture("bit error rate, power of ten", "goodput, GB/s", curves)
    return Found(worst, picture, {"faults": f"{len(rates)} bit error rates"})


def _outcome(tables: dict[str, Any]) -> Result:
    """The result of a run, whether it ends or not."""
    try:
        return pyxsim.run(tables)
    except StuckError as error:
        result: Result = vars(error)["result"]
        return result


def conservation() -> Found:
    """Compare the flits that NPUs have sent with those delivered, lost and in flight."""
    random, pairs = Random(f"{SEED} conservation"), []
    network = {**_tree([2, 2, 2], [2, 2], "64 GB/s"), "reroute": {"reaction": "1 us"}}
    names = list(_built(network).counted_link_name)
    for _ in range(DRAWN):
        faults = []
        for _ in range(random.randint(1, 4)):
            fault: dict[str, Any] = {"link": random.choice(names), "down": True, "at": f"{random.randrange(4000)} ns"}
            fault["in_flight"] = random.choice(("drain", "lose"))
            faults.append(fault | random.choice(({}, {"for": "500 ns"}, {"for": "100 ns", "up": "700 ns"})))
        work = [{"src": npu, "dst": (npu + random.randrange(1, 8)) % 8, "size": "128 KiB"} for npu in range(8)]
        result = _outcome({"network": network, "message": work, "faults": faults})
        sent = [link for link, name in enumerate(result.links.name) if name.startswith("host:NPU")]
        counts = result.counts
        ends = sum(int(counts.get(name, 0)) for name in ("flits", "flits_lost", "flits_in_flight"))
        pairs.append((int(result.totals["flits"][sent].sum()), ends))
    worst, picture = exact(pairs, "flits")
    return Found(worst, picture, {"faults": f"{DRAWN} schedules"})


def cuts() -> Found:
    """Compare the rate between the halves of a tree with the minimum cut of what is left of it."""
    topology = _built(_tree([4, 4], [4], "64 GB/s"))
    shares, counts = [], list(range(1, 9))
    for count in counts:
        faults, routes = _failed(topology, count, count)
        left = nx.DiGraph()
        for link in np.flatnonzero(routes.allowed.any(axis=1)).tolist():
            left.add_edge(int(topology.link_src[link]), int(topology.link_dst[link]), capacity=1)
        for leaf in range(4):
            left.add_edge(*(("source", leaf) if leaf < 2 else (leaf, "sink")), capacity=4)
        cut = nx.minimum_cut_value(left, "source", "sink")
        work = [{"src": npu, "dst": npu + 8, "size": "64 KiB"} for npu in range(8)]
        result = _outcome({"network": _tree([4, 4], [4], "64 GB/s"), "message": work, "faults": faults})
        shares.append(100 * result.counts["flits"] / result.time_cycles / cut)
    limit = Series("minimum cut", counts, [100.0] * len(counts), "limit")
    picture = Picture("cables down", "rate, % of the minimum cut", [limit, Series("rate", counts, shares, "points")])
    return Found(max(shares), picture, {"faults": "1 to 8 cables down"})


def permutations(children: list[int], parents: list[int], count: int, size: int, draws: int) -> Found:
    """Compare rates of a permutation around failed cables with the maximum concurrent flow over the same links."""
    found = [permutation(children, parents, count, size, draw) for draw in range(1, draws + 1)]
    levels, times, arriving = (list(column) for column in zip(*found, strict=True))
    limit = Series("maximum flow", [0.0, max(map(max, times))], [100.0, 100.0], "limit")
    curves = [
        Series(f"cables, draw {number}", *line) for number, line in enumerate(zip(times, arriving, strict=True), 1)
    ]
    short = [100 - level for level in levels]
    note = "below the maximum flow: " + ", ".join(f"{part:.2f} %" for part in short)
    picture = Picture("time, us", "flits that arrive, % of the maximum flow", [limit, *curves])
    return Found(max(short), picture, {"faults": f"{count} cables down, {draws} draws"}, note)


def permutation(
    children: list[int], parents: list[int], count: int, size: int, seed: int
) -> tuple[float, list[float], list[float]]:
    """Return the steady rate of a permutation in % of the maximum flow, and the rates of all windows by time.

    NPUs send at the rate of this flow, so that none takes more of a link than its share of it.
    """
    topology = _built(_tree(children, parents, "64 GB/s"))
    faults, routes = _failed(topology, count, seed)
    npus = topology.npus
    goal = np.arange(npus)
    random = np.random.default_rng(3)
    while (goal == np.arange(npus)).any():
        goal = random.permutation(npus)
    rate = floor(6400 * equal_rate(topology, routes.allowed, goal.tolist()) + 1e-6) / 6400
    work = [{"src": src, "dst": dst, "size": f"{size} B"} for src, dst in enumerate(goal.tolist())]
    network = _tree(children, parents, f"{64 * rate:.2f} GB/s")
    result = pyxsim.run({"network": network, "message": work, "faults": faults, "output": {"window": "500 ns"}})
    length, ideal = result.windows.length, size / FLIT / rate
    arriving = np.asarray(result.windows.counts["flits"])[:, topology.links + npus :].sum(axis=1) / length / npus / rate
    steady = arriving[int(0.2 * ideal / length) : int(0.8 * ideal / length)]
    times = (np.arange(len(arriving)) * length / 1000).tolist()
    return float(100 * steady.mean()), times, (100 * arriving).tolist()


def cases() -> Iterator[Case]:
    claim = "Over five decades of bit error rates, goodput with retry is that of the closed form, within 3.3 deviations"
    yield Case("faults/retry-goodput", claim, "go-back-N with geometric errors", 3.3, "deviations", goodput, 30)
    claim = "With links that go down and up and routes that follow, flits sent are delivered, lost or in flight"
    yield Case("faults/conservation", claim, "definition", 0, "flits", conservation, 20)
    claim = "With 1 to 8 of 16 cables down, halves of a fat tree exchange no more than the minimum cut allows"
    yield Case("faults/minimum-cut", claim, "the minimum cut", 100, "%", cuts, 10)
    small, large = ([4, 4, 4], [4, 4]), ([4, 4, 4, 4], [4, 4, 4])
    for tree, count, bound, size, draws in (
        (small, 1, 2, 1 << 19, 2),
        (small, 8, 3, 1 << 19, 4),
        (large, 64, 2, 1 << 18, 1),
    ):
        claim = (
            f"With {count} cables of a fat tree of {4 ** len(tree[0])} NPUs down, permutations have the rate of the "
            f"maximum concurrent flow over the same links within {bound} %"
        )
        run = partial(permutations, *tree, count, size, draws)
        yield Case(f"faults/permutation-{count}", claim, "a linear program", bound, "%", run, 30)


FAMILY = ("faults", "Faults and other routes", ("faults",), cases)
