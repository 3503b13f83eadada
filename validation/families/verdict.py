"""`pyxsim compare` tells right whether an answer without packets is good enough: on experiments that are drawn.

Topologies, bandwidths, latencies, flits, lanes, every setting of the routers, algorithms, sizes, chunks and several
collectives at once are drawn, all of them from the first number on: none is left out. What is right is measured: the
time of the packets. None of these numbers was drawn while the rule was made.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from functools import cache, partial
from typing import Any

from pyxsim.analysis.verdict import NOT_SAFE, SAFE, UNAWARE, UNKNOWN, Verdict, beforehand, by_waiting, measured
from pyxsim.results.comparison import PACKET, Compared
from pyxsim.study.compare import WITHIN, compare
from validation.case import Case, Found, Picture, Series, must

Tables = dict[str, Any]

FIRST, COUNT = 60_000, 300
COLUMNS = ("said safe (of these not safe)", "said not safe (of these safe)", "cannot tell (of these safe)")
AWARE = ("analytical-congestion", "flow")
WITHOUT_CIRCLES = ("mesh", "switch", "fully-connected")  # of links: packets that keep their order need more than VCs
BASELINE = ("recursive-doubling", "double-binary-tree")  # which are all-reduces, and nothing else in a hierarchy


def draw(seed: int) -> Tables:
    """Draw an experiment."""
    rng = random.Random(seed)
    network = _network(rng)
    size = int(2 ** rng.uniform(10, 20.5))
    system: Tables = {
        "chunks": rng.choice([1, 2, 4, 8]),
        "active_chunks": rng.choice([1, 2, 4]),
        "endpoint_delay": rng.choice(["0 ns", "10 ns", "500 ns"]),
    }
    kind = rng.choice(["all-reduce"] * 4 + ["all-to-all", "all-gather", "reduce-scatter", "broadcast"])
    if kind == "all-reduce":
        algorithm = rng.choice(["ring", "direct", "halving-doubling", "bruck", *BASELINE])
        system |= {"all_reduce": algorithm} | ({"optimization": "baseline"} if algorithm in BASELINE else {})
    elif kind == "all-to-all":
        system["all_to_all"] = rng.choice(["direct", "pairwise", "direct:2"])
    one = {"kind": kind, "size": f"{max(1, size // (8 if kind == 'all-gather' else 1))} B"}
    tables: Tables = {"network": network, "system": system, "collective": one}
    beside = rng.random()
    if beside < 0.15:
        tables["collective"] = [one, {**one, "at": rng.choice(["0 ns", "1 us"])}]
    elif beside < 0.3:
        tables["message"] = [{"src": src, "dst": 0, "size": f"{size} B"} for src in rng.sample(range(1, 4), 2)]
    return tables


def _network(rng: random.Random) -> Tables:
    npus, few, side = rng.choice([4, 6, 8, 12, 16]), rng.choice([2, 4]), rng.choice([2, 3, 4])
    network: Tables = dict(
        rng.choice(
            [
                {"topology": "ring", "shape": [npus]},
                {"topology": "ring", "shape": [npus], "options": {"bidirectional": False}},
                {"topology": "mesh", "shape": [side, 4]},
                {"topology": "torus", "shape": [4, side]},
                {
                    "topology": "torus",
                    "shape": [4, 4],
                    "router": {"routing": "minimal-adaptive", "vc_reuse": "drained", "vcs": 4},
                },
                {"topology": "torus", "shape": [2, 2, side]},
                {"topology": "switch", "shape": [npus]},
                {"topology": "fully-connected", "shape": [npus]},
                {"dims": [{"block": "ring", "npus": 4}, {"block": "switch", "npus": few}]},
                {"dims": [{"block": "fully-connected", "npus": 4}, {"block": "ring", "npus": few}]},
                {"topology": "leaf-spine", "options": {"npus": 4, "leaves": few, "spines": rng.choice([1, 2, 4])}},
                {"topology": "k-ary-n-tree", "options": {"k": 2, "n": 3}},
                {"topology": "dragonfly", "options": {"p": 1, "a": 4, "h": 1}},
                {"topology": "hyperx", "options": {"routers": [2, 4], "concentration": 1}},
            ]
        )
    )
    dims = len(network.get("shape") or network.get("dims") or [0])
    widths = ["25 GB/s", "50 GB/s", "100 GB/s", "200 GB/s"]
    several = dims > 1 and rng.random() < 0.3
    network["bandwidth"] = [rng.choice(widths) for _ in range(dims)] if several else rng.choice(widths)
    network["latency"] = rng.choice(["5 ns", "50 ns", "200 ns", "1 us"])
    network["flit"], network["packet"] = rng.choice([("64 B", "1 KiB"), ("256 B", "4 KiB"), ("256 B", "1 KiB")])
    if rng.random() < 0.2:
        network["header"] = rng.choice(["16 B", "64 B"])
    router = dict(network.get("router", {}))
    router.setdefault("vcs", rng.choice([2, 4, 8]))
    router["flow_control"] = rng.choice(["wormhole"] * 4 + ["virtual-cut-through", "store-and-forward"])
    if "routing" not in router:  # adaptive routing requests VCs of several links; Garnet's pipeline cannot
        router["pipeline"] = rng.choice(["garnet", "booksim"])
    whole = router["flow_control"] != "wormhole"  # packets, which a buffer must hold
    router["buffer"] = rng.choice(["auto", "auto", 32 if whole else 8, 32, 128])
    network["router"] = router
    _rarer(rng, network)
    return network


def _rarer(rng: random.Random, network: Tables) -> None:
    """Rarely changed settings, each in some of the experiments."""
    router = network["router"]
    adaptive, allocates = "routing" in router, router.get("pipeline", "booksim") == "booksim"
    network |= _some(rng, 0.1, lanes=[1, 2, "per-dimension"], lane_bandwidth=["25 GB/s", "300 GB/s"])
    clock = "6 GHz" if network["flit"] == "64 B" else "1.5 GHz"  # carries the widest lane, 300 GB/s
    network |= _some(rng, 0.1, pad_packets=[True], lane_latency=["20 ns"], clock=[clock])
    router |= _some(rng, 0.1, vc_reuse=["drained"], injection=["interleaved"], shared_buffer=[16], credit_delay=[8])
    router |= _some(rng, 0.1, output_queue=[True], serdes=[3])
    if not adaptive:
        router |= _some(rng, 0.1, arbiter=["step"])
    if network.get("topology") in WITHOUT_CIRCLES:
        router |= _some(rng, 0.2, ordered=[True])
    if router["vcs"] >= 4 and not adaptive:
        router |= _some(rng, 0.1, virtual_networks=[[router["vcs"] - 2, 2]])
    if not {"ordered", "arbiter"} & set(router):
        router |= _some(rng, 0.1, input_speedup=[2], internal_speedup=[2], sa_allocator=["islip:2", "wavefront", "age"])
        if allocates:
            allocators = ["islip:1", "wavefront", "age", "separable-input-first"]
            router |= _some(rng, 0.1, speculation=[True], va_allocator=allocators, lookahead=[True])


def _some(rng: random.Random, share: float, **values: list[Any]) -> Tables:
    """Draw each setting with this probability, with one of its values."""
    return {key: rng.choice(value) for key, value in values.items() if rng.random() < share}


@cache
def drawn() -> list[Compared]:
    """Run all experiments on all backends."""
    found = [compare(draw(seed)).points[0] for seed in range(FIRST, FIRST + COUNT)]
    for point in found:
        reasons = [entry.reason for entry in point.entries if entry.reason]
        must(not reasons, f"an experiment was not run: {reasons}")
        must(point.lower_bound <= (point.cycles(PACKET) or 0), "a run is faster than its links")
    return found


def from_waiting() -> Found:
    pairs = []
    for point in drawn():
        said = by_waiting(point, WITHIN)
        must(said is not None, "nothing was told of what the packets waited")
        pairs.append((measured(point, UNAWARE, WITHIN), said))
    return _found(pairs)  # type: ignore[arg-type]


def before(backend: str) -> Found:
    pairs = [(measured(point, backend, WITHIN), beforehand(point, backend, WITHIN)) for point in drawn()]
    return _found(pairs)


def _found(pairs: list[tuple[Verdict, Verdict]]) -> Found:
    """Return the wrong ones of the decided verdicts (true, given)."""
    count = Counter((true.says, told.says) for true, told in pairs)
    wrong = count[NOT_SAFE, SAFE] + count[SAFE, NOT_SAFE]
    cells = {}
    for title, says, other in zip(COLUMNS, (SAFE, NOT_SAFE, UNKNOWN), (NOT_SAFE, SAFE, SAFE), strict=True):
        cells[title] = f"{count[SAFE, says] + count[NOT_SAFE, says]} ({count[other, says]})"
    points = [(told.error, true.error) for true, told in pairs if told.error is not None and true.error is not None]
    found = [point for point in points if all(value is not None for value in point)]
    picture = Picture(
        "error that is told",
        "error that was measured",
        [
            Series("as told", [-1, 0], [-1, 0], "limit"),
            Series("drawn experiments", [told for told, _ in found], [true for _, true in found], "points"),
        ],
    )
    return Found(100 * wrong / len(pairs), picture, cells)


def cases() -> Iterator[Case]:
    source = "the packet backend on the same experiment"
    yield Case(
        "verdict/from-waiting",
        f"The waiting of packets decides whether the backend without congestion is within {WITHIN:.0%} of packets "
        f"({COUNT} random experiments)",
        source,
        2,
        "% wrong",
        from_waiting,
        60,
    )
    for backend in (UNAWARE, *AWARE):
        yield Case(
            f"verdict/beforehand-{backend}",
            f"Without a packet run, the verdict says whether {backend} is within {WITHIN:.0%} of packets, or that this "
            f"is unknown ({COUNT} random experiments)",
            source,
            1,
            "% wrong",
            partial(before, backend),
            60,
        )


FAMILY = (
    "verdict",
    "Whether an answer without packets is good enough",
    COLUMNS,
    cases,
)
