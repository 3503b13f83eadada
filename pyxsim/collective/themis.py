"""Themis: each chunk goes through the dimensions in the order that evens out their loads.

Rashidi et al., "Themis: A Network Bandwidth-Aware Collective Scheduling Policy for Distributed Training of DL Models",
ISCA 2022. The rules are those of ASTRA-sim's OfflineGreedy, to the last bit: loads are binary floating point numbers,
and dimensions of equal load keep the order in which they last stood, so that ties fall as they do there.

A chunk that scatters takes the least loaded dimension first, where it is largest; one that gathers the most loaded
first, where it is smallest. While the loads differ by little, the order is 0, 1, 2 .. whatever the kind. What is little
is up to the variant: a sixteenth of a chunk (Themis), or a whole one, where a chunk is cut as large as evens out the
loads (Themis flex).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

_EVEN = 16  # loads that differ by less than 1/16 of a chunk count as even
_MIB = 1048576  # loads are times of so many bytes

Order = tuple[int, ...]


@dataclass
class _Load:
    """How long a dimension is busy with the chunks so far, in MiB over bandwidth (relative to dimension 0)."""

    dim: int
    time: float = 0.0


class Themis:
    """Remembers what the chunks so far load each dimension with.

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
        """From now on these dimensions take part, as far as there is somebody to talk to."""
        self._busy = [n > 1 and dim in dims for dim, n in enumerate(self.shape)]

    def reset(self) -> None:
        """Forget all loads."""
        self._loads = [_Load(dim) for dim in range(len(self.shape))]

    def order(self, kind: str, size: int) -> Order:
        """The order for the next chunk of `size` bytes (as the user says it: for all-gather the shard of an NPU)."""
        return self.next_chunk(kind, size, size, flex=False)[0]

    def cut(self, kind: str, size: int, chunks: int, *, flex: bool) -> Iterator[tuple[Order, int]]:
        """Chunks for all of `size` bytes, of `size // chunks` each if nothing else evens out more: (order, size)."""
        left, wanted = size, max(1, size // chunks)
        while left:
            order, taken = self.next_chunk(kind, left, wanted, flex=flex)
            left -= taken
            yield order, taken

    def next_chunk(self, kind: str, left: int, wanted: int, *, flex: bool) -> tuple[Order, int]:
        """The order and the size of a chunk of the `left` bytes that are still there."""
        gathers = kind == "all-gather"
        self._loads.sort(key=lambda load: load.time)
        if gathers:
            self._loads.reverse()
        if not any(self._busy):
            return tuple(load.dim for load in self._loads), min(left, wanted)
        gap = self._gap(gathers)
        if gap < (wanted if flex else wanted // _EVEN):
            size = min(left, wanted)
            self._in_order(size if flex else wanted, gathers)
            return tuple(range(len(self.shape))), size
        chunk = gap if flex else wanted
        order = tuple(load.dim for load in self._loads)
        self._add(self._loads, chunk, gathers)
        return order, min(left, chunk)

    def _gap(self, gathers: bool) -> int:
        """Bytes of the chunk that would even out the first dimension and the last one.

        A chunk that gathers sees the last dimension at its largest: grown by those before it.
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
        """Load the dimensions with a chunk that takes them as they are numbered.

        ASTRA-sim turns the list of the loads round for a chunk that gathers, but goes on counting from its beginning.
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
