"""Draws traces from a model: programs of the stages as tasks of all ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from pyxsim.arrays import FloatArray, IntArray
from pyxsim.errors import InputError
from pyxsim.settings.network import MAX_NPUS
from pyxsim.workload.graph import MOST_CYCLES, RESOURCES, Access, Call, GraphBuilder, Kind, TaskGraph, check
from pyxsim.workload.making.layout import MOST_TASKS, STAGES, Layout, Shift, Span
from pyxsim.workload.making.model import MOST_AXES, TIMED, Family, Job, Model
from pyxsim.workload.making.programs import Drawing, Program, Step

_KINDS = {
    "compute": Kind.COMPUTE,
    "memory": Kind.MEMORY,
    "pause": Kind.MARK,
    "mark": Kind.MARK,
    "load": Kind.MEMORY,
    "store": Kind.MEMORY,
    "gather": Kind.MEMORY,
    "reduce": Kind.MEMORY,
    "send": Kind.SEND,
    "receive": Kind.RECEIVE,
    "collective": Kind.COLLECTIVE,
}
_ACCESSES = {"load": Access.LOAD, "store": Access.STORE, "gather": Access.GATHER, "reduce": Access.REDUCE}
_JOINT = ("collective", "gather", "reduce")  # which ranks have to begin in the same order


@dataclass(frozen=True)
class Synthesized:
    """Drawn tasks of all ranks.

    Attributes
    ----------
    time_ps
        The mean time of all tasks of a rank.
    dropped
        Drawn tasks that were left out, because they had no partner or no group in this layout.
    """

    graph: TaskGraph
    layout: Layout
    time_ps: float
    dropped: int


def synthesize(model: Model, npus: int | None = None, seed: int = 1) -> Synthesized:
    """Return tasks of `npus` ranks with the statistics of a model; the same ones for the same seed.

    Raises InputError for a number of ranks that the layouts of its jobs do not divide.
    """
    random = Random(f"pyxsim {seed}")
    job, layout = _scale(model, npus, random)
    if sum(job.tasks) * layout.per_stage > MOST_TASKS:
        problem = f"{layout.ranks} ranks of up to {max(job.tasks)} tasks are too many"
        raise InputError(problem, key="--npus", allowed=f"{MOST_TASKS} tasks in total")
    drawing = Drawing(model, layout, job, random)
    programs = drawing.draw()
    graph = _Ranks(model, layout, job).graph(programs, random)
    check(graph)
    busy = np.where(graph.kind != Kind.MARK, graph.ticks, 0).sum(dtype=np.float64)
    return Synthesized(graph, layout, float(busy) / layout.ranks, drawing.dropped)


def _scale(model: Model, npus: int | None, random: Random) -> tuple[Job, Layout]:
    """The scale of the drawn job, between those of two learned jobs with as many stages, and its layout."""
    fits = [job for job in model.traces if npus is None or npus % _fixed(job) == 0]
    if not fits:
        least = sorted({_fixed(job) for job in model.traces})
        allowed = f"multiples of {' or '.join(map(str, least))}, up to {MAX_NPUS}"
        raise InputError(f"{npus} ranks divide into no layout of a learned job", key="--npus", allowed=allowed)
    one = fits[int(random.random() * len(fits))]
    others = [job for job in fits if (job.stages, len(job.axes)) == (one.stages, len(one.axes))]
    other, share = others[int(random.random() * len(others))], random.random()

    def between(low: float, high: float) -> float:
        return math.exp(math.log(low) * (1 - share) + math.log(high) * share) if low > 0 and high > 0 else low

    job = Job(
        one.axes,
        one.stages,
        tuple(max(1, round(between(*counts))) for counts in zip(one.tasks, other.tasks, strict=True)),
        tuple(round(between(*counts)) for counts in zip(one.forward, other.forward, strict=True)),
        between(one.time, other.time),
        between(one.bytes, other.bytes),
        one.imbalance,
        one.spread,
    )
    last = one.axes[-1] if npus is None else npus // _fixed(one)
    return job, Layout((*one.axes[:-1], last), one.stages)


def _fixed(job: Job) -> int:
    """The ranks that stay together: all axes but that of data parallelism."""
    return math.prod(job.axes[:-1]) * job.stages


class _Ranks:
    """Turns the programs of stages into tasks of their ranks."""

    def __init__(self, model: Model, layout: Layout, job: Job) -> None:
        self.model, self.layout, self.job = model, layout, job
        own = sorted({family.lane for family in model.families} - {"none", *(name for name, _ in RESOURCES)})
        self.builder = GraphBuilder(layout.ranks, (*RESOURCES, *((name, 1) for name in own)))
        self.shared: dict[tuple[Family, int], int] = {}

    def graph(self, programs: Sequence[Program], random: Random) -> TaskGraph:
        """Return all tasks."""
        likely = self.job.imbalance
        for program in programs:
            ranks = np.arange(self.layout.per_stage) + program.stage * self.layout.per_stage
            places = [(place + random.random()) / len(ranks) for place in range(len(ranks))]
            slow = np.array([likely[int(place * len(likely))] for place in places])
            slow = slow / slow.mean() if slow.mean() > 0 else np.ones(len(ranks))
            for place in range(len(slow) - 1, 0, -1):  # in any order
                other = int(random.random() * (place + 1))
                slow[[place, other]] = slow[[other, place]]
            self._add(program, ranks, slow, random)
        return self.builder.graph()

    def _add(self, program: Program, ranks: IntArray, slow: FloatArray, random: Random) -> None:
        numbers: list[IntArray] = []
        families = [self._family(step) for step in program.steps]
        for step, family, before in zip(program.steps, families, _in_order(program.steps, families), strict=True):
            waits = [numbers[each] for each in before]
            mine = slow * self._spread(len(ranks), random) if family.kind in TIMED else slow
            numbers.append(self._task(program.stage, step, family, ranks, mine, waits))

    def _spread(self, count: int, random: Random) -> FloatArray:
        """Factors of the time of a task on so many ranks."""
        likely = self.job.spread
        if len(likely) == 1:
            return np.ones(count)
        return np.array([likely[int(random.random() * len(likely))] for _ in range(count)])

    def _family(self, step: Step) -> Family:
        """The family of a step."""
        if step.family >= 0:
            return self.model.families[step.family]
        assert step.channel is not None
        return Family("receive", "", step.channel[2:])

    def _task(
        self, stage: int, step: Step, family: Family, ranks: IntArray, slow: FloatArray, before: Sequence[IntArray]
    ) -> IntArray:
        kind = _KINDS[family.kind]
        lane = None if family.lane == "none" else family.lane
        if family.kind in TIMED:
            ticks = np.round(step.value * self.job.time * slow)
            if ticks.max(initial=0) > MOST_CYCLES:
                raise InputError(f"a task of {ticks.max():g} ps is too long", allowed=f"up to {MOST_CYCLES} ps")
            whole = ticks.astype(np.int64) if family.kind != "pause" else np.maximum(1, ticks).astype(np.int64)
            return self.builder.tasks(ranks, kind, ticks=whole, resource=lane, before=before)
        size = max(1, min(round(step.value * self.job.bytes), MOST_CYCLES))
        if family.kind in _ACCESSES:
            access = _ACCESSES[family.kind]
            return self.builder.tasks(ranks, kind, size=size, match=access, resource=lane, before=before)
        if kind == Kind.COLLECTIVE:
            call = self._call(stage, step, family, size)
            return self.builder.tasks(ranks, kind, call=call, resource=lane, before=before)
        if kind == Kind.MARK:
            return self.builder.tasks(ranks, kind, before=before)
        assert step.channel is not None
        axis, by = step.channel[2:]
        peers = self.layout.targets(ranks, Shift(axis, by if kind == Kind.SEND else -by))
        tag = step.match * (MOST_AXES + 1) + axis - STAGES
        return self.builder.tasks(ranks, kind, size=size, peer=peers, match=tag, resource=lane, before=before)

    def _call(self, stage: int, step: Step, family: Family, size: int) -> int:
        """The number of a collective."""
        if step.match >= 0 and (family, step.match) in self.shared:
            return self.shared[family, step.match]
        span = Span(int(family.where[0]), len(self.layout.axes) - int(family.where[1]), str(family.where[2]))
        groups = self.layout.groups(span, stage)
        whole = len(groups) == 1 and len(groups[0]) == self.layout.ranks
        size = 0 if family.what == "barrier" else size
        number = self.builder.call(Call(family.what, size, groups=None if whole else tuple(groups), name=family.what))
        if step.match >= 0:
            self.shared[family, step.match] = number
        return number


def _in_order(steps: Sequence[Step], families: Sequence[Family]) -> list[list[int]]:
    """Return what each task waits for, so that no collective is ready before the one before it, on any rank.

    Ranks that are not equally fast then begin collectives in the same order. A collective comes after all that the one
    before it waits for: by a task on the same lane that it waits for anyway, else directly.
    """
    befores = [list(step.before) for step in steps]
    previous: list[int] = []
    for place, family in enumerate(families):
        if family.kind not in _JOINT:
            continue
        for earlier in _unreached(previous, place, befores):
            lane = families[earlier].lane
            later = [each for each in befores[place] if each > earlier and families[each].lane == lane != "none"]
            befores[max(later, default=place)].append(earlier)
        previous = befores[place]
    return befores


def _unreached(tasks: Sequence[int], place: int, befores: Sequence[Sequence[int]]) -> list[int]:
    """Return those of `tasks` that a later task neither waits for nor comes after."""
    least = min(tasks, default=0)
    reached, todo = set[int](), [place]
    while todo:
        new = [task for task in befores[todo.pop()] if task >= least and task not in reached]
        reached.update(new)
        todo += new
    return [task for task in tasks if task not in reached]
