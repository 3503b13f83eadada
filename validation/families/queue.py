"""Many sources and one server: packets wait as queueing theory predicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from pyxsim.runner.lifecycle import run
from validation.case import Case, Found, Picture, Series

SOURCES = 64
LOADS = (0.3, 0.5, 0.7, 0.8, 0.9)
SERVERS = (1, 3)  # cycles of a packet of one flit on the link that is the server
LATENCY = 5


def m_d_1(load: float, service: float) -> float:
    """Mean wait before a server with a constant service time: Poisson arrivals."""
    return load * service / (2 * (1 - load))


def binomial(load: float, service: float, sources: int) -> float:
    """The same where each of some sources creates a packet with some probability in each cycle.

    In a cycle arrive A packets, binomial, of mean load/service. The work W left after a cycle obeys
    W' = max(W + service * A - 1, 0), of which the first two moments give E[W]; those of the same cycle come on top.
    """
    mean = load / service
    pairs = mean * mean * (1 - 1 / sources)  # E[A(A-1)]
    square = service * service * (pairs + mean)  # E[(service * A)^2]
    return (square - load) / (2 * (1 - load)) + service * pairs / (2 * mean)


def waits(service: int, load: float, folder: Path) -> tuple[float, float]:
    """(mean wait, half of its 95 % interval) in cycles, of packets from one leaf to a node of the other."""
    rows = [[0.0] * (2 * SOURCES) for _ in range(2 * SOURCES)]
    for source in range(SOURCES):
        rows[source][SOURCES] = 1.0
    file = folder / f"to_one_{service}_{load}.csv"
    file.write_text("\n".join(",".join(f"{value:g}" for value in row) for row in rows) + "\n", encoding="utf-8")
    told = run(
        {
            "network": {
                "topology": "leaf-spine",
                "options": {"npus": SOURCES, "leaves": 2, "spines": 1},
                "flit": "16 B",
                "bandwidth": f"{16 * 10**9}/{service} B/s",
                "lane_bandwidth": "16 GB/s",
                "latency": f"{LATENCY} cycles",
                "router": {"vcs": 64, "buffer": 16},
            },
            "traffic": {
                "pattern": "matrix",
                "pattern_options": {"file": str(file)},
                "load": load / service / (2 * SOURCES),
                "packet_flits": 1,
                "precision": 0.004,
                "max_cycles": 3_000_000,
                "latency_limit": 2**40,
            },
        }
    ).json()
    routers, links = 3, 2
    alone = routers * 4 + links * (LATENCY + service - 1) + 1 + 1 + 1
    return told["packet_latency"] - alone, told["packet_latency_interval"]


def one_server(service: int) -> Found:
    worst = 0.0
    found: list[float] = []
    low: list[float] = []
    high: list[float] = []
    with TemporaryDirectory() as folder:
        for load in LOADS:
            wait, interval = waits(service, load, Path(folder))
            worst = max(worst, 100 * abs(wait - binomial(load, service, SOURCES)) / interval)
            found.append(wait)
            low.append(wait - interval)
            high.append(wait + interval)
    fine: Sequence[float] = [x / 100 for x in range(5, 93)]
    picture = Picture(
        "load of the server",
        "mean wait (cycles)",
        [
            Series("M/D/1", fine, [m_d_1(load, service) for load in fine], "limit"),
            Series("simulated", LOADS, found, "points", low, high),
        ],
    )
    told = ", ".join(f"{wait:.2f} / {m_d_1(load, service):.2f}" for load, wait in zip(LOADS, found, strict=True))
    return Found(worst, picture, {"loads": ", ".join(map(str, LOADS)), "waits / M/D/1": told})


def cases() -> Iterator[Case]:
    claim = (
        f"Packets of {SOURCES} sources wait for one link as in an M/D/1 queue (with {SOURCES} sources), "
        "within the 95 % confidence interval"
    )
    for service in SERVERS:
        source = "the Pollaczek-Khinchine formula, with binomial arrivals"
        run_it = partial(one_server, service)
        yield Case(f"queue/service-{service}", claim, source, 100, "% of the interval", run_it, 60)


FAMILY = ("queue", "One queue, many sources", ("loads", "waits / M/D/1"), cases)
