"""Validation: each claim is a case with a number, a bound and a picture. docs/validation.md has the last full run."""

from __future__ import annotations

from validation.case import Case, Found, Outcome
from validation.catalogue import FAMILIES, every_case, find
from validation.runner import run_cases

__all__ = ["FAMILIES", "Case", "Found", "Outcome", "every_case", "find", "run_cases"]
