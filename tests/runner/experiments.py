"""Random small experiments, as the tables of an experiment file."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any

from hypothesis import strategies as st

from pyxsim import library
from pyxsim.topology import Topology
from pyxsim.topology.build import build

library.load_all()

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


# Networks that are no products, small ones: topology and options.
GRAPHS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("dragonfly", {"p": 1, "a": 2, "h": 1}),
    ("dragonfly", {"p": 2, "a": 2, "h": 1, "g": 3}),
    ("k-ary-n-tree", {"k": 2, "n": 3}),
    ("folded-clos", {"children": [3, 2], "parents": [2]}),
    ("concentrated-mesh", {"routers": [2, 3], "concentration": 2}),
    ("hyperx", {"routers": [3, 2], "concentration": 1}),
    ("random-regular", {"routers": 6, "degree": 3, "p": 2}),
)


@cache
def graph(number: int) -> Topology:
    name, options = GRAPHS[number]
    return build(name, None, None, options)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[str, Any], Topology]:
    """One of GRAPHS, with one of its routings."""
    number = draw(st.integers(0, len(GRAPHS) - 1))
    name, options = GRAPHS[number]
    # BookSim2's classes for UGAL can deadlock, and are refused.
    safe = [routing for routing in graph(number).routings if not routing.endswith("booksim2")]
    table = {
        "topology": name,
        "options": options,
        "bandwidth": rate(draw(TIMES)),
        "latency": f"{draw(LATENCIES)} cycles",
        "clock": "1 GHz",
        "flit": "4 B",
        "packet": f"{draw(st.sampled_from([4, 16, 50]))} B",
        "lanes": draw(st.sampled_from(["auto", "per-link", 1, 2])),
        "router": {"vcs": 8, "vc_reuse": "drained", "routing": draw(st.sampled_from(safe))},
    }
    return table, graph(number)


@st.composite
def modern(draw: st.DrawFn) -> dict[str, Any]:
    """What a router may be besides the settings of `routers`; goes with a pipeline that allocates VCs."""
    matrix = st.sampled_from(["separable-input-first", "separable-output-first", "islip:2", "wavefront", "age"])
    flow = draw(st.sampled_from(["wormhole", "virtual-cut-through", "store-and-forward"]))
    return {
        "pipeline": {"rc": draw(st.integers(0, 2)), "va": draw(st.integers(1, 2)), "st": draw(st.integers(0, 2))},
        "speculation": draw(st.booleans()),
        "va_allocator": draw(st.one_of(st.just("rotating"), matrix)),
        "sa_allocator": draw(matrix),
        "input_speedup": draw(st.integers(1, 2)),
        "internal_speedup": draw(st.sampled_from([1, 1, 2, 3])),
        "credit_delay": draw(st.sampled_from([0, 0, 2])),
        "flow_control": flow,
        "buffer": draw(st.sampled_from(["auto", 1, 3])) if flow == "wormhole" else "auto",
        "shared_buffer": draw(st.sampled_from([0, 0, 5])),
        "arbiter": "round-robin",
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
    kind = draw(st.sampled_from(KINDS))
    if draw(st.sampled_from([True, False, False])):
        network, topology = draw(graphs())
        dims, router = len(topology.dims), network["router"] | draw(st.one_of(st.just({}), modern()))
        if router["routing"] == "bubble":
            router |= {"vc_reuse": "tail", "flow_control": "wormhole", "buffer": "auto", "shared_buffer": 0}
    else:
        network = draw(networks(most))
        dims, router = len(network.get("shape") or network["dims"]), draw(routers())
        if draw(st.booleans()):
            router = {key: router[key] for key in ("vcs", "vc_reuse", "injection", "serdes")} | draw(modern())
    return {
        "network": network | {"router": router},
        "system": draw(systems(kind, dims)),
        "collective": {"kind": kind, "size": f"{draw(st.one_of(st.integers(1, 40), st.integers(1, 600)))} B"},
    }
