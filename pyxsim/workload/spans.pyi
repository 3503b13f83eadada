"""Stretches of time on lines, as of tasks at NPUs. A stretch is from `begin` up to, and without, `end`."""

from pyxsim.arrays import IntArray

Spans = tuple[IntArray, IntArray, IntArray]
"""Stretches of each line that do not touch: where those of line n begin, int64[lines + 1]; their begins and ends."""

def merged(line: IntArray, begin: IntArray, end: IntArray, lines: int) -> Spans:
    """What stretches cover together. They are sorted by line, then by `begin`."""

def shares(line: IntArray, begin: IntArray, end: IntArray, without: Spans) -> IntArray:
    """Whose each cycle is: that of the stretch that ends first among those that are there in it (of several, the first
    row). For each the number of its cycles; what `without` covers is nobody's. They are sorted by line, then `end`."""
