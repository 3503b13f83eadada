"""Run a search: cut, screen, decide, and say how sure the answer is."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyxsim import __version__, library
from pyxsim.errors import InputError, PyxsimError
from pyxsim.network.backends import backend_class
from pyxsim.results.provenance import provenance, sha256
from pyxsim.results.search import Evaluations, SearchResult, write
from pyxsim.results.sweep import Number, read_summary, split
from pyxsim.settings import folder_of
from pyxsim.settings.load import Source
from pyxsim.settings.run import with_oom
from pyxsim.settings.search import ESTIMATE, HIGHER, OBJECTIVES
from pyxsim.settings.space import Place, Space, read_space
from pyxsim.settings.types import listed
from pyxsim.study.search.cuts import Cutter
from pyxsim.study.search.evaluate import MODELS, Estimates, estimator, step_of, step_values
from pyxsim.study.search.explore import Explorer, at_random, exhaustive, numeric_axes, sampled
from pyxsim.study.search.outcome import best_places, confidence, sensitivities, table_rows
from pyxsim.study.search.pricing import PRICED, Prices
from pyxsim.study.sweep.cluster import Cluster
from pyxsim.study.sweep.crew import Crew, Local, processes
from pyxsim.study.sweep.folder import Folder
from pyxsim.study.sweep.keys import Keys
from pyxsim.study.sweep.task import AGAIN, Outcome, Task, Work

SAMPLE = 400  # points that a sampling method screens by default
EXHAUSTIVE = 20_000  # points that can run up to which `auto` screens all
_TOGETHER = 32  # estimates of a process at a time
_HERE = 16  # estimates that are not worth the start of a process
_PAUSE = 0.2
_RETRY = 1


@dataclass
class SearchStanding:
    """The progress of a search: what it does, how much of how much is done, and since when (time.monotonic)."""

    stage: str = "checking"
    done: int = 0
    total: int = 0
    begin: float = field(default_factory=time.monotonic)

    @property
    def line(self) -> str:
        """One line: screening: 120 of 2000 points."""
        return f"{self.stage}: {self.done} of {self.total} points"


Watch = Callable[[SearchStanding], None]


def search(
    source: Source,
    folder: str | os.PathLike[str],
    *,
    overrides: Iterable[str] = (),
    workers: int | None = None,
    dask: str | None = None,
    libraries: Sequence[str] = (),
    allow_deadlock: bool = False,
    allow_oom: bool = False,
    progress: Watch | None = None,
) -> SearchResult:
    """Look for the best point of the space that the table [search] of an experiment defines (docs/search.md).

    Points that violate a constraint or do not fit the memory of an NPU are cut. The others, or a sample, are screened
    by a cheap model, and the best of these are decided by packets. The same call continues a search that was killed,
    and gives the same table.

    Parameters
    ----------
    source
        A TOML file or a dict with the table `search`.
    folder
        Where the files of the search are written: a new folder, or one to continue.
    overrides
        Settings such as "search.seed=1" or "workload.batch=256", which replace those of the source.
    workers
        Processes, by default one per processor.
    dask
        A scheduler's address, or "local".
    libraries, allow_deadlock
        As for `pyxsim.run`.
    allow_oom
        Keep points that need more memory than an NPU has.
    progress
        Called with the SearchStanding several times a second.

    Raises
    ------
    InputError
        For an invalid space, and for one without a point that can run, with what cut most points.
    PyxsimError
        If every screened point fails.
    """
    library.load_all(listed(libraries))
    space = read_space(source, with_oom(overrides, allow_oom), libraries)
    at = folder_of(source).resolve()
    folders = tuple(os.path.abspath(each) for each in listed(libraries))
    count = processes(workers)
    cluster = None if dask is None else Cluster(dask, count)
    place = Folder(folder)
    run = None
    try:
        run = _Search(space, at, folders, place, allow_deadlock, progress)
        run.crew_of = lambda: Local(count, place.log) if cluster is None else cluster.started()
        run.processes = count if cluster is None else max(count, 2)
        result = run.through()
        write(result)
        return result
    finally:
        if run is not None:
            run.close()
        place.close()
        if cluster is not None:
            cluster.close()


class _Search:
    """A running search."""

    def __init__(
        self,
        space: Space,
        at: Path,
        libraries: tuple[str, ...],
        folder: Folder,
        allow_deadlock: bool,
        watch: Watch | None,
    ) -> None:
        self.space, self.at, self.libraries, self.folder = space, at, libraries, folder
        self.allow_deadlock, self.watch = allow_deadlock, watch
        self.search = space.search
        self.crew_of: Callable[[], Crew]
        self.processes = 1
        self._crew: Crew | None = None
        self.standing = SearchStanding()
        self.cutter = Cutter(space, at)
        self.prices = Prices()
        trains = (space.maker.data.get("workload") or {}).get("model") is not None
        self.screen = self.search.screen or (ESTIMATE if trains else "analytical")
        self.decide = self.search.decide
        self.priced = bool(set(self.search.objective) & set(PRICED))
        for key, model in (("screen", self.screen), ("decide", self.decide)):
            _check_model(model, f"search.{key}", space.maker.file)
        self.keys = Keys(at, "packet", libraries, allow_deadlock)
        about: list[Any] = [__version__, [[choice.label for choice in axis] for axis in space.axes]]
        texts = repr([(choice.settings) for axis in space.axes for choice in axis])
        about.append(self.priced)
        digest = sha256(json.dumps([*about, texts, repr(space.maker.data), repr(space.maker.by_hand)]))[:16]
        folder.want(self._manifest())
        self.known = Evaluations(folder.path, digest)

    def close(self) -> None:
        """End all processes."""
        self.known.close()
        if self._crew is not None:
            self._crew.close()

    def _manifest(self) -> dict[str, Any]:
        """What lets the folder be known as one of pyxsim."""
        file = self.space.maker.file
        return {
            "title": self.title,
            "experiment": Path(file).name if file else "",
            "backend": self.decide,
            "axes": {},
            "goal": {},
            "points": [],
            "provenance": provenance(),
        }

    @property
    def title(self) -> str:
        """The name of the file as words."""
        file = self.space.maker.file
        return Path(file).stem.replace("_", " ") if file else "search"

    # -- the stages --

    def through(self) -> SearchResult:
        """Cut, screen, decide. Raises InputError, PyxsimError, KeyboardInterrupt."""
        can_run = self._cut()
        method = self._method(len(can_run))
        screened = self._screened(can_run, method)
        chosen = best_places(self._losses(self.screen, screened), screened, self.search.budget.decide)
        self._see("deciding", 0, len(chosen))
        if chosen:
            self._evaluate(self.decide, chosen)
        rows = table_rows(self.space, can_run, self._outcome, self.screen, self.decide, self.search.objective)
        states = [row["state"] for row in rows]
        counts = {
            "combinations": len(self.space),
            "cut": len(self.space) - len(can_run),
            "can run": len(can_run),
            "screened": len(screened),
            "decided": states.count("decided"),
            "never simulated": states.count("never simulated"),
            "failed": states.count("failed"),
        }
        best = next((place for place in can_run if list(place) == rows[0]["at"]), None)
        gains = []
        if self.search.budget.sensitivities and self.screen == ESTIMATE and best is not None:
            self._see("sensitivities", 0, 1)
            own = estimator(self.at, self.libraries)
            gains = sensitivities(self.space, best, own, self.cutter.freed, self.search.objective)
        for row in rows:
            del row["at"]
        cuts = self.cutter.rows()
        file = self.space.maker.file
        axes: dict[str, list[Any]] = {}
        for axis in self.space.axes:
            for choice in axis:
                for name, value in choice.swept.items():
                    if value not in axes.setdefault(name, []):
                        axes[name].append(value)
        return SearchResult(
            folder=self.folder.path,
            title=self.title,
            experiment=Path(file).name if file else "",
            axes=axes,
            objectives=list(self.search.objective),
            screen=self.screen,
            decide=self.decide,
            method=method,
            seed=self.search.seed,
            counts=counts,
            cuts=cuts,
            rows=rows,
            confidence=confidence(rows, self.search.objective),
            sensitivities=gains,
            provenance=provenance(),
        )

    def _cut(self) -> list[Place]:
        """The places that can run. Raises InputError if there are none."""
        can_run = []
        for number, place in enumerate(self.space.places()):
            if self.cutter.check(place) is None:
                can_run.append(place)
            if number % 256 == 0:
                self._see("checking", number, len(self.space))
        if not can_run:
            raise self.cutter.nothing_left(len(self.space))
        return can_run

    def _method(self, can_run: int) -> str:
        if self.search.method != "auto":
            return self.search.method
        budget = self.search.budget.screen
        if can_run <= (EXHAUSTIVE if budget is None else budget):
            return "exhaustive"
        return "tpe" if len(self.search.objective) == 1 else "nsga2"

    def _screened(self, can_run: list[Place], method: str) -> list[Place]:
        """Screen all points, or those that the method chooses; return them in this order."""
        budget = self.search.budget.screen
        if method == "exhaustive":
            if budget is not None and budget < len(can_run):
                raise InputError(
                    f"{len(can_run)} points can run, more than the budget of {budget}",
                    file=self.space.maker.file,
                    key="search.budget.screen",
                    allowed=f"at least {len(can_run)}; or another search.method",
                )
            explorer = exhaustive(can_run, max(_TOGETHER * self.processes, len(can_run)))
            total = len(can_run)
        else:
            total = min(budget or SAMPLE, len(can_run))
            explorer = self._sampler(can_run, method, total)
        self._see("screening", 0, total)
        places: list[Place] = []
        batch = next(explorer, None)
        while batch:
            self._evaluate(self.screen, batch)
            places += batch
            self._see("screening", len(places), total)
            try:
                batch = explorer.send(self._losses(self.screen, batch))
            except StopIteration:
                break
        if not any(loss is not None for loss in self._losses(self.screen, places)):
            raise PyxsimError(f"every screened point failed: {self._outcome(self.screen, places[0])['fault']}")
        return places

    def _sampler(self, can_run: list[Place], method: str, budget: int) -> Explorer:
        if method == "random":
            return at_random(can_run, budget, self.search.seed)
        ordered = numeric_axes(self.space.axes)
        count = len(self.search.objective)
        return sampled(can_run, self.space.sizes, ordered, count, budget, self.search.seed, method)

    # -- evaluation --

    def _outcome(self, model: str, place: Place) -> dict[str, Any]:
        return self.known.get(model, place) or {}

    def _losses(self, model: str, places: Sequence[Place]) -> list[tuple[float, ...] | None]:
        """One number per objective, lower is better; None for a point that failed. Raises InputError for an unknown
        objective."""
        losses: list[tuple[float, ...] | None] = []
        for place in places:
            values = self._outcome(model, place).get("values")
            if values is None:
                losses.append(None)
                continue
            for name in self.search.objective:
                if name not in values:
                    known = [*(each for each in OBJECTIVES if each in values or each in PRICED), *values]
                    raise InputError(
                        f"the model '{model}' does not give '{name}'",
                        file=self.space.maker.file,
                        key="search.objective",
                        allowed=list(dict.fromkeys(known)),
                        given=name,
                    )
            losses.append(tuple(-values[name] if name in HIGHER else values[name] for name in self.search.objective))
        return losses

    def _evaluate(self, model: str, places: Sequence[Place]) -> None:
        """Evaluate the places that are not known yet."""
        missing = [place for place in places if self.known.get(model, place) is None]
        if not missing:
            return
        if model in MODELS:
            size = 1 if model != ESTIMATE else max(1, min(_TOGETHER, -(-len(missing) // (4 * self.processes))))
            parts = [missing[begin : begin + size] for begin in range(0, len(missing), size)]
            works: list[tuple[Sequence[Place], Work]] = [
                (part, Estimates(self.space, part, model, self.at, self.libraries, self.priced)) for part in parts
            ]
            if model == ESTIMATE and (self.processes == 1 or len(missing) <= _HERE):
                for part, work in works:
                    self._keep(model, part, work.carry_out())
                    self._see(self.standing.stage, self.standing.done + len(part), self.standing.total)
                return
        else:
            works = []
            for place in missing:
                try:
                    point = self.space.point(place)
                except InputError as error:
                    self.known.add(model, [place], [{"fault": str(error)}])
                    continue
                alone = self.processes == 1
                works.append(([place], Task(point, self.at, model, self.libraries, self.allow_deadlock, alone)))
        self._work(model, works)

    def _work(self, model: str, works: Sequence[tuple[Sequence[Place], Work]]) -> None:
        """Carry out works in the processes."""
        if self._crew is None:
            self._crew = self.crew_of()
        crew = self._crew
        queue, tries, running = deque(range(len(works))), [0] * len(works), 0
        while queue or running:
            while queue and crew.free() > 0:
                number = queue.popleft()
                tries[number] += 1
                crew.submit(number, works[number][1])
                running += 1
            for number, outcome in crew.wait(_PAUSE):
                running -= 1
                if outcome.kind in AGAIN and tries[number] <= _RETRY:
                    queue.append(number)
                    continue
                self._keep(model, works[number][0], outcome)
                self._see(self.standing.stage, self.standing.done + len(works[number][0]), self.standing.total)
            self._see(self.standing.stage, self.standing.done, self.standing.total)

    def _keep(self, model: str, places: Sequence[Place], outcome: Outcome) -> None:
        """Keep what a work found."""
        if outcome.failed or outcome.image is None:
            self.known.add(model, places, [{"fault": outcome.reason}] * len(places))
        elif model in MODELS:
            self.known.add(model, places, json.loads(outcome.image))
        else:
            (place,) = places
            point = self.space.point(place)
            key = self.keys.key(point.experiment, model)
            self.folder.settle(key, outcome, 1)
            numbers: dict[str, Number] = split(read_summary(self.folder.result(key)))[0]
            values = {**numbers, "step_time": numbers["time_ns"]}
            experiment = point.experiment
            if experiment.workload is not None and experiment.workload.model is not None:
                step = step_of(experiment, self.cutter.networks, self.at)
                values |= step_values(step, float(numbers["time_ns"]) / 1e9 / step.passes)
            if self.priced:
                clocked, topology = self.cutter.networks.of(experiment)
                values |= self.prices.of_result(clocked, topology, self.folder.result(key))
            self.known.add(model, places, [{"values": values, "key": key}])

    def _see(self, stage: str, done: int, total: int) -> None:
        self.standing.stage, self.standing.done, self.standing.total = stage, done, total
        if self.watch is not None:
            self.watch(self.standing)


def _check_model(model: str, key: str, file: str | None) -> None:
    """Raise InputError for an unknown model."""
    if model in MODELS:
        return
    try:
        backend_class(model)
    except InputError as error:
        words = [error.allowed] if isinstance(error.allowed, str) else list(error.allowed or ())
        raise InputError(error.problem, file=file, key=key, allowed=[*MODELS, *words], given=model) from None
