"""Links that err, fail and come up again: goodput with retry, no lost flit, and throughput around failed links."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import expm1, log1p, sqrt
from random import Random
from typing import Any

import networkx as nx
import numpy as np

import pyxsim
from pyxsim.errors import StuckError
from pyxsim.results.result import Result
from validation.case import Case, Found, Picture, Series, exact
from validation.failed_links import (
    LARGE,
    SELECTIONS,
    SMALL,
    UNEVEN,
    Tree,
    built,
    failed,
    permutation,
    tree_network,
)

SEED = 1
DRAWN = 24
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
    network = {**tree_network(Tree((2, 2, 2), (2, 2))), "reroute": {"reaction": "1 us"}}
    names = list(built(network).counted_link_name)
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
    network = tree_network(Tree((4, 4), (4,)))
    topology = built(network)
    shares, counts = [], list(range(1, 9))
    for count in counts:
        faults, routes = failed(topology, count, count)
        left = nx.DiGraph()
        for link in np.flatnonzero(routes.allowed.any(axis=1)).tolist():
            left.add_edge(int(topology.link_src[link]), int(topology.link_dst[link]), capacity=1)
        for leaf in range(4):
            left.add_edge(*(("source", leaf) if leaf < 2 else (leaf, "sink")), capacity=4)
        cut = nx.minimum_cut_value(left, "source", "sink")
        work = [{"src": npu, "dst": npu + 8, "size": "64 KiB"} for npu in range(8)]
        result = _outcome({"network": network, "message": work, "faults": faults})
        shares.append(100 * result.counts["flits"] / result.time_cycles / cut)
    limit = Series("minimum cut", counts, [100.0] * len(counts), "limit")
    picture = Picture("cables down", "rate, % of the minimum cut", [limit, Series("rate", counts, shares, "points")])
    return Found(max(shares), picture, {"faults": "1 to 8 cables down"})


def permutations(tree: Tree, count: int, size: int, draws: int) -> Found:
    """Compare the rate of each pair of a permutation around failed cables with the maximum concurrent flow."""
    found = [permutation(tree, count, draw, size, "weighted, messages") for draw in range(1, draws + 1)]
    times = [(np.arange(len(rates.arriving)) * rates.window / 1000).tolist() for rates in found]
    curves = [
        Series(f"cables, draw {number}", time, (100 * rates.arriving / rates.equal).tolist())
        for number, (time, rates) in enumerate(zip(times, found, strict=True), 1)
    ]
    limit = Series("maximum flow", [0.0, max(map(max, times))], [100.0, 100.0], "limit")
    short = [100 - 100 * float(rates.pairs.min()) / rates.equal for rates in found]
    note = "slowest pair below the maximum flow: " + ", ".join(f"{part:.2f} %" for part in short)
    picture = Picture("time, us", "flits that arrive, % of the maximum flow", [limit, *curves])
    return Found(max(short), picture, {"faults": f"{count} cables down, {draws} draws"}, note)


def overload() -> Found:
    """Compare the rates of permutations at full injection with the maximum total flow."""
    counts, curves, most = [1, 8], [], 0.0
    for selection in SELECTIONS:
        found = [permutation(SMALL, count, 1, 1 << 19, selection, full=True) for count in counts]
        shares = [100 * float(rates.pairs.mean()) / rates.total for rates in found]
        most = max(most, *shares)
        curves.append(Series(selection, counts, shares, "points"))
    limit = Series("maximum total flow", counts, [100.0] * len(counts), "limit")
    picture = Picture("cables down", "flits that arrive, % of the maximum total flow", [limit, *curves])
    return Found(most, picture, {"faults": "1 and 8 cables down"})


def cases() -> Iterator[Case]:
    claim = "Over five decades of bit error rates, goodput with retry is that of the closed form, within 3.3 deviations"
    yield Case("faults/retry-goodput", claim, "go-back-N with geometric errors", 3.3, "deviations", goodput, 30)
    claim = "With links that go down and up and routes that follow, flits sent are delivered, lost or in flight"
    yield Case("faults/conservation", claim, "definition", 0, "flits", conservation, 20)
    claim = "With 1 to 8 of 16 cables down, halves of a fat tree exchange no more than the minimum cut allows"
    yield Case("faults/minimum-cut", claim, "the minimum cut", 100, "%", cuts, 10)
    for name, tree, count, size, draws in (
        ("1", SMALL, 1, 1 << 19, 4),
        ("8", SMALL, 8, 1 << 19, 8),
        ("64", LARGE, 64, 1 << 18, 1),
        ("uneven", UNEVEN, 4, 1 << 19, 4),
    ):
        claim = (
            f"With {count} cables of a fat tree of {tree.npus} NPUs down"
            f"{' and uneven numbers of parents' if tree is UNEVEN else ''}, each pair of a permutation has the rate of "
            "the maximum concurrent flow over the same links within 2 %, with its weights"
        )
        run = partial(permutations, tree, count, size, draws)
        yield Case(f"faults/permutation-{name}", claim, "a linear program", 2, "%", run, 30)
    claim = "NPUs that send as fast as they can pass no more than the maximum total flow around cables that are down"
    yield Case("faults/overload", claim, "a linear program", 100, "%", overload, 30)


FAMILY = ("faults", "Faults and other routes", ("faults",), cases)
