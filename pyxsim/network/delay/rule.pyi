from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

class Rule:
    paths: int
    def times(self, paths: ArrayLike, nbytes: ArrayLike) -> NDArray[np.int64]: ...
    def extend(self, latency: NDArray[Any], kind: NDArray[np.integer[Any]]) -> None: ...

class Exact(Rule):
    per_cycle: int
    def __init__(self, rates: Iterable[Fraction | int], per_cycle: int = 1) -> None: ...

class Doubles(Rule):
    def __init__(self, rates: Iterable[float]) -> None: ...

class Summands(Doubles):
    def __init__(self, rates: Iterable[float], more: Iterable[Sequence[float]]) -> None: ...
