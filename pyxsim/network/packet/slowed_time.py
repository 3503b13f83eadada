"""The time that flits take in addition where faults limit the bandwidth: links are busy for that long, too."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import IntArray
from pyxsim.core.engine_options import Links


class SlowedTime:
    """Flits times the difference of their flit time to that of the link without faults.

    Parameters
    ----------
    links
        Links of the engine without faults, whose flit times have a denominator for all that faults give them.
    """

    def __init__(self, links: Links) -> None:
        self._usual, self._den = np.asarray(links.s_num, np.int64), np.asarray(links.s_den, np.int64)
        self._num = self._usual.copy()
        self._flits = np.zeros_like(self._num)  # as of the last change of a link
        self._extra = np.zeros_like(self._num)  # of these flits, times the denominator

    def change(self, flits: IntArray, links: IntArray, num: NDArray[Any]) -> None:
        """Note the flit times of links from now on. `flits`: int64[L], those that all links have sent."""
        self._extra[links] += (flits[links] - self._flits[links]) * (self._num - self._usual)[links]
        self._flits[links], self._num[links] = flits[links], num

    def cycles(self, flits: IntArray) -> IntArray:
        """Return int64[..., L], the whole cycles that flits have taken in addition.

        `flits`: int64[..., L], flits that each of the first L links has sent so far, or before its next change; those
        of links that the engine has beyond `links`, such as sinks of packets without a route, are left out.
        """
        flits = flits[..., : len(self._den)]
        links = slice(flits.shape[-1])
        extra = self._extra[links] + (flits - self._flits[links]) * (self._num - self._usual)[links]
        return np.asarray(extra // self._den[links], np.int64)
