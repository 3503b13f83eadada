"""`pyxsim check` of several jobs."""

from __future__ import annotations

import pyxsim


def test_a_row_per_job() -> None:
    report = pyxsim.check("inputs/jobs/two_on_a_torus.toml")
    lines = [text for name, text in report.rows if name == "job"]
    assert lines[0] == "even: 1 collective on 8 NPUs (scattered 0,2,4,6,8,10,12,14)"
    assert lines[1] == "odd: 1 collective on 8 NPUs (packed 1,3,5,7,9,11,13,15), from 10 us on"


def test_what_follows_a_failure() -> None:
    report = pyxsim.check("inputs/jobs/restart.toml")
    (line,) = [text for name, text in report.rows if name == "job"]
    assert line.endswith("; 100 iterations, a checkpoint every 9; restarts after 30 us, with 2 spare NPUs")
