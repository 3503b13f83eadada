"""The datasets dimensions and phases, computed from the rows of /chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import IntArray

Columns = dict[str, NDArray[Any]]

SEVERAL = -1  # several dimensions at once


def dimension_table(chunks: dict[str, IntArray], traffic: IntArray, shape: Sequence[int], cycles: int) -> Columns:
    """Make the columns of /dimensions.

    Parameters
    ----------
    chunks
        Columns of /chunks.
    traffic
        int64[K, 5]: source, destination, plane, bytes, number of messages.
    shape
        NPUs per dimension.
    cycles
        Length of the run.
    """
    span = differing(traffic, shape)
    present = np.unique(np.concatenate([np.arange(len(shape)), chunks["dimension"], span]))
    dims = np.concatenate([present[present >= 0], present[present < 0]])
    npus = int(np.prod(shape))
    worked = _worked(chunks, npus, cycles)
    rows: dict[str, list[float]] = {"occupancy": [], "occupancy_npu0": [], "queueing": [], "network": []}
    for dim in dims.tolist():
        of_dim = chunks["dimension"] == dim
        part = {name: chunks[name][of_dim] for name in ("ready", "start", "messages", "network")}
        share = worked.get(dim, np.zeros(npus)) / max(1, cycles)
        rows["occupancy"].append(float(share.mean()))
        rows["occupancy_npu0"].append(float(share[0]))
        rows["queueing"].append(_queueing(part))
        rows["network"].append(_network(part))
    sent = [int((traffic[span == dim, 3] * traffic[span == dim, 4]).sum()) for dim in dims.tolist()]
    means: Columns = {name: np.array(values, dtype=np.float64) for name, values in rows.items()}
    return {"dimension": dims, "bytes": np.array(sent, dtype=np.int64), **means}


def phase_table(chunks: dict[str, IntArray], kinds: dict[tuple[int, int], str]) -> Columns:
    """Make the columns of /phases, one row per collective, phase and dimension.

    `kinds`: (collective, phase) -> kind of the phase.
    """
    names = ("collective", "phase", "dimension")
    # Neighbouring parts of a chunk and phase are summed first: they are few, and sorted instead of the parts.
    parts = len(chunks["rank"])
    new = np.zeros(parts, dtype=bool)
    new[:1] = True
    for name in (*names, "chunk"):
        new[1:] |= chunks[name][1:] != chunks[name][:-1]
    begin = np.flatnonzero(new)
    keys = {name: chunks[name][begin] for name in (*names, "chunk")}
    order = np.lexsort([keys[name] for name in reversed(names)])
    other = np.ones(len(order), dtype=bool)
    other[1:] = np.any([keys[name][order][1:] != keys[name][order][:-1] for name in names], axis=0)
    first = np.flatnonzero(other)
    row = np.empty(len(order), np.int64)  # of the table, to which each run of parts belongs
    row[order] = np.cumsum(other) - 1
    places = {name: keys[name][order][first] for name in names}

    def of_rows(what: np.ufunc, values: NDArray[Any]) -> IntArray:
        return _reduced(what, _reduced(what, values, begin)[order], first)

    ready, started, ended = chunks["ready"], chunks["start"], chunks["end"]
    never = np.iinfo(np.int64).max
    start = of_rows(np.minimum, np.where(started >= 0, started, never))
    of_part = np.repeat(row, np.diff(begin, append=parts))
    whole: Columns = {
        "npus": _different(chunks["rank"], of_part, len(first)),
        "chunks": _different(keys["chunk"], row, len(first)),
        "start": np.where(start < never, start, -1),
        "end": np.where(of_rows(np.minimum, ended) >= 0, of_rows(np.maximum, ended), -1),
    }
    kind_names = [
        kinds.get((collective, phase), "")
        for collective, phase in zip(*(places[name].tolist() for name in names[:2]), strict=True)
    ]
    whole["kind"] = np.array(kind_names, dtype=object)
    return {
        **places,
        **whole,
        "time": _share(of_rows, ended - started, ended >= 0),
        "queueing": _share(of_rows, started - ready, (started >= 0) & (ready >= 0)),
        "network": _quotient(
            of_rows(np.add, np.where(chunks["messages"] > 0, chunks["network"], 0)),
            of_rows(np.add, np.maximum(chunks["messages"], 0)),
        ),
    }


def _reduced(what: np.ufunc, values: NDArray[Any], first: IntArray) -> IntArray:
    """Reduce the runs of values that begin at `first`."""
    reduced: IntArray = what.reduceat(values, first, dtype=np.int64) if len(first) else np.zeros(0, np.int64)
    return reduced


def _different(values: IntArray, row: IntArray, rows: int) -> IntArray:
    """The number of distinct values of each row."""
    span = int(values.max(initial=0)) + 1
    cell = row * span + values
    if rows * span > 8 * len(values):
        return np.bincount(np.unique(cell) // span, minlength=rows).astype(np.int64)
    present = np.zeros(rows * span, dtype=bool)
    present[cell] = True
    counts: IntArray = present.reshape(rows, span).sum(axis=1)
    return counts


def _share(of_rows: Callable[..., IntArray], values: IntArray, counted: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The mean of each row over the counted parts; NaN without any."""
    return _quotient(of_rows(np.add, np.where(counted, values, 0)), of_rows(np.add, counted))


def _quotient(sums: IntArray, counts: IntArray) -> NDArray[np.float64]:
    means: NDArray[np.float64] = np.full(len(sums), np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means


def differing(traffic: IntArray, shape: Sequence[int]) -> IntArray:
    """Return the dimension in which the ends of each row of traffic differ; SEVERAL if it is not exactly one."""
    differs, weight = [], 1
    for size in shape:
        differs.append(traffic[:, 0] // weight % size != traffic[:, 1] // weight % size)
        weight *= size
    apart = np.stack(differs, axis=1) if differs else np.zeros((len(traffic), 1), dtype=bool)
    return np.where(apart.sum(axis=1) == 1, apart.argmax(axis=1), SEVERAL).astype(np.int64)


def _worked(chunks: dict[str, IntArray], npus: int, cycles: int) -> dict[int, IntArray]:
    """Per dimension: cycles in which each NPU had at least one active chunk, int64[NPUs]."""
    begun = chunks["start"] >= 0
    return {
        dim: _busy({name: chunks[name][part] for name in ("rank", "start", "end")}, npus, cycles)
        for dim in np.unique(chunks["dimension"][begun]).tolist()
        if len(part := np.flatnonzero(begun & (chunks["dimension"] == dim)))
    }


def _busy(parts: dict[str, IntArray], npus: int, cycles: int) -> IntArray:
    """int64[NPUs]: cycles in which each NPU had at least one of these parts."""
    rank, start = parts["rank"], parts["start"]
    end = np.where(parts["end"] >= 0, parts["end"], cycles)
    # All NPUs on one time axis, one after the other: one union of intervals for all.
    apart = max(cycles, int(end.max(initial=0))) + 1
    order = np.lexsort((start, rank))
    rank = rank[order]
    first, last = start[order] + rank * apart, end[order] + rank * apart
    covered = np.maximum.accumulate(np.concatenate([[0], last[:-1]]))
    alone = np.maximum(last - np.maximum(first, covered), 0)
    cycles_of = np.zeros(npus, dtype=np.int64)
    np.add.at(cycles_of, rank, alone)
    return cycles_of


def _mean(values: IntArray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _queueing(chunks: dict[str, IntArray]) -> float:
    begun = (chunks["start"] >= 0) & (chunks["ready"] >= 0)
    return _mean((chunks["start"] - chunks["ready"])[begun])


def _network(chunks: dict[str, IntArray]) -> float:
    has_messages = chunks["messages"] > 0
    messages = int(chunks["messages"][has_messages].sum())
    return int(chunks["network"][has_messages].sum()) / messages if messages else float("nan")
