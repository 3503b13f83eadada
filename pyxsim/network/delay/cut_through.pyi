import numpy as np
from numpy.typing import NDArray

from pyxsim.network.delay.carrier import OnRoutes
from pyxsim.network.delay.ticks import Ticks

Longs = NDArray[np.int64]

class CutThrough(OnRoutes):
    ticks: Ticks
    window: int
    def __init__(self, ticks: Ticks, flit: int, *, whole: bool = False, window: int = 1000, rows: int = 1) -> None: ...
    @property
    def windows(self) -> tuple[Longs, Longs]: ...
    def widen(self, cycles: int) -> None: ...
