"""Memory transactions in plain Python and in the engine: equal on every packet, message and counter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pyxsim
from pyxsim.collective.schedule import Schedule
from pyxsim.errors import PyxsimError
from pyxsim.network.packet.transactions.transaction_network import TransactionNetwork
from pyxsim.reference.transactions import Server
from pyxsim.registry import collectives
from pyxsim.results.diff import diff
from tests.examples import part_of


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


@collectives.register("tests_all_atomics", kinds=("all-reduce",))
def atomics(kind: str, n: int) -> Schedule:
    """All ranks add their blocks in the memory of rank 0, and load the sum."""
    s = Schedule(kind, n, blocks=1)
    for rank in range(1, n):
        s.send(rank, 0, 0, reduce=True, by="atomic")
    for rank in range(1, n):
        s.send(0, rank, 0, by="load")
    return s


KINDS["all-reduce"].append("tests_all_atomics")
COLLECTIVE = st.sampled_from([(kind, name) for kind, names in KINDS.items() for name in names])


def given_only(table: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if value is not None}


@st.composite
def experiments(draw: st.DrawFn) -> dict[str, Any]:
    network = draw(NETWORKS)
    kind, algorithm = draw(COLLECTIVE)
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


@contextmanager
def completions(log: list[tuple[int, int]]) -> Iterator[None]:
    """Record (message, cycle) of every message that completes."""
    original = TransactionNetwork._completed

    def completed(self: TransactionNetwork) -> Any:
        found = original(self)
        log.extend(zip(*(column.tolist() for column in found), strict=True))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionNetwork, "_completed", completed)
        yield


def outcome(backend: str, table: dict[str, Any], file: Path) -> tuple[str, list[tuple[int, int]]]:
    """Run an experiment; return the first line of its error, or '', and when its messages were complete."""
    log: list[tuple[int, int]] = []
    file.unlink(missing_ok=True)
    with completions(log):
        try:
            pyxsim.run(table, backend=backend).save(file)
        except PyxsimError as error:
            return str(error).splitlines()[0], log
    return "", log


@settings(max_examples=part_of(500, 25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=experiments())
def test_every_message_link_and_counter_is_equal(tmp_path: Path, table: dict[str, Any]) -> None:
    files = [tmp_path / f"{backend}.h5" for backend in ("packet", "reference")]
    outcomes = [outcome(file.stem, table, file) for file in files]
    assert outcomes[0] == outcomes[1]
    if not outcomes[0][0]:
        compared = diff(*files)
        assert compared.equal, compared.differences


def test_servers_round_up_and_keep_the_rest() -> None:
    """At 3 B a cycle, 4 B end after 4/3 and 8/3 cycles; after idle time the next begins in its own cycle."""
    server = Server(Fraction(3))
    assert [server.serve(4, 10), server.serve(4, 10), server.serve(4, 20)] == [12, 13, 22]
    assert server.busy == 4
