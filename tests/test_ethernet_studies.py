"""The studies under inputs/studies/ethernet/: their conclusions hold, and their page has their numbers."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from pyxsim.results.result import Result
from pyxsim.runner.lifecycle import run
from pyxsim.settings.points import points

ROOT = Path(__file__).resolve().parents[1]
INPUTS = ROOT / "inputs" / "studies" / "ethernet"
PAGE = ROOT / "docs" / "ethernet_studies.md"
NAMES = sorted(path.stem for path in INPUTS.glob("*.toml"))


@cache
def result(name: str, variant: str, *overrides: str) -> Result:
    (point,) = [point for point in points(INPUTS / f"{name}.toml", list(overrides)) if point.label == variant]
    return run(point.experiment, backend="ethernet")


def victims(variant: str) -> int:
    (found,) = [each for each in result("incast", variant).collectives if each["name"] == "victim"]
    return int(found["end"])


def test_pauses_stop_victims_and_trimming_with_a_window_does_not() -> None:
    alone, paused, trimmed = victims("victims alone"), victims("PFC"), victims("trimming, NSCC")
    assert paused > 20 * alone
    assert trimmed < paused / 6
    counts = result("incast", "PFC").counts
    assert (counts["packets_dropped"], counts["packets_trimmed"]) == (0, 0)
    # 22 MiB on the link to the root, with headers
    assert result("incast", "PFC").time_ns > 22 * 256 * (4096 + 82) / 50


def test_adaptive_senders_come_near_the_lower_bound_and_ecmp_does_not() -> None:
    small = "collective.size='8 MiB'"
    ecmp = result("load_balancing", "ECMP", small)
    mixed = result("load_balancing", "NSCC, mixed", small)
    assert ecmp.time_ns > 1.4 * mixed.time_ns
    assert mixed.lower_bound_ns is not None
    assert mixed.time_ns < 1.15 * mixed.lower_bound_ns


def test_senders_that_learn_avoid_a_slow_link() -> None:
    small = "collective.size='8 MiB'"
    whole = result("failed_link", "all links, oblivious", small).time_ns
    oblivious = result("failed_link", "NSCC, oblivious", small).time_ns
    for entropy in ("bitmap", "mixed", "reps"):
        learning = result("failed_link", f"NSCC, {entropy}", small).time_ns
        assert whole / 0.8875 < learning < oblivious  # 7.1 of 8 links are left


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_page_has_the_times(name: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    for point in points(INPUTS / f"{name}.toml"):
        found = result(name, point.label)
        section = text[text.index(f"studies/ethernet/{name}.toml") :]
        row = next(line for line in section.splitlines() if line.startswith(f"| {point.label} |"))
        for each in found.collectives:
            assert f" {int(each['end']) / 1000:,.1f} |" in row


def test_every_study_has_its_command_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in NAMES if f"pyxsim sweep inputs/studies/ethernet/{name}.toml" not in text] == []
