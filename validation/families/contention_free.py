"""Without contention all backends agree, and the pipeline explains the further time of packets."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial

from pyxsim.collective.closed_form import message_time, packet_flits
from validation.case import Case, Found, Picture, Series, must
from validation.machines import Tables, simulated

BYTES_PER_NS = 50
LATENCY = 500  # ns, of a link
FLIT, PACKET = 256, 4096
SIZE = 2**24
BACKENDS = ("analytical", "analytical-congestion", "flow", "packet")
# Each algorithm on a network where its messages never share a link, and the links of a message.
ALONE = {"ring": ("ring", 1), "direct": ("fully-connected", 1), "halving-doubling": ("switch", 2)}


def experiment(topology: str, npus: int, algorithm: str, size: int) -> Tables:
    return {
        "network": {
            "topology": topology,
            "shape": [npus],
            "bandwidth": f"{BYTES_PER_NS} GB/s",
            "latency": f"{LATENCY} ns",
            "flit": f"{FLIT} B",
            "packet": f"{PACKET} B",
        },
        "system": {"all_reduce": algorithm},
        "collective": {"kind": "all-reduce", "size": f"{size} B"},
    }


def steps(algorithm: str, npus: int, size: int) -> list[int]:
    """Bytes of the messages of an all-reduce, each of which starts when the previous one has arrived."""
    if algorithm == "ring":
        return [size // npus] * (2 * (npus - 1))
    if algorithm == "direct":
        return [size // npus] * 2
    halves = [size >> step for step in range(1, npus.bit_length())]
    return [*halves, *halves[::-1]]


def by_formula(nbytes: int, links: int) -> int:
    """Latencies and bytes over bandwidth, truncated."""
    return int(links * LATENCY + Fraction(nbytes, BYTES_PER_NS))


def by_pipeline(nbytes: int, links: int) -> int:
    """The time of packets, flit by flit: two lanes, the routers between links, and whole flits in whole cycles."""
    flits = packet_flits(nbytes, flit=FLIT, packet=PACKET)
    s = Fraction(FLIT, BYTES_PER_NS)
    # rc, va, sa and st take a cycle each; no delay includes sa, and heads wait for rc and va.
    delays = [1, *[LATENCY + 1] * links, 1 + 1]
    return message_time(flits, [s] * len(delays), delays, 2)


def alone(algorithm: str, npus: int, size: int) -> Found:
    """Return the largest deviation from the analytical backend; each time is predicted to the cycle."""
    topology, links = ALONE[algorithm]
    times = {
        name: simulated(experiment(topology, npus, algorithm, size), backend=name).time_cycles for name in BACKENDS
    }
    formula = sum(by_formula(nbytes, links) for nbytes in steps(algorithm, npus, size))
    pipeline = sum(by_pipeline(nbytes, links) for nbytes in steps(algorithm, npus, size))
    for name, time in times.items():
        wanted = pipeline if name == "packet" else formula
        must(time == wanted, f"{name} takes {time} cycles, not {wanted}")
    return _found(times, formula, "the formula", f"{algorithm} on {topology}, {npus} NPUs")


def crowded_switch(npus: int, size: int) -> Found:
    """All NPUs send to all at once: the bytes of a link into an NPU over its bandwidth, and four latencies."""
    least = 2 * (npus - 1) * size / npus / BYTES_PER_NS + 4 * LATENCY
    tables = experiment("switch", npus, "direct", size)
    times = {name: simulated(tables, backend=name).time_cycles for name in ("flow", "packet")}
    for name, time in times.items():
        must(time >= int(least) - 1, f"{name} takes {time} cycles, less than {least:.0f}")
    return _found(times, least, "the bound", f"direct on switch, {npus} NPUs, all at once")


def _found(times: dict[str, int], wanted: float, what: str, over: str) -> Found:
    places = list(range(len(times)))
    picture = Picture(
        "backend: " + ", ".join(times),
        "cycles",
        [
            Series(what, places, [wanted] * len(places), "limit"),
            Series("simulated", places, list(times.values()), "points"),
        ],
    )
    worst = 100 * max(abs(time / wanted - 1) for time in times.values())
    cells = {"over": over, "expected": f"{wanted:.0f}", "flow": str(times["flow"]), "packet": str(times["packet"])}
    return Found(worst, picture, cells=cells)


def cases() -> Iterator[Case]:
    claim = (
        "Without contention, the backends without packets take the time of the formula, and the packet backend takes "
        "at most 2 % more, for lanes, routers and whole flits, as predicted to the cycle"
    )
    source = "latencies and bytes over bandwidth, docs/router.md"
    for algorithm, (topology, _) in ALONE.items():
        for npus in (8, 16):
            name = f"contention-free/{algorithm}-on-{topology}-{npus}"
            yield Case(name, claim, source, 2, "%", partial(alone, algorithm, npus, SIZE), 2)
    claim = "A direct all-reduce over one switch runs at the speed of the links, with flows and with packets"
    source = "2(N-1)/N*S/B and four latencies"
    yield Case("contention-free/switch-64", claim, source, 2, "%", partial(crowded_switch, 64, SIZE), 4)


FAMILY = ("contention-free", "No contention", ("over", "expected", "flow", "packet"), cases)
