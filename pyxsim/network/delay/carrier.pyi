from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import IntArray

class Carrier:
    now: int
    sent: int
    delivered: int
    bytes_delivered: int
    @property
    def next_cycle(self) -> int: ...
    @property
    def flits(self) -> IntArray: ...
    def send(self, paths: IntArray, nbytes: IntArray, at: int) -> int: ...
    def advance(self, until: int, slack: int) -> tuple[IntArray, IntArray]: ...
    def wait(self, cycle: int) -> None: ...

class OnRoutes(Carrier):
    routes: int
    flits_sent: int
    def extend(self, lengths: IntArray, links: NDArray[np.integer[Any]]) -> None: ...
