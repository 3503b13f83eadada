"""Inputs that the fuzzer once found: each is refused in one line, soon, and within its memory."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2]))
from validation.fuzz import sandbox
from validation.fuzz.findings import findings

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux"),
    pytest.mark.usefixtures("forked_checks"),
]


def test_every_finding_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    cases = list(findings(tmp_path))
    assert len(cases) > 60
    wrong = []
    for index, outcome in sandbox.run_cases(range(len(cases)), cases.__getitem__, 2):
        case = cases[index]
        if outcome.fault or outcome.code not in case.codes or (outcome.code and not outcome.text.strip()):
            wrong.append(f"{case.name}: {outcome.code} {outcome.fault} {sandbox.fault_line(outcome.text)}")
    assert not wrong, "\n".join(wrong)
