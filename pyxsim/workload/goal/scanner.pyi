"""Reads the text form of GOAL, chunk by chunk."""

from typing import Any

from numpy.typing import NDArray

LONGEST_LINE: int

class Scanner:
    """Reads a text in chunks; holds one rank and one line. `count`: the number of ranks, -1 before it is known."""

    count: int

    def __init__(self, file: str) -> None: ...
    def feed(self, chunk: bytes) -> list[tuple[int, tuple[NDArray[Any], ...]]]:
        """Take the next bytes of the file, none at its end; return the ranks that are complete: number, and columns
        kind, size, peer, tag, cpu, nic, after, before, at_start. Raises InputError with the line."""
