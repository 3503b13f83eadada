"""Collectives on a ring against the closed form of docs/collectives.md: equal to the cycle."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any

from pyxsim.collective.closed_form import is_exact, neighbour_time, packet_flits, ring_all_reduce_time, ring_time
from pyxsim.runner.lifecycle import run
from validation.case import Case, Found, exact, not_too_fast

CLOCK = 10**9
SOURCE = "the closed form, docs/collectives.md"
# The setting, and the parameters of the closed form.
PIPELINES: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "booksim": ({"pipeline": "booksim"}, {}),
    "garnet": ({"pipeline": "garnet"}, {"bw": 0, "rc": 0, "va": 0, "st": 0}),
    "garnet-4": ({"pipeline": "garnet", "latency": 4}, {"bw": 3, "rc": 0, "va": 0, "st": 0}),
    "unequal": (
        {"pipeline": {"bw": 1, "rc": 2, "va": 2, "sa": 2, "st": 0}},
        {"bw": 1, "rc": 2, "va": 2, "sa": 2, "st": 0},
    ),
}
KINDS = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all")
RANDOM_CASES = 400


def measured(
    kind: str,
    n: int,
    size: int,
    *,
    s: Fraction = Fraction(1),
    flit: int = 4,
    packet: int = 64,
    header: int = 0,
    latency: int = 10,
    lane: int = 1,
    endpoint: int = 0,
    reduction: int = 0,
    bidirectional: bool = True,
    router: dict[str, Any] | None = None,
) -> int:
    """Cycles of a collective in one chunk on a ring of n NPUs, with the packet backend."""
    result = run(
        {
            "network": {
                "topology": "ring",
                "shape": [n],
                "options": {"bidirectional": bidirectional},
                "clock": "1 GHz",
                "flit": f"{flit} B",
                "packet": f"{packet} B",
                "header": f"{header} B",
                "bandwidth": f"{flit * CLOCK / s} B/s",
                "latency": f"{latency} cycles",
                "lane_latency": f"{lane} cycles",
                "router": router or {},
            },
            "system": {
                "endpoint_delay": f"{endpoint} cycles",
                "reduction_delay": f"{reduction} cycles",
                kind.replace("-", "_"): "ring",
            },
            "collective": {"kind": kind, "size": f"{size} B"},
        }
    )
    not_too_fast(result)
    return result.time_cycles


def every_ring(preset: str) -> Found:
    """256 B flits, 4 KiB packets, 100 GB/s, 500 ns, 4 VCs; 1 MiB: a flit takes 2.56 cycles."""
    s = Fraction(64, 25)
    router, stages = PIPELINES[preset]

    def hop(nbytes: int) -> int:
        return neighbour_time(nbytes, flit=256, packet=4096, s=s, latency=500, **stages)

    pairs: list[tuple[float, float]] = []
    for n in range(2, 17):
        got = measured("all-reduce", n, 2**20, s=s, flit=256, packet=4096, latency=500, router=router)
        pairs.append((ring_all_reduce_time(n, 2**20, hop), got))
    return Found(*exact(pairs, "cycles"), cells={"over": "2 to 16 NPUs, the default machine, 1 MiB"})


def every_kind() -> Found:
    pairs: list[tuple[float, float]] = []
    n, size = 6, 6 * 700
    for kind in KINDS:
        for s in (Fraction(1), Fraction(5, 2)):
            for bidirectional in (True, False):

                def hop(nbytes: int, s: Fraction = s) -> int:
                    return neighbour_time(nbytes, flit=4, packet=64, s=s, latency=10)

                got = measured(kind, n, size, s=s, bidirectional=bidirectional, endpoint=3, reduction=8)
                pairs.append((ring_time(kind, n, size, hop, endpoint=3, reduction=8), got))
    return Found(*exact(pairs, "cycles"), cells={"over": "all kinds, 6 NPUs, two flit times, one and two ways"})


def draw(rng: random.Random) -> tuple[dict[str, Any], dict[str, int]]:
    """Draw a machine and a size: the arguments of `measured`, and the stages."""
    n = rng.randint(2, 16)
    flit = rng.choice([1, 4, 100])
    s = rng.choice([Fraction(1), Fraction(rng.randint(1, 12)), Fraction(rng.randint(12, 72), 12)])
    router, stages = PIPELINES[rng.choice(list(PIPELINES))]
    extra = {"vcs": rng.randint(2, 9), "arbiter": rng.choice(["round-robin", "step"])}
    extra["injection"] = rng.choice(["packet", "interleaved"])
    told: dict[str, Any] = {
        "n": n,
        "size": min(rng.choice([rng.randint(1, 40), rng.randint(1, 3000)]), 60 * n * flit),
        "s": s,
        "flit": flit,
        "packet": flit * rng.randint(1, 17),
        "header": rng.choice([0, 0, 1]),
        "latency": rng.randint(1, 300),
        "lane": rng.randint(1, 12),
        "endpoint": rng.choice([0, 0, 1, 55]),
        "reduction": rng.choice([0, 0, 1, 55]),
        "bidirectional": rng.random() < 0.5,
        "router": {**router, **extra},
    }
    return told, stages


def _hop(told: dict[str, Any], cut: dict[str, int], stages: dict[str, int]) -> Callable[[int], int]:
    def hop(nbytes: int) -> int:
        return neighbour_time(nbytes, **cut, s=told["s"], latency=told["latency"], lane_latency=told["lane"], **stages)

    return hop


def random_machines(part: int) -> Found:
    """Exact where `is_exact` holds; else a lower bound, missed by at most rc+va+2 cycles per packet."""
    rng = random.Random(part)
    pairs: list[tuple[float, float]] = []
    faults = bounds = 0
    for _ in range(RANDOM_CASES):
        told, stages = draw(rng)
        n, size, s, vcs = told["n"], told["size"], told["s"], told["router"]["vcs"]
        cut = {key: told[key] for key in ("flit", "packet", "header")}
        hop = _hop(told, cut, stages)
        block = -(-size // n)
        earlier = hop(max(1, block - 1))
        if told["reduction"] and block > 1 and (n - 1) * (hop(block) - earlier) >= earlier + told["endpoint"]:
            continue  # a small block may overtake: see docs/collectives.md
        wanted = ring_all_reduce_time(n, size, hop, endpoint=told["endpoint"], reduction=told["reduction"])
        got = measured("all-reduce", **told)
        waits = stages.get("rc", 1) + stages.get("va", 1)
        flits = packet_flits(block, **cut)
        if is_exact(flits, s, waits, vcs // 2):
            pairs.append((wanted, got))
            faults += got != wanted
        else:
            bounds += 1
            faults += not wanted <= got <= wanted + 2 * (n - 1) * len(flits) * (waits + 2)
    over = f"{len(pairs)} random machines where it is exact, {bounds} where it is a lower bound"
    return Found(faults, exact(pairs, "cycles")[1], cells={"over": over})


def cases() -> Iterator[Case]:
    for preset in ("booksim", "garnet"):
        claim = "A ring all-reduce takes the cycles of the closed form"
        yield Case(f"ring/all-reduce-{preset}", claim, SOURCE, 0, "cycles", partial(every_ring, preset), 3)
    claim = "Reduce-scatter, all-gather and all-to-all on a ring take the cycles of their closed forms"
    yield Case("ring/kinds", claim, SOURCE, 0, "cycles", every_kind, 1)
    claim = (
        "With random widths, latencies, delays, pipelines and sizes, the closed form is exact if `is_exact` holds; "
        "otherwise the error is at most rc+va+2 cycles per packet"
    )
    for part in range(4):
        yield Case(f"ring/random-{part}", claim, SOURCE, 0, "wrong cases", partial(random_machines, part), 20)


FAMILY = ("ring", "Collectives on a ring", ("over",), cases)
