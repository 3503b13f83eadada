"""The cost of a run, measured at its beginning. This check comes last: it simulates a part of the run."""

from __future__ import annotations

import contextlib
import time
from dataclasses import asdict, dataclass

from pyxsim.errors import DeadlockError
from pyxsim.runner.closed_run import run_out
from pyxsim.runner.prepared import Prepared, PreparedTraffic
from pyxsim.study.check.registered import LAST, Finding, checks
from pyxsim.units import rough_seconds, rounded

SAMPLE = 0.3  # seconds of the run that are simulated
STEP = 250  # cycles between two looks at the clock meanwhile
COMPAT = "docs/compat.md"


@dataclass(frozen=True)
class Cost:
    """Router visits of a run, and seconds at the speed of its beginning.

    Parameters
    ----------
    ends
        True if the sample was the whole run; None if it is not known whether the run ends.
    """

    router_visits: int
    visits_per_s: float
    seconds: float
    ends: bool | None = None


class _SampleEndedError(Exception):
    """The sample is long enough."""


@checks.register("cost", order=LAST + 1)
def cost(prepared: Prepared | PreparedTraffic) -> Finding:
    """Estimate the time of the run."""
    if prepared.mode == "open":
        return Finding((), asdict(Cost(0, 0.0, 0.0)))
    estimate = measure(prepared)
    text = f"about {rough_seconds(estimate.seconds)}, measured at its beginning"
    if estimate.router_visits:
        speed = f"{rounded(estimate.visits_per_s, '')} router visits/s, measured at its beginning"
        text = f"{estimate.router_visits:,} router visits: about {rough_seconds(estimate.seconds)} ({speed})"
    rows = [("cost", text)]
    if estimate.ends is None and _may_stall(prepared):
        rows.append(("end", f"not known: queues may fill with chunks that wait, as in ASTRA-sim 2 ({COMPAT})"))
    return Finding(rows, asdict(estimate))


def measure(prepared: Prepared) -> Cost:
    """Simulate the first SAMPLE seconds of a run. It cannot be run again afterwards."""
    total = prepared.router_visits
    network = prepared.network
    network.set_tick_interval(STEP)
    begin = time.process_time()

    def end_sample() -> None:
        if time.process_time() > begin + SAMPLE:
            raise _SampleEndedError

    network.tick = end_sample
    ends = None
    # The run itself reports an allowed deadlock. A run that is stuck after this sample stays stuck.
    with contextlib.suppress(_SampleEndedError, DeadlockError):
        run_out(prepared)
        ends = True
    took = max(time.process_time() - begin, 1e-6)
    rate = network.router_visits / took
    done = network.bytes_delivered / max(1, prepared.bytes_planned)
    # Backends without packets count no visits; there every message costs the same, so bytes measure progress.
    left = total / rate if rate else took / done if done else 0.0
    return Cost(total, rate, left, ends)


def _may_stall(prepared: Prepared) -> bool:
    """Whether chunks that wait for other NPUs may fill the queues."""
    chunks = prepared.system.options.chunks * len(prepared.job.collectives) if prepared.job.planned else 0
    return prepared.system.may_stall(chunks)
