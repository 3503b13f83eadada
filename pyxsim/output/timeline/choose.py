"""Which rows of NPUs become slices: all of them if there is room; else of fewer NPUs, from the first to the last; if
not even one has room, its beginning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyxsim.output.result import Longs, Result
from pyxsim.output.timeline import system, tasks
from pyxsim.output.timeline.clock import Clock
from pyxsim.output.timeline.trace import NAMING
from pyxsim.output.work import Columns

# Events that a row can become at most.
_ARROW = 2
_CHUNK = 1
_STRETCH = 1
_TASK = 2 + _ARROW  # its layer, and the arrow from its cause
_EACH = 1024  # so many NPUs are left out one by one


@dataclass(eq=False)
class Rows:
    """`chunks`: rows of /chunks; `work`: rows of `table`, which is what is told of tasks. `npus`: whose they are."""

    npus: Longs
    chunks: Longs
    work: Longs
    table: Columns


def choose(result: Result, clock: Clock, wanted: Longs | None, room: int) -> tuple[Rows, list[str]]:
    """The rows to show in so many events, and what is left out. `wanted`: the NPUs that are asked for; None: all."""
    chunks = system.chunk_rows(result, clock)
    table, work = tasks.work_rows(result.work, clock) if result.work is not None else ({}, np.zeros(0, np.int64))
    found = Rows(np.zeros(0, np.int64), chunks, work, table)
    owner, cost = _owners(result, found), _costs(result, found)
    if wanted is not None:
        found, owner, cost = _only(found, owner, cost, np.isin(owner, wanted))
    npus, which = np.unique(owner, return_inverse=True)
    dims = len(result.dimensions) + len(np.unique(table["doing"])) if table else len(result.dimensions)
    price = np.bincount(which.ravel(), weights=cost).astype(np.int64) + NAMING * (1 + dims)
    typical = np.isin(npus, result.work.timeline["npu"]) if result.work is not None else np.ones(len(npus), bool)
    shown = npus[_spread(price, room, typical)]
    told = [f"{len(npus) - len(shown):,} of {len(npus):,} NPUs"] if len(shown) < len(npus) else []
    found, owner, cost = _only(found, owner, cost, np.isin(owner, shown))
    if int(cost.sum()) > room:
        begin = np.concatenate([result.chunks["start"][found.chunks], table["begin"][found.work] if table else work])
        order = np.argsort(begin, kind="stable")
        kept = np.zeros(len(begin), bool)
        kept[order[np.cumsum(cost[order]) <= room]] = True
        until = int(begin[order[int(kept.sum())]])
        told.append(f"{int((~kept).sum()):,} slices of NPU {shown[0]}: those from cycle {until} on")
        found, owner, cost = _only(found, owner, cost, kept)
    found.npus = shown
    return found, told


def _owners(result: Result, rows: Rows) -> Longs:
    """The NPU of each row, those of chunks first."""
    whose = rows.table["npu"][rows.work].astype(np.int64) if rows.table else rows.work
    return np.concatenate([result.chunks["rank"][rows.chunks], whose])


def _costs(result: Result, rows: Rows) -> Longs:
    """Events of each row."""
    by_task = result.work is not None and bool(result.work.tasks)
    first = result.chunks["phase"][rows.chunks] == 0  # which a task may start
    chunks = np.where(first & by_task, _CHUNK + _ARROW, _CHUNK)
    return np.concatenate([chunks, np.full(len(rows.work), _TASK if by_task else _STRETCH)]).astype(np.int64)


def _only(rows: Rows, owner: Longs, cost: Longs, kept: NDArray[np.bool_]) -> tuple[Rows, Longs, Longs]:
    count = len(rows.chunks)
    some = Rows(rows.npus, rows.chunks[kept[:count]], rows.work[kept[count:]], rows.table)
    return some, owner[kept], cost[kept]


def _spread(price: Longs, room: int, typical: NDArray[np.bool_]) -> Longs:
    """Which of several to take so that their price is within the room: all, or as many as possible from the first to
    the last of those that are typical; one at least."""
    if not len(price) or int(price.sum()) <= room:
        return np.arange(len(price))
    places = np.flatnonzero(typical) if typical.any() else np.arange(len(price))
    for count in _fewer(len(places)):
        some = places[np.linspace(0, len(places) - 1, count).astype(np.int64)]
        if int(price[some].sum()) <= room:
            return some
    return places[:1]


def _fewer(count: int) -> Iterator[int]:
    """Down to two; of very many in steps that are small beside what is left."""
    while count > 1:
        yield count
        count = count - 1 if count <= _EACH else count * 15 // 16
