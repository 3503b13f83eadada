"""Several jobs on one network: their times, and how long they waited for each other."""

from __future__ import annotations

from typing import Any

from pyxsim.results.dataset import Column, Dataset, add, add_rows
from pyxsim.results.interference import interference
from pyxsim.results.result import Result

add_rows(
    "jobs",
    "One row per job of `[[job]]`.",
    (
        Column("name", "", "name of the job", "text"),
        Column("npus", "1", "number of its NPUs"),
        Column("placement", "", "how its NPUs were chosen, and the first of them", "text"),
        Column("at", "cycles", "cycle in which the job arrives"),
        Column("start", "cycles", "cycle in which its first task starts; -1: did not happen in this run"),
        Column("end", "cycles", "cycle in which its last task ends; -1: did not happen in this run"),
        Column("time", "cycles", "time from its arrival to its end; -1: it did not end in this run"),
        Column("alone", "cycles", "its time alone on the same NPUs; -1: not simulated (`pyxsim jobs` does)"),
        Column("slowdown", "1", "time / alone; NaN if one of them is not known", "float64"),
    ),
    when="with `[[job]]`",
    coordinates=("name",),
)

add_rows(
    "job_restarts",
    "One row per job of `[job.restart]`: where its time went, from its arrival to its end.",
    (
        Column("job", "", "name of the job", "text"),
        Column("iterations", "1", "iterations of its work"),
        Column("done", "1", "iterations that have ended and count"),
        Column("written", "1", "checkpoints that were written"),
        Column("failures", "1", "failures, after each of which the job restarted"),
        Column("work", "cycles", "iterations that count"),
        Column("checkpoints", "cycles", "writing of checkpoints"),
        Column(
            "lost",
            "cycles",
            "work since the last checkpoint, and interrupted writing, that failures or the end of the run discarded",
        ),
        Column("down", "cycles", "from failures until the NPUs resumed, and waiting for NPUs before the start"),
        Column("goodput", "1", "work / (work + checkpoints + lost + down); NaN before any time has passed", "float64"),
    ),
    when="with `[job.restart]`",
    coordinates=("job",),
)
add_rows(
    "job_failures",
    "One row per failure of a job with `[job.restart]`.",
    (
        Column("job", "", "name of the job", "text"),
        Column("at", "cycles", "cycle of the failure"),
        Column("cause", "", "`NPU stopped`, `message lost` or `NPU cut off`", "text"),
        Column("npu", "1", "the NPU that stopped, was cut off or was replaced; of several the lowest rank; -1: none"),
        Column("iterations", "1", "iterations since the last checkpoint that it undid, beside an unfinished one"),
        Column("lost", "cycles", "work since the last checkpoint, and writing, that it undid"),
        Column("down", "cycles", "until the job began again, or the next failure; -1: did not happen in this run"),
        Column("spare", "1", "the NPU that replaced it; -1: none"),
    ),
    when="with `[job.restart]`",
)


def _interference(result: Result) -> dict[str, Any] | None:
    waits = interference(result.attribution, len(result.jobs))
    return None if waits is None else {"victim": waits.victims, "culprit": waits.culprits, "cycles": waits.cycles}


add(
    Dataset(
        "interference",
        "How long the packets of each job waited in the network for each culprit; a row adds up to all its waits.",
        (
            Column("victim", "", "job of the packets", "text", ("victim",)),
            Column(
                "culprit", "", "job or background traffic that caused the wait, faults, or none", "text", ("culprit",)
            ),
            Column("cycles", "cycles", "sum over all packets"),
        ),
        _interference,
        ("victim", "culprit"),
        when='with `[[job]]` and `[output] attribution = "links"` or `"messages"`',
        present=lambda result: interference(result.attribution, len(result.jobs)) is not None,
    )
)
