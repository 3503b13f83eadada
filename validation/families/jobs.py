"""Several jobs on one network: alone, side by side, in each other's way, and started again after failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from random import Random
from typing import Any

import pyxsim
from pyxsim.results.attribution import WAITING
from pyxsim.results.result import Result
from validation.case import Case, Found, exact

SEED = 1
DRAWN = 12
NETWORK = {
    "topology": "torus",
    "shape": [4, 4],
    "bandwidth": "50 GB/s",
    "latency": "20 ns",
    "clock": "1 GHz",
    "flit": "256 B",
    "packet": "1 KiB",
    "router": {"vcs": 4, "buffer": "auto"},
}
KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")


def account(
    step: int, iterations: int, every: int, write: int, after: int, failures: Sequence[int]
) -> tuple[int, dict[str, int]]:
    """Return the end of a job that begins in cycle 0, and where its time went, event by event.

    Parameters
    ----------
    step, write, after
        Cycles of an iteration, of a checkpoint, and from a failure to the next start.
    every
        Iterations between checkpoints; 0 for none.
    failures
        Their cycles. A failure in the cycle in which something ends comes first.
    """
    spent = {"work": 0, "checkpoints": 0, "lost": 0, "down": 0}
    now = saved = since = done = 0
    queue = sorted(failures)
    while True:
        writes = bool(every) and done - saved == every
        length = write if writes else step
        if queue and queue[0] <= now + length:
            failed = queue.pop(0)
            again = failed + after
            while queue and queue[0] <= again:
                again = queue.pop(0) + after
            spent["lost"] += failed - since
            spent["down"] += again - failed
            now = since = again
            done = saved
            continue
        now += length
        if writes:
            saved = done
            spent["work"] += now - write - since
            spent["checkpoints"] += write
            since = now
            continue
        done += 1
        if done == iterations:
            spent["work"] += now - since
            return now, spent


def _run(backend: str, *, network: dict[str, Any] | None = None, **tables: Any) -> Result:
    return pyxsim.run({"network": network or NETWORK, **tables}, backend=backend)


def _collective(random: Random) -> dict[str, Any]:
    return {"kind": random.choice(KINDS), "size": f"{random.choice((4, 16, 64))} KiB"}


def alone(backend: str) -> Found:
    """Compare a job on all NPUs with its collectives at the top level."""
    random, pairs = Random(f"{SEED} alone"), []
    for _ in range(DRAWN):
        work = [{**_collective(random), "at": f"{at} ns"} for at in (0, random.randrange(3000))]
        one = {"name": "a", "npus": 16, "collective": work}
        pairs.append((_run(backend, collective=work).time_cycles, _run(backend, job=[one]).time_cycles))
    worst, picture = exact(pairs, "cycles of a job")
    return Found(worst, picture, {"jobs": str(DRAWN)})


def disjoint(backend: str) -> Found:
    """Compare four jobs, each in a row of the torus, with each of them alone."""
    random, pairs = Random(f"{SEED} disjoint"), []
    for _ in range(DRAWN // 3):
        jobs = [
            {
                "name": f"row {row}",
                "placement": list(range(4 * row, 4 * row + 4)),
                "at": f"{random.randrange(2000)} ns",
                "collective": [_collective(random)],
            }
            for row in range(4)
        ]
        together = _run(backend, job=jobs)
        pairs += [
            (_run(backend, job=[one]).jobs[0]["end"], row["end"]) for one, row in zip(jobs, together.jobs, strict=True)
        ]
    worst, picture = exact(pairs, "end of a job, cycles")
    return Found(worst, picture, {"jobs": str(len(pairs))})


def adds_up() -> Found:
    """Compare the rows of the matrix of four scattered jobs with the waits of their packets."""
    random, pairs = Random(f"{SEED} matrix"), []
    for _ in range(DRAWN // 3):
        jobs = [
            {"name": name, "npus": 4, "placement": "random", "seed": random.randrange(99), "collective": [work]}
            for name, work in zip("abcd", ({**_collective(random), "size": "64 KiB"} for _ in range(4)), strict=True)
        ]
        result = _run("packet", job=jobs, output={"attribution": "messages"})
        assert result.attribution is not None
        stays = result.attribution.stays
        victims = result.attribution.latency["traffic"][stays["message"]]
        for job, row in enumerate(result.interference["cycles"].sum(axis=1).tolist()):
            waits = sum(int(stays[part][victims == job].sum()) for part in WAITING)
            pairs.append((waits, row))
    worst, picture = exact(pairs, "cycles waited")
    return Found(worst, picture, {"jobs": str(len(pairs))})


def restarts(backend: str) -> Found:
    """Compare jobs that fail at given times with the account of their time."""
    random, pairs = Random(f"{SEED} restarts"), []
    work = {"name": "a", "npus": 8, "collective": [{"kind": "all-reduce", "size": "64 KiB"}]}
    step = _run(backend, job=[{**work, "restart": {"iterations": 1}}]).jobs[0]["time"]
    for _ in range(DRAWN):
        iterations, every = random.randint(1, 12), random.randint(0, 4)
        write, after = random.randint(0, 3000) if every else 0, random.randint(3000, 9000)
        cycles = random.sample(range(1, iterations * (step + write)), 3)
        kept = {"checkpoint_every": every, "checkpoint_time": f"{write} ns"} if every else {}
        faults = [{"npu": random.randrange(8), "at": f"{cycle} ns", "for": "1 ns", "stop": True} for cycle in cycles]
        one = {**work, "restart": {"iterations": iterations, "after": f"{after} ns", **kept}}
        result = _run(backend, job=[one], faults=faults)
        end, spent = account(step, iterations, every, write, after, cycles)
        pairs += [(end, result.jobs[0]["end"]), *((spent[name], result.job_restarts[0][name]) for name in spent)]
    worst, picture = exact(pairs, "cycles")
    return Found(worst, picture, {"jobs": str(DRAWN)})


def failed_links() -> Found:
    """Compare jobs whose links lose what is on the wire, twice within an iteration, with the account of their time.

    A first run of one iteration says in which of its cycles anything is on a wire.
    """
    random, pairs = Random(f"{SEED} links"), []
    work = {"name": "a", "npus": 8, "collective": [{"kind": "all-reduce", "size": "64 KiB"}]}

    def run(restart: dict[str, Any], *cycles: int) -> Result:
        fault = {"link": "*", "for": "1 ns", "down": True, "in_flight": "lose"}
        faults = [{**fault, "at": f"{cycle} ns"} for cycle in cycles]
        return _run("packet", job=[{**work, "restart": restart}], faults=faults)

    step = run({"iterations": 1}).jobs[0]["time"]
    drawn = random.sample(range(1, step), DRAWN)
    busy = [cycle for cycle in drawn if run({"iterations": 1}, cycle).counts["packets_lost"]]
    for _ in range(DRAWN // 2):
        iterations, every = random.randint(1, 12), random.randint(0, 4)
        write, after = random.randint(0, 3000) if every else 0, random.randint(3000, 9000)
        kept = {"checkpoint_every": every, "checkpoint_time": f"{write} ns"} if every else {}
        before = random.randrange(iterations)
        first = before * step + (before // every * write if every else 0) + random.choice(busy)
        cycles = first, first + after + random.choice(busy)
        result = run({"iterations": iterations, "after": f"{after} ns", **kept}, *cycles)
        end, spent = account(step, iterations, every, write, after, cycles)
        pairs += [(end, result.jobs[0]["end"]), *((spent[name], result.job_restarts[0][name]) for name in spent)]
    worst, picture = exact(pairs, "cycles")
    return Found(worst, picture, {"jobs": str(DRAWN // 2)})


def cases() -> Iterator[Case]:
    for backend in ("packet", "analytical-congestion"):
        claim = f"A job alone on all NPUs takes as long as its collectives at the top level ({backend})"
        yield Case(f"jobs/alone-{backend}", claim, "definition", 0, "cycles", partial(alone, backend), 8)
        claim = f"Jobs whose routes have no link in common end as each alone ({backend})"
        yield Case(f"jobs/disjoint-{backend}", claim, "definition", 0, "cycles", partial(disjoint, backend), 8)
        claim = (
            f"Time, work, checkpoints, lost work and down time of a job that fails are those of its account ({backend})"
        )
        yield Case(
            f"jobs/restarts-{backend}", claim, "the account, event by event", 0, "cycles", partial(restarts, backend), 8
        )
    claim = "So are those of a job that fails because its links lose messages"
    yield Case("jobs/failed-links", claim, "the account, event by event", 0, "cycles", failed_links, 8)
    claim = "The rows of the interference matrix of four jobs add up to the waits of their packets"
    yield Case("jobs/matrix", claim, "definition", 0, "cycles", adds_up, 8)


FAMILY = ("jobs", "Several jobs", ("jobs",), cases)
