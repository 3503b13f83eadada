from pyxsim.arrays import IntArray
from pyxsim.network.delay.carrier import OnRoutes
from pyxsim.network.delay.ticks import Ticks

class CutThrough(OnRoutes):
    ticks: Ticks
    window: int
    def __init__(self, ticks: Ticks, flit: int, *, whole: bool = False, window: int = 1000, rows: int = 1) -> None: ...
    @property
    def windows(self) -> tuple[IntArray, IntArray]: ...
    def widen(self, cycles: int) -> None: ...
