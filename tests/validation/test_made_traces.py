"""Validation of synthesized traces: the table of the page is that of the stored results, and a small case runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pyxsim.workload.graph import Call, GraphBuilder, Kind
from pyxsim.workload.making.sources import Source
from validation.families.made_traces import compared, noisy, recorded, table, time_of
from validation.page import read_outcomes


def test_the_page_has_the_stored_results(tree: Path) -> None:
    rows = table(read_outcomes(tree / "docs" / "validation.json"))
    page = (tree / "docs" / "making_traces.md").read_text(encoding="utf-8")
    between = page.split("<!-- measured -->")[1].split("<!-- end -->")[0].strip().splitlines()
    assert between[2:] == rows


def job() -> Source:
    """Two ranks that compute for 1 ms and then sum 1 MB, ten times."""
    builder, ranks = GraphBuilder(2), np.arange(2)
    last: list[np.ndarray] = []
    for _ in range(10):
        last = [builder.tasks(ranks, Kind.COMPUTE, ticks=10**9, before=last)]
        call = builder.call(Call("all-reduce", 10**6))
        last = [builder.tasks(ranks, Kind.COLLECTIVE, call=call, before=last)]
    return Source("job", builder.graph(), (2,))


def test_a_class_of_equal_jobs_has_no_error() -> None:
    """A job of which all statistics are single values: what is drawn is the job."""
    found = compared(lambda: ([job()], [job()]))
    assert found.measured == 0
    assert {found.cells[name] for name in ("mix", "times", "bytes", "waits", "reach", "runs")} == {"0.000"}


def test_a_class_of_other_jobs_has_an_error() -> None:
    """Jobs that compute half as long: 10 x (0.5 ms + the all-reduce) instead of 10 x (1 ms + the all-reduce)."""
    short = job()
    short.graph.ticks[:] //= 2
    found = compared(lambda: ([short], [job()]))
    difference = 10 * 0.5e6
    assert found.measured == pytest.approx(100 * difference / time_of(job().graph), rel=1e-6)
    assert found.cells["times"] == "1.000"


def test_noise_is_what_it_says() -> None:
    """Steps with noise have other times, the same for the same seed, and nothing else changes."""
    one, same, other = (noisy(job(), seed).graph for seed in (1, 1, 2))
    assert one.ticks.tolist() == same.ticks.tolist() != other.ticks.tolist()
    ratio = one.ticks[one.kind == Kind.COMPUTE] / 1e9
    assert 0.6 < ratio.min() < ratio.max() < 1.6
    assert not one.ticks[one.kind != Kind.COMPUTE].any()


def test_the_recorded_step_has_both_ranks() -> None:
    learned, held_out = recorded()
    assert [source.graph.npus for source in (*learned, *held_out)] == [2, 2]
    assert learned[0].graph.ticks.sum() != held_out[0].graph.ticks.sum()
