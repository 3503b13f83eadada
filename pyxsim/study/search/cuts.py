"""Which points of a search are cut before anything runs: constraints, settings that do not fit, memory."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from pyxsim.errors import InputError, single_faults
from pyxsim.network.clock import with_clock
from pyxsim.settings import Experiment
from pyxsim.settings.search import NPUS, Constraint
from pyxsim.settings.space import Place, Space
from pyxsim.settings.types import exact
from pyxsim.topology import Topology
from pyxsim.topology.build import network_of
from pyxsim.units import base_numbers, percent, rounded
from pyxsim.workload.parallel import training_plan, training_step
from pyxsim.workload.parallel.plan import Plan
from pyxsim.workload.training_step import TrainingStep

MEMORY, SETTINGS, CONSTRAINT = "memory", "settings", "constraint"
MORE_MEMORY = 1.1  # share of the memory, for the sensitivity to it
_OF_STEP = ("workload", "system.npu", "system.remote_memory")  # what the memory of an NPU depends on, with the NPUs


@dataclass(frozen=True)
class Cut:
    """Why a point is cut. `cause`: MEMORY, SETTINGS or CONSTRAINT; `reason`: which; `excess`: how far it misses, as a
    share of what is allowed (0: unknown)."""

    cause: str
    reason: str
    excess: float = 0.0
    detail: str = ""


@dataclass
class Networks:
    """The networks of some experiments, each built once. `folder`: start of relative paths."""

    folder: Path
    _known: dict[str, tuple[Experiment, Topology]] = field(default_factory=dict)

    def of(self, experiment: Experiment) -> tuple[Experiment, Topology]:
        """Return the experiment with its clock, and the topology. Raises InputError."""
        key = repr(experiment.network)
        if key not in self._known:
            topology = network_of(experiment.network, self.folder)
            settings, _ = with_clock(experiment.network, topology)
            self._known[key] = experiment.model_copy(update={"network": settings}), topology
        clocked, topology = self._known[key]
        return experiment.model_copy(update={"network": clocked.network}), topology


def plan_of_step(experiment: Experiment, topology: Topology, folder: Path) -> tuple[Plan, TrainingStep]:
    """Return how an experiment trains its model. Raises InputError."""
    workload, npu = experiment.workload, experiment.system.npu
    assert workload is not None
    clock, memory = experiment.network.clock, experiment.system.remote_memory
    plan = training_plan(workload, npu, topology.shape, clock, folder, memory)
    assert npu is not None  # training_plan requires it
    return plan, training_step(plan, npu)


class Cutter:
    """Decides which points of a space can run. `counts`: points cut, by cause and reason."""

    def __init__(self, space: Space, folder: Path) -> None:
        self.space, self.folder = space, folder
        self.networks = Networks(folder)
        self.counts: Counter[tuple[str, str]] = Counter()
        self.examples: dict[tuple[str, str], tuple[Place, str]] = {}
        self.freed: list[Place] = []  # cut by memory, but not with `MORE_MEMORY` of it
        self.nearest: tuple[float, Place, Cut] | None = None
        self._npus: dict[Place, int | None] = {}
        self._steps: dict[tuple[Any, ...], Cut | None] = {}
        self._numbers: dict[Any, Fraction] = {}
        first = [axis[0] for axis in space.axes]
        paths = [tuple(choice.swept) for choice in first]
        self._network_axes = [n for n, names in enumerate(paths) if any(name.startswith("network") for name in names)]
        self._step_axes = [n for n, names in enumerate(paths) if any(name.startswith(_OF_STEP) for name in names)]
        self._constraints = [self._resolved(number, each) for number, each in enumerate(space.search.constraint)]

    def _resolved(self, number: int, constraint: Constraint) -> tuple[Constraint, list[str]]:
        """A constraint with the key paths of its names. Raises InputError for unknown ones."""
        try:
            for _, operand in constraint.comparisons:
                if isinstance(operand, str):
                    self._path(operand)
            return constraint, [self._path(name) for name in constraint.names]
        except InputError as error:
            key = f"search.constraint[{number}]"
            raise InputError(
                error.problem, file=self.space.maker.file, key=key, allowed=error.allowed, given=error.given
            ) from None

    def _path(self, name: str) -> str:
        names = self.space.names
        ends = [path for path in names if path == name or path.endswith(f".{name}")]
        if name == NPUS or len(ends) == 1:
            return name if name == NPUS else ends[0]
        try:
            self._number(self.space.written(name))
        except InputError as error:
            if error.problem != "unknown key":
                raise
            known = [*(path.rpartition(".")[2] for path in names), NPUS]
            problem = f"'{name}' is not an axis, a setting or '{NPUS}'"
            raise InputError(problem, allowed=known, given=name) from None
        return name

    def check(self, place: Place) -> Cut | None:
        """Return why the point at a place cannot run; None if it can. Counts what is cut."""
        cut = self._constrained(place) or self._unfit(place)
        if cut is not None:
            self.counts[cut.cause, cut.reason] += 1
            self.examples.setdefault((cut.cause, cut.reason), (place, cut.detail))
            if cut.cause == MEMORY and 1 + cut.excess <= MORE_MEMORY:
                self.freed.append(place)
            if cut.excess and (self.nearest is None or cut.excess < self.nearest[0]):
                self.nearest = cut.excess, place, cut
        return cut

    # -- constraints --

    def _constrained(self, place: Place) -> Cut | None:
        if not self._constraints:
            return None
        values = self.space.values(place)
        for constraint, paths in self._constraints:
            numbers = [self._value(path, values, place) for path in paths]
            if any(number is None for number in numbers):
                continue  # the settings themselves are at fault
            known = [number for number in numbers if number is not None]
            result = math.prod(known, start=Fraction(1)) if constraint.product else sum(known, Fraction(0))
            for comparison, operand in constraint.comparisons:
                limit = self._value(self._path(operand), values, place) if isinstance(operand, str) else exact(operand)
                if limit is None or _holds(comparison, result, limit):
                    continue
                excess = float(abs(result - limit) / limit) if limit else 0.0
                return Cut(CONSTRAINT, constraint.text, excess, f"{float(result):g} instead of {float(limit):g}")
        return None

    def _value(self, path: str, values: dict[str, Any], place: Place) -> Fraction | None:
        if path == NPUS:
            npus = self._network_npus(place)
            return None if npus is None else Fraction(npus)
        return self._number(values[path] if path in values else self.space.written(path))

    def _number(self, value: Any) -> Fraction:
        if isinstance(value, list | tuple | dict):
            raise InputError(f"{value} is not a number", allowed="an axis of numbers")
        if value not in self._numbers:
            number = exact(value)
            if number is None:
                number = Fraction(base_numbers([value])[1][0])
            self._numbers[value] = number
        return self._numbers[value]

    def _network_npus(self, place: Place) -> int | None:
        """The NPUs of the network at a place; None if its settings are invalid."""
        key = tuple(place[number] for number in self._network_axes)
        if self._npus.get(key) is None:
            try:
                self._npus[key] = self.networks.of(self.space.point(place).experiment)[1].npus
            except InputError:
                self._npus[key] = None
        return self._npus[key]

    # -- settings and memory --

    def _unfit(self, place: Place) -> Cut | None:
        """Whether the model does not fit; the same for all places with equal settings of the step and NPUs."""
        key = (self._network_npus(place), *(place[number] for number in self._step_axes))
        if key[0] is None or key not in self._steps:
            self._steps[key] = self._fit(place)
        return self._steps[key]

    def _fit(self, place: Place) -> Cut | None:
        try:
            point = self.space.point(place)
            experiment, topology = self.networks.of(point.experiment)
            if experiment.workload is None or experiment.workload.model is None:
                return None
            try:
                _, step = plan_of_step(experiment, topology, self.folder)
            except InputError as error:
                raise point.placed(error) from None
        except InputError as error:
            fault = single_faults(error)[0]
            key = re.sub(r"\[\d+\]$", "", fault.key or "")
            return Cut(SETTINGS, f"{key}: {_general(fault.problem)}", detail=str(fault))
        if step.fits or experiment.run.allow_oom:
            return None
        assert step.capacity is not None
        need, (term, size), *_ = step.fullest.total, *step.fullest.largest
        detail = (
            f"an NPU needs {rounded(need, 'B')} and has {rounded(step.capacity, 'B')}; "
            f"largest term: {term}, {rounded(size, 'B')}"
        )
        return Cut(MEMORY, f"largest term: {term}", need / step.capacity - 1, detail)

    def nothing_left(self, count: int) -> InputError:
        """Return the error of a space in which every point is cut: what cut most, and the nearest miss."""
        ((cause, reason), most), *_ = self.counts.most_common()
        example = self.examples[cause, reason][1] if cause == SETTINGS else reason
        problem = f"none of {count} points can run; {most} are cut by {cause} ({example})"
        if self.nearest is not None:
            excess, place, cut = self.nearest
            problem += f"; the nearest misses by {percent(excess)}: {self._words(place)}: {cut.detail}"
        return InputError(
            problem, file=self.space.maker.file, key="search.axes", allowed="other values, or weaker constraints"
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return what cut points, most first: cause, reason, number of points, and an example."""
        return [
            {"cause": cause, "reason": reason, "points": points, "example": self._example(cause, reason)}
            for (cause, reason), points in self.counts.most_common()
        ]

    def _example(self, cause: str, reason: str) -> str:
        place, detail = self.examples[cause, reason]
        return f"{self._words(place)}: {detail}"

    def _words(self, place: Place) -> str:
        """The values at a place in words."""
        return ", ".join(f"{name.rpartition('.')[2]} = {value}" for name, value in self.space.values(place).items())


def _holds(comparison: str, result: Fraction, limit: Fraction) -> bool:
    if comparison == "equals":
        return result == limit
    if comparison == "at_most":
        return result <= limit
    if comparison == "at_least":
        return result >= limit
    return result != 0 and (limit / result).denominator == 1


def _general(problem: str) -> str:
    """A problem without its numbers, so that equal ones count together."""
    words = ("N" if word.strip(",;").isdigit() else word for word in problem.split())
    return " ".join(words)
