"""Collectives as messages: those of the algorithm, from the right NPUs, between the tasks before and after."""

from __future__ import annotations

import pytest

from pyxsim.errors import InputError
from pyxsim.workload.goal.expand import without_collectives
from pyxsim.workload.graph import Call, GraphBuilder, Kind, TaskGraph, check


def graph(call: Call, npus: int = 4) -> TaskGraph:
    builder = GraphBuilder(npus)
    number = builder.call(call)
    members = range(npus) if call.groups is None and call.members is None else call.members
    for npu in members if members is not None else range(npus):
        begin = builder.task(npu, Kind.COMPUTE, "think", ticks=100 * npu, resource="compute")
        end = builder.task(npu, Kind.COLLECTIVE, "c", call=number, before=[begin])
        builder.task(npu, Kind.COMPUTE, "after", ticks=7, before=[end])
    return builder.graph()


@pytest.mark.parametrize(
    ("call", "messages"),
    [
        (Call("all-reduce", 4096), 24),
        (Call("all-gather", 1024), 12),
        (Call("all-to-all", 4096), 12),
        (Call("all-reduce", 4096, members=(0, 2, 3)), 12),
        (Call("all-reduce", 4096, groups=((0, 1), (2, 3))), 8),
        (Call("all-reduce", 4096, algorithms=("direct",)), 24),
    ],
)
def test_messages_of_the_algorithm(call: Call, messages: int) -> None:
    expanded = without_collectives(graph(call))
    check(expanded)
    assert len(expanded.of_kind(Kind.SEND)) == len(expanded.of_kind(Kind.RECEIVE)) == messages
    assert not len(expanded.of_kind(Kind.COLLECTIVE))
    tags = expanded.match[expanded.of_kind(Kind.SEND)]
    assert len(set(tags.tolist())) == messages


def test_the_root_sends_first() -> None:
    expanded = without_collectives(graph(Call("broadcast", 4096, root=2)))
    check(expanded)
    sends = expanded.of_kind(Kind.SEND)
    received = set(expanded.npu[expanded.of_kind(Kind.RECEIVE)].tolist())
    assert received == {0, 1, 3}
    assert expanded.npu[sends[0]] == 2


def test_not_along_dimensions() -> None:
    with pytest.raises(InputError, match="runs along dimensions"):
        without_collectives(graph(Call("all-reduce", 64, dims=(0,))))
