"""Remote accesses as tasks: from the graph to the memory and back."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim import chakra
from pyxsim.chakra import Attribute, Node, NodeType
from pyxsim.errors import InputError
from pyxsim.runner.lifecycle import run as run_experiment
from pyxsim.settings import load_experiment
from pyxsim.system.memory import Access
from pyxsim.workload.graph import GraphBuilder, Kind, TaskGraph
from pyxsim.workload.graph_job import GraphJob
from tests.examples import part_of
from tests.system.slow_memory import SlowMemory
from tests.system.test_memory import memory
from tests.workload.draw_graphs import Drawn, drawn_graphs
from tests.workload.services import FixedHands
from tests.workload.slow_tasks import SlowTasks

POOL = {"kind": "pool", "latency": 5, "bandwidth": Fraction(2)}
FAIR = {**POOL, "sharing": "fair"}
IN_SWITCH = {
    "kind": "hierarchical",
    "latency": 5,
    "bandwidth": Fraction(4),
    "npus_per_node": 2,
    "groups": 1,
    "switches": 1,
    "memory_link": Fraction(4),
    "node_link": Fraction(4),
    "npu_link": Fraction(2),
    "chunk": 4,
    "in_switch": True,
}


def carried_out(graph: TaskGraph, table: dict[str, Any] | None, **others: Any) -> GraphJob:
    options = None if table is None else memory(table, graph.npus)
    hands = FixedHands((graph.npus,), remote_memory=options, **others)
    job = GraphJob(graph)
    job.begin(hands)
    hands.run()
    return job


def test_accesses_wait_for_each_other() -> None:
    """Two NPUs load 20 bytes from a pool, one of them after 3 cycles of computing; then it stores 10."""
    b = GraphBuilder(2)
    first = b.task(0, Kind.MEMORY, size=20)
    wait = b.task(1, Kind.COMPUTE, ticks=3)
    second = b.task(1, Kind.MEMORY, size=20, before=[wait])
    store = b.task(1, Kind.MEMORY, size=10, match=Access.STORE, before=[second])
    job = carried_out(b.graph(), POOL)
    assert job.times().end[[first, wait, second, store]].tolist() == [15, 3, 30, 40]
    assert job.times().start[store] == 30
    # Fair: NPU 0 is alone until cycle 8, when the latency of NPU 1 is over; from then on each has 1 byte per cycle.
    job = carried_out(b.graph(), FAIR)
    assert job.times().end[[first, wait, second, store]].tolist() == [22, 3, 25, 35]
    totals = job.remote_memory()
    assert totals is not None
    assert (totals.loaded.tolist(), totals.stored.tolist()) == ([20, 20], [0, 10])
    assert [(used.name, used.bytes, used.busy) for used in totals.used] == [("pool", 50, 25)]


def test_a_resource_is_kept_until_the_access_ends() -> None:
    b = GraphBuilder(1, [("memory", 1)])
    b.task(0, Kind.MEMORY, size=20, resource="memory")
    b.task(0, Kind.MEMORY, size=20, resource="memory")
    times = carried_out(b.graph(), FAIR).times()
    assert (times.start.tolist(), times.end.tolist(), times.cause.tolist()) == ([0, 15], [15, 30], [-1, 0])


def test_a_gather_begins_with_the_last_npu() -> None:
    b = GraphBuilder(4)
    waits = b.tasks(range(4), Kind.COMPUTE, ticks=[1, 9, 4, 0])
    gather = b.tasks(range(4), Kind.MEMORY, size=12, match=Access.GATHER, before=[waits])
    reduce = b.tasks(range(4), Kind.MEMORY, size=4, match=Access.REDUCE, before=[gather])
    job = carried_out(b.graph(), IN_SWITCH)
    # 5 of latency; 4 bytes through the stages: 1 + 1 + 1 + 2; the other 8 at the 2 bytes per cycle of an NPU: 4.
    assert set(job.times().end[gather].tolist()) == {9 + 5 + 5 + 4}
    assert set(job.times().end[reduce].tolist()) == {23 + 5 + 5}
    assert job.times().group.tolist() == [-1] * 4 + [0] * 4 + [1] * 4
    totals = job.remote_memory()
    assert totals is not None
    assert totals.loaded.tolist() == [12] * 4
    assert {used.bytes for used in totals.used if used.name.endswith("loads")} == {12}


def test_a_gather_that_cannot_begin() -> None:
    """NPU 0 gathers before it reduces, and has room for one of them; NPU 1 does it the other way round."""
    b = GraphBuilder(2, [("memory", 1)])
    for npu, order in enumerate([(Access.GATHER, Access.REDUCE), (Access.REDUCE, Access.GATHER)]):
        for access in order:
            b.task(npu, Kind.MEMORY, access.name, size=4, match=access, resource="memory")
    job = carried_out(b.graph(), IN_SWITCH)
    assert job.stuck_report() == [
        "NPU 0, 'GATHER' (task 0) waits for NPU 1, 'GATHER' (task 3)",
        "NPU 1, 'REDUCE' (task 2) waits for NPU 0, 'REDUCE' (task 1)",
    ]


REFUSED = {
    "no memory": (None, (Access.LOAD, Access.STORE), (4, 4), r"NPU 0, 'memory' \(task 0\): remote memory .* none"),
    "no collectives": (
        POOL,
        (Access.GATHER,) * 2,
        (4, 4),
        r"task 0\): .* \(gather\): the remote memory has no coll",
    ),
    "a member": (IN_SWITCH, (Access.GATHER, Access.LOAD), (4, 4), r"NPU 0 has 1 accesses of kind gather, NPU 1 0"),
    "time": (POOL, (Access.LOAD,) * 2, (4, 2**61), r"remote_memory: the accesses take too many cycles"),
    "bytes": (
        {**FAIR, "bandwidth": Fraction(2**30)},
        (Access.LOAD,) * 2,
        (4, 2**61),
        r"NPU 1, .* 1\): accesses 2305843009213693952 bytes .* most 1152",
    ),
    "sizes": (IN_SWITCH, (Access.REDUCE,) * 2, (4, 6), r"NPU 1, .* 6 bytes, but NPU 0, .* 4.* the same joint reduce"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_memory_cannot_do_is_one_line(name: str) -> None:
    table, accesses, sizes, line = REFUSED[name]
    b = GraphBuilder(2)
    b.tasks([0, 1], Kind.MEMORY, size=sizes, match=accesses)
    with pytest.raises(InputError, match=line):
        carried_out(b.graph(), table)


@settings(max_examples=part_of(60))
@given(drawn=drawn_graphs(remote=True), rate=st.integers(1, 3), latency=st.integers(0, 2))
def test_as_the_slow_ones(drawn: Drawn, rate: int, latency: int) -> None:
    """Slow tasks on a slow memory without contention."""

    def time(size: int) -> int:
        asked = SlowMemory({"kind": "per-npu", "latency": latency, "bandwidth": rate}, 1, [(0, 0, size, 0)]).asked
        return asked[0].end

    graph = drawn.graph
    options = memory({"kind": "per-npu", "latency": latency, "bandwidth": Fraction(rate)}, graph.npus)
    hands = FixedHands(drawn.shape, remote_memory=options, start_skew=drawn.skew, slowdown=drawn.slow)
    job = GraphJob(graph)
    job.begin(hands)
    hands.run()
    slow = SlowTasks(graph, drawn.shape, lambda size: size, lambda size: size, drawn.skew, drawn.slow, time)
    assert job.times().end.tolist() == slow.end


def test_the_accesses_of_a_run_are_those_of_the_memory() -> None:
    """From the cycles in which tasks started, the slow memory tells the cycles in which they ended."""
    dice = np.random.default_rng(4)
    b = GraphBuilder(4)
    last = b.tasks(range(4), Kind.MARK)
    for _ in range(6):
        last = b.tasks(range(4), Kind.COMPUTE, ticks=dice.integers(0, 30, 4), before=[last])
        access = dice.integers(0, 2, 4)
        last = b.tasks(range(4), Kind.MEMORY, size=dice.integers(1, 60, 4), match=access, before=[last])
    graph = b.graph()
    for table in (POOL, FAIR, IN_SWITCH, {**FAIR, "kind": "per-node", "npus_per_node": 2}):
        times = carried_out(graph, table).times()
        tasks = graph.of_kind(Kind.MEMORY)
        tasks = tasks[np.lexsort((graph.npu[tasks], times.start[tasks]))]
        columns = (times.start, graph.npu, graph.size, graph.match)
        slow = SlowMemory(table, 4, list(zip(*(column[tasks].tolist() for column in columns), strict=True)))
        assert times.end[tasks].tolist() == [each.end for each in slow.asked]


@pytest.mark.parametrize(("kind", "ends"), [("per-npu", [100_100] * 4), ("pool", [100_100, 200_200, 300_300, 400_400])])
@pytest.mark.parametrize("compat", [None, "astra-sim-2"])
def test_as_measured_of_astra_sim_2(tmp_path: Path, kind: str, ends: list[int], compat: str | None) -> None:
    """A trace for each of four NPUs, with a load of 1 MB; 100 ns and 10 GB/s."""
    for npu in range(4):
        size = Attribute("tensor_size", "uint64_val", 10**6)
        chakra.write(tmp_path / f"load.{npu}.et", [Node(0, "load", NodeType.MEM_LOAD, attr=[size])])
    system = {"remote_memory": {"kind": kind, "latency": "100 ns", "bandwidth": "10 GB/s"}}
    experiment = load_experiment(
        {
            "network": {"topology": "ring", "shape": [4], "bandwidth": "50 GB/s", "latency": "500 ns"},
            "system": {**system, **({"compat": compat, "endpoint_delay": "1 ns"} if compat else {})},
            "workload": {"file": str(tmp_path / "load")},
        }
    )
    result = run_experiment(experiment, backend="analytical")
    assert sorted(result.npus["finished"].tolist()) == ends
