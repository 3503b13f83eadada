"""Three rings, each in both directions, over all links of a DGX-1: as NCCL goes round in it."""

import numpy as np

from pyxsim.collective.schedule import Schedule
from pyxsim.errors import InputError
from pyxsim.registry import collectives

# The links of the cube mesh, those that are double taken twice, are three rings through all eight GPUs.
RINGS = ((0, 1, 2, 3, 7, 6, 5, 4), (0, 2, 6, 4, 7, 5, 1, 3), (0, 3, 2, 1, 5, 6, 7, 4))


@collectives.register("dgx-1-rings", kinds=("all-reduce",))
def dgx_1_rings(kind: str, n: int) -> Schedule:
    if n != 8:
        raise InputError(f"the rings of a DGX-1 have 8 GPUs, not {n}")
    ways = [np.array(way) for ring in RINGS for way in (ring, ring[::-1])]
    s = Schedule(kind, n, blocks=n * len(ways))
    place = np.arange(n)
    for added in (True, False):  # reduce-scatter, and all-gather
        for step in range(n - 1):
            for number, way in enumerate(ways):
                block = (place - step - added) % n
                s.step(way, np.roll(way, -1), block * len(ways) + number, added)
    return s
