"""Chakra execution traces as a graph of tasks: one file per NPU, one task per node (docs/workload.md).

Files are read node by node; only what the tasks need is kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil, prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim import chakra
from pyxsim.arrays import IntArray
from pyxsim.chakra import CommType, Metadata, NodeType, Rows
from pyxsim.chakra.groups import ALL, process_groups, wrong_members
from pyxsim.errors import InputError
from pyxsim.models import Roofline
from pyxsim.rank_files import find
from pyxsim.settings.algorithms import data_algorithm
from pyxsim.workload.graph import Access, Call, GraphBuilder, Kind, Part, TaskGraph, beyond_64_bits, check
from pyxsim.workload.trace_head import Head, read_head
from pyxsim.workload.trace_nodes import MOST, USED, Nodes, Place, refuse_instant, refuse_skipped

_PYXSIM_ATTRIBUTES = frozenset({"layer", "part", "resource"})  # attributes of pyxsim, unknown to Chakra
_PARTS, _COMM_TYPES = frozenset(Part), frozenset(CommType)
_DEFAULTS = {"kind": 0, "ticks": 0, "size": 0, "peer": -1, "match": 0, "call": -1, "layer": -1, "part": int(Part.NONE)}
ASSUMED_DIMS = 4  # dimensions of a collective without involved_dim in ASTRA-sim 2
_NS_PER_S, _PS_PER_S, _PS_PER_US = 10**9, 10**12, 10**6
# Accesses of memory nodes: plain ones, and those carried out by the switches of the memory.
_ACCESSES = {
    NodeType.MEM_LOAD: (Access.LOAD, Access.GATHER),
    NodeType.MEM_STORE: (Access.STORE, Access.REDUCE),
}
_COLLECTIVES = {
    CommType.ALL_REDUCE: "all-reduce",
    CommType.REDUCE: "reduce",
    CommType.ALL_GATHER: "all-gather",
    CommType.GATHER: "gather",
    CommType.SCATTER: "scatter",
    CommType.BROADCAST: "broadcast",
    CommType.ALL_TO_ALL: "all-to-all",
    CommType.REDUCE_SCATTER: "reduce-scatter",
    CommType.REDUCE_SCATTER_BLOCK: "reduce-scatter",
    CommType.BARRIER: "barrier",
}
# Resources of nodes during replay.
_RECORDED: dict[int, str | None] = {
    NodeType.COMP: "compute",
    NodeType.MEM_LOAD: "communication",
    NodeType.MEM_STORE: "communication",
    NodeType.COMM_SEND: "communication",
    NodeType.COMM_RECV: None,
    NodeType.COMM_COLL: "communication",
}
# The attribute that names the root.
_ROOTS = {"broadcast": "comm_src", "scatter": "comm_src", "reduce": "comm_dst", "gather": "comm_dst"}


@dataclass(frozen=True)
class Rules:
    """How nodes become tasks.

    Attributes
    ----------
    clock
        Cycles per second.
    roofline
        Times computation; None for the recorded durations.
    groups
        NPUs by name of their group (chakra.groups reads them).
    exact
        False for the times of ASTRA-sim 2: whole nanoseconds, and 1 for a duration of 0.
    comm_scale, compute_scale
        Factors for all bytes communicated, and for all compute times.
    replay
        Each node takes its recorded duration and does nothing else.
    algorithms
        Of collectives, by node number; they override those of the node.
    need_dims
        Kinds of collectives that must name their dimensions.
    keep_operations
        Computations keep their `num_ops`, also those that take their recorded durations.
    """

    clock: Fraction
    roofline: Roofline | None = None
    groups: Mapping[str, tuple[int, ...]] | None = None
    exact: bool = True
    comm_scale: Fraction = Fraction(1)
    compute_scale: Fraction = Fraction(1)
    replay: bool = False
    algorithms: Mapping[int, str] = field(default_factory=dict)
    need_dims: frozenset[str] = frozenset()
    keep_operations: bool = False

    def operations(self, roofline: Roofline, operations: int, size: int) -> Fraction:
        """Return the seconds of a computation on `size` bytes, in ASTRA-sim 2's floating point unless `exact`."""
        if self.exact:
            return roofline.seconds(operations, size)
        intensity = float(operations) / float(size)
        reached = min(float(roofline.bandwidth) * intensity, float(roofline.peak))
        return Fraction(int(operations / reached * 1e9), _NS_PER_S)

    def cycles(self, seconds: Fraction) -> int:
        """Return the duration of a computation in whole cycles, rounded up."""
        seconds *= self.compute_scale
        if not self.exact:
            seconds = Fraction(int(seconds * _NS_PER_S), _NS_PER_S)
        return ceil(seconds * self.clock)


def read_traces(name: str | Path, shape: Sequence[int], rules: Rules) -> TaskGraph:
    """Return the graph of the traces of all NPUs of a network of `shape`. Raises InputError.

    `name`: PREFIX.*.et, or PREFIX (see chakra.files).
    """
    files, npus = find(str(name)), prod(shape)
    if strange := sorted(files.keys() ^ set(range(npus))):
        problem = "no trace of" if strange[0] < npus else "a trace of"
        allowed = f"one trace for each of NPUs 0 to {npus - 1}"
        raise InputError(f"there is {problem} NPU {strange[0]}", file=str(name), allowed=allowed)
    reader = _Reader(shape, rules)
    for npu, file in files.items():
        reader.read(npu, str(file))
    graph = reader.graph()
    try:
        check(graph, shape)
    except InputError as error:
        raise error.at(file=_all_of(str(name), files[0])) from None
    return graph


def read_rank(file: str, npu: int, shape: Sequence[int], rules: Rules) -> TaskGraph:
    """Return the tasks of one NPU of a network of `shape`, which lack those of other NPUs. Raises InputError."""
    reader = _Reader(shape, rules)
    reader.read(npu, file)
    return reader.graph()


def _all_of(name: str, first: Path) -> str:
    """The name of all files together: PREFIX.*.et."""
    prefix = str(Path(name))
    end = str(first).removeprefix(f"{prefix}.0")
    return prefix if "*" in prefix or prefix == str(first) else f"{prefix}.*{end}"


def _alone(rules: Rules) -> tuple[NodeType, ...]:
    """The types of nodes whose tasks depend on their numbers."""
    return (NodeType.COMM_COLL,) if rules.algorithms or rules.need_dims else ()


class _Reader:
    """Reads the traces of one NPU after the other."""

    def __init__(self, shape: Sequence[int], rules: Rules) -> None:
        self.shape = tuple(shape)
        self.npus = prod(shape)
        self.rules = rules
        self.head: Head | None = None
        self.builder = GraphBuilder(self.npus)
        self.nodes: list[NDArray[np.uint64]] = []  # numbers, of the tasks of each NPU
        # By (group, position in its order) or by the number that nodes give: number of the call, the call, its first
        # node.
        self.calls: dict[tuple[Any, int], tuple[int, Call, str]] = {}
        self._known: dict[int, int] = {}  # cycles by duration
        self.groups: dict[str, tuple[int, ...]] = {}  # of the NPU whose trace is read
        self.members: dict[tuple[int, ...], tuple[int, ...]] = {}  # equal lists share one object

    def read(self, npu: int, file: str) -> None:
        """Add the trace of an NPU."""
        metadata, rows = chakra.read_rows(file, USED, _alone(self.rules))
        self.begin(file, metadata)
        self.add(npu, file, rows)

    def begin(self, file: str, metadata: Metadata) -> None:
        """Take the metadata of a file, which is the same in all files."""
        head = read_head(metadata, file)
        if self.head is None:
            self.head = head
            self.builder = GraphBuilder(self.npus, head.resources, layers=head.layers)
        elif head != self.head:
            raise InputError(
                "the metadata has other layers, resources or dimensions than that of the first file", file=file
            )

    def graph(self) -> TaskGraph:
        """Return the graph; collectives with a number of their own are in the order of these."""
        graph = self.builder.graph()
        graph.node = np.concatenate([np.zeros(0, np.uint64), *self.nodes])
        numbered = {call: number for (group, number), (call, _, _) in self.calls.items() if group is None}
        if numbered:
            order = sorted(range(len(graph.calls)), key=lambda call: (numbered.get(call, len(numbered) + MOST), call))
            graph.calls = [graph.calls[call] for call in order]
            places = np.argsort(np.array([*order, len(order)]))  # the last one means none
            graph.call = np.where(graph.call < 0, -1, places[graph.call]).astype(graph.call.dtype)
        return graph

    def add(self, npu: int, file: str, rows: Rows) -> None:
        """Add the nodes of one NPU as tasks in the order of their numbers."""
        self.groups = dict(self.rules.groups or {})
        places, classes = [], []
        for node in rows.firsts:
            places.append(place := Place(npu, file, node))
            if node.type == NodeType.METADATA and node.inputs is not None:
                self.groups |= self._process_groups(place, node.inputs.values)
            classes.append(self._task(place))
        nodes = Nodes(rows, places)
        nodes.refuse_twins()
        if not self.rules.exact:
            refuse_skipped(nodes, classes)
            refuse_instant(nodes, classes)
        waits = nodes.waits()
        which = nodes.which
        tasks = {column: _column(classes, column, default)[which] for column, default in _DEFAULTS.items()}
        turns: defaultdict[Any, int] = defaultdict(int)
        calls: dict[int, Call] = {}
        collectives = np.flatnonzero(tasks["kind"] == Kind.COLLECTIVE)
        numbers = []
        for turn, of_class in zip(collectives.tolist(), which[collectives].tolist(), strict=True):
            task, call = classes[of_class], calls.get(of_class)
            if call is None:
                members, call = self._members(nodes.place(turn), task["group"]), task["collective"]
                if members is not None:
                    # As in ASTRA-sim 2, such a group is one ring, whatever its involved_dim.
                    call = replace(call, members=members, dims=None)
                calls[of_class] = call
            said, group = task["said"], (task["group"], id(call.members))
            key: tuple[Any, int] = (None, said)
            if said is None:
                key = group, turns[group]
                turns[group] += 1
            numbers.append(self._call(nodes, turn, key, call, task["named"]))
        tasks["call"][collectives] = numbers
        resources = np.array([self.builder.resource(task.get("resource")) for task in classes], np.int64)
        self.builder.rows(
            npu,
            tasks | {"resource": resources[which], "name": nodes.name},
            rows.names,
            (nodes.many, waits + len(self.builder)),
        )
        self.nodes.append(nodes.number)

    def _task(self, place: Place) -> dict[str, Any]:
        """The task of a node, as arguments of GraphBuilder.task."""
        task = self._of_type(place)
        if not _PYXSIM_ATTRIBUTES.isdisjoint(place.attributes):
            self._apply_attributes(place, task)
        return task

    def _apply_attributes(self, place: Place, task: dict[str, Any]) -> None:
        """Apply pyxsim's own attributes of a node to its task."""
        layer, part = place.whole("layer", -1), place.whole("part", Part.NONE)
        if part not in _PARTS:
            place.refuse(f"has part {part}", allowed=f"0 to {max(Part)}")
        if layer >= len(self.builder.layers) > 0:
            place.refuse(f"has layer {layer}", allowed=f"0 to {len(self.builder.layers) - 1}, which have names")
        resource = place.text("resource", task.get("resource") or "")
        names = [name for name, _ in self.builder.resources]
        if resource and resource not in names:
            place.refuse(f"has the resource '{resource}'", allowed=names, given=resource)
        task |= {"layer": layer, "part": part, "resource": resource or None}

    def _of_type(self, place: Place) -> dict[str, Any]:
        """The task of a node by its type."""
        node = place.node
        if self.rules.replay and node.type in _RECORDED:
            return self._recorded(place)
        if node.type in (NodeType.INVALID, NodeType.METADATA):
            # Only pyxsim writes delays: durations of these nodes in other traces do not count.
            exact = place.attributes.get("duration_ps") is not None
            return {"kind": Kind.MARK, "ticks": self._plain_ticks(place) if exact else 0}
        if node.type == NodeType.COMP:
            return self._compute(place)
        if node.type in _ACCESSES:
            return self._memory(place)
        if node.type not in (NodeType.COMM_SEND, NodeType.COMM_RECV, NodeType.COMM_COLL):
            what = node.type.name if isinstance(node.type, NodeType) else f"number {node.type}"
            place.refuse(f"is of type {what}, which is not supported")
        if place.flag("is_cpu_op"):
            place.refuse("is a communication node, but sets is_cpu_op")
        if node.type == NodeType.COMM_COLL:
            return self._collective(place)
        return self._message(place)

    def _recorded(self, place: Place) -> dict[str, Any]:
        """A node that only takes its recorded duration."""
        on_cpu, of_type = place.flag("is_cpu_op"), _RECORDED[place.node.type]
        return {"kind": Kind.COMPUTE, "ticks": self._ticks(place), "resource": "cpu" if on_cpu else of_type}

    def _ticks(self, place: Place) -> int:
        """The duration of a node in cycles."""
        recorded = place.picoseconds()
        ticks = self._known.get(recorded)
        if ticks is None:
            least = 0 if self.rules.exact else _PS_PER_S // _NS_PER_S
            ticks = self.rules.cycles(Fraction(recorded or least, _PS_PER_S))
            self._known[recorded] = place.countable(ticks)
        return ticks

    def _plain_ticks(self, place: Place) -> int:
        """The duration of a node that does not compute, in cycles."""
        return place.countable(ceil(Fraction(place.picoseconds(), _PS_PER_S) * self.rules.clock))

    def _scaled(self, size: int) -> int:
        """Communicated bytes times their scale."""
        scale = self.rules.comm_scale
        return size if scale == 1 else int(size * scale)

    def _compute(self, place: Place) -> dict[str, Any]:
        rules = self.rules
        on_cpu, size = place.flag("is_cpu_op"), place.whole("tensor_size", 0)
        # Only pyxsim writes picoseconds: they are exact and need no roofline.
        exact = place.attributes.get("duration_ps") is not None and place.attributes.get("num_ops") is None
        if rules.roofline is None or on_cpu or exact:
            ticks = self._ticks(place)
        elif not size:
            if not rules.exact:
                place.whole("tensor_size")
            return {"kind": Kind.MARK}
        else:
            operations = place.whole("num_ops", 0 if rules.exact else None)
            if not operations and not rules.exact:
                place.refuse(
                    "has num_ops 0: with roofline-enabled, ASTRA-sim 2 divides 0 by 0 and never ends",
                    allowed="1 or more, or tensor_size 0",
                )
            ticks = place.countable(rules.cycles(rules.operations(rules.roofline, operations, size)))
            return {"kind": Kind.COMPUTE, "ticks": ticks, "size": size, "match": operations, "resource": "compute"}
        task = {"kind": Kind.COMPUTE, "ticks": ticks, "size": size, "resource": "cpu" if on_cpu else "compute"}
        return task | {"match": place.whole("num_ops", 0)} if rules.keep_operations else task

    def _memory(self, place: Place) -> dict[str, Any]:
        """Remote memory times an access with bytes; without bytes the node has a duration."""
        access = _ACCESSES[NodeType(place.node.type)][place.flag("in_switch")]
        task = {"kind": Kind.MEMORY, "match": access, "resource": "communication"}
        if size := place.whole("tensor_size", 0):
            return task | {"size": size}
        return task | {"ticks": self._plain_ticks(place)}

    def _message(self, place: Place) -> dict[str, Any]:
        sends = place.node.type == NodeType.COMM_SEND
        sender_key, other = ("comm_src", "comm_dst") if sends else ("comm_dst", "comm_src")
        if (me := place.whole(sender_key, place.npu)) != place.npu:
            place.refuse(f"has {sender_key} {me}, but is in the trace of NPU {place.npu}")
        peer = place.whole(other)
        if peer >= self.npus or peer == place.npu:
            place.refuse(f"has {other} {peer}", allowed=f"another NPU of 0 to {self.npus - 1}")
        size, tag = self._scaled(place.whole("comm_size")), place.whole("comm_tag", 0)
        if not size:
            place.refuse("sends or receives 0 bytes", allowed="1 or more")
        kind = Kind.SEND if sends else Kind.RECEIVE
        # Any number of receives may wait at a time, as in ASTRA-sim 2.
        return {
            "kind": kind,
            "size": size,
            "peer": peer,
            "match": tag,
            "resource": "communication" if sends else None,
        }

    def _collective(self, place: Place) -> dict[str, Any]:
        number = place.whole("comm_type")
        if number not in _COMM_TYPES:
            place.refuse(f"has comm_type {number}", allowed=f"0 to {max(CommType)}")
        kind = _COLLECTIVES[CommType(number)]
        size = self._scaled(place.whole("comm_size", 0 if kind == "barrier" else None))
        if not size and kind != "barrier":
            place.refuse(f"is a collective ({kind}) of 0 bytes", allowed="1 or more")
        group = place.text("pg_name", "")
        if kind == "broadcast" and not self.rules.exact:
            # A pause in ASTRA-sim 2, whatever its size.
            self._members(place, group)
            return {"kind": Kind.MARK, "ticks": self._ticks(place), "resource": "communication"}
        dims = self._dims(place, kind) if group in ALL else None
        root = place.whole(_ROOTS[kind], -1) if kind in _ROOTS else -1
        if root >= 0 and dims is not None:
            place.refuse(f"has {_ROOTS[kind]} and involved_dim", allowed="a group; or 'root', a position in each group")
        if dims is not None and kind in _ROOTS:
            root = place.whole("root", -1)
        algorithms = place.attributes.get("algorithms")
        if algorithms is not None and not (
            isinstance(algorithms, list) and all(isinstance(algorithm, str) for algorithm in algorithms)
        ):
            place.refuse("has algorithms that are not a list of names")
        for name in algorithms or ():
            try:
                data_algorithm(name)
            except InputError as error:
                place.refuse(f"has algorithms: {error.problem}", error.allowed)
        if place.node.id in self.rules.algorithms:
            algorithms = [self.rules.algorithms[place.node.id]]
        has_priority = place.attributes.get("comm_priority") is not None
        priority = place.whole("comm_priority", least=-MOST) if has_priority else None
        call = Call(
            kind,
            size,
            None,
            dims,
            None if algorithms is None else tuple(algorithms),
            priority=priority,
            name=place.text("collective_name", place.node.name or kind),
            root=None if root < 0 else root,
        )
        said = None if place.attributes.get("collective") is None else place.whole("collective")
        return {
            "kind": Kind.COLLECTIVE,
            "collective": call,
            "group": group,
            "said": said,
            "named": "collective_name" in place.attributes,
            "resource": "communication",
        }

    def _members(self, place: Place, name: str) -> tuple[int, ...] | None:
        """The members of the group of a collective; None for all NPUs."""
        if name in ALL:
            return None
        if name not in self.groups:
            place.refuse(
                f"has the unknown pg_name '{name}'",
                allowed=[*self.groups] or "no group, because [workload] groups names no file of groups",
                given=name,
            )
        members = self.groups[name]
        if place.npu not in members:
            place.refuse(f"has the group '{name}', which does not contain NPU {place.npu}")
        return self.members.setdefault(members, members)

    def _process_groups(self, place: Place, values: str) -> dict[str, tuple[int, ...]]:
        """The groups that a metadata node defines."""
        groups = process_groups(values)
        for name, ranks in groups.items():
            if ranks != [] and (fault := wrong_members(ranks, self.npus)) is not None:
                place.refuse(f"has the process group '{name}', which {fault.problem}", allowed=fault.allowed)
        return {name: tuple(ranks) or tuple(range(self.npus)) for name, ranks in groups.items()}

    def _dims(self, place: Place, kind: str) -> tuple[int, ...] | None:
        """The dimensions of a collective; None for all."""
        flags = place.attributes.get("involved_dim")
        if flags is None:
            if kind in self.rules.need_dims and place.node.id not in self.rules.algorithms:
                place.refuse(
                    f"has no involved_dim: ASTRA-sim 2 then assumes {ASSUMED_DIMS} dimensions and reads undefined "
                    "memory for the others, which do not participate or make some NPUs never end",
                    allowed=f"involved_dim, a list of {len(self.shape)} booleans",
                )
            return None
        if not isinstance(flags, list) or not all(isinstance(flag, bool) for flag in flags):
            place.refuse("has an involved_dim that is not a list of booleans")
        if len(flags) < len(self.shape):
            dimensions = len(self.shape)
            place.refuse(f"has involved_dim for {len(flags)} dimensions", allowed=f"{dimensions}, those of the network")
        dims = tuple(dim for dim in range(len(self.shape)) if flags[dim])
        if not dims:
            place.refuse("has an involved_dim without any dimension")
        return None if len(dims) == len(self.shape) else dims

    def _call(self, nodes: Nodes, row: int, key: tuple[Any, int], call: Call, named: bool) -> int:
        """The number of a collective: the k-th of a group is the same on all NPUs, or those with the same given
        number. `named`: whether its name is not that of its node."""
        known = self.calls.get(key)
        if known is None:
            place = nodes.place(row)
            number = self.builder.call(call if named else replace(call, name=place.node.name or call.kind))
            self.calls[key] = (number, call, place.label)
            return number
        number, other, who = known
        if call is other:
            return number
        for what in _ALIKE:
            here, there = getattr(call, what), getattr(other, what)
            if here != there:
                of_whom = "" if key[0] is None else " of its group"
                problem = f"is collective {key[1]}{of_whom}, with {what} {_shown_value(here)}"
                nodes.place(row).refuse(f"{problem}; with {who} it has {what} {_shown_value(there)}")
        return number


_ALIKE = ("kind", "size", "members", "dims", "root", "priority", "algorithms")  # what NPUs must agree on


def _shown_value(value: object) -> str:
    return "none" if value is None else str(value)


def _column(classes: Sequence[Mapping[str, Any]], column: str, default: int) -> IntArray:
    """A column of the tasks of classes. Raises InputError for a number that is too large."""
    try:
        return np.array([task.get(column, default) for task in classes], np.int64)
    except OverflowError:
        raise beyond_64_bits() from None
