"""Inputs that the fuzzer once found: each is refused in one line, soon, and within its memory."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2]))
from validation.fuzz import sandbox
from validation.fuzz.findings import READERS, findings

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux"),
    pytest.mark.usefixtures("forked_checks"),
]


def test_every_finding_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    """Of a damaged HDF5 file by one of its readers, which all open it by the same function; with --slow by each."""
    cases = list(findings(tmp_path))
    if not request.config.getoption("--slow"):
        damaged = [case for case in cases if case.name.startswith("hdf5: ")]
        others = [case for case in cases if not case.name.startswith("hdf5: ")]
        by_file = [damaged[first : first + len(READERS)] for first in range(0, len(damaged), len(READERS))]
        cases = [*(readers[number % len(READERS)] for number, readers in enumerate(by_file)), *others]
    assert len(cases) > 50
    wrong = []
    for index, outcome in sandbox.run_cases(range(len(cases)), cases.__getitem__, 2):
        case = cases[index]
        if outcome.fault or outcome.code not in case.codes or (outcome.code and not outcome.text.strip()):
            wrong.append(f"{case.name}: {outcome.code} {outcome.fault} {sandbox.fault_line(outcome.text)}")
    assert not wrong, "\n".join(wrong)
