"""The nodes of a Chakra trace by their numbers: what each waits for, and errors about one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.chakra import Node, NodeType, Rows
from pyxsim.errors import InputError
from pyxsim.workload.graph import Kind

MOST = 2**62
"""The largest number of an attribute."""
USED = frozenset(
    (
        *("is_cpu_op", "num_ops", "tensor_size", "in_switch", "runtime", "duration_ps", "layer", "part", "resource"),
        *("comm_type", "comm_size", "comm_src", "comm_dst", "comm_tag", "comm_priority", "pg_name", "involved_dim"),
        *("root", "algorithms", "collective", "collective_name"),
    )
)
"""The attributes that have an effect."""
_PS_PER_US = 10**6


class Place:
    """A node of a trace: its attributes by name, and error messages about it."""

    __slots__ = ("attributes", "file", "node", "npu")

    def __init__(self, npu: int, file: str, node: Node) -> None:
        self.npu, self.file, self.node = npu, file, node
        self.attributes = {attribute.name: attribute.value for attribute in node.attr if attribute.name in USED}

    def like(self, number: int, name: str) -> Place:
        """Return a node of the same class."""
        other = Place(self.npu, self.file, Node(number, name, self.node.type))
        other.attributes = self.attributes
        return other

    @property
    def label(self) -> str:
        return f"NPU {self.npu}, node {self.node.id} '{self.node.name}'"

    def refuse(self, problem: str, allowed: str | Sequence[str] | None = None, given: str | None = None) -> NoReturn:
        raise InputError(f"{self.label}: {problem}", file=self.file, allowed=allowed, given=given)

    def picoseconds(self) -> int:
        """Return the recorded duration; older traces have it in `runtime`."""
        if self.attributes.get("duration_ps") is not None:
            return self.whole("duration_ps")
        return (self.node.duration_micros or self.whole("runtime", 0)) * _PS_PER_US

    def countable(self, ticks: int) -> int:
        """Return the cycles, or refuse too many."""
        if ticks > MOST:
            self.refuse("takes too many cycles")
        return ticks

    def text(self, name: str, default: str) -> str:
        """Return an attribute that is a string."""
        value = self.attributes.get(name, default)
        if not isinstance(value, str):
            self.refuse(f"has a {name} that is not a string")
        return value

    def whole(self, name: str, default: int | None = None, *, least: int = 0) -> int:
        """Return an attribute that is a whole number; without a default it is required."""
        value = self.attributes.get(name, default)
        if value is None:
            self.refuse(f"has no {name}")
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(f"has a {name} that is not a whole number")
        if not least <= value <= MOST and value != default:
            self.refuse(f"has {name} {value}", allowed=f"{least} to {MOST}")
        return value

    def flag(self, name: str) -> bool:
        """Return an attribute that is true or false."""
        value = self.attributes.get(name, False)
        if not isinstance(value, bool | int):
            self.refuse(f"has a {name} that is neither true nor false")
        return bool(value)


class Nodes:
    """The nodes of an NPU in the order of their numbers, a row each. `which`: the class of each, a row of `places`."""

    def __init__(self, rows: Rows, places: Sequence[Place]) -> None:
        number, which, name, self._start, self._before = rows.columns()
        self._names, self._places = rows.names, places
        self.order = np.argsort(number, kind="stable")  # rows in the file
        self.number, self.which, self.name = number[self.order], which[self.order], name[self.order]
        self.many = np.diff(self._start)[self.order]
        # Of each dependency, the row that waits, and the row that it waits for.
        begin = self._start[:-1][self.order] - (np.cumsum(self.many) - self.many)
        self.before = self._before[np.repeat(begin, self.many) + np.arange(len(self._before))]
        self.on = np.minimum(np.searchsorted(self.number, self.before), max(len(number) - 1, 0))
        self.exists = self.number[self.on] == self.before if len(number) else np.zeros(0, np.bool_)

    def place(self, row: int) -> Place:
        """Return the node of a row, for its label and attributes."""
        first: Place = self._places[int(self.which[row])]
        return first.like(int(self.number[row]), self._names[self.name[row]])

    def type(self, of_class: int) -> int:
        """Return the type of the nodes of a class."""
        return self._places[of_class].node.type

    def first(self, rows: IntArray) -> int:
        """Return the row that comes first in the file."""
        return int(rows[np.argmin(self.order[rows])])

    def refuse_twins(self) -> None:
        """Raise InputError for a number that occurs twice."""
        twins = np.flatnonzero(self.number[1:] == self.number[:-1]) + 1
        if len(twins):
            self.place(self.first(twins)).refuse("occurs twice")

    def waits(self) -> IntArray:
        """Return the rows of all dependencies. Raises InputError for one on a node that does not exist."""
        if not self.exists.all():
            lost = int(np.argmin(self.exists))
            row = int(np.searchsorted(np.cumsum(self.many), lost, side="right"))
            self.place(row).refuse(f"waits for node {self.before[lost]}, which does not exist")
        return self.on


def refuse_skipped(nodes: Nodes, classes: Sequence[Mapping[str, Any]]) -> None:
    """Refuse nodes that ASTRA-sim 2 skips, if another node waits for one."""
    marks = [task["kind"] == Kind.MARK and not task.get("ticks") for task in classes]
    skipped = [mark and nodes.type(number) != NodeType.METADATA for number, mark in enumerate(marks)]
    waited = nodes.exists & np.array(skipped, np.bool_)[nodes.which[nodes.on]]
    if waited.any():
        waits = np.repeat(np.arange(len(nodes.many)), nodes.many)
        row = nodes.first(waits[waited])
        earlier = int(nodes.on[np.flatnonzero(waited & (waits == row))[0]])
        nodes.place(earlier).refuse(
            f"is skipped, but node {nodes.number[row]} waits for it: ASTRA-sim 2 starts that node when another node "
            "of this NPU ends, or never",
            allowed="a node that takes time, or no node that waits for it",
        )


def refuse_instant(nodes: Nodes, classes: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a computation of 0 ns in cycle 0, at which ASTRA-sim 2 stops."""
    computes = np.array([task.get("resource") == "compute" for task in classes], np.bool_)[nodes.which]
    first = np.flatnonzero(computes & (nodes.many == 0))[:1].tolist()
    if first and not classes[nodes.which[first[0]]].get("ticks"):
        nodes.place(first[0]).refuse(
            "takes less than 1 ns and has no dependencies: an assertion of ASTRA-sim 2's event queue fails when "
            "something takes no time in cycle 0",
            allowed="more operations or bytes",
        )
