"""Measurements of a workload's tasks: the activity of each NPU, the critical path, and optionally every task.

Names, kinds and layers are codes in the columns, with lists of their texts: a graph has millions of tasks and few
names. docs/output.md describes the columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import IntArray
from pyxsim.workload.critical_path import Link, Step, critical_path
from pyxsim.workload.graph import Kind, Part, TaskGraph
from pyxsim.workload.job import TaskTimes
from pyxsim.workload.usage import COMMUNICATION, AtWork, at_work, usage

Columns = dict[str, NDArray[Any]]

MOST_ROWS = 1 << 20  # of tasks and of steps
LAYER_PARTS = {
    Part.NONE: "",
    Part.FORWARD: "forward",
    Part.INPUT_GRADIENT: "input gradient",
    Part.WEIGHT_GRADIENT: "weight gradient",
    Part.UPDATE: "update",
}
NOT_STARTED = "not begun"
"""The kind of a first step before the NPU starts: a late straggler, or start_skew."""
TIMES = ("compute", "memory", "communication", "exposed", "busy", "idle")
NPUS = (*TIMES, "finished", "like")
PATH = ("task", "npu", "name", "layer", "part", "kind", "why", "begin", "end")
TASKS = ("npu", "name", "kind", "layer", "part", "ready", "start", "end", "bytes", "cause", "critical")
REASONS = tuple(link.value for link in Link)
NAMES = {"names": "task_name", "kinds": "kind_name", "layers": "layer_name"}
"""The lists of texts, and their names in the file."""
ACTIVITIES = ("compute", "memory", "communication")
TIMELINE = ("npu", "doing", "begin", "end")
MOST_SHOWN = 32  # NPUs in a plot
MOST_SPANS = 1 << 16
MOST_TOTALS, LONGEST = 20, 10
# Odd constants that mix the bits of times, so that equal hashes mean equal activity.
_ODD = tuple(
    np.uint64(word) for word in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xBF58476D1CE4E5B9)
)
_DIGITS = re.compile(r"\d+")
_REASON_CODE = {link: number for number, link in enumerate(Link)}


@dataclass(eq=False, repr=False)
class Work:
    """The activity of the tasks of a graph.

    Attributes
    ----------
    npus
        Columns, one row per NPU; `like` is the first NPU with the same activity, to the cycle.
    path
        Columns, one row per step of the critical path.
    tasks
        Columns, one row per task; empty unless requested.
    timeline
        Columns `npu`, `doing` (code in ACTIVITIES), `begin`, `end` of representative NPUs, for plots.
    names, kinds, layers
        Texts of the codes in the columns; the kind of a collective task is that of its collective.
    totals
        The largest contributions to the critical path: `kind`, `name` (of the layer, else of the task), `part`,
        `cycles`, `steps`.
    by_kind
        Cycles of the critical path by kind, in descending order.
    steps
        Number of steps of the critical path.
    left_out
        Rows of `tasks` and `path` beyond the first 2^20.
    """

    npus: Columns
    path: Columns
    tasks: Columns
    timeline: Columns
    names: list[str]
    kinds: list[str]
    layers: list[str]
    totals: list[dict[str, Any]] = field(default_factory=list)
    by_kind: dict[str, int] = field(default_factory=dict)
    steps: int = 0
    left_out: dict[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Work({len(self.npus['idle'])} NPUs, critical path of {self.steps} steps)"

    @classmethod
    def of(
        cls, graph: TaskGraph, times: TaskTimes, until: int, *, active: AtWork | None = None, tasks: bool = False
    ) -> Work:
        """Evaluate a graph until a cycle. `active`: the result of `at_work`, if known; `tasks`: keep the tasks."""
        intervals = at_work(graph, times, until) if active is None else active
        used = usage(graph, times, until, intervals)
        kinds, kind = _kinds(graph)
        steps = critical_path(graph, times)
        path = _path(graph, steps, kinds, kind)
        critical = np.zeros(len(graph), np.int8)
        critical[path["task"][path["task"] >= 0]] = 1
        layers = max(len(graph.layers), int(graph.layer.max(initial=-1)) + 1)
        named = [*graph.layers, *(f"layer {number}" for number in range(len(graph.layers), layers))]
        rows = _tasks(graph, times, kind, critical) if tasks else {}
        # Only the names in use: a graph may have one per task.
        tables = [path, rows] if rows else [path]
        used_names = np.unique(np.concatenate([table["name"] for table in tables]))
        used_names = used_names[used_names >= 0]
        for table in tables:
            table["name"] = np.where(table["name"] < 0, -1, np.searchsorted(used_names, table["name"])).astype(np.int32)
        like = _alike(graph, intervals)
        made = cls(
            npus={**{name: getattr(used, name) for name in NPUS[:-1]}, "like": like},
            path={name: column[:MOST_ROWS] for name, column in path.items()},
            tasks=rows,
            timeline=_timeline(graph, intervals, representatives(like, used.idle, path), until),
            names=[graph.names[name] for name in used_names.tolist()],
            kinds=kinds,
            layers=named,
            steps=len(steps),
            left_out={"tasks": max(0, len(graph) - MOST_ROWS) * tasks, "path": max(0, len(steps) - MOST_ROWS)},
        )
        made.totals, made.by_kind = made._totals(path), made._by_kind(path)
        return made

    def json(self, to_ns: Callable[[int | Fraction], int | float]) -> dict[str, Any]:
        """Return the JSON keys of a workload: the time of the NPUs, and the critical path. `to_ns` converts cycles."""
        path = self.path
        longest = [
            {
                "task": int(path["task"][row]),
                "npu": int(path["npu"][row]),
                "kind": self.kinds[path["kind"][row]],
                "name": self.names[path["name"][row]] if path["name"][row] >= 0 else "",
                "layer": self.layers[path["layer"][row]] if path["layer"][row] >= 0 else "",
                "part": LAYER_PARTS[Part(int(path["part"][row]))],
                "why": REASONS[path["why"][row]],
                "begin_ns": to_ns(int(path["begin"][row])),
                "end_ns": to_ns(int(path["end"][row])),
            }
            for row in self.longest(LONGEST).tolist()
        ]
        totals = [{**row, "ns": to_ns(row["cycles"])} for row in self.totals]
        return {
            **{f"{name}_ns": self._in_ns(name, to_ns) for name in TIMES},
            "critical_path": {
                "steps": self.steps,
                "by_kind": {kind: to_ns(cycles) for kind, cycles in self.by_kind.items()},
                "totals": totals,
                "longest": longest,
            },
        }

    def _in_ns(self, name: str, to_ns: Callable[[int | Fraction], int | float]) -> dict[str, Any]:
        extremes = self.extremes(name)
        return {
            **extremes,
            **{key: to_ns(Fraction(extremes[key])) for key in ("min", "mean", "max")},
        }

    def longest(self, count: int) -> IntArray:
        """Return the numbers of the longest steps, in descending order."""
        return np.argsort(self.path["begin"] - self.path["end"], kind="stable")[:count]

    def extremes(self, name: str) -> dict[str, Any]:
        """Return minimum, mean and maximum of a column of `npus` in cycles, and the first NPUs with the extremes."""
        values = self.npus[name]
        lowest, highest = int(values.argmin()), int(values.argmax())
        return {
            "min": int(values[lowest]),
            "mean": float(values.mean()),
            "max": int(values[highest]),
            "min_npu": lowest,
            "max_npu": highest,
        }

    @property
    def warnings(self) -> list[str]:
        """Notes about missing rows."""
        what = {"tasks": "tasks", "path": "steps of the critical path"}
        return [
            f"{count} {what[table]} are missing in the file, which contains the first {MOST_ROWS}"
            for table, count in self.left_out.items()
            if count
        ]

    def _by_kind(self, path: Columns) -> dict[str, int]:
        cycles = np.zeros(len(self.kinds), np.int64)
        np.add.at(cycles, path["kind"], path["end"] - path["begin"])
        return {self.kinds[kind]: int(cycles[kind]) for kind in np.argsort(-cycles, kind="stable") if cycles[kind]}

    def _totals(self, path: Columns) -> list[dict[str, Any]]:
        """Add up the steps of one kind, part and name; above the limit, merge names that differ in numbers only."""
        layers = len(self.layers)
        texts = [*self.layers, *self.names, ""]  # -1, no name, is the last one
        label = np.where(path["layer"] >= 0, path["layer"], layers + path["name"]).astype(np.int64)
        label[(path["layer"] < 0) & (path["name"] < 0)] = len(texts) - 1
        sums = _sums(path, label)
        if np.count_nonzero(sums[1]) > MOST_TOTALS:
            distinct, which = np.unique(label, return_inverse=True)
            common: dict[str, int] = {}
            number = [common.setdefault(alike(texts[code]), len(common)) for code in distinct.tolist()]
            texts, sums = list(common), _sums(path, np.array(number, np.int64)[which.ravel()])
        groups, cycles, steps = sums
        return [
            {
                "kind": self.kinds[groups[0, row]],
                "name": texts[groups[2, row]],
                "part": LAYER_PARTS[Part(int(groups[1, row]))],
                "cycles": int(cycles[row]),
                "steps": int(steps[row]),
            }
            for row in np.argsort(-cycles, kind="stable")[:MOST_TOTALS].tolist()
            if cycles[row]
        ]


def _sums(path: Columns, label: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Group steps by kind, part and label. Returns these (int64[3, groups]), the cycles and the number of steps."""
    key = (label * len(Part) + path["part"]) * (int(path["kind"].max(initial=0)) + 1) + path["kind"]
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    cycles = np.zeros(len(first), np.int64)
    np.add.at(cycles, which.ravel(), path["end"] - path["begin"])
    groups = np.stack([path["kind"][first], path["part"][first], label[first]]).astype(np.int64)
    return groups, cycles, np.bincount(which.ravel(), minlength=len(first))


def alike(name: str) -> str:
    """Replace the numbers in a name, which distinguish the blocks of a model and micro-batches."""
    return _DIGITS.sub("*", name)


def representatives(like: IntArray, idle: IntArray, path: Columns) -> IntArray:
    """Return NPUs that represent all: one of each kind, at most MOST_SHOWN.

    Of more kinds, those with most of the critical path, with least and most work, and a sample of the rest. `like`: for
    each NPU the first with the same activity.
    """
    kinds = np.unique(like)
    if len(kinds) <= MOST_SHOWN:
        return kinds
    share = np.zeros(len(like), np.int64)
    np.add.at(share, like[path["npu"]], path["end"] - path["begin"])
    critical = [npu for npu in np.argsort(-share, kind="stable")[: MOST_SHOWN // 2].tolist() if share[npu]]
    selected = {*critical, int(like[idle.argmin()]), int(like[idle.argmax()])}
    rest = kinds[np.linspace(0, len(kinds) - 1, MOST_SHOWN - len(selected)).astype(np.int64)]
    return np.array(sorted({*selected, *rest.tolist()}), np.int64)


def _alike(graph: TaskGraph, work: AtWork) -> IntArray:
    """For each NPU, the first with the same activity at the same times."""
    kind = graph.kind[work.task].astype(np.uint64)
    number = np.zeros(graph.npus, np.uint64)
    begin, end, odd = work.begin.astype(np.uint64), work.end.astype(np.uint64), [np.uint64(word) for word in _ODD]
    mixed = (begin * odd[0]) ^ (end * odd[1]) ^ (kind * odd[2])
    np.add.at(number, work.npu, (mixed ^ (mixed >> np.uint64(31))) * odd[3])
    first, which = np.unique(number, return_index=True, return_inverse=True)[1:]
    return first[which].astype(np.int64)


def _timeline(graph: TaskGraph, work: AtWork, npus: IntArray, until: int) -> Columns:
    """Intervals of some NPUs; above the limit, those with short gaps between them are merged."""
    intervals = work.of(np.isin(work.npu, npus))
    kind = graph.kind[intervals.task]
    classes = (kind == Kind.COMPUTE, kind == Kind.MEMORY, np.isin(kind, COMMUNICATION))
    spans = [intervals.of(which).spans(graph.npus) for which in classes]
    gap = 0
    while True:
        tables = [_merged(*span, gap) for span in spans]
        if sum(len(table[0]) for table in tables) <= MOST_SPANS:
            break
        gap = max(2 * gap, until // MOST_SPANS, 1)
    doing = np.repeat(np.arange(len(tables)), [len(table[0]) for table in tables]).astype(np.int8)
    npu, begin, end = (np.concatenate(columns) for columns in zip(*tables, strict=True))
    return {"npu": npu.astype(np.int32), "doing": doing, "begin": begin, "end": end}


def _merged(start: IntArray, begin: IntArray, end: IntArray, gap: int) -> tuple[IntArray, IntArray, IntArray]:
    """Merge intervals whose gaps are at most `gap`; returns NPU, begin and end."""
    npu = np.repeat(np.arange(len(start) - 1), np.diff(start))
    new = np.ones(len(begin), bool)
    new[1:] = (npu[1:] != npu[:-1]) | (begin[1:] - end[:-1] > gap)
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(begin)) - 1 if len(first) else first
    return npu[first], begin[first], end[last]


def _kinds(graph: TaskGraph) -> tuple[list[str], NDArray[np.int16]]:
    """The kinds of tasks, collectives by their own kind, and the code of each task."""
    kinds = [*(kind.name.lower() for kind in Kind), NOT_STARTED]
    of_call = np.array([_number(kinds, call.kind) for call in graph.calls], np.int16)
    kind = graph.kind.astype(np.int16)
    members = graph.of_kind(Kind.COLLECTIVE)
    kind[members] = of_call[graph.call[members]]
    return kinds, kind


def _number(kinds: list[str], kind: str) -> int:
    if kind not in kinds:
        kinds.append(kind)
    return kinds.index(kind)


def _path(graph: TaskGraph, steps: Sequence[Step], kinds: list[str], kind: NDArray[np.int16]) -> Columns:
    """The steps as columns. A first step without a task has the NPU of the step after."""
    task = np.array([step.task for step in steps], np.int64)
    known = task >= 0
    nearest = np.where(known, task, task[1] if len(task) > 1 else 0)

    def of(column: NDArray[Any], otherwise: int) -> NDArray[Any]:
        return np.where(known, column[nearest], otherwise).astype(column.dtype)

    return {
        "task": task,
        "npu": graph.npu[nearest],
        "name": of(graph.name, -1),
        "layer": of(graph.layer, -1),
        "part": of(graph.part, 0),
        "kind": of(kind, kinds.index(NOT_STARTED)),
        "why": np.array([_REASON_CODE[step.link] for step in steps], np.int8),
        "begin": np.array([step.begin for step in steps], np.int64),
        "end": np.array([step.end for step in steps], np.int64),
    }


def _tasks(graph: TaskGraph, times: TaskTimes, kind: NDArray[np.int16], critical: NDArray[np.int8]) -> Columns:
    size = graph.size.copy()
    members = graph.of_kind(Kind.COLLECTIVE)
    size[members] = np.array([call.size for call in graph.calls], np.int64)[graph.call[members]]
    columns: Columns = {
        "npu": graph.npu,
        "name": graph.name,
        "kind": kind,
        "layer": graph.layer,
        "part": graph.part,
        "ready": times.ready,
        "start": times.start,
        "end": times.end,
        "bytes": size,
        "cause": times.cause,
        "critical": critical,
    }
    # The arrays of a run may still change; those of the result do not.
    return {name: column[:MOST_ROWS].copy() for name, column in columns.items()}
