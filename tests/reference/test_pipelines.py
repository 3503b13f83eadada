"""Pipelines again, whose stages differ: when every micro-batch begins forward and backward at every stage.

The orders are those that the papers tell (Huang et al. 2019; Narayanan et al. 2021), said anew; times follow from them
by recursion. Of the program only the stages are taken: which layers each has, and so what a micro-batch takes there.
"""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import groupby
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.models import Elements, Gemm, Kind, Layer, Model, Part
from pyxsim.workload import graph as tasks
from pyxsim.workload.graph_job import GraphJob
from tests.examples import part_of
from tests.workload.parallel.drawn import built, planned
from tests.workload.services import FixedHands

Step = tuple[str, int, int]  # "F" or "B", stage, micro-batch


def order(schedule: str, npus: int, npu: int, chunks: int, count: int) -> list[Step]:
    """What an NPU does, one after the other; chunk c of NPU r is stage c * npus + r."""
    total = count * chunks

    def of(way: str, step: int) -> Step:
        chunk = step % (npus * chunks) // npus
        stage = (chunk if way == "F" else chunks - 1 - chunk) * npus + npu
        return way, stage, step // (npus * chunks) * npus + step % npus

    if schedule == "gpipe":
        return [("F", npu, each) for each in range(count)] + [("B", npu, each) for each in reversed(range(count))]
    if schedule == "1f1b":
        ahead = min(npus - 1 - npu, count)
        forward: list[Step] = [("F", npu, each) for each in range(count)]
        backward: list[Step] = [("B", npu, each) for each in range(count)]
    else:
        ahead = min(2 * (npus - 1 - npu) + (chunks - 1) * npus, total)
        forward = [of("F", step) for step in range(total)]
        backward = [of("B", step) for step in range(total)]
    turns = [each for pair in zip(forward[ahead:], backward, strict=False) for each in pair]
    return forward[:ahead] + turns + backward[total - ahead :]


def starts(orders: list[list[Step]], takes: dict[tuple[str, int], int], stages: int, message: int) -> dict[Step, int]:
    """When each step begins: it has what it needs, and the one before it has ended."""
    begin: dict[Step, int] = {}
    free = [0] * len(orders)
    left = [list(own) for own in orders]
    while any(left):
        before = len(begin)
        for npu, own in enumerate(left):
            while own:
                way, stage, number = own[0]
                other = stage - 1 if way == "F" else stage + 1
                need, come = (way, other, number), 0
                if 0 <= other < stages:
                    if need not in begin:
                        break
                    come = begin[need] + takes[way, other] + message
                begin[own.pop(0)] = max(free[npu], come)
                free[npu] = max(free[npu], come) + takes[way, stage]
        assert len(begin) > before
    return begin


def agree(rows: list[int], message: int, count: int, parallelism: dict[str, Any], recompute: str) -> None:
    npus, chunks = parallelism["pipeline"], parallelism.get("chunks", 1)
    layers = [
        Layer(f"block {n}", Kind.MLP, 10, 10, (Gemm("product", m, m, m),), Elements(whole=60), block=n)
        for n, m in enumerate(rows)
    ]
    model = Model("blocks", (Layer("embedding", Kind.EMBEDDING, 1, 10, block=0), *layers), "a sample")
    keys: dict[str, Any] = {"batch": count, "parallelism": parallelism, "recompute": recompute}
    graph = built(planned(model, (npus,), **keys))
    job, hands = GraphJob(graph), FixedHands((npus,), lambda size: 0, lambda size: message)
    job.begin(hands)
    hands.run()
    assert job.left == 0
    computing = np.flatnonzero((graph.kind == tasks.Kind.COMPUTE) & (graph.part != Part.UPDATE)).tolist()
    where = sorted({(int(graph.layer[task]), int(graph.npu[task])) for task in computing})
    blocks = [[layer for layer, _ in own] for _, own in groupby(where, key=lambda each: each[1])]
    assert [npu for npu, _ in groupby(npu for _, npu in where)] == [stage % npus for stage in range(npus * chunks)]
    stage_of = {layer: stage for stage, own in enumerate(blocks) for layer in own}
    found: dict[Step, int] = {}
    work: defaultdict[Step, int] = defaultdict(int)
    seen = set()
    for task in computing:
        name, layer = graph.names[graph.name[task]], int(graph.layer[task])
        (number,) = map(int, re.findall(r"micro-batch (\d+)", name))
        forward = graph.part[task] == Part.FORWARD and (layer, number) not in seen  # not once more
        seen.add((layer, number))
        step = ("F" if forward else "B", stage_of[layer], number)
        work[step] += int(graph.ticks[task])
        found[step] = min(found.get(step, 2**62), int(job.times().start[task]))
    takes = {(way, stage): work[way, stage, 0] for way, stage, _ in work}
    assert all(work[step] == takes[step[:2]] for step in work)
    orders = [order(parallelism["schedule"], npus, npu, chunks, count) for npu in range(npus)]
    assert found == starts(orders, takes, npus * chunks, message)


@st.composite
def pipelines(draw: st.DrawFn) -> tuple[list[int], int, int, dict[str, Any], str]:
    schedule = draw(st.sampled_from(["1f1b", "gpipe", "interleaved"]))
    chunks, npus = draw(st.integers(2, 3)) if schedule == "interleaved" else 1, draw(st.integers(2, 5))
    count = npus * draw(st.integers(1, 3)) if schedule == "interleaved" else draw(st.integers(1, 9))
    stages = npus * chunks
    rows = draw(st.lists(st.integers(1, 30), min_size=stages, max_size=2 * stages))
    parallelism = {"pipeline": npus, "schedule": schedule} | ({"chunks": chunks} if chunks > 1 else {})
    message = draw(st.sampled_from([0, 1, 20, 400]))
    return rows, message, count, parallelism, draw(st.sampled_from(["none", "full"]))


@settings(max_examples=part_of(25))
@given(pipelines())
def test_both_agree(case: tuple[list[int], int, int, dict[str, Any], str]) -> None:
    agree(*case)


@pytest.mark.slow
@settings(max_examples=1000)
@given(pipelines())
def test_both_agree_on_many_more(case: tuple[list[int], int, int, dict[str, Any], str]) -> None:
    agree(*case)
