"""The datasets dimensions and phases, computed from the rows of /chunks."""

from __future__ import annotations

from collections.abc import Sequence
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
        at = chunks["dimension"] == dim
        part = {name: chunks[name][at] for name in ("start", "ready", "messages", "network")}
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
    order = np.lexsort([chunks[name] for name in reversed(names)])
    new = np.ones(len(order), dtype=bool)
    new[1:] = False
    for name in names:
        new[1:] |= np.diff(chunks[name][order]) != 0
    first, row = np.flatnonzero(new), np.cumsum(new) - 1  # of each row of the table; and to which each part belongs
    places = {name: chunks[name][order[first]] for name in names}
    sorted_chunks = {name: chunks[name][order] for name in ("ready", "start", "end", "messages", "network")}
    begun, done, has_messages = sorted_chunks["start"] >= 0, sorted_chunks["end"] >= 0, sorted_chunks["messages"] > 0
    waited = begun & (sorted_chunks["ready"] >= 0)
    never = np.iinfo(np.int64).max
    start = _of_rows(np.minimum, np.where(begun, sorted_chunks["start"], never), first)
    whole: Columns = {
        "npus": _different(chunks["rank"][order], row, len(first)),
        "chunks": _different(chunks["chunk"][order], row, len(first)),
        "start": np.where(start < never, start, -1),
        "end": np.where(
            _of_rows(np.minimum, sorted_chunks["end"], first) >= 0,
            _of_rows(np.maximum, sorted_chunks["end"], first),
            -1,
        ),
    }
    kind_names = [
        kinds.get((collective, phase), "")
        for collective, phase in zip(*(places[name].tolist() for name in names[:2]), strict=True)
    ]
    whole["kind"] = np.array(kind_names, dtype=object)
    return {
        **places,
        **whole,
        "time": _share(np.where(done, sorted_chunks["end"] - sorted_chunks["start"], 0), done, first),
        "queueing": _share(np.where(waited, sorted_chunks["start"] - sorted_chunks["ready"], 0), waited, first),
        "network": _share(
            np.where(has_messages, sorted_chunks["network"], 0),
            np.where(has_messages, sorted_chunks["messages"], 0),
            first,
        ),
    }


def _of_rows(what: np.ufunc, values: NDArray[Any], first: IntArray) -> IntArray:
    """Reduce the parts of each row, which are contiguous."""
    reduced: IntArray = what.reduceat(values.astype(np.int64), first) if len(first) else np.zeros(0, np.int64)
    return reduced


def _different(values: IntArray, row: IntArray, rows: int) -> IntArray:
    """The number of distinct values of each row."""
    span = int(values.max(initial=0)) + 1
    return np.bincount(np.unique(row * span + values) // span, minlength=rows).astype(np.int64)


def _share(values: IntArray, counted: NDArray[Any], first: IntArray) -> NDArray[np.float64]:
    """The mean of each row over the counted parts; NaN without any."""
    counts = _of_rows(np.add, counted, first)
    means: NDArray[np.float64] = np.full(len(first), np.nan)
    np.divide(_of_rows(np.add, values, first), counts, out=means, where=counts > 0)
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
    worked = {}
    for dim in np.unique(chunks["dimension"][begun]).tolist():
        at = np.flatnonzero(begun & (chunks["dimension"] == dim))
        rank, first, last = (chunks[name][at] for name in ("rank", "start", "end"))
        last[last < 0] = cycles
        # All NPUs on one time axis, one after the other: one union of intervals for all.
        apart = max(cycles, int(last.max())) + 1
        order = np.lexsort((first, rank))
        rank = rank[order]
        first, last = first[order] + rank * apart, last[order] + rank * apart
        covered = np.maximum.accumulate(np.concatenate([[0], last[:-1]]))
        worked[dim] = np.zeros(npus, dtype=np.int64)
        np.add.at(worked[dim], rank, np.maximum(last - np.maximum(first, covered), 0))
    return worked


def _mean(values: IntArray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _queueing(chunks: dict[str, IntArray]) -> float:
    begun = (chunks["start"] >= 0) & (chunks["ready"] >= 0)
    return _mean((chunks["start"] - chunks["ready"])[begun])


def _network(chunks: dict[str, IntArray]) -> float:
    has_messages = chunks["messages"] > 0
    messages = int(chunks["messages"][has_messages].sum())
    return int(chunks["network"][has_messages].sum()) / messages if messages else float("nan")
