"""Which send each receive of a schedule takes: those that take any, and those that expect another size.

In GOAL, as in MPI, a receive names a rank and a tag, or any; its size does not matter. In a graph of tasks it has the
rank, tag and size of its send.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import IntArray
from pyxsim.errors import InputError
from pyxsim.workload.goal.schedule import ANY
from pyxsim.workload.graph import Kind, TaskGraph

_Wanted = Mapping[int, tuple[int, int, int]]  # by receive: its NPU, the source and the tag, or any


def match_messages(graph: TaskGraph, peer: IntArray, file: str) -> None:
    """Set the peers of messages, and tags and sizes of receives. Raises InputError for what nothing can match.

    `peer`: the peer of each task, `ANY` for any. Receives that name rank and tag take the sends of these in order;
    those that take any, the first ones that are left, in the order of operations, then of ranks.
    """
    sends, receives = graph.of_kind(Kind.SEND), graph.of_kind(Kind.RECEIVE)
    if (strange := graph.match[sends] == ANY).any():
        raise InputError(f"{graph.label(int(sends[strange.argmax()]))}: sends with any tag", file=file, allowed="a tag")
    messages = np.concatenate([sends, receives])
    wild = (peer[receives] == ANY) | (graph.match[receives] == ANY)
    graph.peer[messages] = np.where(peer[messages] == ANY, -1, peer[messages])
    if wild.any():
        own = receives[~wild]
        taken = _pairs(graph, sends, own)[0]
        _take_any(graph, np.setdiff1d(sends, taken), receives[wild], file)
    of_send, of_receive = _pairs(graph, sends, receives)
    sent, expected = graph.size[of_send], graph.size[of_receive]
    if np.array_equal(sent, expected):
        return
    # Where the same sizes are sent and expected in another order, they find each other when the graph runs.
    group = _keys(graph, of_send, graph.npu, graph.peer)
    number = np.zeros(len(of_send), np.int64)
    number[1:] = np.cumsum((np.diff(group, axis=1) != 0).any(axis=0))
    one, other = (values[np.lexsort((values, number))] for values in (sent, expected))
    differs = np.zeros(int(number[-1]) + 1, np.bool_)
    differs[number[one != other]] = True
    graph.size[of_receive] = np.where(differs[number], sent, expected)


def _keys(graph: TaskGraph, tasks: IntArray, source: NDArray[np.int32], target: NDArray[np.int32]) -> IntArray:
    """Source, target and tag of messages, int64[3, n]."""
    return np.stack([source[tasks], target[tasks], graph.match[tasks]]).astype(np.int64)


def _pairs(graph: TaskGraph, sends: IntArray, receives: IntArray) -> tuple[IntArray, IntArray]:
    """The sends and receives that are the k-th of the same source, target and tag, sorted by these."""
    keys = np.concatenate(
        [_keys(graph, sends, graph.npu, graph.peer), _keys(graph, receives, graph.peer, graph.npu)], axis=1
    )
    tasks = np.concatenate([sends, receives])
    is_send = np.arange(len(tasks)) < len(sends)
    if not len(tasks):
        return tasks, tasks
    order = np.lexsort(keys)
    new = np.ones(len(order), np.bool_)
    new[1:] = (np.diff(keys[:, order], axis=1) != 0).any(axis=0)
    group = np.cumsum(new) - 1
    out: list[IntArray] = []
    turns = []
    for which in (is_send[order], ~is_send[order]):
        of = group[which]  # lexsort is stable: in the order of tasks
        count = np.bincount(of, minlength=int(group[-1]) + 1)
        turns.append(np.stack([of, np.arange(len(of)) - (np.cumsum(count) - count)[of]]))
        out.append(tasks[order][which])
    width = len(tasks)
    one, other = (turn[0] * width + turn[1] for turn in turns)
    return out[0][np.isin(one, other)], out[1][np.isin(other, one)]


def _take_any(graph: TaskGraph, sends: IntArray, receives: IntArray, file: str) -> None:
    """Give each receive that takes any the first send that is left and fits, or another one if some would get none."""
    assert graph.node is not None
    order = np.lexsort((graph.npu[sends], graph.node[sends]))
    fitting: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for send in sends[order].tolist():
        source, target, tag = int(graph.npu[send]), int(graph.peer[send]), int(graph.match[send])
        for key in ((target, source, ANY), (target, -1, tag), (target, -1, ANY)):
            fitting[key].append(send)
    wanted = {
        receive: (int(graph.npu[receive]), int(graph.peer[receive]), int(graph.match[receive]))
        for receive in receives.tolist()
    }
    given = _first_left(wanted, fitting)
    if missing := [receive for receive in wanted if receive not in given]:
        npus = {wanted[receive][0] for receive in missing}
        given |= _most(wanted, fitting, npus)
        if missing := [receive for receive in wanted if receive not in given]:
            _, source, tag = wanted[missing[0]]
            of = "any rank" if source < 0 else f"rank {source}"
            what = "any tag" if tag == ANY else f"tag {tag}"
            problem = f"{graph.label(missing[0])}: receives from {of} with {what}, but no send is left"
            raise InputError(problem, file=file, allowed="one send for each receive")
    for receive, send in given.items():
        graph.peer[receive], graph.match[receive] = graph.npu[send], graph.match[send]


def _first_left(wanted: _Wanted, fitting: Mapping[tuple[int, int, int], list[int]]) -> dict[int, int]:
    """Return the send of each receive: the first one that is left."""
    left = {key: deque(sends) for key, sends in fitting.items()}
    used: set[int] = set()
    given = {}
    for receive, key in wanted.items():
        queue = left.get(key, deque())
        while queue and queue[0] in used:
            queue.popleft()
        if queue:
            given[receive] = queue.popleft()
            used.add(given[receive])
    return given


def _most(wanted: _Wanted, fitting: Mapping[tuple[int, int, int], list[int]], npus: set[int]) -> dict[int, int]:
    """Return the sends of as many receives of these NPUs as can have one (Hopcroft and Karp 1973)."""
    import networkx as nx

    pairs: Any = nx.Graph()
    receives = [receive for receive, key in wanted.items() if key[0] in npus]
    for receive in receives:  # as -1 - receive: numbers, so that their order is the same in every process
        pairs.add_edges_from((-1 - receive, send) for send in fitting.get(wanted[receive], ()))
    matched = nx.bipartite.hopcroft_karp_matching(pairs, [node for node in pairs if node < 0])
    return {receive: matched[-1 - receive] for receive in receives if -1 - receive in matched}
