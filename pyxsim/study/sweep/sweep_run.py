"""Run a sweep: determine which points are missing in its folder, run them, and return the table."""

from __future__ import annotations

import math
import os
import time
import tomllib
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyxsim import library
from pyxsim.analysis import goal as goals
from pyxsim.errors import InputError, raise_all
from pyxsim.network.backends import backend_class
from pyxsim.plugins import backends
from pyxsim.results.provenance import provenance
from pyxsim.results.result import HOW_IT_RAN
from pyxsim.results.sweep import Point, Sweep, columns_in, read_point, read_summary, state_of
from pyxsim.results.sweep_table import write_tables
from pyxsim.results.title import title_of
from pyxsim.runner.progress_bar import clock
from pyxsim.settings import folder_of, resolved_toml
from pyxsim.settings.axis_values import BACKEND
from pyxsim.settings.load import Source
from pyxsim.settings.points import Plan, plan_of
from pyxsim.settings.run import with_oom
from pyxsim.settings.types import listed
from pyxsim.study.sweep.cluster import Cluster
from pyxsim.study.sweep.crew import Crew, Local, processes
from pyxsim.study.sweep.folder import BEGIN, END, START, Folder
from pyxsim.study.sweep.keys import Keys
from pyxsim.study.sweep.task import AGAIN, Outcome, Task, only_prepared

DEFAULT_BACKEND = "packet"
ONE_POINT = "only one point: the experiment sweeps nothing"
CHECKING = 1.0  # seconds for checks before the first point runs, from the start of the first worker
PAUSE = 0.2  # seconds between two progress updates
RETRY = 1  # retries of a point whose process has died
_CHEAP = ("traffic.load", "output.seed")  # keys whose values are all valid if one is


@dataclass
class Standing:
    """The progress of a sweep.

    `done` and `failed` count all points, `before` those of an earlier sweep. `running`: start (time.monotonic) by
    label. `unwanted`: points in the folder with other settings. `swept`: whether the file has several points. `news`:
    labels and reasons of new failures."""

    total: int
    done: int = 0
    failed: int = 0
    before: int = 0
    unwanted: int = 0
    running: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    checking: bool = False
    swept: bool = True
    news: list[tuple[str, str]] = field(default_factory=list)

    @property
    def share(self) -> float:
        """The share of the points that have ended."""
        return (self.done + self.failed) / self.total if self.total else 0.0

    @property
    def line(self) -> str:
        """One line: 120 of 200 points, 2 failed, 1:05 left."""
        if self.checking:
            return "checking every point"
        ended = self.done + self.failed
        parts = [f"{ended} of {self.total} points"]
        parts += [f"{self.failed} failed"] if self.failed else []
        parts += [f"{len(self.running)} running"] if self.running else []
        parts += [f"{self.before} of them from an earlier sweep"] if self.before else []
        left = self.left
        return ", ".join([*parts, f"{clock(left)} left"] if left is not None and ended < self.total else parts)

    @property
    def left(self) -> float | None:
        """Estimated seconds left."""
        finished = self.done + self.failed - self.before
        return self.seconds * (self.total - self.done - self.failed) / finished if finished else None


Watch = Callable[[Standing], None]


def sweep(
    source: Source,
    folder: str | os.PathLike[str],
    *,
    overrides: Iterable[str] = (),
    workers: int | None = None,
    dask: str | None = None,
    retry: int = RETRY,
    backend: str = DEFAULT_BACKEND,
    libraries: Sequence[str] = (),
    allow_deadlock: bool = False,
    allow_oom: bool = False,
    needs: Sequence[tuple[str, str]] = (),
    progress: Watch | None = None,
) -> Sweep:
    """Run all points of an experiment that are not yet in `folder`, and write the tables.

    `workers`: processes, by default one per processor. `dask`: a scheduler's address, or "local". `retry`: how often a
    point is retried if its process dies. `allow_oom`: as for `pyxsim.run`. `needs`: columns that a plot or goal will
    use, each with its key, so that an unknown name is reported early. `progress`: called with the Standing several
    times a second, such as `pyxsim.ProgressBar()`; its method `close`, if it has one, is called at the end. Failed
    points do not end the sweep; their state is `failed`. A RuntimeWarning reports an experiment that sweeps nothing.

    Raises InputError before the first run, with the errors in the settings of all points and in networks that can be
    checked within seconds; the point of a larger network fails instead. KeyboardInterrupt ends the sweep early:
    completed points are kept, and the same call resumes the sweep.
    """
    libraries = listed(libraries)
    if backend not in backends:
        library.load_all(libraries)
    backend_class(backend)
    plan = plan_of(source, with_oom(overrides, allow_oom), libraries)
    file = Path(source) if isinstance(source, str | os.PathLike) else None
    _check_backends(plan, backend, None if file is None else os.fspath(file))
    at = folder_of(source).resolve()
    folders = tuple(os.path.abspath(each) for each in listed(libraries))
    keys = Keys(at, backend, folders, allow_deadlock)
    point_keys = [keys.key(point.experiment, point.backend) for point in plan.points]
    count = processes(workers)
    alone = count == 1 and dask is None
    tasks = [Task(point, at, point.backend or backend, folders, allow_deadlock, alone) for point in plan.points]
    cluster = None if dask is None else Cluster(dask, count)  # before anything is written
    place = Folder(folder)
    try:
        needed = [*needs, *([(plan.goal.metric, "sweep.goal.metric")] if plan.goal and plan.goal.metric else [])]
        run = _Run(place, plan, point_keys, tasks, retry, needed, progress, None if file is None else os.fspath(file))
        if not plan.axes:
            change = "Add the table `sweep` or `variant` (of an Experiment: to its tables, docs/python.md)"
            line = f"{ONE_POINT}. {change}; a key in `overrides` is no longer swept"
            warnings.warn(line, RuntimeWarning, stacklevel=2)
        place.want({**_manifest(plan, file, backend), "points": run.rows()})
        return run.through(lambda: Local(count, place.log) if cluster is None else cluster.started())
    finally:
        place.close()
        if cluster is not None:
            cluster.close()
        if (close := getattr(progress, "close", None)) is not None:
            close()


def _check_backends(plan: Plan, backend: str, file: str | None) -> None:
    """Raise InputError for unknown swept backends, or if one is given beside them."""
    swept = {point.backend: None for point in plan.points if point.backend is not None}
    if swept and backend != DEFAULT_BACKEND:
        raise InputError("cannot be set, because the sweep has values for `backend`", key="--backend")
    for name in swept:
        try:
            backend_class(name)
        except InputError as error:
            key = "sweep.backend" if BACKEND in plan.axes else "variant.set.backend"
            raise InputError(error.problem, file=file, key=key, allowed=error.allowed, given=name) from None


def _manifest(plan: Plan, file: Path | None, backend: str) -> dict[str, Any]:
    """The manifest without the points."""
    ends = [title_of(tomllib.loads(resolved_toml(plan.points[end].experiment))) for end in (0, -1)]
    titles = {title.rpartition(" at load ")[0] if "traffic.load" in plan.axes else title for title in ends}
    name = file.stem.replace("_", " ") if file is not None else "sweep"
    return {
        "title": titles.pop() if len(titles) == 1 else name,
        "experiment": file.name if file is not None else "",
        "settings": resolved_toml(plan.points[0].experiment),
        "backend": ", ".join(dict.fromkeys(point.backend or backend for point in plan.points)),
        "axes": plan.axes,
        "goal": _goal(plan),
        "provenance": provenance(),
    }


def _goal(plan: Plan) -> dict[str, Any]:
    """The search in the manifest; empty for all combinations."""
    if plan.goal is None:
        return {}
    key = list(plan.axes)[-1]
    swept = {"kind": plan.goal.kind, "key": key, "values": plan.axes[key]}
    return {**swept, "metric": plan.goal.metric, "within": float(plan.goal.within), "best": plan.goal.best}


class _Run:
    """The points of a running sweep, by number."""

    def __init__(
        self,
        folder: Folder,
        plan: Plan,
        keys: list[str],
        tasks: list[Task],
        retry: int,
        needs: Sequence[tuple[str, str]],
        progress: Watch | None,
        file: str | None,
    ) -> None:
        self.folder, self.plan, self.keys, self.tasks = folder, plan, keys, tasks
        self.retry, self.needs, self.progress, self.file = retry, needs, progress, file
        self.goal = _goal(plan)
        self.tries: Counter[str] = Counter()
        self.queue: deque[int] = deque()
        self.queued: set[str] = set()
        self.faults: dict[int, InputError] = {}  # of checks, by point
        self.points: list[Point] = []
        self.begin = time.monotonic()
        self.standing = Standing(0)

    def rows(self) -> list[dict[str, Any]]:
        """The points in the manifest."""
        rows = zip(self.keys, self.plan.points, strict=True)
        return [{"key": key, "label": point.label, "changed": dict(point.swept)} for key, point in rows]

    def through(self, crew_of: Callable[[], Crew]) -> Sweep:
        """Run the missing points. Raises InputError, PyxsimError, KeyboardInterrupt; the tables are written in any
        case."""
        self.folder.forget_accidents()
        self.folder.note_found()
        self.points = [self._read(number) for number in range(len(self.keys))]
        self._ask()
        tried = self._tried()
        tried_points = [point for point in self.points if point.state != "missing" and point.key in tried]
        counts = Counter({point.key: point.state for point in tried_points}.values())
        self.standing = Standing(self._total(), counts["done"], counts["failed"], sum(counts.values()))
        self.standing.swept = bool(self.plan.axes)
        self.standing.unwanted = len(self.folder.keys() - set(self.keys))
        self._check_names(next((point.key for point in tried_points if point.state == "done"), None))
        self.folder.note(BEGIN, pid=os.getpid(), points=len(set(self.keys)), there=sum(counts.values()))
        self._report_progress()
        outcome = "interrupted"
        try:
            if self.queue:
                self._work(crew_of)
            outcome = "complete"
        except Exception:
            outcome = "broken off"
            raise
        finally:
            self.folder.note(END, how=outcome)
            sweep = goals.read(self.folder.path)
            write_tables(sweep)
        return sweep

    def _read(self, number: int) -> Point:
        """Read the state of a point, and its numbers where a search needs them."""
        point, key = self.plan.points[number], self.keys[number]
        if self.goal:
            return read_point(self.folder.path, key, point.swept, point.label)
        return Point(key, point.swept, state_of(self.folder.path, key), label=point.label)

    # Which points to run

    def _ask(self) -> None:
        """Queue the points that are missing and not queued yet."""
        for number in self._wanted():
            if self.keys[number] not in self.queued:
                self.queued.add(self.keys[number])
                self.queue.append(number)

    def _wanted(self) -> Iterator[int]:
        if not self.goal:
            yield from (number for number, point in enumerate(self.points) if point.state == "missing")
            return
        width = len(self.goal["values"])
        for number, row in enumerate(goals.rows(self.goal, self.points)):
            after = goals.search(self.goal, row).following
            if after is not None:
                yield number * width + after

    def _tried(self) -> set[str]:
        """The keys of the sweep: all, or those that the search has tried."""
        if not self.goal:
            return set(self.keys)
        rows = goals.rows(self.goal, self.points)
        return {row[number].key for row in rows for number in goals.search(self.goal, row).tried}

    def _total(self) -> int:
        """Return the number of points; of a search, an estimate."""
        if not self.goal:
            return len(set(self.keys))
        searches = [goals.search(self.goal, row) for row in goals.rows(self.goal, self.points)]
        return sum(len(search.tried) + search.left for search in searches)

    # Running

    def _work(self, crew_of: Callable[[], Crew]) -> None:
        crew = crew_of()
        try:
            self._check(crew)
            while self.queue or self.standing.running:
                self._fill(crew)
                self._report_progress()
                for number, outcome in crew.wait(PAUSE):
                    if number < 0:
                        self._checked(number, outcome)
                        self._raise_faults()
                        continue
                    self.standing.running.pop(self.plan.points[number].label, None)
                    self._fill(crew)  # idle workers start while the last result is written
                    self._ended(number, outcome)
            self._report_progress()
        finally:
            self.standing.running.clear()
            crew.close()

    def _check(self, crew: Crew) -> None:
        """Prepare each value of each axis for up to `CHECKING` seconds, the smallest networks first.

        Most faults are reported before any run this way; the rest is built and proved by the processes of the points.
        A check that takes longer ends beside the first points, under a negative number (`_checked`).
        """
        first: dict[str, int] = {}
        for number in sorted(self.queue, key=self._npus):
            swept = [f"{path}={value}" for path, value in self.plan.points[number].swept.items() if path not in _CHEAP]
            for name in swept or [""]:
                first.setdefault(name, number)
        left, running = deque(dict.fromkeys(first.values())), 0
        self.standing.checking = True
        until: float | None = None  # the start of the workers does not count
        while (left or running) and (until is None or time.monotonic() < until):
            while left and crew.free() > 0:
                number = left.popleft()
                crew.submit(~number, only_prepared(self.tasks[number]))
                running += 1
            for number, outcome in crew.wait(PAUSE):
                running -= 1
                self._checked(number, outcome)
            if until is None and crew.begun:
                until = time.monotonic() + CHECKING
            self._report_progress()
        self.standing.checking = False
        self._raise_faults()

    def _checked(self, number: int, outcome: Outcome) -> None:
        """Keep the fault that a check has found; `number`: -1 - that of its point."""
        if outcome.fault is not None:
            self.faults[~number] = outcome.fault

    def _raise_faults(self) -> None:
        """Raise the faults that checks have found, in the order of the points; points may share one."""
        raise_all(list({str(self.faults[number]): self.faults[number] for number in sorted(self.faults)}.values()))

    def _npus(self, number: int) -> int:
        """The number of NPUs of a point as far as its shape tells."""
        return math.prod(self.plan.points[number].experiment.network.shape or (1,))

    def _fill(self, crew: Crew) -> None:
        while self.queue and crew.free() > 0:
            self._start(crew, self.queue.popleft())

    def _start(self, crew: Crew, number: int) -> None:
        key = self.keys[number]
        self.tries[key] += 1
        self.folder.note(START, key=key, number=self.tries[key])
        self.standing.running[self.plan.points[number].label] = time.monotonic()
        crew.submit(number, self.tasks[number])

    def _ended(self, number: int, outcome: Outcome) -> None:
        key, label = self.keys[number], self.plan.points[number].label
        if outcome.kind in AGAIN and self.tries[key] <= self.retry:
            self.queue.append(number)
            return
        self.folder.settle(key, outcome, self.tries[key])
        if outcome.failed:
            self.standing.failed += 1
            self.standing.news.append((label, outcome.reason))
        else:
            self.standing.done += 1
        if self.goal:
            for other in (other for other, other_key in enumerate(self.keys) if other_key == key):
                self.points[other] = self._read(other)
            self._ask()
            self.standing.total = self._total()
        if not outcome.failed:
            self._check_names(key)

    def _check_names(self, key: str | None) -> None:
        """Raise InputError for columns of a plot or goal that the first finished point does not have."""
        if key is None or not self.needs:
            return
        names = columns_in(read_summary(self.folder.result(key)))
        columns = [*self.plan.axes, *(name for name in names if name not in HOW_IT_RAN)]
        faults = [
            InputError(
                f"no point has a column '{name}'",
                file=None if asks.startswith("--") else self.file,  # an option is in no file
                key=asks,
                allowed=columns,
                given=name,
            )
            for name, asks in self.needs
            if name not in columns
        ]
        self.needs = ()
        raise_all(faults)

    def _report_progress(self) -> None:
        self.standing.seconds = time.monotonic() - self.begin
        if self.progress is not None:
            self.progress(self.standing)
