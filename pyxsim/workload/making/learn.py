"""Learns a model of traces: programs of ranks as sequences of symbols, and what follows what."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import pairwise

import numpy as np

from pyxsim.arrays import FloatArray, IntArray
from pyxsim.errors import InputError
from pyxsim.workload.graph import RESOURCES, Access, Kind, TaskGraph
from pyxsim.workload.making.chain import Balance, before_all, part_of, role_of
from pyxsim.workload.making.layout import Layout, Span, layout_of
from pyxsim.workload.making.model import (
    AGAIN,
    ALL_FREE,
    LANES,
    MOST_AXES,
    MOST_LANES,
    MOST_POINTS,
    MOST_TASKS,
    OLDEST_FREE,
    SIZED,
    TIMED,
    Family,
    Job,
    Model,
    Symbol,
    Transitions,
)
from pyxsim.workload.making.sources import Source

_RANKS_PER_STAGE = 4  # whose programs are read; the others of a stage do the same in their groups
_LEVELS = 32  # of times or bytes of a family: symbols of different levels differ
_GAP = 1.25  # between values of different levels
_DIGITS = 12
_EXACT = 4  # latest tasks of a family that are counted one by one
_MANY = 3  # dependencies on tasks of one family that count as all of them
_ACCESSES = {Access.LOAD: "load", Access.STORE: "store", Access.GATHER: "gather", Access.REDUCE: "reduce"}


@dataclass(frozen=True)
class Item:
    """A task of a program: its family, its time or bytes (None if neither), and the earlier tasks that it waits for."""

    family: Family
    value: float | None
    before: tuple[int, ...]


@dataclass(frozen=True)
class Observed:
    """Programs of some ranks of each stage, and how ranks differ (Job)."""

    layout: Layout
    programs: list[list[list[Item]]]
    imbalance: list[float]
    spread: list[float]


@dataclass
class _Counts:
    """What is counted over all jobs. `levels`: the least value of each level but the first, of each family."""

    levels: dict[Family, list[float]]
    symbols: dict[tuple[int, int | None, tuple[tuple[int, int], ...]], int] = field(default_factory=dict)
    families: dict[Family, int] = field(default_factory=dict)
    values: defaultdict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    follows: defaultdict[tuple[int, int, bool, int, int, tuple[int, ...]], Counter[int]] = field(
        default_factory=lambda: defaultdict(Counter)
    )


def learn(sources: Sequence[Source], order: int = 4) -> Model:
    """Return the statistics of jobs. Raises InputError for groups or messages without a regular pattern.

    `order`: how many preceding tasks decide about the next one.
    """
    observed = [observe(source) for source in sources]
    jobs = [_job(one) for one in observed]
    counts = _Counts(levels=_levels(observed, jobs))
    for one, job in zip(observed, jobs, strict=True):
        for stage, programs in enumerate(one.programs):
            for items in programs:
                _count(counts, items, job, stage, order)
    symbols = [
        Symbol(family, _likely(counts.values[number]), waits) for (family, _, waits), number in counts.symbols.items()
    ]
    rows = [Transitions(*context, tuple(following.items())) for context, following in counts.follows.items()]
    return Model(order, tuple(jobs), tuple(counts.families), tuple(symbols), tuple(rows))


def _job(observed: Observed) -> Job:
    """The scale of a job."""
    first = [program for programs in observed.programs for program in programs]
    times = [item.value for program in first for item in program if item.family.kind in TIMED and item.value]
    sizes = [item.value for program in first for item in program if item.family.kind in SIZED and item.value]
    return Job(
        observed.layout.axes,
        observed.layout.stages,
        tuple(max(1, round(np.mean([len(program) for program in programs]))) for programs in observed.programs),
        tuple(
            _forward(programs[0], stage, observed.layout.stages).forward
            for stage, programs in enumerate(observed.programs)
        ),
        float(np.mean(times)) if times else 0.0,
        float(np.mean(sizes)) if sizes else 0.0,
        _likely(observed.imbalance),
        _likely(observed.spread),
    )


def _symbols(counts: _Counts, items: Sequence[Item], job: Job) -> list[int]:
    """The symbols of a program."""
    numbers: list[int] = []
    seen: defaultdict[int, list[int]] = defaultdict(list)  # tasks of each family
    free: defaultdict[int, dict[int, None]] = defaultdict(dict)  # those that nothing waits for yet
    families: list[int] = []
    last: dict[tuple[int, int], int] = {}  # what the last task of a family waited for, by family
    for place, item in enumerate(items):
        family = counts.families.setdefault(item.family, len(counts.families))
        families.append(family)
        by_family: defaultdict[int, list[int]] = defaultdict(list)
        for earlier in sorted(item.before, reverse=True):
            by_family[families[earlier]].append(earlier)
        waits: list[tuple[int, int]] = []
        for other, tasks in by_family.items():
            refers = _which(tasks, seen[other], free[other], last.get((family, other)))
            waits += [(other, which) for which in dict.fromkeys(refers)]
            last[family, other] = tasks[0]
        for earlier in item.before:
            free[families[earlier]].pop(earlier, None)
        relative = _relative(item, job)
        level = None if relative is None else bisect_right(counts.levels[item.family], relative)
        number = counts.symbols.setdefault((family, level, tuple(sorted(waits))), len(counts.symbols))
        if relative is not None:
            counts.values[number].append(relative)
        numbers.append(number)
        seen[family].append(place)
        free[family][place] = None
    return numbers


def _which(tasks: Sequence[int], seen: Sequence[int], free: dict[int, None], last: int | None) -> list[int]:
    """How a task refers to earlier ones of a family, the latest first."""
    if len(tasks) > _MANY:
        return [ALL_FREE]
    refers = []
    for task in tasks:
        back = _back(task, seen)
        if back > _EXACT and next(iter(free), None) == task:
            back = OLDEST_FREE
        elif back > _EXACT and task == last:
            back = AGAIN
        elif back > _EXACT:
            back = 1 << round(math.log2(back))  # far ones need not be exact
        refers.append(back)
    return refers


def _back(task: int, seen: Sequence[int]) -> int:
    """How many tasks of a family there are from one to now."""
    return len(seen) - bisect_left(seen, task)


def _relative(item: Item, job: Job) -> float | None:
    """The time or bytes of a task, relative to the mean of the job."""
    if item.value is None:
        return None
    mean = job.time if item.family.kind in TIMED else job.bytes
    return item.value / mean if mean else 0.0


def _levels(observed: Sequence[Observed], jobs: Sequence[Job]) -> dict[Family, list[float]]:
    """Where levels of values of each family begin: at the widest gaps between values."""
    values: defaultdict[Family, set[float]] = defaultdict(set)
    for one, job in zip(observed, jobs, strict=True):
        for item in (item for of_stage in one.programs for program in of_stage for item in program):
            relative = _relative(item, job)
            if relative is not None:
                values[item.family].add(relative)
    levels = {}
    for family, found in values.items():
        ordered = sorted(found)
        gaps = [(high / low if low > 0 else math.inf, high) for low, high in pairwise(ordered)]
        widest = sorted((gap for gap in gaps if gap[0] > _GAP), reverse=True)[: _LEVELS - 1]
        levels[family] = sorted(high for _, high in widest)
    return levels


def _count(counts: _Counts, items: Sequence[Item], job: Job, stage: int, order: int) -> None:
    """Count what follows what in a program."""
    symbols, balance = _symbols(counts, items, job), _forward(items, stage, job.stages)
    role = role_of(stage, job.stages)
    for place, (symbol, item) in enumerate(zip(symbols, items, strict=True)):
        previous = tuple(before_all(symbols[max(0, place - order) : place], order))
        part = part_of(place, len(symbols))
        counts.follows[role, part, balance.more, balance.count, balance.since, previous][symbol] += 1
        balance.add(item.family)


def _forward(items: Sequence[Item], stage: int, stages: int) -> Balance:
    """The count of messages of a program before any of them."""
    whole = Balance(stage, stages)
    for item in items:
        whole.add(item.family)
    return Balance(stage, stages, whole.passed)


def _likely(values: Sequence[float]) -> tuple[float, ...]:
    """Values that are as likely as those given; all of them if they are few."""
    ordered = sorted(values)
    if ordered and ordered[0] == ordered[-1]:
        ordered = ordered[:1]
    elif len(ordered) > MOST_POINTS:
        ordered = [ordered[(2 * place + 1) * len(ordered) // (2 * MOST_POINTS)] for place in range(MOST_POINTS)]
    return tuple(float(f"{value:.{_DIGITS}g}") for value in ordered)


# -- what is observed in a graph ---------------------------------------------------------------------------------------


def observe(source: Source, *, own_times: bool = False) -> Observed:
    """Return the programs of a job. Raises InputError for groups or messages without a regular pattern.

    `own_times`: tasks have the times of their rank, else those without what ranks differ in.
    """
    graph = source.graph
    layout = _layout(source)
    order, first = _by_rank(graph)
    if max(np.diff(first).tolist()) > MOST_TASKS:
        raise InputError(f"has a rank with more than {MOST_TASKS} tasks", file=source.name, allowed="shorter traces")
    if not np.diff(first).all():
        raise InputError("has a rank without tasks", file=source.name, allowed="traces of ranks that all take part")
    lanes = _lanes(graph, source.name)
    common, imbalance, spread = _differences(graph, layout, order, first)
    times = graph.ticks.astype(np.float64) if own_times else common
    programs: list[list[list[Item]]] = []
    for stage in range(layout.stages):
        ranks = np.unique(
            np.linspace(0, layout.per_stage - 1, min(_RANKS_PER_STAGE, layout.per_stage)).astype(np.int64)
        )
        mine = [int(rank) + stage * layout.per_stage for rank in ranks]
        programs.append(
            [_program(source, layout, lanes, times, order[first[rank] : first[rank + 1]], rank) for rank in mine]
        )
    return Observed(layout, programs, imbalance, spread)


def _differences(
    graph: TaskGraph, layout: Layout, order: IntArray, first: IntArray
) -> tuple[FloatArray, list[float], list[float]]:
    """The times of tasks without what ranks differ in, and the imbalance and the spread of times (Job).

    If the ranks of a stage have the same tasks, that is the mean over ranks, else the time relative to that of a rank.
    """
    common = graph.ticks.astype(np.float64)
    imbalance: list[float] = []
    spread: list[float] = []
    timed = np.isin(graph.kind, [Kind.COMPUTE, Kind.MEMORY])
    for stage in range(layout.stages):
        ranks = range(stage * layout.per_stage, (stage + 1) * layout.per_stage)
        tasks = [order[first[rank] : first[rank + 1]] for rank in ranks]
        busy = np.array([graph.ticks[each[timed[each]]].sum() for each in tasks], np.float64)
        slow = busy / busy.mean() if busy.all() else np.ones(len(busy))
        imbalance += slow.tolist()
        if any(not np.array_equal(graph.kind[each], graph.kind[tasks[0]]) for each in tasks):
            for each, factor in zip(tasks, slow.tolist(), strict=True):
                common[each[timed[each]]] /= factor
            continue
        same = np.array([each[timed[each]] for each in tasks])
        of_ranks = graph.ticks[same] / slow[:, np.newaxis]
        means = of_ranks.mean(axis=0)
        common[same] = means
        spread += (of_ranks[:, means > 0] / means[means > 0]).ravel().tolist()
    return common, imbalance, spread or [1.0]


def _layout(source: Source) -> Layout:
    graph = source.graph
    tasks = graph.of_kind(Kind.COLLECTIVE)
    of_calls: dict[int, int] = dict(zip(graph.call[tasks].tolist(), graph.npu[tasks].tolist(), strict=True))
    groups = {source.members(graph.calls[call], rank) for call, rank in of_calls.items()}
    sends = graph.of_kind(Kind.SEND)
    distances = np.unique(np.abs(graph.peer[sends] - graph.npu[sends]))
    try:
        if not len(sends):
            return layout_of(groups, graph.npus, 1)
        alike = _symmetric(source, groups)
        if alike is not None:
            return alike
        # Messages between pipeline stages go to the same place of another stage.
        per_stage = int(np.gcd.reduce(distances))
        if graph.npus % per_stage:
            problem = f"messages go to ranks {per_stage} apart, which divide {graph.npus} ranks into no stages"
            raise InputError(problem, allowed="messages between pipeline stages of equal size")
        return layout_of(groups, graph.npus, graph.npus // per_stage)
    except InputError as error:
        raise error.at(file=source.name) from None


def _symmetric(source: Source, groups: set[tuple[int, ...]]) -> Layout | None:
    """The layout without stages if every rank sends alike within its groups; None if messages have another pattern."""
    graph = source.graph
    try:
        layout = layout_of(groups, graph.npus, 1)
    except InputError:
        return None
    sends = graph.of_kind(Kind.SEND)
    shifts = Counter[object]()
    pairs, many = np.unique(np.stack([graph.npu[sends], graph.peer[sends]]), axis=1, return_counts=True)
    for rank, peer, count in zip(*pairs.tolist(), many.tolist(), strict=True):
        shift = layout.shift(rank, peer)
        if shift is None:
            return None
        shifts[shift, count] += 1
    return layout if all(count == graph.npus for count in shifts.values()) else None


def _by_rank(graph: TaskGraph) -> tuple[IntArray, IntArray]:
    """The tasks of each rank, and where those of a rank begin."""
    order = np.argsort(graph.npu, kind="stable")
    return order, np.searchsorted(graph.npu[order], np.arange(graph.npus + 1))


def _lanes(graph: TaskGraph, file: str) -> list[str]:
    """The words for the resources of a graph: names of its own become numbers."""
    usual = [name for name, _ in RESOURCES]
    own = [name for name, _ in graph.resources if name not in usual]
    if len(own) > MOST_LANES:
        raise InputError(f"has {len(own)} resources of its own", file=file, allowed=f"up to {MOST_LANES}")
    names = [name if name in usual else f"lane {own.index(name)}" for name, _ in graph.resources]
    return [*names, LANES[0]]  # -1: none


def _program(
    source: Source, layout: Layout, lanes: Sequence[str], times: FloatArray, tasks: IntArray, rank: int
) -> list[Item]:
    """The tasks of a rank in an order in which each comes after those that it waits for, else by number."""
    graph = source.graph
    place = {task: number for number, task in enumerate(tasks.tolist())}
    before = [
        [place[earlier] for earlier in graph.before[graph.before_start[task] : graph.before_start[task + 1]].tolist()]
        for task in tasks.tolist()
    ]
    order = _topological(before)
    number = {old: new for new, old in enumerate(order)}
    items = []
    for old in order:
        task = int(tasks[old])
        family, value = _family(source, layout, lanes, task, rank)
        if family.kind in ("compute", "memory"):
            value = float(times[task])
        items.append(Item(family, value, tuple(number[earlier] for earlier in dict.fromkeys(before[old]))))
    return items


def _topological(before: Sequence[Sequence[int]]) -> list[int]:
    after: list[list[int]] = [[] for _ in before]
    left = [len(set(waits)) for waits in before]
    for task, waits in enumerate(before):
        for earlier in set(waits):
            after[earlier].append(task)
    ready = [task for task, count in enumerate(left) if not count]
    heapify(ready)
    order = []
    while ready:
        task = heappop(ready)
        order.append(task)
        for later in after[task]:
            left[later] -= 1
            if not left[later]:
                heappush(ready, later)
    return order


def _family(source: Source, layout: Layout, lanes: Sequence[str], task: int, rank: int) -> tuple[Family, float | None]:
    """The family of a task, and its time or bytes."""
    graph = source.graph
    kind, lane = Kind(graph.kind[task]), lanes[int(graph.resource[task])]
    ticks, size = int(graph.ticks[task]), int(graph.size[task])
    if kind == Kind.COMPUTE:
        return Family("compute", lane=lane), ticks
    if kind == Kind.MARK:
        return (Family("pause", lane=lane), ticks) if ticks else (Family("mark"), None)
    if kind == Kind.MEMORY:
        if not size:
            return Family("memory", lane=lane), ticks
        access = _ACCESSES[Access(int(graph.match[task]))]
        if access in ("gather", "reduce") and layout.stages > 1:
            problem = f"{graph.label(task)}: accesses in the switches of a memory, with pipeline stages"
            raise InputError(problem, file=source.name, allowed="jobs with one or the other")
        return Family(access, lane=lane), size
    if kind == Kind.COLLECTIVE:
        call = graph.calls[int(graph.call[task])]
        span = layout.span(source.members(call, rank), rank)
        assert isinstance(span, Span)  # layout_of has checked it
        where = (span.first, len(layout.axes) - span.last, span.stages)
        return Family("collective", call.kind, where, lane), None if call.kind == "barrier" else call.size
    peer = int(graph.peer[task])
    shift = layout.shift(rank, peer) if kind == Kind.SEND else layout.shift(peer, rank)
    if shift is None or shift.axis >= MOST_AXES:
        problem = f"{graph.label(task)}: its peer, rank {peer}, differs from rank {rank} in more than one axis"
        raise InputError(problem, file=source.name, allowed="peers along one axis, or at the same place of a stage")
    where_to = (shift.axis, shift.by)
    return (Family("send", "", where_to, lane), size) if kind == Kind.SEND else (Family("receive", "", where_to), None)
