"""Collectives of a graph as messages: each becomes those of an algorithm, for formats that have messages only."""

from __future__ import annotations

import numpy as np

from pyxsim import library
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.custom.channels import awaited
from pyxsim.collective.lookup import get_algorithm, get_schedule
from pyxsim.collective.plan import whole_bytes
from pyxsim.collective.sizes import block_sizes
from pyxsim.errors import InputError
from pyxsim.registry import collectives
from pyxsim.workload.export import apart
from pyxsim.workload.goal.schedule import ANY
from pyxsim.workload.graph import MOST_TASKS, Call, GraphBuilder, Kind, TaskGraph

FIRST_CHOICE = {"all-to-all": "direct"}
"""The algorithm of a kind of collective that names none; of others it is `RING`, else the first that can do it."""
RING = "ring"

_COLUMNS = ("ticks", "size", "peer", "match", "layer", "part")


def without_collectives(graph: TaskGraph) -> TaskGraph:
    """Return the graph with messages in place of collectives. Raises InputError for a collective along dimensions.

    A rank enters a collective at a mark, and leaves it at another when its messages have ended. Each message has a tag
    of its own.
    """
    if not graph.calls:
        return graph
    graph = apart(graph)
    library.load_all()
    builder = GraphBuilder(graph.npus, graph.resources, layers=graph.layers)
    tasks = graph.of_kind(Kind.COLLECTIVE)
    extra = np.cumsum(graph.kind == Kind.COLLECTIVE)
    place = np.arange(len(graph)) + extra  # of each task in the new graph; of a collective, where it ends
    for task in range(len(graph)):
        before = place[graph.before[graph.before_start[task] : graph.before_start[task + 1]]].tolist()
        npu, kind, name = int(graph.npu[task]), Kind(graph.kind[task]), graph.names[graph.name[task]]
        if kind == Kind.COLLECTIVE:
            builder.task(npu, Kind.MARK, f"{name}, begin", before=before)
            builder.task(npu, Kind.MARK, f"{name}, end", before=[int(place[task]) - 1])
            continue
        resource = None if graph.resource[task] < 0 else graph.resources[graph.resource[task]][0]
        numbers = {column: int(getattr(graph, column)[task]) for column in _COLUMNS}
        builder.task(npu, kind, name, resource=resource, before=before, **numbers)
    tag = int(graph.match.max(initial=0)) + 1
    ends: list[tuple[int, int]] = []  # the end of a collective waits for a message
    for number, call in enumerate(graph.calls):
        mine = tasks[graph.call[tasks] == number]
        begin = {int(graph.npu[task]): int(place[task]) - 1 for task in mine}
        tag = _messages(builder, call, begin, ends, tag)
    return _joined(builder.graph(), ends)


def _messages(builder: GraphBuilder, call: Call, begin: dict[int, int], ends: list[tuple[int, int]], tag: int) -> int:
    """Add the messages of a collective; return the next tag."""
    if call.matrices is not None:
        problem = f"the pairs of collective '{call.name or call.kind}' exchange different amounts"
        raise InputError(problem, allowed="collectives with one size")
    if call.dims is not None:
        problem = f"collective '{call.name or call.kind}' runs along dimensions"
        raise InputError(problem, allowed="collectives of lists of NPUs, or of all")
    members = list(call.members) if call.members is not None else sorted(begin)
    if call.root is not None:
        at = members.index(call.root)
        members = members[at:] + members[:at]
    s = _schedule(call, len(members))
    if tag + len(s) >= ANY or len(builder) + 2 * len(s) > MOST_TASKS:
        raise InputError(f"{len(s)} messages of collective '{call.name}' are too many", allowed=f"{MOST_TASKS} tasks")
    sizes = s.message_bytes(block_sizes(s.kind, s.n, s.blocks, whole_bytes(call.kind, call.size, s.n)))
    arrived: list[int] = []
    rows = zip(s.src.tolist(), s.dst.tolist(), sizes.tolist(), awaited(s), strict=True)
    for m, (src, dst, size, waits) in enumerate(rows):
        source, target = members[src], members[dst]
        before = [arrived[wait] for wait in waits] or [begin[source]]
        if src == dst:
            arrived.append(builder.task(source, Kind.MARK, "local", before=before))
        else:
            size = max(size, 1)
            sent = builder.task(source, Kind.SEND, "send", size=size, peer=target, match=tag + m, before=before)
            ends.append((begin[source] + 1, sent))
            entered = [begin[target]]
            arrived.append(
                builder.task(target, Kind.RECEIVE, "recv", size=size, peer=source, match=tag + m, before=entered)
            )
        ends.append((begin[target] + 1, arrived[-1]))
    return tag + len(s)


def _schedule(call: Call, n: int) -> CompiledSchedule:
    """The schedule of a collective: of its algorithm, or of the first choice."""
    if call.algorithms is not None and len(set(call.algorithms)) == 1:
        name = call.algorithms[0]
    else:
        names = (FIRST_CHOICE.get(call.kind, RING), *collectives.names())
        able = [name for name in names if call.kind in get_algorithm(name).kinds]
        if not able:
            raise InputError(f"no algorithm for collective '{call.name or call.kind}'", allowed=collectives.names())
        name = able[0]
    s = get_schedule(call.kind, name, n)
    if (s.join >= 0).any():
        raise InputError(f"algorithm '{name}' reduces in the network", allowed="one that sends messages only")
    return s


def _joined(graph: TaskGraph, ends: list[tuple[int, int]]) -> TaskGraph:
    """The graph with more dependencies: pairs of a task and one before it."""
    more = np.array(ends, np.int64).reshape(-1, 2)
    waits = np.concatenate([np.repeat(np.arange(len(graph)), np.diff(graph.before_start)), more[:, 0]])
    on = np.concatenate([graph.before, more[:, 1]])
    np.cumsum(np.bincount(waits, minlength=len(graph)), out=graph.before_start[1:])
    graph.before = on[np.argsort(waits, kind="stable")]
    return graph
