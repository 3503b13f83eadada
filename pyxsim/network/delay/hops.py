"""How far it is: hops counted along tables that say which link comes next."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import Int32Array


def hop_table(following: NDArray[np.integer], link_dst: NDArray[np.integer], npus: int) -> Int32Array:
    """int32[npus, npus]: links on the way from each NPU to each other; -1 where there is no way.

    following  int[routers, npus]  the link that a router takes toward an NPU, negative at home; NPUs are routers 0..
    link_dst   int[links]          where links lead

    Steps are doubled: after round k every entry knows the way of 2^k links, or a shorter one to its end.
    """
    routers = len(following)
    home = np.arange(npus)
    ends = np.append(np.asarray(link_dst, np.int32), np.int32(-1))
    at = np.where(following >= 0, ends[following], np.arange(routers, dtype=np.int32)[:, None]).astype(np.int32)
    hops = (following >= 0).astype(np.int32)
    for _ in range(max(1, routers).bit_length()):
        if (at[:npus] == home).all():
            break
        hops = hops + hops[at, home]
        at = at[at, home]
    found: Int32Array = np.where(at[:npus] == home, hops[:npus], -1).astype(np.int32)
    return found
