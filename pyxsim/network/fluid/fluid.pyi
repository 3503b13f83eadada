from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyxsim.network.delay.rule import Rule

Longs = NDArray[np.int64]

class Filling:
    ways: int
    links: int
    def add_links(self, capacities: Any) -> None: ...

class Fluid:
    rule: Rule
    filling: Filling
    sent: int
    delivered: int
    bytes_delivered: int
    ways: int
    fillings: int
    def __init__(self, rule: Rule, capacities: Any, flit: int, lanes: int = 0) -> None: ...
    def extend(
        self,
        lengths: ArrayLike,
        links: ArrayLike,
        shares: ArrayLike,
        latencies: ArrayLike,
        exact: ArrayLike,
        lanes: Longs | None = None,
    ) -> None: ...
    @property
    def now(self) -> int: ...
    @property
    def next_cycle(self) -> int: ...
    @property
    def busy(self) -> bool: ...
    @property
    def flits(self) -> Longs: ...
    def flits_at(self, cycle: int) -> Longs: ...
    def rates(self) -> NDArray[np.float64]: ...
    def messages(self) -> Longs: ...
    def send(self, ways: Longs, nbytes: Longs, at: int) -> int: ...
    def advance(self, until: int, slack: int) -> tuple[Longs, Longs]: ...
    def wait(self, cycle: int) -> None: ...
