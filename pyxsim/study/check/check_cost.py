"""The cost of a run, extrapolated from its beginning. This check comes last: it simulates a part of the run.

The beginning runs in a child process, which the operating system ends at a limit of CPU time, and calls no engine more
often than the run does. An estimate that the sample does not support is "unknown", with the reason.
"""

from __future__ import annotations

import os
import pickle
import resource
import select
import signal
import time
import warnings
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import IO, Any

from pyxsim.errors import DeadlockError, LockstepLost, PyxsimError, SimulationError, StuckError
from pyxsim.runner.closed_run import announce_traffic, run_out
from pyxsim.runner.prepared import Prepared, PreparedTraffic
from pyxsim.study.check.registered import LAST, Finding, checks
from pyxsim.units import rough_seconds, rounded

# CPU seconds that Python and the imports took, and a third as much again to import what collects and prints a result.
START_S = 1.3 * min(time.process_time(), 2.0)
SAMPLE = 0.3  # seconds of CPU time that the shortest sample takes
LONGEST = 2.5  # seconds of CPU time after which a sample ends
LIMIT = 4  # seconds of CPU time after which the operating system ends the child process,
BUDGET = 5.0  # and those of all checks together; both grow with a preparation that takes longer
PATIENCE = 90.0  # seconds of real time after which the child process is ended
STEP = 0.01  # seconds between two records of a sample
STEADY = 1.3  # largest ratio of the speeds of the two halves of a sample
LEAST_SHARE = 0.2  # of the bytes of a workload, whose speed varies
COMPAT = "docs/compat.md"
PARTING = "equal parts of the network are simulated once as long as they stay equal (--set run.skip=false: all parts)"
REPEATS = "parts of the run may repeat and be skipped (--set run.skip=false: without skipping)"


@dataclass(frozen=True)
class Cost:
    """Router visits of a run, and its CPU seconds at the speed of its beginning.

    Parameters
    ----------
    seconds
        CPU seconds of the simulation; None if unknown.
    ends
        True if the sample was the whole run; None if it is not known whether the run ends.
    unknown
        Why the seconds are unknown.
    """

    router_visits: int
    visits_per_s: float
    seconds: float | None
    ends: bool | None = None
    unknown: str | None = None


class _SampleEndedError(Exception):
    """The sample is long enough."""


@checks.register("cost", order=LAST + 1)
def cost(prepared: Prepared | PreparedTraffic) -> Finding:
    """Estimate the CPU time of the run."""
    if prepared.mode == "open":
        reason = "open traffic ends when its latency is known with the required precision"
        return Finding([("cost", f"unknown: {reason}")], asdict(Cost(0, 0.0, None, unknown=reason)) | {"run_s": None})
    if prepared.background is not None:
        reason = "the length of the run depends on how much background traffic slows the other work down"
        return Finding([("cost", f"unknown: {reason}")], asdict(Cost(0, 0.0, None, unknown=reason)) | {"run_s": None})
    if prepared.job.issues_later:
        reason = "the run decides what is computed and communicated"
        return Finding([("cost", f"unknown: {reason}")], asdict(Cost(0, 0.0, None, unknown=reason)) | {"run_s": None})
    estimate = measure(prepared)
    run_s = None
    if estimate.seconds is None:
        text = f"unknown: {estimate.unknown}"
    else:
        run_s = START_S + prepared.prepare_s + estimate.seconds
        text = f"about {rough_seconds(estimate.seconds)}, measured at its beginning; {rough_seconds(run_s)} in all"
        if estimate.router_visits:
            speed = f"{rounded(estimate.visits_per_s, '')} router visits/s, measured at its beginning"
            text = f"about {rough_seconds(estimate.seconds)} ({speed}); {rough_seconds(run_s)} in all"
    if estimate.router_visits:
        text = f"{estimate.router_visits:,} router visits: {text}"
    rows = [("cost", text)]
    if estimate.ends is None and _may_stall(prepared):
        rows.append(("end", f"unknown: queues may fill with waiting chunks, as in ASTRA-sim 2 ({COMPAT})"))
    return Finding(rows, {**asdict(estimate), "run_s": run_s})


def measure(prepared: Prepared) -> Cost:
    """Simulate the beginning of a run in a child process. Raises the SimulationError of a run that fails there."""
    spent = 0.0 if prepared.ready_s is None else time.process_time() - prepared.ready_s
    # A large run does more before it can be measured, and its preparation has taken longer anyway.
    more = max(1.0, prepared.prepare_s / BUDGET)
    limit = int(max(more * LIMIT / 2, min(more * LIMIT, more * BUDGET - spent)))
    reader, writer = os.pipe()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads, which the child never uses
            child = os.fork()
    except OSError as error:
        os.close(reader)
        os.close(writer)
        return Cost(0, 0.0, None, unknown=f"the child process for the measurement cannot start: {error.strerror}")
    if not child:
        try:
            os.close(reader)
            with os.fdopen(writer, "wb") as pipe:
                _sample_in_child(prepared, pipe, limit)
        finally:
            os._exit(0)
    os.close(writer)
    try:
        with os.fdopen(reader, "rb") as pipe:
            records = _read(pipe)
    finally:
        os.kill(child, signal.SIGKILL)  # it has ended, or takes too long; it is not yet reaped
        os.waitpid(child, 0)
    total = 0
    for kind, value in records:
        if kind == "failure":
            raise value
        if kind == "visits":
            total = value
        if kind == "cost":
            return Cost(**value)
    return Cost(total, 0.0, None, unknown=f"no part of the run ends within {limit} s of CPU time")


def _read(pipe: IO[bytes]) -> list[tuple[str, Any]]:
    """Return what the child process writes until it ends or PATIENCE is over."""
    data, due = b"", time.monotonic() + PATIENCE
    while select.select([pipe], [], [], max(0.0, due - time.monotonic()))[0] and (
        more := os.read(pipe.fileno(), 65536)
    ):
        data += more
    records = []
    for line in data.split(b"\n")[:-1]:
        records.append(pickle.loads(bytes.fromhex(line.decode())))
    return records


def _sample_in_child(prepared: Prepared, pipe: IO[bytes], limit: int) -> None:
    """Write ("visits", router visits of the run), then ("cost", fields of a Cost) or ("failure", exception)."""

    def tell(*record: Any) -> None:
        pipe.write(pickle.dumps(record).hex().encode() + b"\n")
        pipe.flush()

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    try:
        total = prepared.router_visits
        tell("visits", total)
        tell("cost", asdict(_Sample(prepared, total, LONGEST / LIMIT * limit).cost()))
    except DeadlockError:  # the run itself reports an allowed deadlock
        tell("cost", asdict(Cost(total, 0.0, None, unknown="the run ends in a deadlock")))
    except StuckError as error:
        tell("failure", StuckError(str(error), error.waits))
    except SimulationError as error:
        tell("failure", SimulationError(str(error)))
    except PyxsimError as error:
        tell("failure", error)


@dataclass(eq=False)
class _Sample:
    """The beginning of a run: what was done at which CPU time, until that tells the speed."""

    prepared: Prepared
    total: int
    longest: float
    # CPU s, router visits, messages delivered
    records: list[tuple[float, int, int]] = field(default_factory=list)

    def cost(self) -> Cost:
        """Simulate until the speed is known, the run has ended or `longest` is over."""
        try:
            self._simulate()
        except LockstepLost as error:
            self.prepared.start_over(str(error))
            self.records, self.longest = [], max(SAMPLE, self.longest - self._elapsed())
            return self.cost()
        except _SampleEndedError:
            return self._extrapolate()
        took = self._elapsed()
        visits = self.prepared.network.router_visits
        return Cost(self.total, visits / took, took, True)

    def _simulate(self) -> None:
        self.begin, self.due, self.last = time.process_time(), SAMPLE, SAMPLE < 0
        self.prepared.network.tick = self._tick
        announce_traffic(self.prepared)
        run_out(self.prepared)

    @cached_property
    def _messages(self) -> int:
        """The messages of the whole run."""
        return int(self.prepared.system.traffic()[:, 4].sum())

    def _elapsed(self) -> float:
        return max(time.process_time() - self.begin, 1e-6)

    def _tick(self) -> None:
        now = self._elapsed()
        if self.records and now < self.records[-1][0] + STEP and SAMPLE > 0:
            return
        network = self.prepared.network
        messages = 0 if network.capabilities.packets else network.counts()["messages"]
        self.records.append((now, network.router_visits, messages))
        if now < self.due:
            return
        self.due = 1.5 * now
        self.last |= now >= self.longest
        if self.last or self._extrapolate().unknown is None:
            raise _SampleEndedError

    def _extrapolate(self) -> Cost:
        """The cost at the speed of the sample; unknown if the speed is not steady."""
        prepared, packets = self.prepared, self.prepared.network.capabilities.packets
        # Without packets, each message costs about the same, whatever its size.
        unit, total = (1, self.total) if packets else (2, self._messages)
        first, end = self.records[0], self.records[-1]
        cost = Cost(self.total, end[1] / end[0], None)
        if "groups" in prepared.network.counts():
            return replace(cost, unknown=PARTING)
        middle = min(self.records, key=lambda record: abs(2 * record[0] - first[0] - end[0]))
        times = [(a[0], b[0], b[unit] - a[unit]) for a, b in ((first, middle), (middle, end))]
        if any(begin >= then or done <= 0 for begin, then, done in times):
            return replace(cost, unknown="the simulated part of the run is too short to measure its speed")
        before, after = (done / (then - begin) for begin, then, done in times)
        if max(before, after) > STEADY * min(before, after):
            return replace(cost, unknown="the speed of the simulation changes during its beginning")
        share = prepared.network.bytes_delivered / max(1, prepared.bytes_planned)
        if share < LEAST_SHARE and not prepared.job.planned:
            kind = "a workload has phases of different speeds"
            return replace(cost, unknown=f"{kind}, and only {share:.1%} of the bytes arrive within the sample")
        counts = prepared.network.counts()
        skips = counts.get("not_skipped", "no packets")
        if skips is None or ("repeat" in skips and counts["messages"] < counts["npus"]):
            return replace(cost, unknown=REPEATS)
        rate = (end[unit] - first[unit]) / (end[0] - first[0])
        seconds = end[0] + max(0, total - end[unit]) / rate
        return replace(cost, seconds=seconds, visits_per_s=self.total / seconds)


def _may_stall(prepared: Prepared) -> bool:
    """Whether chunks that wait for other NPUs may fill the queues."""
    chunks = prepared.system.options.chunks * len(prepared.job.collectives) if prepared.job.planned else 0
    return prepared.system.may_stall(chunks)
