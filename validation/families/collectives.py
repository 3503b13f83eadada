"""Collectives with real data: every algorithm, plans and groups, users' files, and mistakes."""

from __future__ import annotations

from collections.abc import Iterator

from validation.case import Case
from validation.families import algorithms, broken, communicators, custom


def cases() -> Iterator[Case]:
    for part in (algorithms, communicators, custom, broken):
        yield from part.cases()


FAMILY = ("collectives", "Collectives with real data", ("kinds", "runs", "NPUs", "networks"), cases)
