"""Compute the delays of NPU 0's chunks, as ASTRA-sim 1 reports them, from the system layer's tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.results.chunk_delays import ChunkDelays
from pyxsim.runner.prepared import Prepared
from pyxsim.system import SystemLayer
from pyxsim.workload.spans import merged

PER_WINDOW_NS = 10_000
MOST_WINDOWS = 1 << 20


@dataclass(frozen=True)
class _Rows:
    """A row for each chunk and phase of NPU 0, in cycles.

    `left`: when the chunk left its queue; `expected`: sum over its messages of the time for which each was expected.
    """

    collective: IntArray
    chunk: IntArray
    dimension: IntArray
    ready: IntArray
    start: IntArray
    left: IntArray
    messages: IntArray
    expected: IntArray


def detail(prepared: Prepared, chunks: Mapping[str, IntArray]) -> ChunkDelays | None:
    """Return the delays; None without a workload. `chunks`: columns of the system layer's chunk table."""
    issued = _issued(prepared)
    if issued is None:
        return None
    names, layer_of, until = issued
    rows = _rows(prepared.system, chunks)
    queueing, network = _layers(rows, names, layer_of)
    dims = len(prepared.system.options.queues)
    gone = rows.left >= 0
    took = rows.left - rows.start
    times = [took[gone & (rows.dimension == dim)] for dim in range(dims)]
    clock = prepared.experiment.network.clock
    window = _window(clock, until)
    return ChunkDelays(
        layer_names=names,
        queueing=queueing,
        network=network,
        chunk_time=[float(time.sum()) / len(time) if len(time) else float("nan") for time in times],
        window=window,
        busy=_busy(rows, dims, until, window),
        clock_hz=clock,
    )


def _issued(prepared: Prepared) -> tuple[list[str], dict[int, tuple[int, int]], int] | None:
    """The layer names; by number in the system layer, the layer and start of each collective of NPU 0; the end of NPU
    0."""
    job = prepared.job
    by_layer = job.layer_collectives()
    if by_layer is None:
        return None
    numbers = [group_work.number for collective in job.collectives for group_work in collective.per_group]
    return by_layer.layers, {numbers[group]: begun for group, begun in by_layer.begun.items()}, by_layer.end


def _rows(system: SystemLayer, table: Mapping[str, IntArray]) -> _Rows:
    selected = np.flatnonzero(table["rank"] == 0)
    selected = selected[np.lexsort((table["phase"][selected], table["chunk"][selected]))]
    columns = {name: column[selected] for name, column in table.items()}
    left, expected = system.queue_times(columns)
    # A chunk over all dimensions at once uses the queues of the first.
    dimension = np.maximum(columns["dimension"], 0)
    return _Rows(
        columns["collective"],
        columns["chunk"],
        dimension,
        columns["ready"],
        columns["start"],
        left,
        columns["messages"],
        expected,
    )


def _layers(
    rows: _Rows, names: list[str], layer_of: dict[int, tuple[int, int]]
) -> tuple[list[list[float]], list[list[float]]]:
    """Mean waits and message times of each layer, over its collectives in the order of their ends."""
    begin = np.flatnonzero(np.diff(rows.chunk, prepend=-1))
    chunks: dict[int, list[tuple[int, list[float], list[float]]]] = {}
    for first, last in pairwise([*begin.tolist(), len(rows.chunk)]):
        collective = int(rows.collective[first])
        if collective not in layer_of or rows.left[last - 1] < 0:
            continue
        span = slice(first, last)
        created = layer_of[collective][1]
        waits = [float(rows.ready[first] - created), *(rows.start[span] - rows.ready[span]).astype(float).tolist()]
        with np.errstate(invalid="ignore"):
            messages = (rows.expected[span] / rows.messages[span]).tolist()
        chunks.setdefault(collective, []).append((int(rows.left[last - 1]), waits, messages))
    of_layer: list[list[tuple[list[float], list[float]]]] = [[] for _ in names]
    for ended in sorted(chunks, key=lambda collective: max(each[0] for each in chunks[collective])):
        chunk_means = sorted(chunks[ended], key=lambda each: each[0])
        of_layer[layer_of[ended][0]].append(
            (_mean([chunk_mean[1] for chunk_mean in chunk_means]), _mean([chunk_mean[2] for chunk_mean in chunk_means]))
        )
    waits, messages = (
        [_mean([chunk_mean[column] for chunk_mean in chunk_means]) for chunk_means in of_layer] for column in (0, 1)
    )
    return waits, messages


def _mean(lists: list[list[float]]) -> list[float]:
    """The mean of each position over all lists; missing positions of short lists count as 0."""
    sums = [0.0] * max((len(delays) for delays in lists), default=0)
    for delays in lists:
        for place, value in enumerate(delays):
            sums[place] += value
    return [value / len(lists) for value in sums]


def _window(clock: Fraction, until: int) -> int:
    """The length of a window in cycles: 10 us, doubled until there are at most MOST_WINDOWS."""
    window = ceil(PER_WINDOW_NS * clock / 10**9)
    while until // window > MOST_WINDOWS:
        window *= 2
    return window


def _busy(rows: _Rows, dims: int, until: int, window: int) -> IntArray:
    """int64[windows, dims]: cycles of each whole window in which the dimension has a chunk."""
    ready_rows = np.flatnonzero(rows.ready >= 0)
    ready_rows = ready_rows[np.lexsort((rows.ready[ready_rows], rows.dimension[ready_rows]))]
    left = np.where(rows.left[ready_rows] < 0, until, rows.left[ready_rows])
    start, begin, end = merged(rows.dimension[ready_rows], rows.ready[ready_rows], left, dims)
    bounds = np.arange(until // window + 1) * window
    busy = np.zeros((len(bounds) - 1, dims), np.int64)
    for dim in range(dims):
        first, last = begin[start[dim] : start[dim + 1]], end[start[dim] : start[dim + 1]]
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(last - first)])
        # Busy cycles before each bound: whole intervals, and the one that the bound cuts.
        place = np.searchsorted(first, bounds)
        over = np.where(place > 0, np.maximum(last[np.maximum(place, 1) - 1] - bounds, 0), 0) if len(first) else 0
        busy[:, dim] = np.diff(before[place] - over)
    return busy
