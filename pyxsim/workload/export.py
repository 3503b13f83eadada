"""Writes a graph of tasks as Chakra traces, one file per NPU; pyxsim/workload/traces.py reads the same graph back.

Chakra's own attributes are used where they exist, so that other programs can read the traces. The rest are attributes
of pyxsim, written only where they differ from the defaults of a reader; docs/workloads_chakra.md lists them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import numpy as np

from pyxsim import chakra
from pyxsim.arrays import IntArray
from pyxsim.chakra import Attribute, CommType, Metadata, Node, NodeType
from pyxsim.chakra.trace import VERSION
from pyxsim.errors import InputError
from pyxsim.paths import created
from pyxsim.rank_files import ENDS, refuse_others
from pyxsim.workload.graph import RESOURCES, Access, Call, Kind, TaskGraph, check

EVERY_NPU = "PREFIX.*.et: one trace per NPU, with its number at '*'"
_GHZ = Fraction(10**9)
_PS_PER_S, _PS_PER_US = 10**12, 10**6
_MOST = 2**62
_MOST_INT32 = 2**31 - 1
_TYPES = {
    Kind.COMPUTE: NodeType.COMP,
    Kind.SEND: NodeType.COMM_SEND,
    Kind.RECEIVE: NodeType.COMM_RECV,
    Kind.COLLECTIVE: NodeType.COMM_COLL,
    Kind.MARK: NodeType.METADATA,
}
_ACCESSES = {
    Access.LOAD: NodeType.MEM_LOAD,
    Access.GATHER: NodeType.MEM_LOAD,
    Access.STORE: NodeType.MEM_STORE,
    Access.REDUCE: NodeType.MEM_STORE,
}
# The default resources of a reader. Chakra has an attribute for the CPU.
_USUAL = {Kind.COMPUTE: ("compute", "cpu"), Kind.SEND: ("communication",), Kind.COLLECTIVE: ("communication",)}
_ROOTS = {"broadcast": "comm_src", "scatter": "comm_src", "reduce": "comm_dst", "gather": "comm_dst"}


@dataclass(frozen=True)
class Written:
    """What was written: `files`, with a star for the NPU, and the groups if there are any."""

    files: str
    traces: int
    nodes: int
    groups: Path | None


def export(graph: TaskGraph, target: str | Path, shape: Sequence[int], clock: Fraction = _GHZ) -> Written:
    """Write the traces of a graph for a network of `shape`. Raises InputError.

    `target`: PREFIX, or PREFIX.*.et (.json, .jsonl, each also with .gz). `shape`: () for a graph that names no
    dimensions, and fits any network. `clock`: cycles per second. Each file appears when it is complete; only the nodes
    that are being written are held in memory. Nothing is written if traces of other NPUs exist under these names.
    """
    check(graph, shape)
    if any(call.matrices is not None for call in graph.calls):
        problem = "a Chakra trace has one size for each collective, but some pairs exchange different amounts"
        raise InputError(problem, key="workload.experts", allowed="without this table")
    graph = apart(graph)
    pattern, prefix = star(str(target))
    refuse_others(pattern, range(graph.npus))
    writer = _Writer(graph, tuple(shape), clock)
    of_groups = Path(f"{prefix}.groups.json")
    if not writer.groups and of_groups.exists():
        problem = "has groups of other traces, and these have none"
        raise InputError(problem, file=str(of_groups), allowed="another prefix, or remove the file first")
    for npu in range(graph.npus):
        chakra.write(pattern.replace("*", str(npu)), writer.nodes(npu), writer.metadata())
    groups = None
    if writer.groups:
        groups = of_groups
        with created(str(groups)) as stream:
            stream.write((json.dumps({number: members for members, number in writer.groups.items()}) + "\n").encode())
    return Written(pattern, graph.npus, len(graph), groups)


def apart(graph: TaskGraph) -> TaskGraph:
    """Return the same graph with one call per group: each NPU knows its own group only."""
    if all(call.groups is None for call in graph.calls):
        return graph
    members = np.flatnonzero(graph.call >= 0)
    own, numbers = graph.call[members], graph.call.copy()
    order = np.argsort(own, kind="stable")
    begin = np.searchsorted(own[order], np.arange(len(graph.calls) + 1))
    calls: list[Call] = []
    place = np.zeros(graph.npus, np.int32)
    for number, call in enumerate(graph.calls):
        tasks = members[order[begin[number] : begin[number + 1]]]
        if call.groups is None:
            place[:] = len(calls)
            calls.append(call)
        for group in call.groups or ():
            place[list(group)] = len(calls)
            root = None if call.root is None else group[call.root]
            calls.append(replace(call, members=group, groups=None, root=root))
        numbers[tasks] = place[graph.npu[tasks]]
    return replace(graph, call=numbers, calls=calls)


def star(target: str) -> tuple[str, str]:
    """Return the names of the traces of a target, and its prefix. Raises InputError."""
    folder, name = Path(target).parent, Path(target).name
    if "*" not in name:
        if chakra.form(name) in ENDS:
            raise InputError("is one file, but each NPU requires a trace", file=target, allowed=EVERY_NPU)
        return f"{target}.*.et", target
    prefix, _, end = name.partition(".*")
    if "*" in prefix + end or not prefix or end.removesuffix(".gz") not in ENDS:
        raise InputError("is not a name of traces", file=target, allowed=EVERY_NPU)
    return target, str(folder / prefix)


class _Writer:
    """Writes the nodes of one NPU after the other."""

    def __init__(self, graph: TaskGraph, shape: tuple[int, ...], clock: Fraction) -> None:
        self.graph, self.shape, self.clock = graph, shape, clock
        self.groups: dict[tuple[int, ...], str] = {}
        for call in graph.calls:
            if call.members is not None:
                self.groups.setdefault(call.members, str(len(self.groups) + 1))
        self._order = np.argsort(graph.npu, kind="stable")
        self._first = np.searchsorted(graph.npu[self._order], np.arange(graph.npus + 1))
        self._number = np.empty(len(graph), np.int64)  # node of each task
        self._number[self._order] = np.arange(len(graph)) - self._first[graph.npu[self._order]]
        self._numbered = self._calls_want_numbers()
        self._call = lru_cache(maxsize=None)(self._collective)

    def metadata(self) -> Metadata:
        """Return what applies to all nodes."""
        graph = self.graph
        attributes = [Attribute("shape", "int64_list", list(self.shape))] if self.shape else []
        if graph.layers:
            attributes.append(Attribute("layers", "string_list", list(graph.layers)))
        if graph.resources != RESOURCES:
            names, rooms = zip(*graph.resources, strict=True) if graph.resources else ((), ())
            attributes.append(Attribute("resources", "string_list", list(names)))
            attributes.append(Attribute("resource_rooms", "int64_list", list(rooms)))
        return Metadata(VERSION, attributes)

    def nodes(self, npu: int) -> Iterator[Node]:
        """Yield the nodes of an NPU: its tasks in ascending order."""
        graph = self.graph
        tasks = self._order[self._first[npu] : self._first[npu + 1]]
        columns = ("kind", "ticks", "size", "peer", "match", "call", "resource", "layer", "name", "part")
        rows = zip(*(getattr(graph, column)[tasks].tolist() for column in columns), strict=True)
        for number, (task, row) in enumerate(zip(tasks.tolist(), rows, strict=True)):
            before = self._number[graph.before[graph.before_start[task] : graph.before_start[task + 1]]].tolist()
            yield self._node(npu, number, before, *row)

    def _node(
        self,
        npu: int,
        number: int,
        before: list[int],
        kind: int,
        ticks: int,
        size: int,
        peer: int,
        match: int,
        call: int,
        resource: int,
        layer: int,
        name: int,
        part: int,
    ) -> Node:
        graph = self.graph
        node = Node(number, graph.names[name], _TYPES.get(Kind(kind), 0), data_deps=before)
        if kind in (Kind.COMPUTE, Kind.MEMORY, Kind.MARK):
            self._time(node, kind, ticks)
        if kind == Kind.MEMORY:
            node.type = _ACCESSES[Access(match)]
            if match in (Access.GATHER, Access.REDUCE):
                node.attr.append(Attribute("in_switch", "bool_val", True))
        if kind == Kind.COMPUTE and match:
            node.attr.append(Attribute("num_ops", "int64_val", match))
        if kind in (Kind.COMPUTE, Kind.MEMORY) and size:
            node.attr.append(Attribute("tensor_size", "uint64_val", size))
        elif kind in (Kind.SEND, Kind.RECEIVE):
            if not 0 <= match <= _MOST:
                raise InputError(f"{node.name}: a message with tag {match}", allowed=f"0 to {_MOST}")
            ends = (npu, peer) if kind == Kind.SEND else (peer, npu)
            node.attr += [_int("comm_src", ends[0]), _int("comm_dst", ends[1])]
            node.attr += [Attribute("comm_size", "int64_val", size), _int("comm_tag", match)]
        elif kind == Kind.COLLECTIVE:
            node.attr += self._call(call)
            if node.name != graph.calls[call].name:
                node.attr.append(Attribute("collective_name", "string_val", graph.calls[call].name))
        self._resource(node, kind, resource)
        if layer >= 0:
            node.attr.append(Attribute("layer", "int64_val", layer))
        if part:
            node.attr.append(Attribute("part", "int64_val", part))
        return node

    def _time(self, node: Node, kind: int, ticks: int) -> None:
        """Set the duration: in Chakra's microseconds, and in picoseconds where these are not exact."""
        # Truncation is harmless: a picosecond is less than a cycle, and readers round up.
        exact = ticks * _PS_PER_S * self.clock.denominator // self.clock.numerator
        if exact > _MOST:
            raise InputError(f"{node.name}: takes {ticks} cycles", allowed=f"up to {_MOST} picoseconds in a trace")
        node.duration_micros = (2 * exact + _PS_PER_US) // (2 * _PS_PER_US)
        if exact and (kind != Kind.COMPUTE or exact != node.duration_micros * _PS_PER_US):
            node.attr.append(Attribute("duration_ps", "int64_val", exact))

    def _resource(self, node: Node, kind: int, number: int) -> None:
        """Set the resource."""
        if kind == Kind.MARK:
            return
        name = self.graph.resources[number][0] if number >= 0 else ""
        if kind == Kind.COMPUTE:
            node.attr.append(Attribute("is_cpu_op", "bool_val", name == "cpu"))
        if name not in _USUAL.get(Kind(kind), ("",)) or kind == Kind.MEMORY:
            node.attr.append(Attribute("resource", "string_val", name))

    def _collective(self, number: int) -> tuple[Attribute, ...]:
        """The attributes of all nodes of a collective."""
        call = self.graph.calls[number]
        kind = CommType[call.kind.upper().replace("-", "_")]
        attributes = [Attribute("comm_type", "int64_val", int(kind)), Attribute("comm_size", "int64_val", call.size)]
        if call.members is not None:
            attributes.append(Attribute("pg_name", "string_val", self.groups[call.members]))
        flags = [call.dims is None or dim in call.dims for dim in range(len(self.shape))]
        if not all(flags):
            attributes.append(Attribute("involved_dim", "bool_list", flags))
        if call.root is not None and call.kind in _ROOTS:
            # Along dimensions the root is a position in each group, not an NPU.
            attributes.append(_int(_ROOTS[call.kind] if all(flags) else "root", call.root))
        if call.priority is not None:
            attributes.append(_int("comm_priority", call.priority))
        if call.algorithms is not None:
            attributes.append(Attribute("algorithms", "string_list", list(call.algorithms)))
        if self._numbered:
            attributes.append(Attribute("collective", "int64_val", number))
        return tuple(attributes)

    def _calls_want_numbers(self) -> bool:
        """Whether nodes must give the number of their collective: where counting collectives per group and NPU, as a
        reader does, would match others or number them differently."""
        graph = self.graph
        tasks = self._order[graph.kind[self._order] == Kind.COLLECTIVE]
        group = np.array([0 if one.members is None else int(self.groups[one.members]) for one in graph.calls] + [0])
        call = graph.call[tasks].astype(np.int64)
        turn = _turns(graph.npu[tasks] * np.int64(len(self.groups) + 1) + group[call])
        place = np.full(len(graph.calls), -1)
        place[call[::-1]] = turn[::-1]
        _, first = np.unique(call, return_index=True)
        return bool((place[call] != turn).any() or (np.diff(first) < 0).any())


def _turns(key: IntArray) -> IntArray:
    """For each position of an array, how often its value occurs before it."""
    order = np.argsort(key, kind="stable")
    begin = np.flatnonzero(np.diff(key[order], prepend=-1))
    turn = np.empty(len(key), np.int64)
    turn[order] = np.arange(len(key)) - np.repeat(begin, np.diff([*begin, len(key)]))
    return turn


def _int(name: str, value: int) -> Attribute:
    """An attribute; Chakra's own reader expects int32 where the value fits."""
    return Attribute(name, "int32_val" if -_MOST_INT32 <= value <= _MOST_INT32 else "int64_val", value)
