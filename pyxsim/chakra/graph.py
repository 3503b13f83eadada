"""The graph of a trace as arrays: a row for each node, in the order of the file.

It is what remains of a large trace: some hundred bytes for each node, however many attributes it has.
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
MOST_ADDED = 1 << 62  # of an array, by numpy
LARGEST = 1 << 53  # bytes, ranks, tags: whole numbers that every tool can tell apart
MANY_FAULTS = 1000  # of a file: a small one that is compressed may have a thousand million empty nodes
COLUMNS = 7  # of a Graph: type to group
NONE = -1  # of a peer, a kind of collective, a size that a node has not
COMMUNICATING = (NodeType.COMM_SEND, NodeType.COMM_RECV, NodeType.COMM_COLL)
RUNNING = tuple(NodeType)[: NodeType.COMM_COLL + 1]  # what a simulation can do; STORAGE and others are only counted


@dataclass(eq=False)
class Graph:
    """`before[ptr[r]:ptr[r + 1]]`: the rows that row r waits for, without those that there are not.

    `nanos`: how long it takes. `size`: bytes of what is sent, received, loaded or stored. `tag`: of a message; of a
    collective its number, where nodes say one. `comm`: kind of the collective. `group`: place of its name in `groups`.
    `faults`: what is wrong with single nodes, in the order of the file. `own_groups`: the ranks of groups that its
    metadata tells, none for all.
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
        """Level of each row, -1 if it waits for a circle; and its end (ns), if each node takes its duration alone.

        The ends are in microseconds, times 1000, where nanoseconds could not be added any more.
        """
        few = self.nanos.sum(dtype=np.float64) < MOST_ADDED
        level, end = levels(self.ptr, self.before, self.nanos if few else self.nanos // 1000)
        return level, end if few else np.minimum(end, MOST_ADDED // 1000) * 1000

    def label(self, row: int) -> str:
        """A node as messages name it."""
        return label(self.ids[row], self.names[row])

    def fault(self, row: int, problem: str, allowed: str | None = None) -> InputError:
        """A fault of a node."""
        return InputError(f"{self.label(row)} {problem}", file=self.file, allowed=allowed)


def label(number: int, name: str) -> str:
    """A node as messages name it."""
    return f"node {number}{f' ({name})' if name else ''}"


def load(path: str | PathLike[str], rank: int = 0) -> Graph:
    """The graph of the trace of a rank; `faults` has what is wrong in it.

    Raises InputError if it cannot be read, or if nearly all is wrong.
    """
    return _Loader(str(path), rank).graph()


class _Loader:
    """Takes nodes one by one. The number of a node becomes a row when all are there: it may wait for a later one."""

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
        self.kept: dict[str, str] = {}  # a name that many nodes have is there once
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
                    problem = f"depends on node {number}, which there is not"
                    self.fault_alike("dependency", self.ids[row], self.names[row], problem)
            at += count
            ptr[row + 1] = len(before)
        for first, more in self.alike.values():
            problem = f"{first.problem}; {more} more like it" if more else first.problem
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
            last = InputError(f"has {MANY_FAULTS} faults up to here, and is read no further", file=self.file)
            raise InputErrors([*self.faults, last])

    def fault_alike(self, kind: str, number: int, name: str, problem: str, allowed: str | None = None) -> None:
        """A fault that traces of real systems have at many nodes: told once, with how many more there are."""
        if kind in self.alike:
            first, more = self.alike[kind]
            self.alike[kind] = first, more + 1
        else:
            self.alike[kind] = InputError(f"{label(number, name)} {problem}", file=self.file, allowed=allowed), 0

    def _add(self, node: Node) -> None:
        name = self.kept.setdefault(node.name, node.name)
        if node.id in self.rows:
            first = label(node.id, self.names[self.rows[node.id]])
            self._fault(node.id, name, f"has the number of an earlier one, {first}", "each number once")
        self.rows.setdefault(node.id, len(self.ids))
        self.ids.append(node.id)
        self.names.append(name)
        deps = dict.fromkeys((*node.ctrl_deps, *node.data_deps)) if node.ctrl_deps else dict.fromkeys(node.data_deps)
        self.deps.extend(deps)
        self.counts.append(len(deps))
        self.columns.extend(self._columns(node))

    def _columns(self, node: Node) -> tuple[int, ...]:
        given = {each.name: each.value for each in node.attr}
        nanos = self._nanos(node, given)
        if node.type == NodeType.METADATA and node.inputs is not None:
            self._told_groups(node)
        reader = _READERS.get(node.type)
        if reader is None:
            if node.type not in RUNNING:
                kinds = [each.name for each in RUNNING]
                self._fault(node.id, node.name, f"is of type {type_name(node.type)}, which is not simulated", kinds)
            # Types beyond those that are known are one to the arrays.
            return min(node.type, LARGEST), nanos, NONE, NONE, 0, NONE, NONE
        asked = _Asked(self, node, given)
        if node.type in COMMUNICATING and _flag(asked):
            problem = "communicates, and is said to run on the CPU"
            allowed = "nodes of the accelerator; a trace that is replayed"
            self.fault_alike("CPU", node.id, node.name, problem, allowed)
            if "comm_type" not in given and node.type == NodeType.COMM_COLL:
                # The host's call of a collective, whose own node is another one.
                return node.type, nanos, NONE, NONE, 0, NONE, NONE
        values = reader(asked)
        return node.type, nanos, *values

    def _nanos(self, node: Node, given: dict[str, Any]) -> int:
        """How long a node takes, rounded up; as it is told to the picosecond, if it is."""
        micros, exact = node.duration_micros, given.get("duration_ps")
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

    def _told_groups(self, node: Node) -> None:
        """The groups that a node of metadata tells."""
        for name, ranks in process_groups(node.inputs.values if node.inputs is not None else "").items():
            fault = wrong_members(ranks, None) if ranks != [] else None
            if fault is None:
                self.own_groups[name] = ranks
            else:
                self._fault(node.id, node.name, f"has the process group {name!r}, which {fault.problem}", fault.allowed)

    def group(self, name: str) -> int:
        return self.groups.setdefault(name, len(self.groups))


def type_name(number: int) -> str:
    """COMP, or the number of a type that has no name."""
    return NodeType(number).name if number in NodeType._value2member_map_ else str(number)


class _Asked:
    """The attributes of a node, as they are asked for."""

    def __init__(self, loader: _Loader, node: Node, given: dict[str, Any]) -> None:
        self.loader, self.node, self.given = loader, node, given

    def fault(self, problem: str, allowed: Any = None, given: str | None = None) -> None:
        self.loader._fault(self.node.id, self.node.name, problem, allowed, given)

    def whole(self, name: str, default: int | None = None, least: int = 0) -> int:
        """A whole number; without `default` it must be there."""
        value = self.given.get(name, default)
        if value is None:
            self.fault(f"has no {name}", f"a {type_name(self.node.type)} node has one")
        elif not isinstance(value, int) or isinstance(value, bool) or not least <= value <= LARGEST:
            self.fault(f"has {name} {short(value)}", f"a whole number from {least} to {LARGEST}")
        else:
            return value
        return NONE

    def number(self, name: str) -> None:
        """A number from 0, if it is there."""
        value = self.given.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            self.fault(f"has {name} {short(value)}", "a number from 0")


def short(value: Any) -> str:
    """A value in a message; it may be long."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]} ..."


def _compute(asked: _Asked) -> tuple[int, ...]:
    for name in ("num_ops", "tensor_size"):
        asked.number(name)
    _flag(asked)
    return NONE, NONE, 0, NONE, NONE


def _memory(asked: _Asked) -> tuple[int, ...]:
    return asked.whole("tensor_size", 0), NONE, 0, NONE, NONE


def _message(own: str, other: str) -> Callable[[_Asked], tuple[int, ...]]:
    def read_message(asked: _Asked) -> tuple[int, ...]:
        me = asked.loader.rank
        if (there := asked.whole(own, me)) not in (me, NONE):
            asked.fault(f"has {own} {there}, and is in the trace of rank {me}", str(me))
        return asked.whole("comm_size", least=1), asked.whole(other), asked.whole("comm_tag", 0), NONE, NONE

    return read_message


def _collective(asked: _Asked) -> tuple[int, ...]:
    comm = asked.whole("comm_type")
    if comm != NONE and comm not in CommType._value2member_map_:
        asked.fault(f"has comm_type {comm}", [f"{each.value} ({each.name})" for each in CommType])
        comm = NONE
    size = asked.whole("comm_size", 0) if comm == CommType.BARRIER else asked.whole("comm_size", least=1)
    name = asked.given.get("pg_name", "")
    if not isinstance(name, str):
        asked.fault(f"has pg_name {short(name)}", "a text")
        name = ""
    involved = asked.given.get("involved_dim", [True])
    if not (isinstance(involved, list) and all(isinstance(each, bool) for each in involved) and any(involved)):
        asked.fault(f"has involved_dim {short(involved)}", "a list of true and false, with one true at least")
    asked.whole("comm_priority", 0, -LARGEST)
    said = asked.whole("collective", NONE, NONE)
    return size, NONE, said, comm, asked.loader.group("" if name in ALL else name)


def _flag(asked: _Asked) -> bool:
    value = asked.given.get("is_cpu_op", False)
    if not isinstance(value, bool | int) or value not in (0, 1):
        asked.fault(f"has is_cpu_op {short(value)}", "true or false")
        return False
    return bool(value)


_READERS: dict[int, Callable[[_Asked], tuple[int, ...]]] = {
    NodeType.COMP: _compute,
    NodeType.MEM_LOAD: _memory,
    NodeType.MEM_STORE: _memory,
    NodeType.COMM_SEND: _message("comm_src", "comm_dst"),
    NodeType.COMM_RECV: _message("comm_dst", "comm_src"),
    NodeType.COMM_COLL: _collective,
}
