"""Small experiments for comparing folded runs with runs of every group."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import networkx as nx
from hypothesis import strategies as st

from pyxsim import library
from pyxsim.topology.build import build


def experiment(topology: str, shape: list[int], **changes: Any) -> dict[str, Any]:
    network = {
        "topology": topology,
        "shape": shape,
        "bandwidth": "100 GB/s",
        "latency": "20 ns",
        "flit": "64 B",
        "packet": "256 B",
        "router": {"vcs": 4, "pipeline": "booksim"},
        **changes.pop("network", {}),
    }
    return {
        "network": network,
        "system": {"chunks": 4, "active_chunks": 4, "endpoint_delay": "10 ns", **changes.pop("system", {})},
        "collective": {"kind": "all-reduce", "size": "64 KiB", **changes.pop("collective", {})},
        "output": {"window": "500 ns", "seed": 1},
        **changes,
    }


@cache
def dead_link(topology: str, shape: tuple[int, ...], number: int) -> str:
    """Write a network without one of its links, in both directions, as GraphML; return the file."""
    library.load_all()
    graph = build(topology, list(shape)).to_networkx()
    pairs = sorted({(min(a, b), max(a, b)) for a, b in graph.edges()})
    one, other = pairs[number % len(pairs)]
    for src, dst in ((one, other), (other, one)):
        while graph.has_edge(src, dst):
            graph.remove_edge(src, dst)
    file = Path(mkdtemp()) / "dead_link.graphml"
    nx.write_graphml(graph, file)
    return str(file)


NETWORKS: list[dict[str, Any]] = [
    *({"topology": "torus", "shape": shape} for shape in ([4, 2], [3, 3], [2, 2, 2], [5, 2], [4, 4], [6], [8, 3])),
    *({"topology": "mesh", "shape": shape} for shape in ([3, 2], [5])),
    *({"topology": name, "shape": [n]} for name in ("fully-connected", "switch", "ring") for n in (5, 6)),
    {"topology": "hyperx", "options": {"routers": [3, 3]}},
    {"topology": "dragonfly", "options": {"p": 2, "a": 2, "h": 1}},
    {"topology": "leaf-spine", "options": {"npus": 2, "leaves": 3, "spines": 2}},
    {"topology": "k-ary-n-tree", "options": {"k": 2, "n": 3}},
    {"topology": "slim-fly", "options": {"q": 5}},
    {"topology": "twisted-torus", "shape": [4, 2]},
    *({"topology": "random-regular", "options": {"routers": 8, "degree": 3, "seed": seed}} for seed in (1, 2)),
    {"dims": [{"block": "ring", "npus": 4}, {"block": "switch", "npus": 2, "bandwidth": "20 GB/s"}]},
    {"dims": [{"block": "fully-connected", "npus": 3}, {"block": "mesh", "npus": 3, "latency": "7 ns"}]},
    {"dims": [{"block": "switch", "npus": 4}, {"block": "ring", "npus": 3}, {"block": "switch", "npus": 2}]},
]


@st.composite
def experiments(draw: st.DrawFn) -> dict[str, Any]:
    """Networks with several dimensions, trees and graphs, links that differ or are dead, and irregular NPUs."""
    network: dict[str, Any] = {"router": {"vcs": draw(st.sampled_from([2, 4])), "pipeline": "booksim"}}
    network |= draw(st.sampled_from(NETWORKS))
    told = experiment("torus", [4, 2])
    for key in ("topology", "shape"):
        told["network"].pop(key)
    if draw(st.integers(0, 7)) == 0:
        network = {"router": network["router"], "topology": "graph"}
        network["options"] = {
            "file": dead_link("torus", draw(st.sampled_from([(4, 2), (3, 3)])), draw(st.integers(0, 9)))
        }
    elif network.get("topology") in ("torus", "ring") and draw(st.booleans()):
        network["router"] |= {"routing": "bubble"}
    if draw(st.booleans()):
        network["bandwidth"] = draw(st.sampled_from(["64 GB/s", "90 GB/s", "33.3 GB/s", ["64 GB/s", "37 GB/s"]]))
    kinds = ["all-reduce", "all-gather", "reduce-scatter", "all-to-all"]
    system: dict[str, Any] = {
        "chunks": draw(st.integers(2, 5)),
        "active_chunks": draw(st.integers(1, 4)),
        "endpoint_delay": draw(st.sampled_from(["1 ns", "10 ns"])),
        **{kind.replace("-", "_"): draw(st.sampled_from(["ring", "direct"])) for kind in kinds},
    }
    if draw(st.integers(0, 2)) == 0:
        system["stragglers"] = [{"npus": [draw(st.integers(0, 3))], "slow": draw(st.sampled_from([1.5, 3]))}]
    if draw(st.integers(0, 2)) == 0:
        system["start_skew"] = draw(st.sampled_from(["3 ns", "100 ns"]))
    told["network"] |= network
    told["system"] |= system
    told["output"]["window"] = draw(st.sampled_from(["50 ns", "500 ns", "1.3 us", "20 us"]))
    sizes = st.sampled_from(["3 KiB", "10000 B", "40 KiB"])
    told["collective"] = [
        {"kind": draw(st.sampled_from(kinds)), "size": draw(sizes), "at": draw(st.sampled_from(["0 ns", "400 ns"]))}
        for _ in range(draw(st.sampled_from([1, 1, 2])))
    ]
    if draw(st.integers(0, 4)) == 0:
        told["collective"][0]["npus"] = [0, 1, 2, 3]
    if draw(st.integers(0, 4)) == 0:
        told["message"] = [{"src": 0, "dst": draw(st.integers(1, 4)), "size": draw(sizes)}]
    return told
