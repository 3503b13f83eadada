"""An all-reduce over one switch against the bandwidth of its links: the switch costs no bandwidth."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from pyxsim.runner.lifecycle import run
from validation.case import Case, Found, Picture, Series, not_too_fast

N = 16
BYTES_PER_NS = 100
LATENCIES = 2 * 2 * 500  # ns: two phases over two links
ROUTERS: dict[str, dict[str, Any]] = {
    "default": {},
    "garnet": {"pipeline": "garnet"},
    "vcs8": {"vcs": 8},
    "vcs2": {"vcs": 2},
}


def direct_all_reduce(size: int) -> Found:
    """2(N-1)/N*S bytes leave each NPU over one link; before and after them a flit crosses two links, twice."""
    least = 2 * (N - 1) / N * size / BYTES_PER_NS
    times: dict[str, float] = {}
    for name, router in ROUTERS.items():
        result = run(
            {
                "network": {
                    "topology": "switch",
                    "shape": [N],
                    "bandwidth": f"{BYTES_PER_NS} GB/s",
                    "latency": "500 ns",
                    "router": router,
                },
                "system": {"all_reduce": "direct"},
                "collective": {"kind": "all-reduce", "size": f"{size} B"},
            }
        )
        not_too_fast(result)
        times[name] = float(result.time_ns)
    places = list(range(len(times)))
    picture = Picture(
        "router: " + ", ".join(times),
        "ns",
        [
            Series("2(N-1)/N*S/B and four latencies", places, [least + LATENCIES] * len(places), "limit"),
            Series("simulated", places, list(times.values()), "points"),
        ],
    )
    worst = 100 * (max(times.values()) / (least + LATENCIES) - 1)
    return Found(worst, picture, cells={"over": "16 NPUs, 100 GB/s, 500 ns, four kinds of routers"})


def cases() -> Iterator[Case]:
    claim = "A direct all-reduce over one switch runs at the speed of the links: 2(N-1)/N*S/B and four latencies"
    for size, name in ((2**20, "1MiB"), (2**24, "16MiB")):
        seconds = 2 if size == 2**20 else 20
        yield Case(f"switch/{name}", claim, "bytes over bandwidth", 3, "%", partial(direct_all_reduce, size), seconds)


FAMILY = ("switch", "A switch at the speed of its links", ("over",), cases)
