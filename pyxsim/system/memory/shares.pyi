"""Flows over shared links: how fast each of them is, and which are through."""

from collections.abc import Sequence
from fractions import Fraction

MOST_BYTES: int
"""Of one flow; and what a link carries in a cycle at most."""

class Shares:
    """Links, and the flows over them. A flow goes over one or more links at once; rates are fair, max-min: all rise
    together, until a link of theirs is full.

    `rates`: bytes a cycle that each link carries.
    """

    def __init__(self, rates: Sequence[Fraction]) -> None: ...
    def begin(self, path: tuple[int, ...], size: int, flow: int) -> None:
        """A flow of so many bytes, at least one, begins now. `flow`: its number, of which there is one."""
    def carry(self, cycles: int) -> list[int]:
        """Go on for so many cycles, at most `next()`; the flows that are through then."""
    def next(self) -> int:
        """In how many cycles the next flow is through; -1: there is none."""
    def busy(self) -> list[int]:
        """Cycles in which each link had something to carry."""
