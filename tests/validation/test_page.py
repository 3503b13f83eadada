"""docs/validation.md is what the stored results of the last full run say, and every case that it lists exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyxsim.errors import InputError
from validation import every_case
from validation.page import read_outcomes, render, to_json, write


def test_the_page_is_that_of_the_stored_results(tree: Path) -> None:
    page = tree / "docs" / "validation.md"
    text = page.read_text(encoding="utf-8")
    assert render(text, read_outcomes(page.with_suffix(".json"))) == text, "pyxsim validate --write docs/validation.md"


def test_the_stored_results_are_those_of_all_cases(tree: Path) -> None:
    """With the same claims and bounds."""
    stored = {outcome.name: outcome for outcome in read_outcomes(tree / "docs" / "validation.json")}
    cases = every_case()
    assert set(stored) == set(cases)
    told = {name: (case.claim, case.source, case.bound, case.unit) for name, case in cases.items()}
    assert {n: (o.claim, o.source, o.bound, o.unit) for n, o in stored.items()} == told


def test_the_page_tells_what_does_not_hold(tree: Path) -> None:
    """All of it, and nothing else."""
    page = (tree / "docs" / "validation.md").read_text(encoding="utf-8")
    told = set(re.findall(r"`([a-z-]+/[^`]+)`", page.split("## What does not hold")[1].split("\n## ")[0]))
    outcomes = read_outcomes(tree / "docs" / "validation.json")
    assert told == {outcome.name for outcome in outcomes if not outcome.holds}


def test_a_page_is_written_with_its_results(tree: Path, tmp_path: Path) -> None:
    page = tmp_path / "validation.md"
    page.write_text((tree / "docs" / "validation.md").read_text(encoding="utf-8"), encoding="utf-8")
    outcomes = read_outcomes(tree / "docs" / "validation.json")
    write(page, outcomes)
    assert page.read_text(encoding="utf-8") == (tree / "docs" / "validation.md").read_text(encoding="utf-8")
    assert to_json(read_outcomes(page.with_suffix(".json"))) == to_json(outcomes)


def test_a_page_without_a_place_for_a_family_is_refused() -> None:
    with pytest.raises(InputError, match="has no place for booksim"):
        render("<!-- cases: ring -->\n<!-- end -->\n".replace("ring", "zero-load"), [])
