"""Limits of the size of a network: larger arrays point to a mistake in the input."""

from __future__ import annotations

from pyxsim.errors import InputError

MAX_LINKS = 2**21
MAX_ENTRIES = 2**27  # 1 GB of tables


def check_size(links: int, entries: int, key: str = "network.shape") -> None:
    """Raise InputError if a network has too many links or table entries: before it is built, where that is known."""
    if links > MAX_LINKS:
        raise InputError(f"{links} links are too many", key=key, allowed=f"at most {MAX_LINKS}")
    if entries > MAX_ENTRIES:
        raise InputError(f"{entries} table entries are too many", key=key, allowed=f"at most {MAX_ENTRIES}")
