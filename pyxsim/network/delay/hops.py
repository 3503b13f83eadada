"""Hop counts of routing tables."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import Int32Array


def hop_table(following: NDArray[np.integer], link_dst: NDArray[np.integer], npus: int) -> Int32Array:
    """Return int32[npus, npus]: links of the route from each NPU to each other; -1 without a route.

    `following`, int[routers, npus], is the link that a router takes toward an NPU, negative at the NPU itself; the NPUs
    are the first routers. `link_dst`, int[links], is the router at which each link ends.

    The algorithm doubles paths: after round k each entry covers 2^k links, or the whole route.
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
    table: Int32Array = np.where(at[:npus] == home, hops[:npus], -1).astype(np.int32)
    return table
