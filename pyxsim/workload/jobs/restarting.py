"""A job that carries out iterations, writes checkpoints, and starts again after a failure (docs/jobs.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from pyxsim.arrays import IntArray
from pyxsim.network.fault_times import NEVER
from pyxsim.settings.restart import Restart
from pyxsim.units import to_cycles
from pyxsim.workload.graph import Call, TaskGraph
from pyxsim.workload.job import IssuedCollective, TaskRun, TaskTimes
from pyxsim.workload.jobs.iteration import Iteration

MOST_COLLECTIVES = 2**19  # of a run: 10 kB each with all records
MOST_TASKS = 2**26  # of all iterations
MOST_LOOKS = 10**5  # at other routes, in one iteration

STOPPED, LOST, CUT_OFF = "NPU stopped", "message lost", "NPU cut off"

Place = Callable[[IntArray], TaskGraph]
"""Returns the tasks of one iteration on NPUs, by rank."""


@dataclass(frozen=True)
class RestartTimes:
    """[job.restart] in cycles; `every` and `interval` are 0 if not given."""

    iterations: int
    every: int
    interval: int
    write: int
    after: int
    most: int

    @classmethod
    def of(cls, table: Restart, clock: Fraction) -> RestartTimes:
        """Convert the settings."""
        interval = table.checkpoint_interval
        return cls(
            table.iterations,
            table.checkpoint_every or 0,
            0 if interval is None else max(1, to_cycles(interval, clock)[0]),
            to_cycles(table.checkpoint_time, clock)[0],
            to_cycles(table.after, clock)[0],
            table.most_failures,
        )


@dataclass
class Account:
    """Where the time of a job went, in cycles; the sum is the time from its arrival to its end, or to that of the run.

    `work`: iterations that count; `checkpoints`: writing them; `lost`: work since the last checkpoint that failures
    discarded, and iterations and checkpoints that were interrupted; `down`: from failures until the NPUs resume.
    """

    work: int = 0
    checkpoints: int = 0
    lost: int = 0
    down: int = 0


@dataclass(eq=False)
class RestartingJob:
    """Runs one job.

    Attributes
    ----------
    npus
        int64[ranks], the current NPU of each rank.
    spares
        NPUs that may replace failed ones, ascending.
    failures
        A row of the dataset `job_failures` per failure.
    collectives
        The list to which the job adds its collectives when the first iteration starts, one entry for all iterations.
    runs
        The tasks and times of all iterations, complete or not.
    start, end
        Cycles; -1 before the first task starts, and before the last iteration ends.
    """

    name: str
    number: int
    key: str
    arrival: int
    npus: IntArray
    spares: list[int]
    settings: RestartTimes
    place: Place
    call_keys: list[str]
    collectives: list[IssuedCollective]
    account: Account = field(default_factory=Account)
    failures: list[dict[str, Any]] = field(default_factory=list)
    runs: list[TaskRun] = field(default_factory=list)
    done: int = 0
    saved: int = 0
    written: int = 0
    start: int = -1
    end: int = -1
    stuck: str = ""

    def begin(self, system: Any) -> None:
        """Schedule the first iteration, or the wait for NPUs that are stopped when the job arrives."""
        self._system = system
        self._stops = {
            npu: [fault.times for fault in faults if not fault.slow]
            for npu, faults in system.options.compute_faults.items()
        }
        self._graph = self.place(self.npus)
        self._iteration: Iteration | None = None
        self._issued: list[IssuedCollective] | None = None
        self._since = -1  # cycle of the last checkpoint or start; -1 while the job is down
        self._down_since = self._down_since_last = self.arrival
        self._iteration_since = self._writing_since = -1
        self._actions: list[int] = []
        self._tasks = 0  # of all iterations so far
        self._looks = 0  # at other routes, in this iteration
        self._resume(self.arrival)

    @property
    def calls(self) -> list[Call]:
        """The collectives of an iteration."""
        return self.place(self.npus).calls

    @property
    def task_count(self) -> int:
        """Number of the tasks of all iterations."""
        return len(self.place(self.npus)) * self.settings.iterations

    def runs_so_far(self) -> list[TaskRun]:
        """Return the tasks and times of all iterations that have begun."""
        now = [] if self._iteration is None else [TaskRun(self._graph, self._iteration.times())]
        return self.runs + now

    def start_so_far(self) -> int:
        """Return the cycle in which the first task has started, also if the first iteration has not ended; or -1."""
        return self.start if self._iteration is None or self.start >= 0 else _first(self._iteration.times())

    def row(self) -> dict[str, Any]:
        """Return the row of the dataset `job_restarts`."""
        spent = vars(self._account_so_far())
        total = sum(spent.values())
        return {
            "job": self.name,
            "iterations": self.settings.iterations,
            "done": self.done,
            "written": self.written,
            "failures": len(self.failures),
            **spent,
            "goodput": spent["work"] / total if total else float("nan"),
        }

    def _account_so_far(self) -> Account:
        """Return the account up to now, of a job that has not ended with what it is doing."""
        now = self._system.cycle
        if self.end >= 0 or now < self.arrival:
            return self.account
        if self._since < 0:
            return replace(self.account, down=self.account.down + now - self._down_since)
        counts_until = self._writing_since if self._writing_since >= 0 else self._iteration_since
        work = self.account.work + counts_until - self._since
        return replace(self.account, work=work, lost=self.account.lost + now - counts_until)

    def stuck_lines(self) -> list[str]:
        """Return why the job has not ended; empty if it has."""
        if self.end >= 0:
            return []
        line = self.stuck or f"has ended {self.done} of {self.settings.iterations} iterations"
        return [f"job '{self.name}' {line}", *([] if self._iteration is None else self._iteration.stuck_report())]

    # -- iterations and checkpoints --

    def _resume(self, cycle: int | None = None) -> None:
        """Start, or restart from the last checkpoint, in a cycle; by default the current one."""
        now = self._system.cycle if cycle is None else cycle
        self._cancel()
        self._replace_failed(now)
        again = {npu: self._works_again(npu, now) for npu in self.npus.tolist()}
        apart = self._apart(now)
        change = self._system.network.next_change(now) if apart else now
        never = next((npu for npu in again if again[npu] >= NEVER), apart[0] if change >= NEVER else None)
        if never is not None:
            why = "has stopped" if again[never] >= NEVER else "is cut off"
            self.stuck = f"cannot start: NPU {never} {why}, and no spare NPU can replace it ({self.key}.spares)"
            return
        self._watch(now)
        if max(change, *again.values()) > now:
            self._at(max(change, *again.values()), self._resume)
            return
        self.account.down += now - self._down_since
        if self.failures:
            self.failures[-1]["down"] = now - self._down_since_last
        self._since = now
        self._watch_routes(now)
        self._next(now)

    def _next(self, now: int) -> None:
        """Begin an iteration."""
        self._iteration_since = now
        self._tasks, self._looks = self._tasks + len(self._graph), 0
        if len(self._system.collectives) > MOST_COLLECTIVES or self._tasks > MOST_TASKS:
            limit = f"{MOST_COLLECTIVES} collectives or {MOST_TASKS} tasks"
            self.stuck = f"stopped after {self.done} of {self.settings.iterations} iterations: more than {limit}"
            self._cancel()
            return
        skew = self._system.options.skew if self.start < 0 and not self.runs else lambda npu: 0
        begin = [now + skew(npu) for npu in range(self._graph.npus)]
        calls = self._ended, self._loses_message
        self._iteration = Iteration(self._graph, self.key, self.call_keys, self.number, begin, *calls)
        self._iteration.begin_in(self._system)
        self._collect(self._iteration.collectives)

    def _collect(self, issued: Sequence[IssuedCollective]) -> None:
        """Add the collectives of an iteration to those of earlier ones."""
        if self._issued is None:
            self._issued = [
                IssuedCollective(each.name, each.key, each.group, each.root, repeated=True) for each in issued
            ]
            self.collectives += self._issued
        for row, each in zip(self._issued, issued, strict=True):
            row.per_group += each.per_group

    def _ended(self) -> None:
        """The iteration has ended on all NPUs."""
        now, settings = self._system.cycle, self.settings
        assert self._iteration is not None
        self._keep(self._iteration.finish())
        self.done += 1
        if self.done == settings.iterations:
            self.account.work += now - self._since
            self.end = now
            self._cancel()
        elif (settings.every and (self.done - self.saved) >= settings.every) or (
            settings.interval and now - self._since >= settings.interval
        ):
            self._writing_since = now
            self._at(now + settings.write, self._saved)
        else:
            self._next(now)

    def _saved(self) -> None:
        """A checkpoint is complete."""
        now = self._system.cycle
        self.account.work += self._writing_since - self._since
        self.account.checkpoints += now - self._writing_since
        self.written += 1
        self.saved, self._since, self._writing_since = self.done, now, -1
        self._next(now)

    def _keep(self, times: TaskTimes) -> None:
        if self.start < 0:
            self.start = _first(times)
        self.runs.append(TaskRun(self._graph, times))
        self._iteration = None

    # -- failures --

    def _npu_stops(self) -> None:
        now = self._system.cycle
        self._failed(STOPPED, next(each for each in self.npus.tolist() if self._next_stop(each, now - 1) == now))

    def _loses_message(self) -> None:
        self._failed(LOST, -1)

    def _failed(self, cause: str, npu: int) -> None:
        """End the iteration, and start again later. `npu`: which failed, or -1."""
        now = self._system.cycle
        self._cancel()
        lost = 0
        if self._since >= 0:
            lost = now - self._since
            self.account.lost += lost
            self._down_since = now
        else:
            self.failures[-1]["down"] = now - self._down_since_last
        if self._iteration is not None:
            self._keep(self._iteration.stop(now))
        row = {"job": self.name, "at": now, "cause": cause, "npu": npu}
        row |= {"iterations": self.done - self.saved, "lost": lost}
        self.failures.append({**row, "down": -1, "spare": -1})
        self.done, self._since, self._writing_since, self._down_since_last = self.saved, -1, -1, now
        if len(self.failures) > self.settings.most:
            times = "once" if len(self.failures) == 1 else f"{len(self.failures)} times"
            self.stuck = f"has failed {times} ({self.key}.most_failures = {self.settings.most})"
            return
        self._watch(now)
        self._at(now + self.settings.after, self._resume)

    def _replace_failed(self, cycle: int) -> None:
        """Let spares that work replace NPUs that do not, or that are cut off from most others; these become spares."""
        network = self._system.network
        part = network.parts_of(range(network.npus), cycle)
        works = {npu: not self._stopped(npu, cycle) for npu in (*self.npus.tolist(), *self.spares)}
        home = _largest([part[npu] for npu in self.npus.tolist() if works[npu]], part)
        changed = False
        for rank, npu in enumerate(self.npus.tolist()):
            working = [spare for spare in self.spares if works[spare] and part[spare] == home]
            if not (works[npu] and part[npu] == home) and working:
                self.npus = self.npus.copy()
                self.npus[rank] = working[0]
                self.spares = sorted({*self.spares, npu} - {working[0]})
                self._note_spare(npu, working[0])
                changed = True
        if changed:
            self._graph = self.place(self.npus)

    def _note_spare(self, npu: int, spare: int) -> None:
        """Enter the NPU that replaces another one into the rows of failures."""
        if self.failures and self.failures[-1]["npu"] < 0:
            self.failures[-1]["npu"] = npu
        for row in self.failures:
            if row["npu"] == npu and row["spare"] < 0:
                row["spare"] = spare

    def _apart(self, cycle: int) -> list[int]:
        """The NPUs of the job that are cut off from most others, by rank."""
        network = self._system.network
        part = network.parts_of(range(network.npus), cycle)
        home = _largest([part[npu] for npu in self.npus.tolist()], part)
        return [npu for npu in self.npus.tolist() if part[npu] != home]

    def _stopped(self, npu: int, cycle: int) -> bool:
        return any(times.active(cycle) for times in self._stops.get(npu, ()))

    def _works_again(self, npu: int, cycle: int) -> int:
        """The first cycle from `cycle` on in which an NPU works, or NEVER."""
        while self._stopped(npu, cycle):
            cycle = max(times.following(cycle) for times in self._stops[npu] if times.active(cycle))
            if cycle >= NEVER:
                return NEVER
        return cycle

    def _next_stop(self, npu: int, cycle: int) -> int:
        """The first cycle after `cycle` in which an NPU that works stops, or NEVER."""
        cycle = self._works_again(npu, cycle)
        if cycle >= NEVER:
            return NEVER
        return min((times.following(cycle) for times in self._stops.get(npu, ())), default=NEVER)

    # -- events --

    def _watch(self, now: int) -> None:
        """Wait for the next failure of an NPU of the job."""
        first = min((self._next_stop(npu, now) for npu in self.npus.tolist()), default=NEVER)
        if first < NEVER:
            self._at(first, self._npu_stops)

    def _watch_routes(self, now: int) -> None:
        """Wait for the next routes, which may leave no way between NPUs of the job."""
        network = self._system.network
        change = network.next_change(now) if network.follows_links else NEVER
        if change < NEVER and self._looks < MOST_LOOKS:
            self._looks += 1
            self._at(change, self._look_at_routes)

    def _look_at_routes(self) -> None:
        now = self._system.cycle
        if apart := self._apart(now):
            self._failed(CUT_OFF, apart[0])
        else:
            self._watch_routes(now)

    def _at(self, cycle: int, action: Callable[[], None]) -> None:
        self._actions.append(self._system.at(cycle, action))

    def _cancel(self) -> None:
        self._system.cancel(self._actions)
        self._actions.clear()


def _largest(parts: Sequence[int], of_all: Sequence[int]) -> int:
    """The part of the network with most NPUs of a job, of several the one with most NPUs; 0 for no NPU."""
    of_job, of_network = Counter(parts), Counter(of_all)
    return max(of_job, key=lambda part: (of_job[part], of_network[part]), default=0)


def _first(times: TaskTimes) -> int:
    """The cycle in which the first task has started, or -1."""
    return int(min((each for each in times.start.tolist() if each >= 0), default=-1))
