"""Options that are whole numbers, told in our words when they are not."""

from __future__ import annotations

from pyxsim.errors import InputError

MOST = 10**9 - 1


def count(text: str, option: str, least: int = 1, most: int = MOST) -> int:
    """The number behind an option. Raises InputError."""
    allowed = f"a whole number from {least} to {most}"
    if not text.isascii() or not text.isdigit():
        raise InputError(f"'{text}' is no number", key=option, allowed=allowed)
    if len(text) > len(str(most)) or not least <= int(text) <= most:
        raise InputError(f"{text} is out of range", key=option, allowed=allowed)
    return int(text)


def maybe(text: str | None, option: str, least: int = 1, most: int = MOST) -> int | None:
    """The same of an option that may be left out."""
    return None if text is None else count(text, option, least, most)
