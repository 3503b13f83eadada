"""Find validation cases by name, family or pattern."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache

from pyxsim import library
from pyxsim.errors import InputError
from validation import families
from validation.case import Case


@dataclass(frozen=True)
class Family:
    """Cases of one subject: they share a table of the page, with their own columns."""

    name: str
    title: str
    columns: tuple[str, ...]
    cases: Callable[[], Iterable[Case]]


FAMILIES: tuple[Family, ...] = tuple(Family(*told) for told in families.ALL)


@cache
def every_case() -> dict[str, Case]:
    """Return all cases by name, in the order of the page."""
    library.load_all()
    found = [case for family in FAMILIES for case in family.cases()]
    names = [case.name for case in found]
    doubled = {name for name in names if names.count(name) > 1}
    if doubled:
        raise ValueError(f"two cases are called {sorted(doubled)}")
    return dict(zip(names, found, strict=True))


def find(patterns: Sequence[str]) -> list[Case]:
    """Return the cases with these names: a full name, a family, or a pattern with * and ?; all without a pattern.

    Raises InputError for a pattern without a match.
    """
    cases = every_case()
    if not patterns:
        return list(cases.values())
    chosen: dict[str, Case] = {}
    for pattern in patterns:
        mine = {name: case for name, case in cases.items() if _is_meant(name, pattern)}
        if not mine:
            known = [*(family.name for family in FAMILIES), *cases]
            allowed = ", ".join(family.name for family in FAMILIES) + ", or a case (--list)"
            raise InputError(
                f"no case is called '{pattern}'", key="validate", allowed=allowed + _closest(pattern, known)
            )
        chosen |= mine
    return [case for name, case in cases.items() if name in chosen]


def _is_meant(name: str, pattern: str) -> bool:
    return name == pattern or name.partition("/")[0] == pattern or fnmatchcase(name, pattern)


def _closest(word: str, words: Iterable[str]) -> str:
    from pyxsim.errors import closest

    return closest(word, words)
