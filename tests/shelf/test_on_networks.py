"""Every algorithm on a network that suits it, flit by flit: its closed form to the cycle, and never under the bound."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

import pyxsim
from pyxsim import library
from pyxsim.collective.bounds import lower_bound_bytes
from pyxsim.collective.closed_form import message_time
from pyxsim.collective.costs import cost, pipelined
from pyxsim.registry import collectives
from tests.in_turn import in_turn

library.load_all()

FLIT, PACKET, LATENCY, NPUS = 64, 1024, 100, 8
# What a flit pays in a lane into the network, on a link between two routers, and in a lane out of it.
IN, BETWEEN, OUT = 1, LATENCY + 1, 2
# Links on the way of a message.
NETWORKS = {"ring": 1, "fully-connected": 1, "switch": 2}
ALGORITHMS = {
    "ring": ("ring", "bidirectional-ring"),
    "fully-connected": ("multi-ring", "direct"),
    "switch": (
        "ring",
        "pairwise",
        "halving-doubling",
        "recursive-doubling",
        "bruck",
        "binomial-tree",
        "double-binary-tree",
        "hierarchical",
        "hierarchical-3d",
        "in-switch",
    ),
}
CASES = [
    (network, name, kind)
    for network, names in ALGORITHMS.items()
    for name in names
    for kind in collectives.entry(name).info["kinds"]
]


def alpha(network: str) -> int:
    """Cycles of a message besides one for each of its flits."""
    links = NETWORKS[network]
    return message_time([1], [1] * (links + 2), [IN, *[BETWEEN] * links, OUT], 2) - 1


def run(network: str, name: str, kind: str, size: int, **system: Any) -> int:
    collective = {"kind": kind} if kind == "barrier" else {"kind": kind, "size": f"{size} B"}
    result = pyxsim.run(
        {
            "network": {
                "topology": network,
                "shape": [NPUS],
                "clock": "1 GHz",
                "flit": f"{FLIT} B",
                "packet": f"{PACKET} B",
                "bandwidth": f"{FLIT} GB/s",
                "latency": f"{LATENCY} ns",
            },
            "system": {kind.replace("-", "_"): name, **system},
            "collective": collective,
        }
    )
    return int(result.time_cycles)


@pytest.mark.parametrize(("network", "name", "kind"), CASES)
@in_turn("size", [8192, 1 << 18])
def test_time_on_its_network(network: str, name: str, kind: str, size: int) -> None:
    took = run(network, name, kind, size)
    bound = lower_bound_bytes(kind, NPUS, size, in_network=name == "in-switch")
    links = {"bidirectional-ring": 2, "multi-ring": len({1, 3, 5, 7}), "direct": NPUS - 1}.get(name, 1)
    assert took >= bound / links / FLIT or kind == "barrier"
    wanted = cost(kind, name, NPUS, size)
    assert wanted is not None
    # A barrier's byte takes a whole flit. Where "direct" has a link to everybody, it sends on all of them at once.
    beta = Fraction(1) if kind == "barrier" else Fraction(1, FLIT)
    time = wanted.time(alpha(network), beta / (links if name == "direct" else 1))
    assert time is None or took == time


@pytest.mark.parametrize("kind", ["all-reduce", "all-to-all", "all-gather"])
def test_delays_of_the_ends(kind: str) -> None:
    took = run("switch", "bruck", kind, 1 << 16, endpoint_delay="30 ns", reduction_delay="7 ns")
    wanted = cost(kind, "bruck", NPUS, 1 << 16)
    assert wanted is not None
    assert took == wanted.time(alpha("switch"), Fraction(1, FLIT), endpoint=30, reduction=7)


# The longest with --slow: other bytes and segments on as many NPUs, and other kinds on many.
QUICK = [(n, 4, 32, kind) for n in (5, 8) for kind in ("all-reduce", "broadcast", "reduce")] + [
    (33, 4, 32, "all-reduce")
]
LONG = [(8, 16, segments, kind) for segments in (64, 128) for kind in ("all-reduce", "broadcast", "reduce")]
LONG += [(33, 4, 32, kind) for kind in ("broadcast", "reduce")]
TREES = [*QUICK, *(pytest.param(*tree, marks=pytest.mark.slow) for tree in LONG)]


@pytest.mark.parametrize(("n", "size", "segments", "kind"), TREES)
@pytest.mark.parametrize("network", ["switch", "fully-connected"])
def test_two_trees_in_turns(network: str, kind: str, n: int, size: int, segments: int) -> None:
    own, nbytes = network == "fully-connected", size << 20
    result = pyxsim.run(
        {
            "network": {"topology": network, "shape": [n], "bandwidth": "100 GB/s", "latency": "500 ns"},
            "system": {kind.replace("-", "_"): f"double-binary-tree:{segments}"},
            "collective": {"kind": kind, "size": f"{size} MiB"},
        }
    )
    hop = 500 * NETWORKS[network]
    wanted = pipelined(kind, n, nbytes, segments, hop, Fraction(1, 100), own_links=own)
    assert wanted is not None
    assert result.time_ns == pytest.approx(float(wanted), rel=0.05)
    assert result.time_ns >= lower_bound_bytes(kind, n, nbytes) / 100 / (n - 1 if own else 1)


SHELF = [(entry.name, kind) for entry in collectives.entries for kind in entry.info["kinds"]]


# The backends differ in times, and a plan along each dimension from one over all in its steps: all pairs with --slow.
WAYS = [
    (backend, one, quick)
    for backend in ("packet", "analytical", "analytical-congestion")
    for one, quick in ((False, backend == "packet"), (True, backend == "analytical"))
]


@pytest.mark.parametrize(("name", "kind"), SHELF)
@in_turn(("backend", "one", "quick"), WAYS)
def test_data_arrive(
    name: str, kind: str, backend: str, one: bool, quick: bool, request: pytest.FixtureRequest
) -> None:
    """Real data, byte by byte, in chunks, along two dimensions and over all, in blocks of different sizes."""
    if not (quick or request.config.getoption("--slow")):
        return
    switches = [{"block": "switch", "npus": 3}, {"block": "switch", "npus": 2}]
    network: dict[str, Any] = {"dims": switches} if name == "in-switch" else {"topology": "torus", "shape": [3, 2]}
    if name == "multimem":  # on one switch with transactions only
        network = {"topology": "switch", "shape": [5], "flit": "16 B", "transactions": {}}
        backend = "packet"
    # A reduction in the network, or by a tree, has no reduce-scatter for the dimensions before.
    algorithm = f"one-{name}" if one and name != "in-switch" else name
    pyxsim.run(
        {
            "network": network,
            "system": {kind.replace("-", "_"): algorithm, "chunks": 3, "optimization": "baseline"},
            "collective": {"kind": kind} if kind == "barrier" else {"kind": kind, "size": "1003 B"},
            "output": {"carry": True},
        },
        backend=backend,
    )
