from typing import Any

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]

class Carrier:
    now: int
    sent: int
    delivered: int
    bytes_delivered: int
    @property
    def next_cycle(self) -> int: ...
    @property
    def flits(self) -> Longs: ...
    def send(self, ways: Longs, nbytes: Longs, at: int) -> int: ...
    def advance(self, until: int, slack: int) -> tuple[Longs, Longs]: ...
    def wait(self, cycle: int) -> None: ...

class OnRoutes(Carrier):
    routes: int
    flits_sent: int
    def extend(self, lengths: Longs, links: NDArray[np.integer[Any]]) -> None: ...
