"""The network links of a result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pyxsim.results.table import Framed, Table

LINK_COLUMNS: dict[str, type[np.generic]] = {
    "src": np.int32,
    "dst": np.int32,
    "dim": np.int32,
    "bandwidth": np.float64,
    "latency": np.int64,
    "s_num": np.int64,
    "s_den": np.int64,
}


@dataclass(eq=False, repr=False)
class LinkTable(Framed):
    """The L network links, in the order of the topology.

    Attributes
    ----------
    name
        Names.
    src, dst
        Routers that send and receive, int32[L].
    dim
        Network dimension, or kind of the link, int32[L].
    bandwidth
        Bytes per second, float64[L].
    latency
        Cycles, int64[L].
    s_num, s_den
        Cycles per flit as an exact fraction, int64[L] each.
    """

    name: Sequence[str]
    src: NDArray[np.int32]
    dst: NDArray[np.int32]
    dim: NDArray[np.int32]
    bandwidth: NDArray[np.float64]
    latency: NDArray[np.int64]
    s_num: NDArray[np.int64]
    s_den: NDArray[np.int64]
    make: Callable[[], Table] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        for column, kind in LINK_COLUMNS.items():
            values = np.asarray(getattr(self, column), dtype=kind)
            if values.shape != (len(self.name),):
                raise ValueError(f"link column {column} has shape {values.shape} for {len(self.name)} names")
            setattr(self, column, values)

    def __len__(self) -> int:
        return len(self.name)

    def __repr__(self) -> str:
        return f"LinkTable({len(self)} links)"

    @classmethod
    def empty(cls) -> LinkTable:
        """The links of a network of one NPU."""
        return cls([], *(np.zeros(0, dtype=kind) for kind in LINK_COLUMNS.values()))

    def table(self) -> Table:
        """The dataset `links` of the result that these links belong to. Raises ValueError without a result."""
        if self.make is None:
            raise ValueError("this LinkTable does not belong to a result, so it has no counters")
        return self.make()
