from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyxsim.arrays import IntArray
from pyxsim.network.delay.rule import Rule

class Filling:
    paths: int
    links: int
    def add_links(self, capacities: Any) -> None: ...

class Fluid:
    rule: Rule
    filling: Filling
    sent: int
    delivered: int
    bytes_delivered: int
    paths: int
    fillings: int
    def __init__(self, rule: Rule, capacities: Any, flit: int, lanes: int = 0) -> None: ...
    def extend(
        self,
        lengths: ArrayLike,
        links: ArrayLike,
        shares: ArrayLike,
        latencies: ArrayLike,
        exact: ArrayLike,
        lanes: IntArray | None = None,
    ) -> None: ...
    @property
    def now(self) -> int: ...
    @property
    def next_cycle(self) -> int: ...
    @property
    def busy(self) -> bool: ...
    @property
    def flits(self) -> IntArray: ...
    def flits_at(self, cycle: int) -> IntArray: ...
    def rates(self) -> NDArray[np.float64]: ...
    def messages(self) -> IntArray: ...
    def send(self, paths: IntArray, nbytes: IntArray, at: int) -> int: ...
    def advance(self, until: int, slack: int) -> tuple[IntArray, IntArray]: ...
    def wait(self, cycle: int) -> None: ...
