import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]

class Pairs:
    npus: int
    count: int
    def __init__(self, npus: int) -> None: ...
    def number(self, src: Longs, dst: Longs, plane: Longs) -> tuple[Longs, Longs]: ...
    def ends(self) -> Longs: ...
