"""What NPUs and layers did, counted cycle by cycle from the times of the tasks."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.workload.graph import Call, GraphBuilder, Kind, Part, TaskGraph
from pyxsim.workload.job import TaskTimes
from pyxsim.workload.layer_table import NO_LAYER, SHORT, WHOLE, layer_table
from pyxsim.workload.spans import merged, shares
from pyxsim.workload.usage import at_work, usage
from tests.examples import part_of
from tests.workload.draw_graphs import Drawn, drawn_graphs
from tests.workload.test_graph_job import run

TALK = {Kind.SEND, Kind.RECEIVE, Kind.COLLECTIVE}


def cycles_of(graph: TaskGraph, times: TaskTimes, until: int) -> list[list[list[int]]]:
    """For each NPU and cycle the tasks that are at work."""
    work: list[list[list[int]]] = [[[] for _ in range(until)] for _ in range(graph.npus)]
    for task in range(len(graph)):
        begin, end = int(times.start[task]), int(times.end[task])
        if begin < 0:
            continue
        if graph.kind[task] == Kind.RECEIVE:
            send = int(times.partner[task])
            sent = int(times.start[send]) if send >= 0 else -1
            begin = max(begin, sent) if sent >= 0 else until
        for cycle in range(begin, until if end < 0 else end):
            work[graph.npu[task]][cycle].append(task)
    return work


@settings(max_examples=part_of(100))
@given(drawn=drawn_graphs(), more=st.integers(0, 3))
def test_busy_and_idle_make_the_end(drawn: Drawn, more: int) -> None:
    """Also of graphs that do not come to an end: what has started is at work until then."""
    graph = drawn.graph
    job, _ = run(graph, drawn.shape, start_skew=drawn.skew, slowdown=drawn.slow)
    times = job.times()
    last = max(times.last, int(times.start.max())) + more
    found = usage(graph, times, last)
    assert (found.busy + found.idle == last).all()
    assert (found.by_resource + found.idle_by_resource == last).all()
    if not job.left:
        assert (usage(graph, times).busy + usage(graph, times).idle == job.end).all()
    work = cycles_of(graph, times, last)
    for npu, cycles in enumerate(work):
        kinds = [{Kind(graph.kind[task]) for task in here} for here in cycles]
        assert found.compute[npu] == sum(Kind.COMPUTE in here for here in kinds)
        assert found.memory[npu] == sum(Kind.MEMORY in here for here in kinds)
        assert found.communication[npu] == sum(bool(here & TALK) for here in kinds)
        assert found.exposed[npu] == sum(bool(here & TALK) and Kind.COMPUTE not in here for here in kinds)
        assert found.busy[npu] == sum(bool(here - {Kind.MARK}) for here in kinds)
        assert found.finished[npu] == max([0, *times.end[graph.npu == npu].tolist()])
        for number in range(len(graph.resources)):
            assert found.by_resource[npu, number] == sum((graph.resource[here] == number).any() for here in cycles)


@settings(max_examples=part_of(100))
@given(drawn=drawn_graphs(), data=st.data())
def test_layers_add_up_to_the_npus(drawn: Drawn, data: st.DataObject) -> None:
    """Each cycle is that of the task that ends first; of several, the sums are theirs together."""
    graph = drawn.graph
    count = data.draw(st.integers(0, 3))
    graph.layers = [f"l{number}" for number in range(count)]
    graph.layer = np.array(data.draw(st.lists(st.integers(-1, count - 1), min_size=len(graph), max_size=len(graph))))
    graph.part = np.array(data.draw(st.lists(st.sampled_from(Part), min_size=len(graph), max_size=len(graph))), np.int8)
    job, _ = run(graph, drawn.shape, start_skew=drawn.skew, slowdown=drawn.slow)
    times = job.times()
    last = max(times.last, int(times.start.max()))
    work, found = at_work(graph, times, last), usage(graph, times, last)
    table = layer_table(graph, work)
    assert table["name"].tolist()[:count] == graph.layers
    assert table["name"].tolist()[count:] in ([], [NO_LAYER if count else WHOLE])
    totals = {name: column * table["npus"] for name, column in table.items() if name not in ("name", "npus")}

    def total(what: str) -> float:
        return float(sum(totals[f"{short}_{what}"].sum() for short in SHORT.values()))

    assert np.isclose(total("compute"), found.compute.sum())
    assert np.isclose(total("exposed"), found.exposed.sum())
    # Whose the cycles are, one by one, where no two tasks end in the same cycle.
    owners: Counter[tuple[int, int, str]] = Counter()
    doubt = False
    for cycles in cycles_of(graph, times, last):
        for here in cycles:
            computing = [task for task in here if graph.kind[task] == Kind.COMPUTE]
            mine = computing or [task for task in here if graph.kind[task] in TALK]
            if mine:
                ends = [int(times.end[task]) if times.end[task] >= 0 else last for task in mine]
                doubt |= ends.count(min(ends)) > 1
                task = mine[ends.index(min(ends))]
                owners[graph.layer[task], graph.part[task], "compute" if computing else "exposed"] += 1
    for (layer, part, what), cycles_owned in {} if doubt else owners.items():
        assert np.isclose(totals[f"{SHORT[Part(part)]}_{what}"][layer], cycles_owned)


def test_layers_by_hand() -> None:
    """NPU 1 computes twice as long; gradients of layer 1 are exchanged while it computes, those of layer 0 after."""
    b = GraphBuilder(3, [("compute", 1)], layers=["first", "second"])
    one = b.tasks([0, 1], Kind.COMPUTE, ticks=[10, 20], layer=1, part=Part.WEIGHT_GRADIENT, resource="compute")
    calls = [b.call(Call("all-reduce", 6, members=(0, 1))) for _ in range(2)]
    b.tasks([0, 1], Kind.COLLECTIVE, call=calls[1], layer=1, part=Part.WEIGHT_GRADIENT, before=[one])
    zero = b.tasks([0, 1], Kind.COMPUTE, ticks=[5, 10], layer=0, part=Part.WEIGHT_GRADIENT, before=[one])
    b.tasks([0, 1], Kind.COLLECTIVE, call=calls[0], layer=0, part=Part.WEIGHT_GRADIENT, before=[zero])
    b.task(2, Kind.MEMORY, ticks=7)
    job, _ = run(b.graph(), (3,))
    times = job.times()
    # A collective takes 15 cycles from when the last one enters: layer 1 in cycle 20, layer 0 in cycle 30.
    table = layer_table(job.graph, at_work(job.graph, times, job.end))
    assert job.end == 45
    assert table["name"].tolist() == ["first", "second", "no layer"]
    assert table["npus"].tolist() == [2, 2, 1]
    assert table["wg_compute"].tolist() == [(5 + 10) / 2, (10 + 20) / 2, 0]
    assert table["wg_comm"].tolist() == [((45 - 15) + (45 - 30)) / 2, ((35 - 10) + (35 - 20)) / 2, 0]
    # NPU 0 is done with computing in cycle 15, NPU 1 in cycle 30; the first to end is layer 1, in cycle 35.
    assert table["wg_exposed"].tolist() == [10, ((35 - 15) + (35 - 30)) / 2, 0]
    assert table["exposed_most"].tolist() == [10, 20, 0]
    assert table["exposed_npu"].tolist() == [0, 0, 2]
    assert table["memory"].tolist() == [0, 0, 7]
    assert table["finished"].tolist() == [45, 35, 7]


STRETCHES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 5)), max_size=12)


@given(rows=STRETCHES, others=STRETCHES)
def test_shares(rows: list[tuple[int, int, int]], others: list[tuple[int, int, int]]) -> None:
    """Cycle by cycle."""
    line, begin, length = np.array(sorted(others) or np.zeros((0, 3)), np.int64).reshape(-1, 3).T.copy()
    start, first, last = merged(line, begin, begin + length, 3)
    nobody = [set() for _ in range(3)]
    for at, from_, many in others:
        nobody[at] |= set(range(from_, from_ + many))
    for at in range(3):
        spans = list(zip(first[start[at] : start[at + 1]].tolist(), last[start[at] : start[at + 1]], strict=True))
        assert [cycle for low, high in spans for cycle in range(low, high)] == sorted(nobody[at])
        assert all(high < low for (_, high), (low, _) in pairwise(spans)), "they do not touch"
    ordered = sorted(rows, key=lambda row: (row[0], row[1] + row[2]))
    line, begin, length = np.array(ordered or np.zeros((0, 3)), np.int64).reshape(-1, 3).T.copy()
    expected = []
    for at, from_, many in ordered:
        mine = set(range(from_, from_ + many)) - nobody[at]
        nobody[at] |= mine
        expected.append(len(mine))
    assert shares(line, begin, begin + length, (start, first, last)).tolist() == expected
