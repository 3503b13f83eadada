from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.network.delay.carrier import Carrier
from pyxsim.network.delay.rule import Rule

class FreeFlight(Carrier):
    rule: Rule
    def __init__(self, rule: Rule, flit: int) -> None: ...
    def extend(self, latency: NDArray[Any], kind: NDArray[np.integer[Any]]) -> None: ...
