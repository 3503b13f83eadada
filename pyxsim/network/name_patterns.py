"""Patterns of names in settings."""

from __future__ import annotations

from fnmatch import fnmatchcase


def matches(name: str, pattern: str) -> bool:
    """Return whether a name matches; unlike in file names, brackets stand for themselves."""
    return fnmatchcase(name, pattern.replace("[", "[[]"))
