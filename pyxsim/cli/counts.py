"""Options that are whole numbers."""

from __future__ import annotations

from pyxsim.errors import InputError

MOST = 10**9 - 1


def count(text: str, option: str, least: int = 1, most: int = MOST) -> int:
    """Return the number of an option. Raises InputError."""
    allowed = f"a whole number from {least} to {most}"
    if not text.isascii() or not text.isdigit():
        raise InputError(f"'{text}' is not a number", key=option, allowed=allowed)
    if len(text) > len(str(most)) or not least <= int(text) <= most:
        raise InputError(f"{text} is out of range", key=option, allowed=allowed)
    return int(text)


def maybe(text: str | None, option: str, least: int = 1, most: int = MOST) -> int | None:
    """Return the number of an optional option."""
    return None if text is None else count(text, option, least, most)
