"""Jobs in the summary and in the report: what they show equals the datasets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pyxsim
from pyxsim.reports.text.job_tables import failures_sheet, interference_sheet, jobs_sheet, restarts_sheet
from pyxsim.results.result import Result

FILE = "inputs/jobs/two_on_a_torus.toml"


@pytest.fixture(scope="module")
def result() -> Result:
    return pyxsim.jobs(FILE)


def test_the_table_of_jobs_has_their_times(result: Result) -> None:
    sheet = jobs_sheet(result)
    even, odd = sheet.rows
    assert even[:3] == ("even", "8", "0 ns")
    assert odd[2] == "10 us"
    assert [float(row[sheet.head.index("slowdown")]) for row in sheet.rows] == [
        pytest.approx(row["time"] / row["alone"], abs=5e-4) for row in result.jobs
    ]


def test_without_times_alone_there_is_no_slowdown() -> None:
    alone = pyxsim.run(FILE, overrides=["output.attribution=off"], backend="analytical-congestion")
    assert "slowdown" not in jobs_sheet(alone).head
    assert interference_sheet(alone) is None


def test_the_shares_of_a_row_are_those_of_its_cycles(result: Result) -> None:
    sheet = interference_sheet(result)
    assert sheet is not None
    assert sheet.head == ("job", "waited (cycles)", "for even", "for odd", "for none")
    cycles = result.interference["cycles"]
    for row, own in zip(sheet.rows, cycles.tolist(), strict=True):
        assert row[1] == f"{sum(own):,}"
        shares = [0.0 if cell == "-" else float(cell.removesuffix(" %")) for cell in row[2:]]
        assert shares == [pytest.approx(100 * each / sum(own), abs=0.051) for each in own]


def test_the_plot_has_the_shares_of_the_jobs(result: Result) -> None:
    drawn = result.plot.interference().images[0].get_array()
    cycles = result.interference["cycles"]
    assert np.allclose(drawn, cycles / cycles.sum(axis=1, keepdims=True))


def test_the_report_has_both_panels(result: Result, tmp_path: Path) -> None:
    pyxsim.report([result], tmp_path / "jobs.html")
    page = (tmp_path / "jobs.html").read_text(encoding="utf-8")
    assert "Interference between jobs" in page
    assert "scattered 0,2,4,6" in page


def test_the_account_of_a_job_that_starts_again() -> None:
    overrides = ["job[0].restart={iterations=3, checkpoint_every=1, checkpoint_time='1 us', after='2 us'}"]
    overrides += ["faults=[{npu=4, at='20 us', for='1 us', stop=true}]", "output.attribution='off'"]
    result = pyxsim.run(FILE, overrides=overrides, backend="analytical-congestion")
    sheet = restarts_sheet(result)
    (row,) = ([str(cell) for cell in each] for each in sheet.rows)
    cells = dict(zip(sheet.head, row, strict=True))
    assert (cells["job"], cells["iterations"], cells["failures"], cells["down"]) == ("even", "3/3", "1", "2 us")
    lost = dict(zip(failures_sheet(result).head, failures_sheet(result).rows[0], strict=True))
    assert (lost["at"], lost["NPU"], lost["replaced by"]) == ("20 us", "4", "-")
    assert lost["lost"] == cells["lost"]
