"""Observations of open traffic: packets by their time of creation, flits by their time of arrival.

Time is divided into batches. A packet belongs to the batch in which it was created, whenever it arrives; a batch is
complete when all of its packets have arrived. Accepted traffic is counted on arrival: the flits of a packet belong to
the batch in which its last flit arrived.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.core.engine_options import CAUSES

LATENCY_BITS = 40
BATCH_BITS = 16
MAX_BATCHES = 2**BATCH_BITS


@dataclass(frozen=True)
class Grid:
    """Batches of `length / parts` cycles from cycle `origin`. Batch -1 is the time before `origin`."""

    origin: int
    length: int
    parts: int = 1

    def index(self, cycle: IntArray) -> IntArray:
        """Return the batch of each cycle."""
        batch: IntArray = np.maximum((cycle - self.origin) * self.parts // self.length, -1)
        return batch

    def start(self, batch: int) -> int:
        """Return the first cycle of a batch."""
        return self.origin + -(-batch * self.length // self.parts)

    def whole(self, cycle: int) -> int:
        """Return the number of batches that have ended before a cycle."""
        return max(0, (cycle - self.origin) * self.parts // self.length)


class Columns:
    """A table int64[rows, batches] that grows with time; batch -1 is separate."""

    def __init__(self, rows: int) -> None:
        self._values = np.zeros((rows, 64), dtype=np.int64)

    def add(self, row: IntArray, batch: IntArray, amount: IntArray | None = None) -> None:
        """Add amounts (default 1) to entries; an entry may occur repeatedly."""
        if not len(row):
            return
        rows, width = self._values.shape
        needed = int(batch.max()) + 2
        if needed > width:
            grown = np.zeros((rows, max(needed, 2 * width)), dtype=np.int64)
            grown[:, :width] = self._values
            self._values, width = grown, grown.shape[1]
        first = int(batch.min()) + 1
        span = needed - first
        place = row * span + (batch + 1 - first)
        if amount is None:
            sums = np.bincount(place, minlength=rows * span)
        else:
            # Sums of doubles are exact up to 2^53, which no batch reaches.
            sums = np.bincount(place, weights=amount, minlength=rows * span).astype(np.int64)
        self._values[:, first:needed] += sums.reshape(rows, span)

    def upto(self, batches: int) -> IntArray:
        """Return int64[rows, batches] from batch 0."""
        self._grow(batches + 1)
        return self._values[:, 1 : batches + 1]

    @property
    def before(self) -> IntArray:
        """int64[rows] of batch -1."""
        return self._values[:, 0]

    def coarsen(self) -> None:
        """Join pairs of batches from batch 0."""
        before, batches = self._values[:, :1], self._values[:, 1:]
        self._values = np.concatenate([before, batches[:, ::2]], axis=1)
        odd = batches[:, 1::2]
        self._values[:, 1 : 1 + odd.shape[1]] += odd

    def _grow(self, width: int) -> None:
        if width > self._values.shape[1]:
            self.add(np.zeros(1, np.int64), np.array([width - 2]), np.zeros(1, np.int64))


class Tally:
    """The number of packets of each (class, batch, latency)."""

    def __init__(self) -> None:
        self._keys: list[IntArray] = []
        self._counts: list[IntArray] = []
        self._size = self._limit = 1 << 16

    def add(self, klass: IntArray, batch: IntArray, latency: IntArray) -> None:
        """Count packets, except those of batch -1."""
        counted = batch >= 0
        key = ((klass << BATCH_BITS | batch) << LATENCY_BITS | latency)[counted]
        keys, counts = np.unique(key, return_counts=True)
        self._keys.append(keys)
        self._counts.append(counts.astype(np.int64))
        self._size += len(keys)
        if self._size > self._limit:
            self._merge()
            self._limit = 2 * self._size + (1 << 16)

    def of(self, first: int, end: int, classes: int) -> tuple[IntArray, IntArray]:
        """Return the distinct latencies in the batches first to end - 1, and their packets, int64[classes,
        latencies]."""
        self._merge()
        keys, counts = self._keys[0], self._counts[0]
        batch = keys >> LATENCY_BITS & (MAX_BATCHES - 1)
        klass = keys >> (LATENCY_BITS + BATCH_BITS)
        inside = (batch >= first) & (batch < end) & (klass < classes)
        latency, place = np.unique(keys[inside] & ((1 << LATENCY_BITS) - 1), return_inverse=True)
        table = np.zeros((classes, len(latency)), dtype=np.int64)
        np.add.at(table, (klass[inside], place), counts[inside])
        return latency, table

    def coarsen(self) -> None:
        """Join pairs of batches."""
        above, latency = LATENCY_BITS + BATCH_BITS, (1 << LATENCY_BITS) - 1
        halved = [(keys >> LATENCY_BITS & (MAX_BATCHES - 1)) >> 1 for keys in self._keys]
        self._keys = [
            keys >> above << above | batch << LATENCY_BITS | keys & latency
            for keys, batch in zip(self._keys, halved, strict=True)
        ]

    def _merge(self) -> None:
        none = np.zeros(0, dtype=np.int64)
        keys, place = np.unique(np.concatenate([none, *self._keys]), return_inverse=True)
        counts = np.zeros(len(keys), dtype=np.int64)
        np.add.at(counts, place, np.concatenate([none, *self._counts]))
        self._keys, self._counts, self._size = [keys], [counts], len(keys)


class Observer:
    """Records the creation and arrival of packets.

    Totals sum over the first `classes` classes; the others (round trips) have latencies only.
    """

    def __init__(self, grid: Grid, npus: int, classes: int, others: int = 0) -> None:
        self.grid = grid
        self.npus = npus
        self.classes = classes
        rows = classes + others
        self.rows = rows
        # By the batch of creation:
        self.created, self.created_flits = Columns(rows), Columns(rows)
        self.arrived, self.latency, self.network, self.hops, self.packets = (Columns(rows) for _ in range(5))
        # By the batch of arrival:
        self.accepted_flits, self.accepted = Columns(rows), Columns(rows)
        # With attribution, by the batch of creation: the parts of the latency, a row for each class and part.
        self.parts = Columns(rows * len(CAUSES))
        self.tally = Tally()
        self._nodes = Columns(npus)

    def coarsen(self) -> None:
        """Join pairs of batches, which makes them twice as long."""
        self.grid = replace(self.grid, length=2 * self.grid.length)
        for columns in (value for value in vars(self).values() if isinstance(value, Columns)):
            columns.coarsen()
        self.tally.coarsen()

    def create(self, klass: IntArray, cycle: IntArray, flits: IntArray) -> None:
        """Record the creation of messages of `flits` flits."""
        batch = self.grid.index(cycle)
        self.created.add(klass, batch)
        self.created_flits.add(klass, batch, flits)

    def take(self, arrived: Mapping[str, IntArray]) -> None:
        """Record the deliveries of a network."""
        times = (arrived["at"], arrived["first"], arrived["last"])
        self.arrive(arrived["klass"], *times, arrived["hops"], arrived["flits"], arrived["packets"], arrived["dst"])
        if "parts" in arrived:
            born = self.grid.index(arrived["at"])
            for part, cycles in enumerate(arrived["parts"].T):
                self.parts.add(arrived["klass"] * len(CAUSES) + part, born, cycles)

    def arrive(
        self,
        klass: IntArray,
        at: IntArray,
        first: IntArray,
        last: IntArray,
        hops: IntArray,
        flits: IntArray,
        packets: IntArray,
        dst: IntArray,
    ) -> None:
        """Record the arrival of messages: created in cycle `at`, first flit sent in `first`, last flit arrived in
        `last`."""
        if not len(klass):
            return
        born, now = self.grid.index(at), self.grid.index(last)
        self.arrived.add(klass, born)
        self.latency.add(klass, born, last - at)
        self.network.add(klass, born, last - first)
        self.hops.add(klass, born, hops)
        self.packets.add(klass, born, packets)
        self.tally.add(klass, born, last - at)
        real = klass < self.classes
        part = slice(None) if real.all() else real
        self.accepted.add(klass[part], now[part])
        self.accepted_flits.add(klass[part], now[part], flits[part])
        self._nodes.add(dst[part], now[part], flits[part])

    def split(self, first: int, end: int) -> tuple[IntArray, IntArray]:
        """Return the number of arrived messages created in the batches first to end - 1, int64[classes], and the sums
        of their latency parts, int64[classes, 8]."""
        arrived = self.arrived.upto(end)[: self.classes, first:].sum(axis=1)
        parts = self.parts.upto(end)[: self.classes * len(CAUSES), first:].sum(axis=1)
        return arrived, parts.reshape(self.classes, len(CAUSES))

    def complete(self, batches: int) -> int:
        """Return how many of the first `batches` batches, counted from batch 0, are complete."""
        missing = (self.created.upto(batches) != self.arrived.upto(batches)).any(axis=0)
        return int(np.argmax(missing)) if missing.any() else batches

    def backlog(self, batches: int) -> tuple[IntArray, IntArray]:
        """Return the packets and the flits that are created but not delivered at the end of each batch."""
        backlogs = []
        for born, gone in ((self.created, self.accepted), (self.created_flits, self.accepted_flits)):
            before = (born.before - gone.before)[: self.classes].sum()
            change = (born.upto(batches) - gone.upto(batches))[: self.classes].sum(axis=0)
            backlogs.append(before + np.cumsum(change))
        return backlogs[0], backlogs[1]

    def nodes(self, first: int, end: int) -> IntArray:
        """Return int64[npus]: the flits that arrived at each node in the batches first to end - 1."""
        total: IntArray = self._nodes.upto(end)[:, first:].sum(axis=1)
        return total
