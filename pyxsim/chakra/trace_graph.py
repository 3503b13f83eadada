"""The graph of a trace as arrays: one row per node, in the order of the file.

It keeps a few hundred bytes per node of a large trace, whatever the number of attributes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from pyxsim.chakra.groups import ALL, process_groups, wrong_members
from pyxsim.chakra.messages import CommType, Node, NodeType
from pyxsim.chakra.order import levels
from pyxsim.chakra.trace import read
from pyxsim.errors import InputError, InputErrors

I64 = npt.NDArray[np.int64]
LONGEST = 1 << 40  # microseconds: 12 days
MOST_ADDED = 1 << 62  # limit of a sum in int64
LARGEST = 1 << 53  # bytes, ranks, tags: whole numbers that are exact in doubles
MANY_FAULTS = 1000  # per file: a small compressed file can hold 10^9 empty nodes
COLUMNS = 7  # of a Graph: type to group
NONE = -1  # no peer, kind of collective or size
COMMUNICATING = (NodeType.COMM_SEND, NodeType.COMM_RECV, NodeType.COMM_COLL)
RUNNING = tuple(NodeType)[: NodeType.COMM_COLL + 1]  # simulated types; STORAGE and others are only counted


@dataclass(eq=False)
class Graph:
    """The nodes of a trace. `before[ptr[r]:ptr[r + 1]]`: the rows that row r depends on, without missing ones.

    Attributes
    ----------
    nanos
        Duration.
    size
        Bytes sent, received, loaded or stored.
    tag
        Tag of a message; number of a collective, where nodes have one.
    comm
        Kind of the collective.
    group
        Index of its group in `groups`.
    faults
        Faults of nodes, in the order of the file.
    own_groups
        Ranks of the groups that its metadata defines; empty for all ranks.
    """

    file: str
    rank: int
    version: str
    ids: list[int]
    names: list[str]
    type: I64
    nanos: I64
    size: I64
    peer: I64
    tag: I64
    comm: I64
    group: I64
    groups: list[str]
    ptr: I64
    before: I64
    faults: list[InputError] = field(default_factory=list)
    own_groups: dict[str, list[int]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def levels(self) -> tuple[I64, I64]:
        """Return the level of each row, -1 in a circular wait, and its end (ns) if each node takes only its duration.

        The ends are in microseconds times 1000 where a sum of nanoseconds would overflow.
        """
        fits = self.nanos.sum(dtype=np.float64) < MOST_ADDED
        level, end = levels(self.ptr, self.before, self.nanos if fits else self.nanos // 1000)
        return level, end if fits else np.minimum(end, MOST_ADDED // 1000) * 1000

    def label(self, row: int) -> str:
        """Return the text that names a node in messages."""
        return label(self.ids[row], self.names[row])

    def fault(self, row: int, problem: str, allowed: str | None = None) -> InputError:
        """Return a fault of a node."""
        return InputError(f"{self.label(row)} {problem}", file=self.file, allowed=allowed)


def label(number: int, name: str) -> str:
    """Return the text that names a node in messages."""
    return f"node {number}{f' ({name})' if name else ''}"


def load(path: str | PathLike[str], rank: int = 0) -> Graph:
    """Return the graph of the trace of a rank, with its faults.

    Raises InputError if it cannot be read, or has too many faults.
    """
    return _Loader(str(path), rank).graph()


class _Loader:
    """Collects nodes one by one. Node numbers become rows at the end, because a node may depend on a later one."""

    def __init__(self, file: str, rank: int) -> None:
        self.file = file
        self.rank = rank
        self.ids: list[int] = []
        self.names: list[str] = []
        self.rows: dict[int, int] = {}
        self.columns = array("q")
        self.deps = array("Q")
        self.counts = array("q")
        self.groups: dict[str, int] = {}
        self.kept: dict[str, str] = {}  # equal names share one string
        self.faults: list[InputError] = []
        self.alike: dict[str, tuple[InputError, int]] = {}
        self.own_groups: dict[str, list[int]] = {}

    def graph(self) -> Graph:
        trace = read(self.file)
        for node in trace.nodes:
            self._add(node)
        rows = self.rows
        before = array("q")
        ptr = np.zeros(len(self.ids) + 1, dtype=np.int64)
        at = 0
        for row, count in enumerate(self.counts):
            for number in self.deps[at : at + count]:
                if number in rows:
                    before.append(rows[number])
                else:
                    problem = f"depends on node {number}, which does not exist"
                    self.fault_alike("dependency", self.ids[row], self.names[row], problem)
            at += count
            ptr[row + 1] = len(before)
        for first, more in self.alike.values():
            problem = f"{first.problem}; and {more} more of this kind" if more else first.problem
            self.faults.append(InputError(problem, file=self.file, allowed=first.allowed))
        kind, nanos, *others = np.frombuffer(self.columns, dtype=np.int64).reshape(-1, COLUMNS).T.copy()
        size, peer, tag, comm, group = others
        return Graph(
            self.file,
            self.rank,
            trace.metadata.version,
            self.ids,
            self.names,
            kind,
            nanos,
            size,
            peer,
            tag,
            comm,
            group,
            list(self.groups),
            ptr,
            np.array(before, dtype=np.int64),
            self.faults,
            self.own_groups,
        )

    def _fault(self, number: int, name: str, problem: str, allowed: Any = None, given: str | None = None) -> None:
        self.faults.append(InputError(f"{label(number, name)} {problem}", file=self.file, allowed=allowed, given=given))
        if len(self.faults) == MANY_FAULTS:
            last = InputError(f"has {MANY_FAULTS} faults already; the rest is not read", file=self.file)
            raise InputErrors([*self.faults, last])

    def fault_alike(self, kind: str, number: int, name: str, problem: str, allowed: str | None = None) -> None:
        """A fault that real traces have at many nodes: reported once, with their number."""
        if kind in self.alike:
            first, more = self.alike[kind]
            self.alike[kind] = first, more + 1
        else:
            self.alike[kind] = InputError(f"{label(number, name)} {problem}", file=self.file, allowed=allowed), 0

    def _add(self, node: Node) -> None:
        name = self.kept.setdefault(node.name, node.name)
        if node.id in self.rows:
            first = label(node.id, self.names[self.rows[node.id]])
            self._fault(node.id, name, f"has the same number as {first}", "each number once")
        self.rows.setdefault(node.id, len(self.ids))
        self.ids.append(node.id)
        self.names.append(name)
        deps = dict.fromkeys((*node.ctrl_deps, *node.data_deps)) if node.ctrl_deps else dict.fromkeys(node.data_deps)
        self.deps.extend(deps)
        self.counts.append(len(deps))
        self.columns.extend(self._columns(node))

    def _columns(self, node: Node) -> tuple[int, ...]:
        attributes_by_name = {attribute.name: attribute.value for attribute in node.attr}
        nanos = self._nanos(node, attributes_by_name)
        if node.type == NodeType.METADATA and node.inputs is not None:
            self._add_groups(node)
        reader = _READERS.get(node.type)
        if reader is None:
            if node.type not in RUNNING:
                kinds = [name.name for name in RUNNING]
                self._fault(node.id, node.name, f"is of type {type_name(node.type)}, which is not simulated", kinds)
            # Arrays hold one value for all unknown types.
            return min(node.type, LARGEST), nanos, NONE, NONE, 0, NONE, NONE
        attributes = _NodeAttributes(self, node, attributes_by_name)
        if node.type in COMMUNICATING and _flag(attributes):
            problem = "is a communication node, but sets is_cpu_op"
            allowed = "nodes of the accelerator, or a trace that is replayed"
            self.fault_alike("CPU", node.id, node.name, problem, allowed)
            if "comm_type" not in attributes_by_name and node.type == NodeType.COMM_COLL:
                # The host's call of a collective, which has a node of its own.
                return node.type, nanos, NONE, NONE, 0, NONE, NONE
        values = reader(attributes)
        return node.type, nanos, *values

    def _nanos(self, node: Node, attributes: dict[str, Any]) -> int:
        """The duration of a node in ns, rounded up; exact if given in picoseconds."""
        micros, exact = node.duration_micros, attributes.get("duration_ps")
        if micros > LONGEST:
            self._fault(node.id, node.name, f"takes {micros} us", f"at most {LONGEST}")
            micros = 0
        if exact is None:
            return micros * 1000
        most = LONGEST * 10**6
        if not isinstance(exact, int) or isinstance(exact, bool) or not 0 <= exact <= most:
            self._fault(node.id, node.name, f"has duration_ps {short(exact)}", f"a whole number from 0 to {most}")
            return 0
        return -(-exact // 1000)

    def _add_groups(self, node: Node) -> None:
        """Add the groups that a metadata node defines."""
        for name, ranks in process_groups(node.inputs.values if node.inputs is not None else "").items():
            fault = wrong_members(ranks, None) if ranks != [] else None
            if fault is None:
                self.own_groups[name] = ranks
            else:
                self._fault(node.id, node.name, f"has the process group {name!r}, which {fault.problem}", fault.allowed)

    def group(self, name: str) -> int:
        return self.groups.setdefault(name, len(self.groups))


def type_name(number: int) -> str:
    """COMP, or the number of an unknown type."""
    return NodeType(number).name if number in NodeType._value2member_map_ else str(number)


class _NodeAttributes:
    """The attributes of a node, checked when they are read."""

    def __init__(self, loader: _Loader, node: Node, given: dict[str, Any]) -> None:
        self.loader, self.node, self.given = loader, node, given

    def fault(self, problem: str, allowed: Any = None, given: str | None = None) -> None:
        self.loader._fault(self.node.id, self.node.name, problem, allowed, given)

    def whole(self, name: str, default: int | None = None, least: int = 0) -> int:
        """Return a whole number; without `default` it is required."""
        value = self.given.get(name, default)
        if value is None:
            self.fault(f"has no {name}", f"a {type_name(self.node.type)} node has one")
        elif not isinstance(value, int) or isinstance(value, bool) or not least <= value <= LARGEST:
            self.fault(f"has {name} {short(value)}", f"a whole number from {least} to {LARGEST}")
        else:
            return value
        return NONE

    def number(self, name: str) -> None:
        """Return a number from 0, or the default."""
        value = self.given.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            self.fault(f"has {name} {short(value)}", "a number from 0")


def short(value: Any) -> str:
    """A value in a message, shortened."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]} ..."


def _compute(attributes: _NodeAttributes) -> tuple[int, ...]:
    for name in ("num_ops", "tensor_size"):
        attributes.number(name)
    _flag(attributes)
    return NONE, NONE, 0, NONE, NONE


def _memory(attributes: _NodeAttributes) -> tuple[int, ...]:
    return attributes.whole("tensor_size", 0), NONE, 0, NONE, NONE


def _message(own: str, other: str) -> Callable[[_NodeAttributes], tuple[int, ...]]:
    def read_message(attributes: _NodeAttributes) -> tuple[int, ...]:
        me = attributes.loader.rank
        if (there := attributes.whole(own, me)) not in (me, NONE):
            attributes.fault(f"has {own} {there}, but is in the trace of rank {me}", str(me))
        return (
            attributes.whole("comm_size", least=1),
            attributes.whole(other),
            attributes.whole("comm_tag", 0),
            NONE,
            NONE,
        )

    return read_message


def _collective(attributes: _NodeAttributes) -> tuple[int, ...]:
    comm = attributes.whole("comm_type")
    if comm != NONE and comm not in CommType._value2member_map_:
        attributes.fault(f"has comm_type {comm}", [f"{kind.value} ({kind.name})" for kind in CommType])
        comm = NONE
    size = attributes.whole("comm_size", 0) if comm == CommType.BARRIER else attributes.whole("comm_size", least=1)
    name = attributes.given.get("pg_name", "")
    if not isinstance(name, str):
        attributes.fault(f"has the unknown pg_name {short(name)}", "a string")
        name = ""
    involved = attributes.given.get("involved_dim", [True])
    if not (isinstance(involved, list) and all(isinstance(member, bool) for member in involved) and any(involved)):
        attributes.fault(f"has involved_dim {short(involved)}", "a list of booleans, at least one of them true")
    attributes.whole("comm_priority", 0, -LARGEST)
    size_key = attributes.whole("collective", NONE, NONE)
    return size, NONE, size_key, comm, attributes.loader.group("" if name in ALL else name)


def _flag(attributes: _NodeAttributes) -> bool:
    value = attributes.given.get("is_cpu_op", False)
    if not isinstance(value, bool | int) or value not in (0, 1):
        attributes.fault(f"has is_cpu_op {short(value)}", "true or false")
        return False
    return bool(value)


_READERS: dict[int, Callable[[_NodeAttributes], tuple[int, ...]]] = {
    NodeType.COMP: _compute,
    NodeType.MEM_LOAD: _memory,
    NodeType.MEM_STORE: _memory,
    NodeType.COMM_SEND: _message("comm_src", "comm_dst"),
    NodeType.COMM_RECV: _message("comm_dst", "comm_src"),
    NodeType.COMM_COLL: _collective,
}
