"""Choose the rows of NPUs that become slices: all, or those of fewer NPUs, or the beginning of one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import IntArray
from pyxsim.reports.timeline import system_tracks, task_tracks
from pyxsim.reports.timeline.clock import Clock
from pyxsim.reports.timeline.trace_model import NAMING, Rows
from pyxsim.results.result import Result

# Maximum events of a row.
_ARROW = 2
_CHUNK = 1
_STRETCH = 1
_TASK = 2 + _ARROW  # its layer, and the arrow from its cause
_EACH = 1024  # NPUs that are left out one by one


class Choice:
    """The requested rows: `wanted` NPUs (None: all), and the `demand` of events for all of them."""

    def __init__(self, result: Result, clock: Clock, wanted: IntArray | None) -> None:
        chunks = system_tracks.chunk_rows(result, clock)
        table, work = (
            task_tracks.work_rows(result.work, clock) if result.work is not None else ({}, np.zeros(0, np.int64))
        )
        self.result = result
        self.rows = Rows(np.zeros(0, np.int64), chunks, work, table)
        self.owner, self.cost = _owners(result, self.rows), _costs(result, self.rows)
        if wanted is not None:
            self._keep(np.isin(self.owner, wanted))
        self.npus, which = np.unique(self.owner, return_inverse=True)
        threads = len(result.dimension_names) + (len(np.unique(table["doing"])) if table else 0)
        self.price = np.bincount(which.ravel(), weights=self.cost).astype(np.int64) + NAMING * (1 + threads)
        self.demand = int(self.price.sum())

    def within(self, room: int) -> tuple[Rows, list[str]]:
        """Return the rows that fit into a budget of events, and what is left out."""
        work = self.result.work
        typical = np.isin(self.npus, work.timeline["npu"]) if work is not None else np.ones(len(self.npus), bool)
        shown = self.npus[_spread(self.price, room, typical)]
        gone = len(self.npus) - len(shown)
        omissions = [f"{gone:,} of {len(self.npus):,} NPUs"] if gone else []
        self._keep(np.isin(self.owner, shown))
        if int(self.cost.sum()) > room:
            begin = self._begin()
            order = np.argsort(begin, kind="stable")
            kept = np.zeros(len(begin), bool)
            kept[order[np.cumsum(self.cost[order]) <= room]] = True
            until = int(begin[order[int(kept.sum())]])
            omissions.append(f"{int((~kept).sum()):,} slices of NPU {shown[0]}, from cycle {until} on")
            self._keep(kept)
        self.rows.npus = shown
        return self.rows, omissions

    def _begin(self) -> IntArray:
        rows = self.rows
        work = rows.table["begin"][rows.work] if rows.table else rows.work
        return np.concatenate([self.result.chunks["start"][rows.chunks], work])

    def _keep(self, kept: NDArray[np.bool_]) -> None:
        rows, count = self.rows, len(self.rows.chunks)
        self.rows = Rows(rows.npus, rows.chunks[kept[:count]], rows.work[kept[count:]], rows.table)
        self.owner, self.cost = self.owner[kept], self.cost[kept]


def _owners(result: Result, rows: Rows) -> IntArray:
    """The NPU of each row, chunks first."""
    owner = rows.table["npu"][rows.work].astype(np.int64) if rows.table else rows.work
    return np.concatenate([result.chunks["rank"][rows.chunks], owner])


def _costs(result: Result, rows: Rows) -> IntArray:
    """The events of each row."""
    by_task = result.work is not None and bool(result.work.tasks)
    first = result.chunks["phase"][rows.chunks] == 0  # which a task may start
    chunks = np.where(first & by_task, _CHUNK + _ARROW, _CHUNK)
    return np.concatenate([chunks, np.full(len(rows.work), _TASK if by_task else _STRETCH)]).astype(np.int64)


def _spread(price: IntArray, room: int, typical: NDArray[np.bool_]) -> IntArray:
    """Select as many as fit into the budget, typical ones first, evenly from first to last; at least one."""
    if not len(price) or int(price.sum()) <= room:
        return np.arange(len(price))
    first, then = np.flatnonzero(typical), np.flatnonzero(~typical)
    for count in _fewer(len(price)):
        more = max(0, count - len(first))
        selected = np.concatenate([_even(first, count - more), _even(then, more)])
        if int(price[selected].sum()) <= room:
            return np.sort(selected)
    return _even(first if len(first) else then, 1)


def _even(places: IntArray, count: int) -> IntArray:
    """Select a number of them evenly, from first to last."""
    return places[np.linspace(0, len(places) - 1, count).astype(np.int64)]


def _fewer(count: int) -> Iterator[int]:
    """Decreasing counts down to two, in steps that are small relative to the count."""
    while count > 1:
        yield count
        count = count - 1 if count <= _EACH else count * 15 // 16
