from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.analytical.rule import Rule

Longs = NDArray[np.int64]

class StoreAndForward:
    rule: Rule
    now: int
    sent: int
    delivered: int
    bytes_delivered: int
    flits_sent: int
    def __init__(self, rule: Rule, flit: int) -> None: ...
    def extend(self, lengths: Longs, links: NDArray[np.integer[Any]]) -> None: ...
    @property
    def next_cycle(self) -> int: ...
    @property
    def flits(self) -> Longs: ...
    def send(self, ways: Longs, nbytes: Longs, at: int) -> int: ...
    def advance(self, until: int, slack: int) -> tuple[Longs, Longs]: ...
    def wait(self, cycle: int) -> None: ...
