"""Options that are whole numbers, told in our words when they are not."""

from __future__ import annotations

from pyxsim.errors import InputError

DIGITS = 9


def count(text: str, option: str) -> int:
    """The number behind an option. Raises InputError."""
    if not text.isascii() or not text.isdigit() or len(text) > DIGITS or not int(text):
        raise InputError(f"'{text}' is no number", key=option, allowed=f"a whole number from 1 to {10**DIGITS - 1}")
    return int(text)
