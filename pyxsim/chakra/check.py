"""Faults of traces, within one and between them. Every fault is one line with file, node and reason."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import zip_longest

import numpy as np

from pyxsim.chakra.messages import CommType, NodeType
from pyxsim.chakra.order import levels
from pyxsim.chakra.trace_graph import NONE, Graph
from pyxsim.errors import InputError

TOLD = 8  # members of a circular wait that a fault names
Groups = Mapping[str, Sequence[int]]


def faults_of(graph: Graph) -> list[InputError]:
    """Return the faults within a trace."""
    cycle = _cycle([graph], graph.ptr, graph.before, graph.levels[0])
    return [*graph.faults, *cycle]


def faults_between(graphs: Mapping[int, Graph], groups: Groups | None = None) -> list[InputError]:
    """Return the faults between the traces of all ranks: messages, collectives, circular waits over several ranks."""
    faults = [
        InputError("there is no trace for this rank", key=f"rank {rank}", allowed=f"0 to {max(graphs)}, one trace each")
        for rank in sorted(set(range(max(graphs) + 1)) - graphs.keys())[:TOLD]
    ]
    pairs, message_faults = _messages(graphs)
    faults += message_faults
    faults += _collectives(graphs, groups or {})
    if all((graph.levels[0] >= 0).all() for graph in graphs.values()):
        faults += _joint_cycle(graphs, pairs)
    return faults


def check(graphs: Mapping[int, Graph], groups: Groups | None = None, *, between: bool = True) -> list[InputError]:
    """Return all faults, rank by rank, then `between` them."""
    within_traces = [fault for graph in graphs.values() for fault in faults_of(graph)]
    return within_traces + faults_between(graphs, groups) if between else within_traces


def _messages(graphs: Mapping[int, Graph]) -> tuple[list[tuple[int, int, int, int]], list[InputError]]:
    """Return the pairs (rank, row, rank, row) of sends and receives, matched in the order of their numbers, and
    faults."""
    ends: defaultdict[tuple[int, int, int], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    faults = []
    for rank, graph in graphs.items():
        rows = np.flatnonzero((graph.type == NodeType.COMM_SEND) | (graph.type == NodeType.COMM_RECV)).tolist()
        for row in sorted(rows, key=graph.ids.__getitem__):
            sends = graph.type[row] == NodeType.COMM_SEND
            peer, tag = int(graph.peer[row]), int(graph.tag[row])
            if peer == NONE or tag == NONE:
                continue  # already reported
            if peer == rank or peer not in graphs:
                what = "goes to" if sends else "comes from"
                problem = f"{what} rank {peer}" + (", its own rank" if peer == rank else "")
                faults.append(graph.fault(row, problem, "another rank that has a trace"))
                continue
            ends[(rank, peer, tag) if sends else (peer, rank, tag)][0 if sends else 1].append(row)
    pairs = []
    for (src, dst, tag), (sends_, receptions) in sorted(ends.items()):
        for send, reception in zip_longest(sends_, receptions):
            if send is None or reception is None:
                rank, row = (dst, reception) if send is None else (src, send)
                counts = f"rank {src} sends {len(sends_)} messages with tag {tag} to rank {dst}"
                problem = f"has no partner: {counts}, which receives {len(receptions)}"
                faults.append(graphs[rank].fault(row, problem, "equal numbers of receives and sends"))
                break  # one line for all of this tag
            here, there = int(graphs[dst].size[reception]), int(graphs[src].size[send])
            if NONE not in (here, there) and here != there:
                problem = f"receives {here} bytes, but {graphs[src].label(send)} of rank {src} sends {there}"
                faults.append(graphs[dst].fault(reception, problem, f"{there} bytes"))
            pairs.append((src, send, dst, reception))
    return pairs, faults


def _collectives(graphs: Mapping[int, Graph], groups: Groups) -> list[InputError]:
    """Return collectives that not all members of a group call.

    The k-th calls of all members are the same collective, or those with the same number. Groups in a trace override
    those of the groups file, for its rank.
    """
    faults = []
    called: defaultdict[tuple[str, tuple[int, ...], int], dict[int, list[int]]] = defaultdict(dict)
    everybody = tuple(graphs)
    for rank, graph in graphs.items():
        strange = set()
        known = {**groups, **{name: ranks or everybody for name, ranks in graph.own_groups.items()}}
        members = {name: tuple(ranks) for name, ranks in known.items()}
        rows = np.flatnonzero((graph.type == NodeType.COMM_COLL) & (graph.comm != NONE)).tolist()
        for row in sorted(rows, key=graph.ids.__getitem__):
            name = graph.groups[graph.group[row]]
            if not name or rank in members.get(name, ()):
                key = (name, members[name] if name else everybody, int(graph.tag[row]))
                called[key].setdefault(rank, []).append(row)
            elif name not in strange:
                strange.add(name)
                faults.append(_stranger(graph, row, name, known))
    for (name, ranks, _), callers in called.items():
        first = max(callers, key=lambda rank: len(callers[rank]))  # the lowest of those with most calls
        for rank in (other_rank for other_rank in ranks if other_rank in graphs):
            fault = _different(graphs, name, (first, callers[first]), (rank, callers.get(rank, [])))
            faults += [fault] if fault is not None else []
    return faults


def _stranger(graph: Graph, row: int, name: str, groups: Groups) -> InputError:
    if name not in groups:
        allowed = f"0 (all ranks), {', '.join(groups)}" if groups else "0 (all ranks); a file of groups names others"
        return graph.fault(row, f"is for group {name!r}, which does not exist", allowed)
    ranks = ", ".join(map(str, groups[name][:TOLD])) + (", ..." if len(groups[name]) > TOLD else "")
    return graph.fault(row, f"is for group {name!r}, but rank {graph.rank} is not a member", f"members {ranks}")


def _different(
    graphs: Mapping[int, Graph], name: str, one: tuple[int, list[int]], other: tuple[int, list[int]]
) -> InputError | None:
    """The first collective that a rank calls and another does not, or differently. `one` calls at least as often."""
    group = f" in group {name!r}" if name else ""
    (rank, rows), (rank_2, rows_2) = one, other
    for turn, row in enumerate(rows):
        first = _collective(graphs[rank], row)
        if turn >= len(rows_2):
            problem = f"waits forever: it is collective {turn} of rank {rank}{group}, {first},"
            return graphs[rank].fault(
                row,
                f"{problem} but rank {rank_2} calls only {len(rows_2)} collectives",
                "equal numbers of calls on all members",
            )
        collective = _collective(graphs[rank_2], rows_2[turn])
        # A size of NONE is already reported.
        if collective != first and NONE not in (graphs[rank].size[row], graphs[rank_2].size[rows_2[turn]]):
            problem = f"is collective {turn} of rank {rank_2}{group}, {collective}, where rank {rank} has {first}"
            return graphs[rank_2].fault(rows_2[turn], problem, "the same on all members")
    return None


def _collective(graph: Graph, row: int) -> str:
    return f"{CommType(graph.comm[row]).name} of {graph.size[row]} bytes"


def _joint_cycle(graphs: Mapping[int, Graph], pairs: list[tuple[int, int, int, int]]) -> list[InputError]:
    """Receives and sends that wait for each other, over several ranks."""
    if not pairs:
        return []
    order = list(graphs.values())
    first, at = {}, 0
    for graph in order:
        first[graph.rank] = at
        at += len(graph)
    # Edges (waiting row, row it waits for), sorted by the first: rows of one large graph.
    waits = [np.repeat(np.arange(len(row)), np.diff(row.ptr)) + first[row.rank] for row in order]
    fors = [row.before + first[row.rank] for row in order]
    table = np.array(pairs, dtype=np.int64)
    start = np.zeros(max(graphs) + 1, dtype=np.int64)
    for rank, row in first.items():
        start[rank] = row
    waiting = np.concatenate([*waits, start[table[:, 2]] + table[:, 3]])
    whom = np.concatenate([*fors, start[table[:, 0]] + table[:, 1]])[np.argsort(waiting, kind="stable")]
    ptr = np.concatenate([[0], np.cumsum(np.bincount(waiting, minlength=at))]).astype(np.int64)
    level, _ = levels(ptr, whom, np.zeros(at, dtype=np.int64))
    return _cycle(order, ptr, whom, level)


def _cycle(graphs: Sequence[Graph], ptr: np.ndarray, before: np.ndarray, level: np.ndarray) -> list[InputError]:
    """One circular wait, if there is any, over the rows of all graphs."""
    stuck = np.flatnonzero(level < 0)
    if not len(stuck):
        return []
    row, place, path = int(stuck[0]), dict[int, int](), list[int]()
    while row not in place:
        place[row] = len(path)
        path.append(row)
        row = next(int(earlier) for earlier in before[ptr[row] : ptr[row + 1]] if level[earlier] < 0)
    cycle = path[place[row] :]
    first = cycle.index(min(cycle))
    cycle = cycle[first:] + cycle[:first]
    starts = np.cumsum([0, *map(len, graphs)])

    def where(row: int) -> tuple[Graph, int]:
        k = int(np.searchsorted(starts, row, side="right")) - 1
        return graphs[k], row - int(starts[k])

    def named_node(row: int) -> str:
        graph, own_row = where(row)
        return graph.label(own_row) + (f" of rank {graph.rank}" if len(graphs) > 1 else "")

    graph, own = where(cycle[0])
    if len(cycle) == 1:
        return [graph.fault(own, "waits for itself", "nodes without circular dependencies")]
    named = ", that for ".join(map(named_node, cycle[1 : TOLD + 1]))
    rest = "and so on" if len(cycle) > TOLD + 1 else "that for the first"
    problem = f"waits for {named}, {rest}: {len(cycle)} wait for each other in a cycle"
    return [graph.fault(own, problem, "nodes without circular dependencies")]
