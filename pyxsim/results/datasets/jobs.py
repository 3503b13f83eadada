"""Several jobs on one network: their times, and how long one waited for another."""

from __future__ import annotations

from typing import Any

from pyxsim.results.dataset import Column, Dataset, add
from pyxsim.results.interference import interference
from pyxsim.results.result import Result

add(
    Dataset(
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
        lambda result: result.jobs,
        when="with `[[job]]`",
        present=lambda result: result.jobs,
        coordinates=("name",),
        restored="rows",
        json=True,
    )
)


def _interference(result: Result) -> dict[str, Any] | None:
    found = interference(result.attribution, len(result.jobs))
    return None if found is None else {"victim": found.victims, "culprit": found.culprits, "cycles": found.cycles}


add(
    Dataset(
        "interference",
        "How long the packets of each job waited in the network for each culprit; a row adds up to all its waits.",
        (
            Column("victim", "", "job of the packets", "text", ("victim",)),
            Column("culprit", "", "job or background traffic that caused the wait, or nobody", "text", ("culprit",)),
            Column("cycles", "cycles", "sum over all packets"),
        ),
        _interference,
        ("victim", "culprit"),
        when='with `[[job]]` and `[output] attribution = "links"` or `"messages"`',
        present=lambda result: interference(result.attribution, len(result.jobs)) is not None,
    )
)
