"""Run every point of a file on every backend, one after the other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from pathlib import Path
from typing import Any

from pyxsim import library
from pyxsim.analysis.packet_spacing import kind_streams
from pyxsim.errors import InputError, SimulationError, raise_all
from pyxsim.network.backends import by_cost
from pyxsim.results.comparison import ETHERNET, FABRICS, PACKET, Compared, Comparison, Entry
from pyxsim.results.result import Result
from pyxsim.results.title import title_of
from pyxsim.runner.hooks import ProgressHooks
from pyxsim.runner.lifecycle import simulate
from pyxsim.runner.prepare import PathLike, prepare
from pyxsim.runner.prepared import Prepared
from pyxsim.settings import Experiment, folder_of, resolved_toml
from pyxsim.settings.load import Source
from pyxsim.settings.points import Point, points
from pyxsim.settings.run import with_oom
from pyxsim.settings.types import listed, shown
from pyxsim.study.compare.alone import packet_estimate
from pyxsim.study.compare.chains import chain_of
from pyxsim.study.compare.ethernet_chain import ethernet_chain

WITHIN = 0.1


@dataclass(frozen=True)
class Step:
    """A run that is about to start: a point on a backend, `number` of `count`."""

    point: Point
    backend: str
    number: int
    count: int


Hooks = Callable[[Step], ProgressHooks]


@dataclass(frozen=True)
class Plan:
    """The points of a file and the backends to compare; `title` names all of them."""

    points: Sequence[Point]
    backends: Sequence[str]
    folder: Path
    libraries: Sequence[PathLike] = ()
    allow_deadlock: bool = False
    title: str = ""

    def prepared(self, point: Point, backend: str) -> Prepared:
        """Return a point, ready to run. Raises InputError, SimulationError."""
        wanted = _with_attribution(point.experiment) if backend in FABRICS else point.experiment
        try:
            return self._prepared(wanted, backend)
        except InputError as error:
            if wanted is point.experiment or error.key != "output.attribution":
                raise
        return self._prepared(point.experiment, backend)

    def _prepared(self, experiment: Experiment, backend: str) -> Prepared:
        run = prepare(
            experiment,
            folder=self.folder,
            libraries=self.libraries,
            backend=backend,
            allow_deadlock=self.allow_deadlock,
        )
        assert run.mode == "closed"  # open traffic is refused by plan_of
        return run


def plan_of(
    source: Source,
    *,
    overrides: Iterable[str] = (),
    backends: Sequence[str] = (),
    libraries: Sequence[PathLike] = (),
    allow_deadlock: bool = False,
) -> Plan:
    """Return the points of a TOML file, a dict or an Experiment, and the backends: by default all.

    Raises InputError with the faults of all points; what no backend can run is a fault of the file.
    """
    library.load_all(libraries := listed(libraries))
    chosen = by_cost(listed(backends))  # the fast ones first: they report faults soonest
    file_points = points(source, overrides, libraries)
    raise_all([point.placed(_refused(point)) for point in file_points if point.experiment.traffic is not None][:1])
    file = Path(source) if isinstance(source, str | Path) else None
    title = file.stem.replace("_", " ") if file is not None and len(file_points) > 1 else ""
    plan = Plan(file_points, chosen, folder_of(source), tuple(libraries), allow_deadlock, title)
    faults = {str(fault): fault for point in file_points for fault in _faults(plan, point)}  # points may share one
    raise_all(list(faults.values()))
    return plan


def _refused(point: Point) -> InputError:
    if point.experiment.background is None:
        return InputError(
            "compare does not take open traffic", key="traffic", allowed="[collective], [[message]] or [workload]"
        )
    allowed = "the same file without [traffic], or `pyxsim run` for each backend"
    return InputError("compare does not take background traffic", key="traffic", allowed=allowed)


def _faults(plan: Plan, point: Point) -> Iterator[InputError]:
    """The faults of a point that no backend can run."""
    first: InputError | None = None
    for backend in plan.backends:
        try:
            plan.prepared(point, backend)
        except InputError as error:
            first = first or point.placed(error)
        except SimulationError:
            return
        except Exception as error:
            if (fault := library.user_fault(error)) is None:
                raise
            first = first or fault
        else:
            return
    if first is not None:
        yield first


def read_share(value: object, key: str = "within") -> float:
    """Return the share of a text such as "10%", "10 %" or "0.1", or of a number. Raises InputError."""
    share: Any = value if isinstance(value, Real) else -1
    if isinstance(value, str) and (match := re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+) ?(%?)", value.strip(), re.ASCII)):
        share = float(match[1]) / (100 if match[2] else 1)
    if not 0 < share < 1:
        raise InputError(f"{shown(value)} is not a fraction", key=key, allowed="between 0 and 1, such as 10% or 0.1")
    return float(share)


def compare(
    source: Source | Plan,
    *,
    overrides: Iterable[str] = (),
    backends: Sequence[str] = (),
    within: float | str = WITHIN,
    libraries: Sequence[PathLike] = (),
    allow_deadlock: bool = False,
    allow_oom: bool = False,
    hooks: Hooks = lambda step: ProgressHooks(),
    tell: Callable[[Compared], None] = lambda point: None,
) -> Comparison:
    """Run each point of an experiment file, a dict or an Experiment on each backend.

    Ctrl-C ends the comparison early; it then has the completed runs, and `complete` is False.

    Parameters
    ----------
    source, overrides, libraries, allow_deadlock, allow_oom
        As for `pyxsim.run`; a file may hold several experiments.
    backends
        Names of network models; by default all.
    within
        Largest accepted difference from the packet backend's time: 0.1, or "10%".
    hooks
        Returns the hooks of each run.
    tell
        Called with each point as soon as it completes.

    Raises
    ------
    InputError
        With the errors of all points.
    """
    within = read_share(within)
    more: dict[str, Any] = {"backends": backends, "libraries": libraries, "allow_deadlock": allow_deadlock}
    plan = source if isinstance(source, Plan) else plan_of(source, overrides=with_oom(overrides, allow_oom), **more)
    seed = plan.points[0].experiment.output.seed
    comparison = Comparison(plan.title, plan.backends, [], within, seed)
    try:
        for number, point in enumerate(plan.points):
            compared = _blank(plan, point)
            comparison.points.append(compared)
            for place, backend in enumerate(plan.backends):
                step = Step(point, backend, number * len(plan.backends) + place, len(plan.points) * len(plan.backends))
                entry = _run(plan, step, compared, hooks(step))
                compared.entries.append(entry)
                if entry.result is not None and not entry.result.complete and not entry.reason:
                    raise KeyboardInterrupt
            if PACKET not in plan.backends:
                _beforehand(plan, point, compared)
            tell(compared)
    except KeyboardInterrupt:
        comparison.complete = False
    if not comparison.title and comparison.points:
        comparison.title = comparison.points[0].title
    return comparison


def _blank(plan: Plan, point: Point) -> Compared:
    toml = resolved_toml(point.experiment)
    title = title_of(point.experiment.model_dump(mode="json", exclude_none=True))
    clock = point.experiment.network.clock
    return Compared(point.label, title, clock, Fraction(0), [], point.values, point.variant, toml)


def _run(plan: Plan, step: Step, compared: Compared, hooks: ProgressHooks) -> Entry:
    """Run a point on a backend. If the backend cannot run it, the entry has the reason instead of a time."""
    try:
        prepared = plan.prepared(step.point, step.backend)
        result = simulate(prepared, backend=step.backend, hooks=hooks)
        _note(compared, step.point, prepared, result)
    except SimulationError as error:
        return Entry(step.backend, getattr(error, "result", None), reason=str(error))
    except InputError as error:
        return Entry(step.backend, reason=_reason(step.point.placed(error)))
    except Exception as error:
        if (fault := library.user_fault(error)) is None:
            raise
        return Entry(step.backend, reason=str(fault))
    return Entry(step.backend, result)


def _beforehand(plan: Plan, point: Point, compared: Compared) -> None:
    """Estimate packets without simulating them, unless the packet backend cannot run the point."""
    try:
        prepared = plan.prepared(point, PACKET)
    except (InputError, SimulationError):
        return
    compared.estimate = packet_estimate(prepared)


def _note(compared: Compared, point: Point, prepared: Prepared, result: Result) -> None:
    """Add to a point what any backend's run provides."""
    compared.title = result.title
    network = prepared.experiment.network  # with the clock that was chosen
    compared.clock_hz = network.clock
    compared.experiment_toml = resolved_toml(point.experiment.model_copy(update={"network": network}))
    compared.lower_bound = prepared.first + prepared.lower_bound
    chain = {PACKET: chain_of, ETHERNET: ethernet_chain}.get(result.backend)
    if chain is not None and result.complete and (found := chain(prepared, result)) is not None:
        compared.chains = {**compared.chains, result.backend: found}
    if result.backend == PACKET:
        packet = prepared.network.cut(prepared.experiment.network.packet)[1]
        compared.loops = {
            kind: (stream.needed, stream.slots) for kind, stream in kind_streams(prepared.network, packet)
        }
        compared.estimate = packet_estimate(prepared)


def _reason(error: InputError) -> str:
    return str(error).splitlines()[0]


def _with_attribution(experiment: Experiment) -> Experiment:
    """Return the experiment with attribution by link, unless it has a finer one."""
    output = experiment.output
    if output.attribution != "off":
        return experiment
    return experiment.model_copy(update={"output": output.model_copy(update={"attribution": "links"})})
