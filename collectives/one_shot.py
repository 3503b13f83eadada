"""One-shot: every rank gets the whole buffer of every other one, and adds all of them up itself.

One step of (N - 1) S bytes per rank, for all-reduces so small that latency alone counts. Every rank loads the buffers
of the others; "one-shot:1" lets every rank store its buffer to the others instead. TensorRT-LLM, vLLM and MSCCL++ have
such kernels for tensor parallelism.
"""

from __future__ import annotations

import numpy as np

from pyxsim.collective.schedule import Schedule
from pyxsim.errors import InputError
from pyxsim.registry import collectives

LOADS, STORES = 0, 1


@collectives.register("one-shot", kinds=("all-reduce",))
def one_shot(kind: str, n: int, stores: int = LOADS) -> Schedule:
    if stores not in (LOADS, STORES):
        raise InputError(f"one-shot:{stores} is not known", allowed="one-shot (by loads), one-shot:1 (by stores)")
    if n == 1:
        return Schedule(kind, n, blocks=1)
    # Others read a copy of the contribution, as the sum replaces it; what they send has a cell for each of them.
    copy, total = n, n + 1
    s = Schedule(kind, n, blocks=1, cells=n + 2)
    rank = np.arange(n)
    for each in range(n):
        s.local(each, 0, copy)
    for distance in range(1, n):
        s.step(rank, (rank + distance) % n, copy, put=distance, by="store" if stores == STORES else "load")
    for each in range(n):
        s.local(each, copy, total)
        for distance in range(1, n):
            s.local(each, distance, total, reduce=True)
        s.local(each, total, 0)
    return s
