"""Whether the ranks of a job do the same, and whether many that do the same can be carried out together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pyxsim.errors import InputError
from pyxsim.workload.graph import Kind, TaskGraph, channels
from pyxsim.workload.making.layout import Layout
from pyxsim.workload.making.sources import Source
from pyxsim.workload.tasks import find_cycle

MOST_COMPARED = 16  # other ranks of each stage: reading all of a large job would take long
_COMMUNICATION = (Kind.SEND, Kind.RECEIVE, Kind.COLLECTIVE)
_SHOWN = 6


def refuse_circles(graph: TaskGraph, file: str) -> None:
    """Raise InputError if tasks of a checked graph wait for each other through messages."""
    channel, _ = channels(graph)
    # The k-th send and the k-th receive of a channel are one message.
    sends, receives = (
        tasks[np.argsort(channel[tasks], kind="stable")]
        for tasks in (graph.of_kind(Kind.SEND), graph.of_kind(Kind.RECEIVE))
    )
    many = np.diff(graph.before_start)
    more = many.copy()
    more[receives] += 1
    start = np.concatenate([[0], np.cumsum(more)]).astype(graph.before_start.dtype)
    before = np.empty(start[-1], graph.before.dtype)
    before[np.arange(len(graph.before)) + np.repeat(start[:-1] - graph.before_start[:-1], many)] = graph.before
    before[start[1:][receives] - 1] = sends
    circle = find_cycle(start, before)
    if circle:
        named = " waits for ".join(graph.label(task) for task in circle[:_SHOWN])
        rest = "and so on" if len(circle) > _SHOWN else "waits for the first"
        problem = f"is not symmetric: {named}, {rest}: {len(circle)} wait for each other in a cycle"
        allowed = "a rank that can begin before it receives; of a pipeline one rank of each stage (--ranks)"
        raise InputError(problem, file=file, allowed=allowed)


def differences(source: Source, stage: int, layout: Layout) -> Iterator[str]:
    """Yield a line if another rank of the stage does not do what the rank of `source` does."""
    ranks = [rank for rank in sorted(source.others) if layout.stage_of(rank) == stage]
    mine = _program(source.graph)
    for rank in ranks[:: -(-len(ranks) // MOST_COMPARED) or 1]:
        try:
            others = _program(source.others[rank]())
        except InputError as error:
            first, _, _ = str(error).partition("\n")
            yield f"rank {rank} cannot be compared with rank {source.rank}: {first}"
            return
        if others != mine:
            difference = _different(rank, others, source.rank, mine)
            yield f"{source.name}: {difference}; all ranks of the larger job do what rank {source.rank} does"
            return


def _program(graph: TaskGraph) -> list[tuple[str, int]]:
    """The kind and the bytes of each task: communication first, then what each resource does.

    The order of tasks of different resources depends on their times, and so do marks, which include pauses.
    """
    tasks = np.argsort(np.where(np.isin(graph.kind, _COMMUNICATION), -2, graph.resource), kind="stable")
    tasks = tasks[graph.kind[tasks] != Kind.MARK]
    kinds, calls = graph.kind[tasks], graph.call[tasks]
    sizes = np.where(kinds == Kind.COMPUTE, 0, graph.size[tasks])
    rows = zip(kinds.tolist(), sizes.tolist(), calls.tolist(), strict=True)
    return [
        (graph.calls[call].kind, graph.calls[call].size) if kind == Kind.COLLECTIVE else (Kind(kind).name.lower(), size)
        for kind, size, call in rows
    ]


def _different(rank: int, others: list[tuple[str, int]], own: int | None, mine: list[tuple[str, int]]) -> str:
    """What the first difference is."""
    if len(others) != len(mine):
        return f"rank {rank} has {len(others)} tasks, but rank {own} {len(mine)}"
    one, other = next(pair for pair in zip(mine, others, strict=True) if pair[0] != pair[1])
    return f"rank {rank} has {_named(*other)} where rank {own} has {_named(*one)}"


def _named(kind: str, size: int) -> str:
    return f"{kind} of {size} bytes" if size else kind
