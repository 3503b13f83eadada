"""Simulate the same traffic at many loads: the load-latency curve and the saturation load.

Points are independent simulations in parallel processes; each has the seed of the experiment, so a point equals what
`pyxsim run` computes at that load.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any

from pyxsim.errors import InputError, SimulationError
from pyxsim.results.curve import Curve
from pyxsim.results.result import Result
from pyxsim.results.table import Facts
from pyxsim.results.title import title_of
from pyxsim.runner.lifecycle import simulate
from pyxsim.runner.prepare import prepare
from pyxsim.runner.prepared import PreparedTraffic
from pyxsim.runner.traffic.open_loop import settings_of, traffic_bound
from pyxsim.settings import Experiment, folder_of, load_experiment, resolved_toml
from pyxsim.settings.load import Source
from pyxsim.settings.types import listed, shown
from pyxsim.study.curve.process_pool import ProcessPool
from pyxsim.study.sweep.crew import processes

Point = dict[str, Any]

FIRST = (0.02, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0)
"""The first loads of an automatic curve, over the bound."""
MOST_LOAD = 1e6
KNEE = 3  # halvings of the interval between the last sustained and the first saturated load


@dataclass
class Points:
    """Simulates loads of one experiment and calls `tell` with each point when it is complete."""

    experiment: Experiment
    folder: Path = Path()
    libraries: Sequence[str] = ()
    allow_deadlock: bool = False
    workers: int = 1
    tell: Callable[[Point], None] = lambda point: None
    known: dict[float, Point] = field(default_factory=dict)
    _map: Callable[..., Iterable[tuple[float, Point]]] = map

    def prepared(self, load: float | None = None) -> PreparedTraffic:
        """Return the experiment at a load, ready to run. Raises InputError, DeadlockError."""
        traffic = settings_of(self.experiment)
        changed = traffic if load is None else traffic.at(load)
        run = prepare(
            self.experiment.model_copy(update={"traffic": changed}),
            folder=self.folder,
            libraries=self.libraries,
            allow_deadlock=self.allow_deadlock,
        )
        assert run.mode == "open"
        return run

    @contextmanager
    def pool(self) -> Iterator[None]:
        """Context manager in which several processes simulate points."""
        if self.workers == 1:
            yield
            return
        with ProcessPool(self.workers) as pool:
            self._map = pool.map
            try:
                yield
            finally:
                self._map = map

    def at(self, loads: Iterable[float]) -> list[Point]:
        """Return the points of some loads; each is simulated once."""
        distinct = list(dict.fromkeys(loads))
        # The longest first, so that the last one does not run on its own.
        new = sorted((load for load in distinct if load not in self.known), reverse=True)
        job = _Job(self.experiment, self.folder, tuple(self.libraries), self.allow_deadlock)
        for load, point in self._map(job, new):
            self.known[load] = point
            self.tell(point)
        return [self.known[load] for load in distinct]

    def bound(self) -> float | None:
        """The load in flits per node and cycle at which the busiest link or lane saturates."""
        return traffic_bound(self.prepared())


@dataclass(frozen=True)
class _Job:
    experiment: Experiment
    folder: Path
    libraries: tuple[str, ...]
    allow_deadlock: bool

    def __call__(self, load: float) -> tuple[float, Point]:
        points = Points(self.experiment, self.folder, self.libraries, self.allow_deadlock)
        try:
            result = simulate(points.prepared(load))
        except SimulationError as error:
            return load, {"offered_load": load, "error": str(error)}
        if not result.complete:
            raise KeyboardInterrupt
        return load, _point(result)


def _point(result: Result) -> Point:
    summary = result.traffic.summary if result.traffic is not None else {}
    more: dict[str, Any] = {key: result.json()[key] for key in ("cycles", "router_visits", "sim_cpu_s")}
    return {**summary, **more, "warnings": result.warnings}


def points_of(
    source: Source,
    *,
    overrides: Iterable[str] = (),
    libraries: Iterable[str] = (),
    allow_deadlock: bool = False,
    workers: int | None = None,
    tell: Callable[[Point], None] = lambda point: None,
) -> Points:
    """Return the points of an experiment. Raises InputError unless its traffic has a load."""
    libraries = listed(libraries)
    experiment = load_experiment(source, overrides, libraries)
    experiment.run.check_single()
    traffic = settings_of(experiment)
    if experiment.background is not None:
        problem = "is background traffic, which has no load-latency curve"
        raise InputError(problem, key="traffic", allowed="[traffic] alone, or `pyxsim sweep` over traffic.load")
    if traffic.offered is None:
        raise InputError("a batch or a trace has no load", key="traffic.load")
    count = processes(workers)
    if count > 1 and experiment.run.threads == "auto":  # the other processes use the cores
        experiment = experiment.model_copy(update={"run": experiment.run.model_copy(update={"threads": 1})})
    return Points(experiment, folder_of(source), tuple(libraries), allow_deadlock, count, tell)


def curve(
    source: Source | Points,
    loads: float | Sequence[float] | None = None,
    *,
    overrides: Iterable[str] = (),
    libraries: Iterable[str] = (),
    allow_deadlock: bool = False,
    workers: int | None = None,
    tell: Callable[[Point], None] = lambda point: None,
) -> Curve:
    """Simulate the same open traffic at many loads: the load-latency curve.

    Ctrl-C ends the curve early; it then has the completed points, and `complete` is False.

    Parameters
    ----------
    source
        A TOML file, a dict, an Experiment, or the Points of one, with a table [traffic] whose load is replaced.
    loads
        One or several, in flits per node and cycle. Without them, loads up to the bound, more densely where the
        latency rises.
    overrides, libraries, allow_deadlock
        As for `pyxsim.run`.
    workers
        Processes; by default one per processor.
    tell
        Called with each point as soon as it completes.

    Raises
    ------
    InputError
        If the experiment is invalid or has no load.
    """
    requested = None if loads is None else _checked(loads)
    more: dict[str, Any] = {"libraries": libraries, "allow_deadlock": allow_deadlock, "workers": workers, "tell": tell}
    points = source if isinstance(source, Points) else points_of(source, overrides=overrides, **more)
    bound = points.bound()
    complete = True
    try:
        with points.pool():
            if requested is not None:
                points.at(requested)
            else:
                _automatic(points, bound or 1.0)
    except KeyboardInterrupt:
        complete = False
    return _curve(points, bound, complete)


def _checked(loads: Any) -> list[float]:
    """The loads as a list. Raises InputError for an invalid load."""
    values = list(loads) if isinstance(loads, Iterable) and not isinstance(loads, str) else [loads]
    for load in values:
        number: Any = load if isinstance(load, Real) and not isinstance(load, bool) else 0
        if not 0 < number < MOST_LOAD:
            problem = f"{shown(load)} is not a load"
            raise InputError(problem, key="loads", allowed="numbers above 0, in flits per node and cycle")
    return values


def _curve(points: Points, bound: float | None, complete: bool) -> Curve:
    experiment = points.experiment
    text = resolved_toml(experiment)
    title = title_of(tomllib.loads(text)).rpartition(" at load ")[0] or title_of(tomllib.loads(text))
    return Curve(title, list(points.known.values()), bound, text, experiment.output.seed, complete)


def _automatic(points: Points, bound: float) -> None:
    points.at([_short(share * bound) for share in FIRST])
    for _ in range(KNEE):
        low, high = _curve(points, bound, True).saturation
        if low is None or high is None:
            return
        count = max(1, points.workers)
        points.at([_short(low + (high - low) * (k + 1) / (count + 1)) for k in range(count)])
        if count > 2:
            return


def _short(load: float) -> float:
    """A load rounded to four digits."""
    return float(f"{load:.4g}")


@dataclass(frozen=True, repr=False)
class Saturation(Facts):
    """The network sustains the load `low` but not `high`; they differ by at most `resolution`.

    `low` is 0 if it sustained no load that was tried. `high` is None if it sustained all, or if the search was
    interrupted before. `curve`: the simulated points."""

    low: float
    high: float | None
    resolution: float
    curve: Curve

    def json(self) -> dict[str, Any]:
        """Return the search as one JSON object."""
        return {
            **self.curve.json(),
            "saturation_low": self.low,
            "saturation_high": self.high,
            "resolution": self.resolution,
        }


def saturation(
    source: Source | Points,
    resolution: float | None = None,
    *,
    overrides: Iterable[str] = (),
    libraries: Iterable[str] = (),
    allow_deadlock: bool = False,
    workers: int | None = None,
) -> Saturation:
    """Search the load at which a network saturates, by bisection.

    The search assumes that a network that accepts a load also accepts all lower loads. Ctrl-C ends it early.

    Parameters
    ----------
    source, overrides, libraries, allow_deadlock, workers
        As for `pyxsim.curve`.
    resolution
        Flits per node and cycle; a hundredth of the bound by default.
    """
    more: dict[str, Any] = {"libraries": libraries, "allow_deadlock": allow_deadlock, "workers": workers}
    points = source if isinstance(source, Points) else points_of(source, overrides=overrides, **more)
    bound = points.bound()
    most = _short(bound or 1.0)
    step = resolution or _short((bound or 1.0) / 100)
    low, high, complete = 0.0, None, True
    try:
        with points.pool():
            if _taken(points.at([most])[0]):
                low = most
            else:
                high = most
            while high is not None and high - low > step:
                count = max(1, min(points.workers, math.ceil((high - low) / step) - 1))
                inside = [float(f"{low + (high - low) * (k + 1) / (count + 1):.6g}") for k in range(count)]
                inside = [load for load in inside if low < load < high]
                if not inside:
                    break
                refused = [load for load, point in zip(inside, points.at(inside), strict=True) if not _taken(point)]
                high = min(refused, default=high)
                low = max((load for load in inside if load < high), default=low)
    except KeyboardInterrupt:
        complete = False
    return Saturation(low, high, step, _curve(points, bound, complete))


def _taken(point: Point) -> bool:
    if "error" in point:
        raise SimulationError(f"at load {point['offered_load']:g}: {point['error']}")
    return not point["saturated"]
