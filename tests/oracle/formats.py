"""What both machines are made from: section by section the arrays and options of `pyxsim.core.engine`.

Until the engine has all of these fields, they are told here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    from pyxsim.core.options import (
        AGE,
        CUT_THROUGH,
        EACH,
        INPUT_FIRST,
        ISLIP,
        LEAST,
        RANDOM,
        ROTATING,
        STORE_AND_FORWARD,
        TWO,
        VIA_ANY,
        VIA_BOX,
        VIA_NONE,
        WAVEFRONT,
        WORMHOLE,
    )
except ImportError:
    ROTATING, INPUT_FIRST, ISLIP, WAVEFRONT, AGE = range(5)
    WORMHOLE, CUT_THROUGH, STORE_AND_FORWARD = range(3)
    RANDOM, LEAST, TWO, EACH = range(4)
    VIA_NONE, VIA_ANY, VIA_BOX = range(3)

__all__ = [
    "AGE",
    "CUT_THROUGH",
    "EACH",
    "INPUT_FIRST",
    "ISLIP",
    "LEAST",
    "RANDOM",
    "ROTATING",
    "STORE_AND_FORWARD",
    "TWO",
    "VIA_ANY",
    "VIA_BOX",
    "VIA_NONE",
    "WAVEFRONT",
    "WORMHOLE",
    "Links",
    "RouterOptions",
    "Routes",
]

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]


@dataclass
class Links:
    network: int
    injection: int
    ejection: int
    src: Ints
    dst: Ints
    vcs: Ints
    depth: Ints
    s_num: Ints
    s_den: Ints
    delay: Longs
    credit_delay: Longs
    output_queue: Ints
    group: Ints
    pool: Ints
    classes: Ints
    ranges: Ints
    low: Ints
    high: Ints


@dataclass
class Routes:
    home: Ints
    digits: Ints
    own: Ints
    offset: Longs
    link: Ints
    vc_class: Ints
    set_start: Longs
    set_link: Ints
    set_class: Ints
    plane_any: Ints
    plane_select: Ints
    plane_escape: Ints
    plane_sticky: Ints
    plane_equal: Ints
    way_first: Ints
    way_last: Ints
    way_via: Ints
    way_bias: Ints
    choose: int
    wrap: Ints
    stride: Ints


@dataclass
class RouterOptions:
    rc: int = 1
    va: int = 1
    drained: bool = False
    step_arbiter: bool = False
    interleaved: bool = False
    ordered: bool = False
    va_allocator: int = ROTATING
    va_iterations: int = 1
    sa_allocator: int = INPUT_FIRST
    sa_iterations: int = 1
    speculative: bool = False
    input_speedup: int = 1
    speedup: int = 1
    st: int = 0
    flow: int = WORMHOLE
    vnets: int = 1
    class_vnet: Any = (0,)
    class_priority: Any = (0,)
    seed: int = 0
