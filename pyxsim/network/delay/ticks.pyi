from collections.abc import Sequence
from fractions import Fraction

class Ticks:
    per_cycle: int
    links: int
    exact: bool
    def __init__(self, rates: Sequence[Fraction | int], latencies: Sequence[Fraction | int]) -> None: ...
