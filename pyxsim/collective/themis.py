"""Themis: each chunk passes the dimensions in the order that balances their loads.

Rashidi et al., "Themis: A Network Bandwidth-Aware Collective Scheduling Policy for Distributed Training of DL Models",
ISCA 2022. The rules are those of ASTRA-sim's OfflineGreedy, to the last bit: loads are binary floating point numbers,
and dimensions of equal load keep their previous order, so that ties fall as they do there.

A chunk that scatters takes the least loaded dimension first, where it is largest; one that gathers takes the most
loaded first, where it is smallest. While the loads differ by little, the order is 0, 1, 2 .. for all kinds. Little
means a sixteenth of a chunk in Themis, and a whole chunk in Themis flex, which cuts a chunk as large as balances the
loads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

_EVEN = 16  # loads that differ by less than 1/16 of a chunk count as equal
_MIB = 1048576  # unit of loads

Order = tuple[int, ...]


@dataclass
class _Load:
    """The time that the chunks so far occupy a dimension, in MiB over bandwidth (relative to dimension 0)."""

    dim: int
    time: float = 0.0


class Themis:
    """The loads of the dimensions by the chunks so far.

    `shape`: NPUs per dimension; `bandwidths`: of an NPU in each, in any unit (only ratios count); `involved`: the
    dimensions that take part (default: all).
    """

    def __init__(
        self, shape: Sequence[int], bandwidths: Sequence[Fraction], involved: Sequence[bool] | None = None
    ) -> None:
        self.shape = tuple(shape)
        rates = [float(bandwidth) for bandwidth in bandwidths]
        self._ratio = [rate / rates[0] for rate in rates]
        taking_part = involved or [True] * len(self.shape)
        self._busy = [n > 1 and taken for n, taken in zip(self.shape, taking_part, strict=True)]
        self._loads = [_Load(dim) for dim in range(len(self.shape))]

    def involve(self, dims: Collection[int]) -> None:
        """Let these dimensions take part from now on, if they have more than one NPU."""
        self._busy = [n > 1 and dim in dims for dim, n in enumerate(self.shape)]

    def reset(self) -> None:
        """Set all loads to zero."""
        self._loads = [_Load(dim) for dim in range(len(self.shape))]

    def order(self, kind: str, size: int) -> Order:
        """Return the order for the next chunk of `size` bytes (for all-gather the shard of an NPU)."""
        return self.next_chunk(kind, size, size, flex=False)[0]

    def cut(self, kind: str, size: int, chunks: int, *, flex: bool) -> Iterator[tuple[Order, int]]:
        """Yield (order, size) of the chunks of `size` bytes: `size // chunks` each, unless another size balances
        better."""
        left, chunk_size = size, max(1, size // chunks)
        while left:
            order, size_taken = self.next_chunk(kind, left, chunk_size, flex=flex)
            left -= size_taken
            yield order, size_taken

    def next_chunk(self, kind: str, left: int, chunk_size: int, *, flex: bool) -> tuple[Order, int]:
        """Return the order and the size of the next chunk of the `left` remaining bytes."""
        gathers = kind == "all-gather"
        self._loads.sort(key=lambda load: load.time)
        if gathers:
            self._loads.reverse()
        if not any(self._busy):
            return tuple(load.dim for load in self._loads), min(left, chunk_size)
        gap = self._gap(gathers)
        if gap < (chunk_size if flex else chunk_size // _EVEN):
            size = min(left, chunk_size)
            self._in_order(size if flex else chunk_size, gathers)
            return tuple(range(len(self.shape))), size
        chunk = gap if flex else chunk_size
        order = tuple(load.dim for load in self._loads)
        self._add(self._loads, chunk, gathers)
        return order, min(left, chunk)

    def _gap(self, gathers: bool) -> int:
        """Bytes of the chunk that would balance the first and the last dimension.

        A chunk that gathers is largest in the last dimension, after those before it.
        """
        ways = [load for load in self._loads if self._busy[load.dim]]
        first, last = ways[0], ways[-1]
        if not gathers:
            apart = abs(self._loads[-1].time - first.time)
            n = self.shape[first.dim]
            return int(apart * self._ratio[first.dim] / (float(n - 1) / n) * _MIB)
        apart = abs(last.time - first.time)
        size = int(apart * self._ratio[last.dim] / float(self.shape[last.dim] - 1) * _MIB)
        for load in reversed(ways[:-1]):
            size //= self.shape[load.dim]
        return size

    def _in_order(self, chunk: int, gathers: bool) -> None:
        """Load the dimensions with a chunk that takes them in ascending order.

        ASTRA-sim reverses the list of loads for a chunk that gathers, but still counts from its beginning.
        """
        self._loads.sort(key=lambda load: load.dim)
        if gathers:
            self._loads.reverse()
        self._add(self._loads, chunk, gathers, dims=range(len(self.shape)))

    def _add(self, loads: Sequence[_Load], chunk: int, gathers: bool, dims: Sequence[int] | None = None) -> None:
        for place, load in enumerate(loads):
            dim = load.dim if dims is None else dims[place]
            if not self._busy[dim]:
                continue
            n, part = self.shape[dim], float(chunk) / _MIB
            if gathers:
                load.time += part * float(n - 1) / self._ratio[dim]
                chunk *= n
            else:
                load.time += part * (float(n - 1) / n) / self._ratio[dim]
                chunk //= n
