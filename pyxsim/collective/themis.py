"""Themis: each chunk goes through the dimensions in the order that evens out their loads.

Rashidi et al., "Themis: A Network Bandwidth-Aware Collective Scheduling Policy for Distributed Training of DL Models",
ISCA 2022. The rules are those of ASTRA-sim's OfflineGreedy: a chunk that scatters takes the least loaded dimension
first, where it is largest; one that gathers the most loaded first, where it is smallest; as long as the loads differ by
less than a sixteenth of a chunk, the order is the usual one.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

_EVEN = 16  # loads that differ by less than 1/16 of a chunk count as even


class Themis:
    """Remembers what the chunks so far load each dimension with, as bytes over bandwidth.

    `shape`: NPUs per dimension; `bandwidths`: of an NPU in each, in any unit (only ratios count).
    """

    def __init__(self, shape: Sequence[int], bandwidths: Sequence[Fraction]) -> None:
        self.shape = tuple(shape)
        self.bandwidths = tuple(bandwidths)
        self.loads = [Fraction(0)] * len(self.shape)

    def order(self, kind: str, size: int) -> tuple[int, ...]:
        """The order for the next chunk of `size` bytes (as the user says it: for all-gather the shard of an NPU)."""
        gathers = kind == "all-gather"
        usual = list(range(len(self.shape)))
        busy = [dim for dim in usual if self.shape[dim] > 1]
        chosen = sorted(usual, key=lambda dim: self.loads[dim], reverse=gathers)
        if not busy or self._gap(chosen, busy, gathers) < Fraction(size, _EVEN):
            chosen = usual[::-1] if gathers else usual
        left = Fraction(size)
        for dim in chosen:
            n = self.shape[dim]
            part = left * (n - 1) if gathers else left * (n - 1) / n
            self.loads[dim] += part / self.bandwidths[dim]
            left = left * n if gathers else left / n
        return tuple(chosen)

    def _gap(self, chosen: Sequence[int], busy: Sequence[int], gathers: bool) -> Fraction:
        """The chunk that would even out the most and the least loaded dimension, begun there."""
        loads = [self.loads[dim] for dim in busy]
        apart = max(loads) - min(loads)
        order = [dim for dim in chosen if dim in busy]
        if not gathers:
            n = self.shape[order[0]]
            return apart * self.bandwidths[order[0]] * n / (n - 1)
        # The last dimension sees the chunk at its largest: grown by all the others.
        n = self.shape[order[-1]]
        size = apart * self.bandwidths[order[-1]] / (n - 1)
        for dim in order[:-1]:
            size /= self.shape[dim]
        return size
