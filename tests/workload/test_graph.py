"""Graphs: how they are built, and that each that cannot be carried out is refused by one line."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.workload.graph import Access, Call, GraphBuilder, Kind, Part, TaskGraph, channels, check
from tests.examples import part_of
from tests.in_turn import in_turn
from tests.workload.draw_graphs import Drawn, drawn_graphs
from tests.workload.services import FixedHands


@settings(max_examples=part_of(100))
@given(drawn=drawn_graphs())
def test_what_is_drawn_can_be_checked(drawn: Drawn) -> None:
    check(drawn.graph, drawn.shape)


def test_one_by_one_or_many_at_once() -> None:
    """Both ways, mixed: the same graph."""
    one, many = GraphBuilder(3), GraphBuilder(3)
    for builder in (one, many):
        assert builder.call(Call("all-reduce", 64, name="sum")) == 0
    assert many.tasks(range(3), Kind.COMPUTE, "a", ticks=[1, 2, 3], resource="compute").tolist() == [0, 1, 2]
    for npu in range(3):
        assert one.task(npu, Kind.COMPUTE, "a", ticks=npu + 1, resource="compute") == npu
    for builder in (one, many):
        assert builder.task(1, Kind.MARK, before=(1, 4)) == 3
    npus = np.arange(3)
    many.tasks(npus, Kind.COLLECTIVE, call=0, layer=7, part=Part.UPDATE, before=[npus, np.array([2, 1, 0])])
    for npu in range(3):
        one.task(npu, Kind.COLLECTIVE, call=0, layer=7, part=Part.UPDATE, before=[npu, 2 - npu])
    for column, value in vars(one.graph()).items():
        other = getattr(many.graph(), column)
        same = np.array_equal(value, other) if isinstance(value, np.ndarray) else value == other
        assert same, column
    graph = one.graph()
    assert graph.before[graph.before_start[5] : graph.before_start[6]].tolist() == [1, 1]
    assert graph.label(3) == "NPU 1, 'mark' (task 3)"
    assert (graph.npu.dtype, graph.kind.dtype, graph.ticks.dtype) == (np.int32, np.int8, np.int64)


def test_a_graph_may_grow_after_it_was_taken() -> None:
    b = GraphBuilder(1)
    b.task(0, Kind.MARK)
    first = b.graph()
    b.task(0, Kind.MARK, before=[0])
    assert (len(first), len(b.graph())) == (1, 2)


def test_many_one_by_one() -> None:
    """More than are kept as Python's numbers at a time."""
    b, count = GraphBuilder(2), (1 << 16) + 5
    for task in range(count):
        b.task(task % 2, Kind.COMPUTE, ticks=task, before=[task - 2] if task > 1 else ())
    graph = b.graph()
    check(graph)
    assert graph.ticks.tolist() == list(range(count))
    assert graph.before.tolist() == list(range(count - 2))
    assert graph.before_start[:4].tolist() == [0, 0, 0, 1]


def test_very_many_blocks_keep_their_order() -> None:
    b = GraphBuilder(3)
    for number in range(2500):
        b.tasks([0, 2], Kind.COMPUTE, ticks=(number, 2 * number), match=number, before=[[0, number]] * (number % 3))
        if number % 1000 == 7:
            b.task(1, Kind.MARK, match=-number)
    graph = b.graph()
    blocks, marks = np.arange(2500), graph.npu == 1
    assert graph.match[marks].tolist() == [-7, -1007, -2007]
    assert graph.ticks[~marks].tolist() == np.stack([blocks, 2 * blocks], axis=1).ravel().tolist()
    assert graph.match[~marks].tolist() == np.repeat(blocks, 2).tolist()
    assert np.diff(graph.before_start)[~marks].tolist() == np.repeat(blocks % 3, 2).tolist()
    assert graph.before.tolist() == [wait for n in range(2500) for wait in [0] * (n % 3) + [n] * (n % 3)]


def test_numbers_do_not_become_others() -> None:
    b = GraphBuilder(1)
    b.task(2**40, Kind.MARK)
    with pytest.raises(InputError, match="a task has a value of 'npu' out of range; allowed: int32"):
        b.graph()
    b = GraphBuilder(1)
    b.task(0, Kind.COMPUTE, ticks=2**70)
    with pytest.raises(InputError, match="a task has a number out of range"):
        b.graph()


def test_resources_are_known_by_name() -> None:
    with pytest.raises(InputError, match=r"there is no resource 'gpus'; allowed: gpu, cpu; did you mean 'gpu'\?"):
        GraphBuilder(1, [("gpu", 1), ("cpu", 1)]).task(0, Kind.COMPUTE, resource="gpus")


def good() -> TaskGraph:
    """Two NPUs: compute, an all-reduce, a message with tag 5 from NPU 0 to NPU 1; NPU 0 loads remote memory."""
    b = GraphBuilder(2, layers=["one"])
    own = b.tasks([0, 1], Kind.COMPUTE, "forward", ticks=10, resource="compute")
    b.tasks([0, 1], Kind.COLLECTIVE, "sum", call=b.call(Call("all-reduce", 64, name="sum")), before=[own])
    b.task(0, Kind.SEND, "out", size=8, peer=1, match=5)
    b.task(1, Kind.RECEIVE, "in", size=8, peer=0, match=5)
    b.tasks([0, 1], Kind.MARK, "end", before=[own])
    b.task(0, Kind.MEMORY, "far", size=64, match=Access.LOAD)
    return b.graph()


def changed(column: str, task: int, value: int) -> Callable[[TaskGraph], None]:
    def change(graph: TaskGraph) -> None:
        getattr(graph, column)[task] = value

    return change


def called(**others: object) -> Callable[[TaskGraph], None]:
    def change(graph: TaskGraph) -> None:
        graph.calls[0] = replace(graph.calls[0], **others)  # type: ignore[arg-type]

    return change


FAULTS = {
    "an NPU": (changed("npu", 1, 2), "NPU 2, 'forward' (task 1): there is no NPU 2; allowed: NPUs 0 to 1"),
    "a kind": (changed("kind", 6, 6), "NPU 0, 'end' (task 6): there is no kind 6"),
    "a name": (changed("name", 6, 9), "NPU 0, task 6: there is no name 9"),
    "ticks": (changed("ticks", 1, -1), "NPU 1, 'forward' (task 1): takes -1 cycles; allowed: 0 or more"),
    "many ticks": (
        changed("ticks", 1, 2**62),
        "the tasks take too many cycles in total; allowed: at most 2305843009213693952",
    ),
    "bytes": (changed("size", 1, -1), "NPU 1, 'forward' (task 1): has -1 bytes; allowed: 0 or more"),
    "a part": (changed("part", 1, 5), "NPU 1, 'forward' (task 1): there is no part 5 of a layer; allowed: 0 to 4"),
    "a layer": (changed("layer", 1, 1), "NPU 1, 'forward' (task 1): there is no layer 1; allowed: -1 to 0"),
    "two times": (
        changed("ticks", 8, 1),
        "NPU 0, 'far' (task 8): takes 1 cycles and has 64 bytes; allowed: one of them",
    ),
    "an access": (
        changed("match", 8, 4),
        "NPU 0, 'far' (task 8): there is no access 4; allowed: 0 load, 1 store, 2 gather, 3 reduce",
    ),
    "a resource": (changed("resource", 1, 3), "NPU 1, 'forward' (task 1): there is no resource 3"),
    "a mark": (changed("resource", 7, 0), "NPU 1, 'end' (task 7): a mark cannot occupy a resource"),
    "a peer": (changed("peer", 4, 2), "NPU 0, 'out' (task 4): there is no NPU 2"),
    "oneself": (changed("peer", 4, 0), "NPU 0, 'out' (task 4): sends a message to its own NPU"),
    "no bytes": (changed("size", 5, 0), "NPU 1, 'in' (task 5): sends or receives 0 bytes; allowed: 1 or more"),
    "a call": (changed("call", 3, 1), "NPU 1, 'sum' (task 3): there is no collective 1"),
    "dangling": (
        changed("before", 1, 9),
        "NPU 1, 'sum' (task 3): depends on task 9, which does not exist; allowed: tasks 0 to 8",
    ),
    "before all": (
        changed("before", 1, -1),
        "NPU 1, 'sum' (task 3): depends on task -1, which does not exist; allowed: tasks 0 to 8",
    ),
    "another NPU": (
        changed("before", 1, 0),
        "NPU 1, 'sum' (task 3): depends on NPU 0, 'forward' (task 0), a task of another NPU; "
        "allowed: tasks of the same NPU; messages synchronize NPUs",
    ),
    "itself": (
        changed("before", 1, 3),
        "NPU 1, 'sum' (task 3) waits for NPU 1, 'sum' (task 3); these tasks can never start",
    ),
    "a tag": (
        changed("match", 4, 6),
        "NPU 0, 'out' (task 4): sends 8 bytes with tag 6 to NPU 1, which does not receive them; "
        "allowed: one send for each receive, of the same size",
    ),
    "who is missing": (
        changed("kind", 3, Kind.MARK),
        "NPU 1: has no task of collective 'sum' (0), as NPU 0, 'sum' (task 2) has; allowed: one task per member",
    ),
    "who is twice": (
        changed("kind", 7, Kind.COLLECTIVE),
        "NPU 1, 'end' (task 7): is a second task of collective 'sum' (0), after NPU 1, 'sum' (task 3); "
        "allowed: one task per member",
    ),
    "who is no member": (
        called(members=(0,)),
        "NPU 1, 'sum' (task 3): this NPU is not a member of collective 'sum' (0); allowed: NPUs 0",
    ),
    "a member": (called(members=(0, 2)), "collective 'sum' (0): there is no NPU 2; allowed: NPUs 0 to 1"),
    "twice in it": (
        called(members=(0, 0)),
        "collective 'sum' (0): NPU 0 is in the group twice; allowed: each NPU once",
    ),
    "both": (
        called(members=(0, 1), dims=(0,)),
        "collective 'sum' (0): sets more than one of members, dimensions and groups; allowed: one of them, or none",
    ),
    "a dimension": (called(dims=(1,)), "collective 'sum' (0): there is no dimension 1"),
    "the root": (
        called(root=2),
        "collective 'sum' (0): the root, NPU 2, does not participate; allowed: NPUs 0, 1",
    ),
    "who is in two groups": (
        called(groups=((0, 1), (1,))),
        "collective 'sum' (0): NPU 1 is in the group twice; allowed: each NPU once",
    ),
    "no groups": (called(groups=()), "collective 'sum' (0): the group has no NPUs; allowed: at least one NPU"),
    "the root of groups": (
        called(groups=((0, 1),), root=2),
        "collective 'sum' (0): the root, position 2, does not exist in each group; allowed: below 2",
    ),
    "its bytes": (called(size=0), "collective 'sum' (0): 0 bytes; allowed: 1 or more"),
}


@in_turn("name", FAULTS)
def test_a_fault_is_one_line(name: str) -> None:
    change, line = FAULTS[name]
    graph = good()
    check(graph, (2,))
    if name in ("who is twice", "a name", "a kind"):
        graph.call[7] = 0
    change(graph)
    with pytest.raises(InputError) as caught:
        check(graph, (2,))
    assert str(caught.value).splitlines()[0] == line


def test_faults_of_a_collective_are_told_by_its_kind() -> None:
    graph = good()
    graph.calls[0] = Call("all-redoce", 64)
    with pytest.raises(InputError, match=r"\(0\): unknown collective 'all-redoce'; .* did you mean 'all-reduce'?"):
        check(graph)


def test_a_resource_has_room() -> None:
    with pytest.raises(InputError, match="resource 'gpu' has room for 0 tasks; allowed: 1 or more"):
        check(replace(good(), resources=(("gpu", 0), ("cpu", 1))))


def test_no_tasks_are_no_workload() -> None:
    with pytest.raises(InputError, match=r"the workload has 0 tasks; allowed: 1 to \d+"):
        check(GraphBuilder(1).graph())


def test_of_messages_alike_the_last_is_too_much() -> None:
    b = GraphBuilder(2)
    for name in ("one", "two", "three"):
        b.task(0, Kind.SEND, name, size=8, peer=1)
    b.task(1, Kind.RECEIVE, size=8, peer=0)
    b.task(1, Kind.RECEIVE, "alone", size=9, peer=0, match=4)
    with pytest.raises(InputError) as caught:
        check(b.graph())
    sends, receives = str(caught.value).splitlines()
    assert sends.startswith("NPU 0, 'three' (task 2): sends 8 bytes with tag 0 to NPU 1, which does not receive")
    assert receives.startswith("NPU 1, 'alone' (task 4): waits for 9 bytes with tag 4 from NPU 0, which does not")


def test_a_long_circle_is_cut() -> None:
    b = GraphBuilder(1)
    for task in range(20):
        b.task(0, Kind.MARK, f"m{task}", before=[(task + 1) % 20])
    with pytest.raises(InputError) as caught:
        check(b.graph())
    line = str(caught.value)
    assert line.count("waits for") == 8
    assert "(and so on, 20 tasks in total)" in line


@settings(max_examples=part_of(100))
@given(drawn=drawn_graphs())
def test_channels(drawn: Drawn) -> None:
    graph = drawn.graph
    channel, count = channels(graph)
    keys: dict[int, set[tuple[int, ...]]] = {}
    for task in range(len(graph)):
        own, peer = int(graph.npu[task]), int(graph.peer[task])
        if graph.kind[task] in (Kind.SEND, Kind.RECEIVE):
            ends = (own, peer) if graph.kind[task] == Kind.SEND else (peer, own)
            keys.setdefault(int(channel[task]), set()).add((*ends, int(graph.match[task]), int(graph.size[task])))
        else:
            assert channel[task] == -1
    assert sorted(keys) == list(range(count))
    assert all(len(each) == 1 for each in keys.values())
    assert len(set().union(*keys.values())) == count


@settings(max_examples=part_of(100))
@given(drawn=drawn_graphs(), seed=st.integers(0, 10**9))
def test_any_change_is_refused_or_runs(drawn: Drawn, seed: int) -> None:
    """A graph with a number changed, somewhere: it is refused by lines that are told, or carried out to its end or to
    where it is stuck; nothing else."""
    from pyxsim.workload.graph_job import GraphJob

    graph, dice = drawn.graph, random.Random(seed)
    columns = [column for column, value in vars(graph).items() if isinstance(value, np.ndarray) and len(value)]
    column = getattr(graph, dice.choice([name for name in columns if name != "before_start"]))
    column[dice.randrange(len(column))] = (
        dice.choice([-(2**31), -2, -1, 0, 1, 2, 3, 5, 100]) if column.itemsize > 1 else (dice.randrange(-128, 128))
    )
    try:
        check(graph, drawn.shape)
        job = GraphJob(graph)
        hands = FixedHands(drawn.shape)
        job.begin(hands)
    except InputError as error:
        told = str(error)
        assert re.search(r"NPU|collective", told)
        return
    hands.run()
    assert 0 <= job.left <= len(graph)
