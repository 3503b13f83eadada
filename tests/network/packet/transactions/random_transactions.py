"""Random experiments with memory transactions, small enough for the reference."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from pyxsim.collective.schedule import Schedule
from pyxsim.registry import collectives


def optional(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([None, *values])


TRANSACTIONS = st.fixed_dictionaries(
    {
        "size": optional("32 B", "96 B", "256 B"),
        "request": st.sampled_from(["1 B", "16 B", "40 B"]),
        "response": st.sampled_from(["1 B", "8 B", "16 B"]),
        "outstanding": st.sampled_from([1, 2, 3, 7, 64]),
        "outstanding_per_destination": optional(1, 2, 5),
        "ordering": st.sampled_from(["relaxed", "in-order", "strict"]),
        "store_acks": st.booleans(),
        "atomics_return": st.booleans(),
        "memory_latency": st.sampled_from(["1 ns", "13 ns", "150 ns"]),
        "turnaround": st.sampled_from(["1 ns", "20 ns"]),
        "memory_bandwidth": optional("3 GB/s", "70 GB/s", "1.3 GB/s"),
    }
)
SWITCH = st.fixed_dictionaries(
    {
        "latency": st.sampled_from(["1 ns", "9 ns", "60 ns"]),
        "rate": optional("7 GB/s", "100 GB/s"),
        "buffers": optional(1, 2, 5),
        "size": optional("32 B", "200 B"),
    }
)
NETWORKS = st.one_of(
    st.integers(2, 4).map(lambda n: {"topology": "switch", "shape": [n]}),
    st.integers(2, 4).map(lambda n: {"topology": "switch", "shape": [n]}),
    st.sampled_from(
        [
            {"topology": "ring", "shape": [4]},
            {"topology": "ring", "shape": [2]},
            {"topology": "torus", "shape": [2, 3]},
            {"topology": "mesh", "shape": [2, 2]},
            {"topology": "fully-connected", "shape": [4]},
            {"topology": "k-ary-n-tree", "options": {"k": 2, "n": 2}},
        ]
    ),
)
ROUTERS = st.fixed_dictionaries(
    {"vcs": st.sampled_from([4, 6]), "buffer": st.sampled_from([4, 20]), "virtual_networks": optional([2, 2])}
)
KINDS = {
    "all-reduce": ["one-shot", "one-shot:1", "two-shot", "two-shot:1", "multimem:1", "multimem:3", "in-switch", "ring"],
    "reduce-scatter": ["two-shot", "two-shot:1", "multimem:2", "direct"],
    "all-gather": ["multimem:2", "direct", "ring"],
    "all-to-all": ["direct"],
}


def atomics(kind: str, n: int) -> Schedule:
    """All ranks add their blocks in the memory of rank 0, and load the sum."""
    s = Schedule(kind, n, blocks=1)
    for rank in range(1, n):
        s.send(rank, 0, 0, reduce=True, by="atomic")
    for rank in range(1, n):
        s.send(0, rank, 0, by="load")
    return s


ATOMICS = "tests_all_atomics"
KINDS["all-reduce"].append(ATOMICS)
COLLECTIVE = st.sampled_from([(kind, name) for kind, names in KINDS.items() for name in names])


def given_only(table: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if value is not None}


@st.composite
def experiments(draw: st.DrawFn) -> dict[str, Any]:
    network = draw(NETWORKS)
    kind, algorithm = draw(COLLECTIVE)
    if algorithm == ATOMICS and all(entry.name != ATOMICS for entry in collectives.entries):
        collectives.register(ATOMICS, kinds=("all-reduce",))(atomics)  # until the end of the test
    if network["topology"] != "switch" and algorithm.startswith(("multimem", "in-switch")):
        algorithm = "direct"
    router = given_only(draw(ROUTERS))
    if "virtual_networks" in router:
        router["vcs"] = 4
    flit = draw(st.sampled_from([8, 16, 32]))
    transactions = given_only(draw(TRANSACTIONS)) | {"switch": given_only(draw(SWITCH))}
    table: dict[str, Any] = {
        "network": {
            **network,
            "clock": "1 GHz",
            "flit": f"{flit} B",
            "bandwidth": f"{flit * draw(st.sampled_from([1, 0.4]))} GB/s",
            "latency": draw(st.sampled_from(["1 ns", "25 ns"])),
            "router": router,
            "transactions": transactions,
        },
        "system": {kind.replace("-", "_"): algorithm, "chunks": draw(st.sampled_from([1, 1, 2]))},
        "collective": {"kind": kind, "size": f"{draw(st.integers(1, 700))} B"},
        "output": {"window": "50 ns"},
    }
    if draw(st.integers(0, 3)) == 0:
        table["system"]["start_skew"] = "90 ns"
    if draw(st.integers(0, 4)) == 0:
        table["network"]["retry"] = {}
        table["faults"] = [{"link": "*", "bit_error_rate": 3e-4}]
    if draw(st.integers(0, 4)) == 0:
        table["network"]["credits"] = {"size": "8 B", "batch": 2}
    return table
