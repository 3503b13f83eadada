"""Random small experiments, as the tables of an experiment file."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

KINDS = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all")
ALGORITHMS = ("ring", "direct", "direct:1", "direct:2", "halving-doubling")
CLOCK = 10**9


def rate(s: Fraction | int) -> str:
    """The bandwidth at which a flit of 4 B takes `s` cycles of 1 GHz."""
    return f"{4 * CLOCK / Fraction(s)} B/s"


TIMES = st.one_of(st.just(Fraction(1)), st.fractions(1, 6, max_denominator=5))
LATENCIES = st.one_of(st.integers(1, 4), st.integers(1, 120))


@st.composite
def networks(draw: st.DrawFn, most: int = 16, dims: int = 3) -> dict[str, Any]:
    """A product of blocks, or a torus or mesh of the shelf, with links of its own in every dimension."""
    shape: list[int] = []
    for _ in range(draw(st.integers(1, dims))):
        shape.append(draw(st.integers(1, min(5, most // math.prod(shape)))))
    table: dict[str, Any] = {}
    if draw(st.booleans()):
        table |= {"topology": draw(st.sampled_from(["torus", "mesh"])), "shape": shape}
        if table["topology"] == "torus":
            table["options"] = {"bidirectional": draw(st.booleans())}
        table["bandwidth"] = [rate(draw(TIMES)) for _ in shape]
        table["latency"] = [f"{draw(LATENCIES)} cycles" for _ in shape]
    else:
        table["dims"] = [
            {
                "block": draw(st.sampled_from(["ring", "mesh", "switch", "fully-connected"])),
                "npus": npus,
                "bandwidth": rate(draw(TIMES)),
                "latency": f"{draw(LATENCIES)} cycles",
            }
            for npus in shape
        ]
        for dim in table["dims"]:
            if dim["block"] == "ring":
                dim["bidirectional"] = draw(st.booleans())
    return table | {
        "clock": "1 GHz",
        "flit": "4 B",
        "packet": f"{draw(st.sampled_from([4, 16, 50]))} B",
        "header": f"{draw(st.sampled_from([0, 0, 1, 4]))} B",
        "pad_packets": draw(st.booleans()),
        "lanes": draw(st.sampled_from(["per-link", "per-dimension", 1, 2])),
        "lane_latency": f"{draw(st.integers(1, 5))} cycles",
    }


@st.composite
def routers(draw: st.DrawFn) -> dict[str, Any]:
    pipeline = draw(st.sampled_from(["booksim", "garnet", "stages"]))
    table: dict[str, Any] = {"pipeline": pipeline}
    if pipeline == "stages":
        low, high = st.integers(0, 2), st.integers(1, 2)
        table["pipeline"] = {"bw": draw(low), "rc": draw(low), "va": draw(low), "sa": draw(high), "st": draw(low)}
    elif pipeline == "garnet":
        table["latency"] = draw(st.integers(1, 3))
    return table | {
        "vcs": draw(st.integers(2, 5)),
        "buffer": draw(st.sampled_from(["auto", 1, 2, 7])),
        "vc_reuse": draw(st.sampled_from(["tail", "drained"])),
        "arbiter": draw(st.sampled_from(["round-robin", "step"])),
        "injection": draw(st.sampled_from(["packet", "interleaved"])),
        "output_queue": draw(st.booleans()),
        "serdes": draw(st.sampled_from([0, 0, 3])),
    }


@st.composite
def systems(draw: st.DrawFn, kind: str, dims: int) -> dict[str, Any]:
    able = [name for name in ALGORITHMS if (kind, name) != ("all-to-all", "halving-doubling")]
    algorithms: list[str] | str | None = draw(
        st.one_of(
            st.none(),
            st.lists(st.sampled_from(able), min_size=dims, max_size=dims),
            st.sampled_from([f"one-{name}" for name in able]),
        )
    )
    table: dict[str, Any] = {
        "chunks": draw(st.integers(1, 6)),
        "active_chunks": draw(st.integers(1, 3)),
        "scheduling": draw(st.sampled_from(["LIFO", "FIFO"])),
        "inter_dimension": draw(st.sampled_from(["ascending", "round-robin", "themis"])),
        "optimization": draw(st.sampled_from(["baseline", "localBWAware"])),
        "endpoint_delay": f"{draw(st.sampled_from([0, 0, 1, 30]))} ns",
        "reduction_delay": f"{draw(st.sampled_from([0, 0, 7]))} ns",
    }
    if algorithms is not None:
        table[kind.replace("-", "_")] = algorithms
    if draw(st.booleans()):
        table["queues"] = draw(st.one_of(st.integers(1, 3), st.lists(st.integers(1, 3), min_size=dims, max_size=dims)))
    if draw(st.booleans()):
        table["compat"] = "astra-sim-1"
    return table


@st.composite
def experiments(draw: st.DrawFn, most: int = 16) -> dict[str, Any]:
    """A network, a system and a collective that fit together."""
    network = draw(networks(most))
    kind = draw(st.sampled_from(KINDS))
    dims = len(network.get("shape") or network["dims"])
    return {
        "network": network | {"router": draw(routers())},
        "system": draw(systems(kind, dims)),
        "collective": {"kind": kind, "size": f"{draw(st.one_of(st.integers(1, 40), st.integers(1, 600)))} B"},
    }
