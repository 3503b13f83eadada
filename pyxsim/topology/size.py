"""How large a network may be: beyond these its arrays are a mistake in the input, or need another machine."""

from __future__ import annotations

from pyxsim.errors import InputError

# 2 million links, 1 GB of tables.
MAX_LINKS = 2**21
MAX_ENTRIES = 2**27


def check_size(links: int, entries: int) -> None:
    """Raises InputError."""
    if links > MAX_LINKS:
        raise InputError(f"{links} links are too many", key="network.shape", allowed=f"at most {MAX_LINKS}")
    if entries > MAX_ENTRIES:
        raise InputError(f"{entries} table entries are too many", key="network.shape", allowed=f"at most {MAX_ENTRIES}")
