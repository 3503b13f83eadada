"""A workload as a graph of tasks: arrays with one row per task (docs/workload.md).

Every workload becomes such a graph: traces, training loops, models.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyxsim.arrays import Int32Array, IntArray
from pyxsim.collective.byte_matrix import ByteMatrix
from pyxsim.collective.communicator import Communicator
from pyxsim.collective.kinds import get_kind
from pyxsim.errors import InputError, raise_all
from pyxsim.layer_parts import Part as Part
from pyxsim.system.memory import Access as Access
from pyxsim.workload.tasks import find_cycle

Bytes = NDArray[np.int8]


class Kind(IntEnum):
    """The kind of a task."""

    COMPUTE = 0
    MEMORY = 1
    SEND = 2
    RECEIVE = 3
    COLLECTIVE = 4
    MARK = 5


TIMED = (Kind.COMPUTE, Kind.MEMORY, Kind.MARK)  # may have a duration of their own
RESOURCES = (("cpu", 1), ("compute", 1), ("communication", 1))  # those of ASTRA-sim 2
MOST_CYCLES = 2**61  # of all tasks together
MOST_TASKS = 2**31 - 1
MOST_SHOWN = 8
_BLOCK = 1 << 16  # tasks held as Python numbers; arrays need a tenth of the memory
_SMALL = 1 << 10  # blocks


@dataclass(frozen=True)
class Call:
    """A collective of a workload.

    Attributes
    ----------
    members, groups, dims
        Who takes part: a list of NPUs; disjoint groups of NPUs; groups along dimensions; all NPUs if none is given.
        Groups operate independently.
    algorithms
        One per dimension; None for those of the system layer.
    root
        An NPU; with groups, a position in each.
    matrices
        Of an all-to-all whose pairs exchange different amounts: the bytes in each group, or in the only one. `size` is
        then their largest buffer.
    """

    kind: str
    size: int
    members: tuple[int, ...] | None = None
    dims: tuple[int, ...] | None = None
    algorithms: tuple[str, ...] | None = None
    priority: int | None = None
    name: str = ""
    root: int | None = None
    groups: tuple[tuple[int, ...], ...] | None = None
    matrices: tuple[ByteMatrix, ...] | None = None

    @property
    def has_groups(self) -> bool:
        """Whether it is several collectives, one per group."""
        return self.dims is not None or self.groups is not None


@dataclass
class TaskGraph:
    """Tasks 0 to T-1, one row of each array per task.

    Attributes
    ----------
    ticks
        Cycles, of tasks with a duration of their own.
    size
        Bytes of a message, of an access to remote memory, or moved through the memory of the NPU by a computation.
    peer
        The other NPU of a message.
    match
        Tag of a message, `Access` of remote memory, or operations of a computation timed by a roofline.
    call
        Row of `calls`; -1 for none.
    resource
        Row of `resources` (name, tasks of an NPU at a time); -1 for none.
    layer, part
        Number of a layer, -1 for none, named in `layers` if layers have names; a `Part` of it.
    before_start, before
        ``before[before_start[t]:before_start[t + 1]]`` are the tasks that must end before task t starts.
    node
        Numbers of the trace nodes, for error messages; None without a trace.
    """

    npus: int
    npu: Int32Array
    kind: Bytes
    ticks: IntArray
    size: IntArray
    peer: Int32Array
    match: IntArray
    call: Int32Array
    resource: Bytes
    layer: Int32Array
    name: Int32Array
    part: Bytes
    before_start: IntArray
    before: IntArray
    calls: list[Call] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    resources: tuple[tuple[str, int], ...] = RESOURCES
    layers: list[str] = field(default_factory=list)
    node: NDArray[np.uint64] | None = None

    def __len__(self) -> int:
        return len(self.npu)

    def of_kind(self, kind: Kind) -> IntArray:
        """Return the tasks of a kind, ascending."""
        return np.flatnonzero(self.kind == kind)

    def label(self, task: int) -> str:
        """Return the text that names a task: its NPU, name and number."""
        number = f"task {task}" if self.node is None else f"node {self.node[task]}"
        return f"NPU {self.npu[task]}, '{self.names[self.name[task]]}' ({number})"


class _Blocks:
    """Arrays concatenated along their last axis.

    Small ones are joined from time to time: joining very many takes long, and joining all at once doubles the memory.
    """

    def __init__(self, empty: IntArray) -> None:
        self._joined: list[IntArray] = [empty]
        self._small: list[IntArray] = []

    def append(self, block: IntArray) -> None:
        """Add an array."""
        self._small.append(block)
        if len(self._small) == _SMALL:
            self._join()

    def row(self, *place: int) -> IntArray:
        """Return all arrays as one, or one row of it."""
        self._join()
        return np.concatenate([block[place] if place else block for block in self._joined])

    def _join(self) -> None:
        if self._small:
            self._joined.append(np.concatenate(self._small, axis=-1))
            self._small = []


class GraphBuilder:
    """Builds a TaskGraph, one task at a time or one for each of many NPUs. Tasks are numbered in order of creation."""

    _COLUMNS = ("npu", "kind", "ticks", "size", "peer", "match", "call", "resource", "layer", "name", "part")
    _TYPES = (np.int32, np.int8, np.int64, np.int64, np.int32, np.int64, np.int32, np.int8, np.int32, np.int32, np.int8)

    def __init__(
        self, npus: int, resources: Sequence[tuple[str, int]] = RESOURCES, *, layers: Sequence[str] = ()
    ) -> None:
        self.npus = npus
        self.layers = list(layers)
        self.resources = tuple(resources)
        self._resource = {name: number for number, (name, _) in enumerate(self.resources)}
        self._calls: list[Call] = []
        self._names: dict[str, int] = {}
        self._count = 0
        self._rows: list[tuple[int, ...]] = []  # tasks added one by one since the last block
        self._before: list[Sequence[int]] = []
        # Blocks of tasks: a row per column; how many dependencies each task has, and which.
        self._blocks = _Blocks(np.zeros((len(self._COLUMNS), 0), np.int64))
        self._many = _Blocks(np.zeros(0, np.int64))
        self._which = _Blocks(np.zeros(0, np.int64))

    def __len__(self) -> int:
        return self._count

    def call(self, call: Call) -> int:
        """Add a collective and return its number; each member needs a task of kind COLLECTIVE with this number."""
        self._calls.append(call)
        return len(self._calls) - 1

    def task(
        self,
        npu: int,
        kind: Kind,
        name: str = "",
        *,
        ticks: int = 0,
        size: int = 0,
        peer: int = -1,
        match: int = 0,
        call: int = -1,
        resource: str | None = None,
        layer: int = -1,
        part: int = Part.NONE,
        before: Sequence[int] = (),
    ) -> int:
        """Add a task and return its number. `before`: tasks that must end before it starts; they may be added later."""
        place, called = self._numbers(kind, name, resource)
        self._rows.append((npu, kind, ticks, size, peer, match, call, place, layer, called, part))
        self._before.append(before)
        self._count += 1
        if len(self._rows) == _BLOCK:
            self._close()
        return self._count - 1

    def tasks(
        self,
        npus: ArrayLike,
        kind: Kind,
        name: str = "",
        *,
        ticks: ArrayLike = 0,
        size: ArrayLike = 0,
        peer: ArrayLike = -1,
        match: ArrayLike = 0,
        call: ArrayLike = -1,
        resource: str | None = None,
        layer: int = -1,
        part: int = Part.NONE,
        before: Iterable[ArrayLike] = (),
    ) -> IntArray:
        """Add a task for each of `npus` and return their numbers, int64[len(npus)].

        Other arguments are one value for all, or an array with one per task. `before`: such arrays of dependencies.
        """
        self._close()
        npu_column = np.atleast_1d(np.asarray(npus, np.int64))
        place, called = self._numbers(kind, name, resource)
        columns = (npu_column, int(kind), ticks, size, peer, match, call, place, layer, called, part)
        alike = [column if isinstance(column, int) else 0 for column in columns]
        try:
            block = np.repeat(np.array(alike, np.int64), len(npu_column)).reshape(len(columns), len(npu_column))
            for row, column in enumerate(columns):
                if not isinstance(column, int):
                    block[row] = column
        except OverflowError:
            raise beyond_64_bits(name) from None
        waits = list(before)
        which = np.empty((len(npu_column), len(waits)), np.int64)
        for place, wait in enumerate(waits):
            which[:, place] = wait
        self._append(block, np.full(len(npu_column), len(waits), np.int64), which.ravel())
        self._count += len(npu_column)
        return np.arange(self._count - len(npu_column), self._count, dtype=np.int64)

    def resource(self, name: str | None) -> int:
        """Return the number of a resource, -1 for None. Raises InputError for one that does not exist."""
        if name is None:
            return -1
        if name not in self._resource:
            raise InputError(f"there is no resource '{name}'", allowed=list(self._resource), given=name)
        return self._resource[name]

    def rows(
        self, npu: int, columns: Mapping[str, ArrayLike], names: Sequence[str], before: tuple[IntArray, IntArray]
    ) -> None:
        """Add tasks of an NPU.

        Parameters
        ----------
        columns
            Those of a TaskGraph but `npu`: one value per task, or one for all; `name` is a row of `names`.
        before
            How many dependencies each task has, and which.
        """
        self._close()
        try:
            block = np.empty((len(self._COLUMNS), len(before[0])), np.int64)
            for row, column in enumerate(self._COLUMNS):
                block[row] = npu if column == "npu" else columns[column]
        except OverflowError:
            raise beyond_64_bits() from None
        name, kind = (self._COLUMNS.index(column) for column in ("name", "kind"))
        block[name] = numbered(names, block[name], block[kind], self._names)
        self._append(block, *before)
        self._count += block.shape[1]

    def graph(self) -> TaskGraph:
        """Return the graph of all tasks so far; `check` tests whether it can be carried out."""
        self._close()
        columns: dict[str, Any] = {}
        for place, (column, kind) in enumerate(zip(self._COLUMNS, self._TYPES, strict=True)):
            columns[column] = _narrow(self._blocks.row(place), kind, column)
        before_start = np.zeros(self._count + 1, np.int64)
        np.cumsum(self._many.row(), out=before_start[1:])
        return TaskGraph(
            npus=self.npus,
            **columns,
            before_start=before_start,
            before=self._which.row(),
            calls=list(self._calls),
            names=list(self._names),
            resources=self.resources,
            layers=list(self.layers),
        )

    def _numbers(self, kind: Kind, name: str, resource: str | None) -> tuple[int, int]:
        """The numbers of a resource and of a name; a task without a name gets that of its kind."""
        return self.resource(resource), self._names.setdefault(name or kind.name.lower(), len(self._names))

    def _append(self, block: IntArray, many: IntArray, which: IntArray) -> None:
        self._blocks.append(block)
        self._many.append(many)
        self._which.append(which)

    def _close(self) -> None:
        """Turn the tasks added one by one into a block."""
        if not self._rows:
            return
        try:
            rows = np.array(self._rows, np.int64)
            which = np.array([earlier for before in self._before for earlier in before], np.int64)
        except OverflowError:
            raise beyond_64_bits() from None
        self._append(rows.T, np.array([len(before) for before in self._before], np.int64), which)
        self._rows, self._before = [], []


def numbered(names: Sequence[str], name: IntArray, kind: NDArray[Any], numbers: dict[str, int]) -> IntArray:
    """Return the numbers of the names of tasks, which are added to `numbers` in the order of their first use.

    `name`: rows of `names`. A task without a name gets that of its kind.
    """
    key = name * len(Kind) + kind
    first = np.full(len(names) * len(Kind), -1, np.int64)
    first[key[::-1]] = np.arange(len(key))[::-1]  # of equal ones, the last that is written counts
    used = np.flatnonzero(first >= 0)
    number: IntArray = np.empty(len(first), np.int64)
    for each in used[np.argsort(first[used])].tolist():
        place, of_kind = divmod(each, len(Kind))
        number[each] = numbers.setdefault(names[place] or Kind(of_kind).name.lower(), len(numbers))
    found: IntArray = number[key]
    return found


def beyond_64_bits(name: str = "") -> InputError:
    """Return the fault of a task with a number that is too large."""
    return InputError(f"a task {name} has a number out of range".replace("  ", " "), allowed="whole numbers below 2^63")


def _narrow(values: IntArray, kind: Any, column: str) -> NDArray[Any]:
    """The values as a smaller type. Raises InputError for one that does not fit."""
    narrow = values.astype(kind)
    if not np.array_equal(narrow, values):
        raise InputError(f"a task has a value of '{column}' out of range", allowed=f"{np.dtype(kind)}")
    return narrow


# -- checks ------------------------------------------------------------------------------------------------------------


def check(graph: TaskGraph, shape: Sequence[int] | None = None) -> None:
    """Raise InputError for a graph that cannot be carried out: one line per kind of fault, with NPU and name.

    `shape`: of the network; needed to check groups along dimensions.
    """
    if not 0 < len(graph) <= MOST_TASKS:
        raise InputError(f"the workload has {len(graph)} tasks", allowed=f"1 to {MOST_TASKS}")
    raise_all([fault for fault in (*_value_faults(graph), *_before_faults(graph)) if fault])
    if waiting := find_cycle(graph.before_start, graph.before):
        shown = " waits for ".join(graph.label(task) for task in waiting[:MOST_SHOWN])
        more = f" (and so on, {len(waiting)} tasks in total)" if len(waiting) > MOST_SHOWN else ""
        raise InputError(f"{shown}{more} waits for {graph.label(waiting[0])}; these tasks can never start")
    raise_all([*_call_faults(graph, shape), *_message_faults(graph)])


def _first(graph: TaskGraph, wrong: NDArray[np.bool_], problem: str, allowed: str | None = None) -> InputError | None:
    """The fault of the first task where `wrong` is true. {column} in `problem` stands for a value of that task."""
    if not wrong.any():
        return None
    task = int(wrong.argmax())
    columns = ("npu", "kind", "ticks", "size", "peer", "match", "call", "resource", "layer", "name", "part")
    values = {column: int(getattr(graph, column)[task]) for column in columns}
    known = 0 <= values["name"] < len(graph.names)
    label = graph.label(task) if known else f"NPU {values['npu']}, task {task}"
    return InputError(f"{label}: {problem.format(**values)}", allowed=allowed)


def _value_faults(graph: TaskGraph) -> Iterator[InputError | None]:
    kind, npus = graph.kind, graph.npus
    message = (kind == Kind.SEND) | (kind == Kind.RECEIVE)
    timed = np.isin(kind, TIMED)
    yield _first(graph, (graph.npu < 0) | (graph.npu >= npus), "there is no NPU {npu}", f"NPUs 0 to {npus - 1}")
    yield _first(graph, (graph.name < 0) | (graph.name >= len(graph.names)), "there is no name {name}")
    yield _first(graph, ~np.isin(kind, list(Kind)), "there is no kind {kind}")
    yield _first(graph, timed & (graph.ticks < 0), "takes {ticks} cycles", "0 or more")
    if float(graph.ticks[timed].sum(dtype=np.float64)) > MOST_CYCLES:
        yield InputError("the tasks take too many cycles in total", allowed=f"at most {MOST_CYCLES}")
    count = len(graph.resources)
    yield _first(graph, (graph.resource < -1) | (graph.resource >= count), "there is no resource {resource}")
    marks = (kind == Kind.MARK) & (graph.ticks == 0)
    yield _first(graph, marks & (graph.resource != -1), "a mark cannot occupy a resource")
    for name, room in graph.resources:
        if room < 1:
            yield InputError(f"resource '{name}' has room for {room} tasks", allowed="1 or more")
    yield _first(graph, message & ((graph.peer < 0) | (graph.peer >= npus)), "there is no NPU {peer}")
    yield _first(graph, message & (graph.peer == graph.npu), "sends a message to its own NPU")
    yield _first(graph, message & (graph.size < 1), "sends or receives {size} bytes", "1 or more")
    remote = (kind == Kind.MEMORY) & (graph.size != 0)
    yield _first(graph, np.isin(kind, TIMED) & (graph.size < 0), "has {size} bytes", "0 or more")
    yield _first(graph, remote & (graph.ticks != 0), "takes {ticks} cycles and has {size} bytes", "one of them")
    accesses = ", ".join(f"{access} {access.name.lower()}" for access in Access)
    yield _first(graph, remote & ~np.isin(graph.match, list(Access)), "there is no access {match}", accesses)
    yield _first(graph, ~np.isin(graph.part, list(Part)), "there is no part {part} of a layer", f"0 to {max(Part)}")
    if graph.layers:
        wrong = (graph.layer < -1) | (graph.layer >= len(graph.layers))
        yield _first(graph, wrong, "there is no layer {layer}", f"-1 to {len(graph.layers) - 1}")
    calls = len(graph.calls)
    of_call = kind == Kind.COLLECTIVE
    yield _first(graph, of_call & ((graph.call < 0) | (graph.call >= calls)), "there is no collective {call}")


def _before_faults(graph: TaskGraph) -> Iterator[InputError]:
    tasks = np.repeat(np.arange(len(graph)), np.diff(graph.before_start))
    dangling = (graph.before < 0) | (graph.before >= len(graph))
    if dangling.any():
        at = int(dangling.argmax())
        problem = f"{graph.label(int(tasks[at]))}: depends on task {graph.before[at]}, which does not exist"
        yield InputError(problem, allowed=f"tasks 0 to {len(graph) - 1}")
        return
    apart = graph.npu[tasks] != graph.npu[graph.before]
    if apart.any():
        at = int(apart.argmax())
        problem = (
            f"{graph.label(int(tasks[at]))}: depends on {graph.label(int(graph.before[at]))}, a task of another NPU"
        )
        yield InputError(problem, allowed="tasks of the same NPU; messages synchronize NPUs")


def _call_faults(graph: TaskGraph, shape: Sequence[int] | None) -> Iterator[InputError]:
    """Each member of a collective has one task of it, and no other NPU has any."""
    tasks = graph.of_kind(Kind.COLLECTIVE)
    tasks = tasks[np.lexsort((graph.npu[tasks], graph.call[tasks]))]
    begin = np.searchsorted(graph.call[tasks], np.arange(len(graph.calls) + 1))
    for number, call in enumerate(graph.calls):
        name = f"collective '{call.name or call.kind}' ({number})"
        try:
            members = _members(graph, call, shape)
            get_kind(call.kind)
        except InputError as error:
            yield InputError(f"{name}: {error.problem}", allowed=error.allowed, given=error.given)
            continue
        if call.size < 1 and call.kind != "barrier":
            yield InputError(f"{name}: {call.size} bytes", allowed="1 or more")
        call_tasks = tasks[begin[number] : begin[number + 1]]
        npus = graph.npu[call_tasks]
        if np.array_equal(npus, members):
            continue
        twice = npus[1:] == npus[:-1]
        if twice.any():
            at = int(twice.argmax())
            first, second = (graph.label(int(task)) for task in call_tasks[at : at + 2])
            yield InputError(f"{second}: is a second task of {name}, after {first}", allowed="one task per member")
        elif (alien := np.flatnonzero(~np.isin(npus, members))).size:
            problem = f"{graph.label(int(call_tasks[alien[0]]))}: this NPU is not a member of {name}"
            yield InputError(problem, allowed=f"NPUs {_listed(members)}")
        elif (missing := np.setdiff1d(members, npus)).size:
            first = f", as {graph.label(int(call_tasks[0]))} has" if len(call_tasks) else ""
            yield InputError(f"NPU {missing[0]}: has no task of {name}{first}", allowed="one task per member")


def _members(graph: TaskGraph, call: Call, shape: Sequence[int] | None) -> IntArray:
    """The members, ascending. Raises InputError."""
    if sum(each is not None for each in (call.members, call.dims, call.groups)) > 1:
        raise InputError("sets more than one of members, dimensions and groups", allowed="one of them, or none")
    if call.dims is not None:
        for dim in call.dims:
            if dim < 0 or (shape is not None and dim >= len(shape)):
                raise InputError(f"there is no dimension {dim}")
    if call.groups is not None:
        smallest = min(map(len, call.groups), default=0)
        if call.root is not None and not 0 <= call.root < smallest:
            raise InputError(
                f"the root, position {call.root}, does not exist in each group", allowed=f"below {smallest}"
            )
        return _ascending(tuple(npu for group in call.groups for npu in group), graph.npus)
    members = np.arange(graph.npus) if call.members is None else _ascending(call.members, graph.npus)
    if call.root is not None and call.dims is None and call.root not in members:
        raise InputError(f"the root, NPU {call.root}, does not participate", allowed=f"NPUs {_listed(members)}")
    return members


@lru_cache(maxsize=1024)
def _ascending(members: tuple[int, ...], npus: int) -> IntArray:
    """NPUs in ascending order. Raises InputError for a list with repeated NPUs."""
    return np.sort(np.array(Communicator.of(members, (npus,)).members, np.int64))


def _listed(members: IntArray) -> str:
    return ", ".join(map(str, members[:MOST_SHOWN])) + (", ..." if len(members) > MOST_SHOWN else "")


def _message_faults(graph: TaskGraph) -> Iterator[InputError]:
    channel, count = channels(graph)
    sends = np.bincount(channel[graph.of_kind(Kind.SEND)], minlength=count)
    receives = np.bincount(channel[graph.of_kind(Kind.RECEIVE)], minlength=count)
    for kind, more, text in (
        (Kind.SEND, sends > receives, "sends {0} bytes with tag {1} to NPU {2}, which does not receive them"),
        (Kind.RECEIVE, receives > sends, "waits for {0} bytes with tag {1} from NPU {2}, which does not send them"),
    ):
        if more.any():
            tasks = graph.of_kind(kind)
            of = channel[tasks]
            task = int(tasks[more[of]].min())
            # Of several equal messages all but the last are matched: the last one is surplus.
            task = int(tasks[of == channel[task]][-1])
            what = text.format(graph.size[task], graph.match[task], graph.peer[task])
            yield InputError(f"{graph.label(task)}: {what}", allowed="one send for each receive, of the same size")


def channels(graph: TaskGraph) -> tuple[Int32Array, int]:
    """Return the channel of each task that sends or receives, and the number of channels.

    A channel is all messages with the same sender, receiver, tag and size.
    """
    channel = np.full(len(graph), -1, np.int32)
    sends = graph.kind == Kind.SEND
    tasks = np.flatnonzero(sends | (graph.kind == Kind.RECEIVE))
    npu, peer, out = graph.npu[tasks], graph.peer[tasks], sends[tasks]
    keys = (np.where(out, npu, peer), np.where(out, peer, npu), graph.match[tasks], graph.size[tasks])
    order = np.lexsort(keys)
    if not len(order):
        return channel, 0
    new = np.zeros(len(order), np.int32)
    for key in keys:
        new[1:] |= key[order][1:] != key[order][:-1]
    number = np.cumsum(new, dtype=np.int32)
    channel[tasks[order]] = number
    return channel, int(number[-1]) + 1
