"""One rank becomes many: the ranks of a symmetric job come back, and what is not symmetric is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.chakra.check import check as chakra_check
from pyxsim.chakra.groups import read_groups
from pyxsim.chakra.trace_graph import load
from pyxsim.errors import InputError
from pyxsim.rank_files import find
from pyxsim.workload.export import export
from pyxsim.workload.graph import Call, GraphBuilder, Kind, TaskGraph, check
from pyxsim.workload.making.expand import expand
from pyxsim.workload.making.layout import Layout
from pyxsim.workload.making.sources import CLOCK, Source, _only, read_one
from tests.examples import part_of
from tests.workload.making.symmetric_jobs import Step, described, job, layouts, pipeline, step_lists

STEP = str(Path(__file__).parents[3] / "inputs" / "pytorch" / "step.*.kineto.json.gz")


def one_rank(graph: TaskGraph, rank: int) -> Source:
    return Source("job", _only(graph, rank), (graph.npus,), rank)


def faults(target: str) -> list[InputError]:
    """What `pyxsim workload check` finds in traces."""
    groups = Path(f"{target}.groups.json")
    known = read_groups(groups) if groups.exists() else {}
    return chakra_check({rank: load(path, rank) for rank, path in find(target).items()}, known)


@given(layouts(), step_lists(), st.data())
@settings(max_examples=part_of(200), deadline=None)
def test_a_rank_of_a_symmetric_job_becomes_the_job(layout: Layout, steps: list[Step], data: st.DataObject) -> None:
    whole = job(layout, steps)
    rank = data.draw(st.integers(0, layout.ranks - 1))
    made = expand([one_rank(whole, rank)], layout.ranks)
    assert (made.before, made.after) == (layout, layout)
    for each in range(layout.ranks):
        assert described(made.graph, each) == described(whole, each)


@given(layouts(), step_lists(), st.sampled_from((2, 3, 5)), st.data())
@settings(max_examples=part_of(200), deadline=None)
def test_a_rank_becomes_a_larger_job(layout: Layout, steps: list[Step], more: int, data: st.DataObject) -> None:
    """The larger job is the one with larger groups, and shards of the same buffers."""
    tensor = data.draw(st.sampled_from((2, 3, 4)))
    larger = Layout((tensor, layout.axes[1] * more))
    source = one_rank(job(layout, steps), data.draw(st.integers(0, layout.ranks - 1)))
    made = expand([source], larger.ranks, tensor).graph
    wanted = job(larger, steps, shard=layout)
    for rank in range(larger.ranks):
        assert described(made, rank) == described(wanted, rank)


@given(layouts(), step_lists())
@settings(max_examples=part_of(50), deadline=None)
def test_expanded_traces_have_no_faults(layout: Layout, steps: list[Step]) -> None:
    made = expand([one_rank(job(layout, steps), 1)], 2 * layout.ranks)
    with TemporaryDirectory() as folder:
        export(made.graph, Path(folder, "made"), (), CLOCK)
        assert faults(str(Path(folder, "made"))) == []


def test_a_rank_of_each_stage_becomes_a_pipeline(tmp_path: Path) -> None:
    """Expanded to the same size, the ranks are those of the job; to twice the size, those of twice the replicas."""
    whole = pipeline(tmp_path)
    sources = [read_one(str(tmp_path / "p.*.et"), rank) for rank in (3, 5, 8)]
    made = expand(sources, 12)
    assert (made.before, made.after) == (Layout((2, 2), 3), Layout((2, 2), 3))
    names = [described(replace(whole.graph, calls=plain(whole)), rank) for rank in range(12)]
    assert [described(made.graph, rank) for rank in range(12)] == names
    larger = pipeline(tmp_path, data=4, name="q")
    assert [described(expand(sources, 24).graph, rank) for rank in range(24)] == [
        described(replace(larger.graph, calls=plain(larger)), rank) for rank in range(24)
    ]


def plain(source: Source) -> list[Call]:
    """The calls of a job without dimensions: for each, the groups that it has."""
    graph = source.graph
    calls = []
    for number, call in enumerate(graph.calls):
        ranks = graph.npu[graph.call == number].tolist()
        groups = sorted({tuple(sorted(source.members(call, rank))) for rank in ranks})
        calls.append(replace(call, dims=None, members=None, groups=tuple(groups)))
    return calls


def test_one_rank_of_pytorch_becomes_eight(tmp_path: Path) -> None:
    source = read_one(STEP, 1)
    made = expand([source], 8)
    check(made.graph)
    assert (made.before.ranks, made.after.ranks) == (2, 8)
    own = source.graph
    for rank in range(8):
        mine = made.graph.npu == rank
        assert made.graph.ticks[mine].tolist() == own.ticks.tolist()
        assert made.graph.kind[mine].tolist() == own.kind.tolist()
    assert {call.members for call in made.graph.calls} == {None}  # all ranks
    assert [call.size for call in made.graph.calls] == [call.size for call in own.calls]


def messages(*ends: tuple[Kind, int, int]) -> Source:
    """A trace of rank 0 of 4 with messages: kind, peer, tag."""
    builder = GraphBuilder(4)
    for kind, peer, tag in ends:
        builder.task(0, kind, size=100, peer=peer, match=tag)
    return Source("job", builder.graph(), (4,), 0)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (messages((Kind.SEND, 1, 7)), "rank 0 sends 100 bytes with tag 7 to rank 1 that it never receives"),
        (messages((Kind.RECEIVE, 1, 7)), "rank 0 receives 100 bytes with tag 7 from rank 1 that it never sends"),
        (
            messages((Kind.SEND, 1, 7), (Kind.RECEIVE, 3, 8)),
            "rank 0 sends 100 bytes with tag 7 to rank 1 that it never receives",
        ),
        # To and from the same neighbour: rank 1 would have to do the opposite of rank 0.
        (
            messages((Kind.SEND, 1, 7), (Kind.RECEIVE, 1, 7)),
            "rank 0 sends 100 bytes with tag 7 to rank 1 that it never receives",
        ),
    ],
)
def test_messages_that_are_not_symmetric_are_refused(source: Source, problem: str) -> None:
    with pytest.raises(InputError) as error:
        expand([source], 8)
    assert error.value.problem == f"is not symmetric: {problem}"
    assert "\n" not in str(error.value)


def test_a_ring_goes_around_the_larger_axis() -> None:
    made = expand([messages((Kind.SEND, 1, 7), (Kind.RECEIVE, 3, 7))], 8).graph
    assert made.peer[made.kind == Kind.SEND].tolist() == [1, 2, 3, 4, 5, 6, 7, 0]
    assert made.peer[made.kind == Kind.RECEIVE].tolist() == [7, 0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("npus", "tensor", "ranks", "problem"),
    [
        (10, None, [0, 4, 8], "10 is no multiple of 2 ranks, which stay together, in each of 3 stages"),
        (24, 3, [0, 4, 8], "24 is no multiple of 3 ranks, which stay together, in each of 3 stages"),
        (12, None, [0], "is not symmetric: rank 0 sends 32768 bytes with tag 0 to rank 4 that it never receives"),
        (12, None, [0, 1, 8], "rank 1 is of pipeline stage 0"),
        (12, None, [0, 4, 8, 9, 10], "12 ranks are no 5 pipeline stages of equal size"),
    ],
)
def test_what_cannot_be_expanded(tmp_path: Path, npus: int, tensor: int | None, ranks: list[int], problem: str) -> None:
    pipeline(tmp_path)
    with pytest.raises(InputError) as error:
        expand([read_one(str(tmp_path / "p.*.et"), rank) for rank in ranks], npus, tensor)
    assert error.value.problem == problem


def test_stages_that_differ_in_common_collectives_are_refused() -> None:
    def stage(rank: int, size: int) -> Source:
        builder = GraphBuilder(2)
        builder.task(rank, Kind.COLLECTIVE, call=builder.call(Call("all-reduce", size)))
        return Source(f"rank {rank}", builder.graph(), (2,), rank)

    assert expand([stage(0, 8), stage(1, 8)], 4).after == Layout((2,), 2)
    with pytest.raises(InputError, match="collective 0 of several stages is all-reduce of 9 bytes, at rank 0 all"):
        expand([stage(0, 8), stage(1, 9)], 4)


def test_times_stay_to_the_picosecond(tmp_path: Path) -> None:
    """Through files, with a clock of 1 THz."""
    made = expand([read_one(STEP, 0)], 4).graph
    export(made, tmp_path / "made", (), CLOCK)
    again = read_one(str(tmp_path / "made"), 2).graph
    assert again.ticks.tolist() == made.ticks[made.npu == 2].tolist()
    assert Fraction(int(np.sum(again.ticks)), CLOCK) > 0


def test_operations_stay(tmp_path: Path) -> None:
    node = {"id": 0, "name": "product", "type": "COMP_NODE", "durationMicros": 7, "attr": []}
    node["attr"] = [{"name": "num_ops", "int64Val": "500"}, {"name": "tensor_size", "uint64Val": "60"}]
    (tmp_path / "one.jsonl").write_text(f'{{"version": "0.0.4"}}\n{json.dumps(node)}\n', encoding="utf-8")
    made = expand([read_one(str(tmp_path / "one.jsonl"))], 3).graph
    export(made, tmp_path / "made", (), CLOCK)
    again = read_one(str(tmp_path / "made"), 1).graph
    assert (again.match.tolist(), again.size.tolist(), again.ticks.tolist()) == ([500], [60], [7_000_000])
