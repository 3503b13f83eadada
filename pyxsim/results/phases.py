"""How busy each dimension of the network was with chunks, and how long phases waited: from the rows of /chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]
Columns = dict[str, NDArray[Any]]

ALL = -1  # several dimensions at once


def dimension_table(chunks: dict[str, Longs], traffic: Longs, shape: Sequence[int], cycles: int) -> Columns:
    """One row per dimension of the network, and one (-1) for what concerned several, if there was such.

    occupancy, occupancy_npu0  share of the time in which an NPU had a chunk at work there: mean over the NPUs, NPU 0
    bytes                      of messages between NPUs that differ in this dimension only
    queueing                   cycles from the data's being there to the start of the phase: mean
    network                    cycles of a message in the network: mean
    """
    span = differing(traffic, shape)
    there = np.unique(np.concatenate([np.arange(len(shape)), chunks["dimension"], span]))
    dims = np.concatenate([there[there >= 0], there[there < 0]])
    npus = int(np.prod(shape))
    worked = _worked(chunks, npus, cycles)
    rows: dict[str, list[float]] = {"occupancy": [], "occupancy_npu0": [], "queueing": [], "network": []}
    for dim in dims.tolist():
        mine = {name: values[chunks["dimension"] == dim] for name, values in chunks.items()}
        share = worked.get(dim, np.zeros(npus)) / max(1, cycles)
        rows["occupancy"].append(float(share.mean()))
        rows["occupancy_npu0"].append(float(share[0]))
        rows["queueing"].append(_queueing(mine))
        rows["network"].append(_network(mine))
    sent = [int((traffic[span == dim, 3] * traffic[span == dim, 4]).sum()) for dim in dims.tolist()]
    means: Columns = {name: np.array(values, dtype=np.float64) for name, values in rows.items()}
    return {"dimension": dims, "bytes": np.array(sent, dtype=np.int64), **means}


def phase_table(chunks: dict[str, Longs], kinds: dict[tuple[int, int], str]) -> Columns:
    """One row per collective, phase and dimension: how many NPUs and chunks, first start and last end, and means over
    them of the time from start to end, of the wait before it, and of a message in the network.

    `kinds`: (collective, phase) -> what the phase is.
    """
    names = ("collective", "phase", "dimension")
    order = np.lexsort([chunks[name] for name in reversed(names)])
    mine = {name: values[order] for name, values in chunks.items()}
    new = np.ones(len(order), dtype=bool)
    new[1:] = np.any([mine[name][1:] != mine[name][:-1] for name in names], axis=0)
    first, row = np.flatnonzero(new), np.cumsum(new) - 1  # of each row of the table; and to which each part belongs
    places = {name: mine[name][first] for name in names}
    begun, done, some = mine["start"] >= 0, mine["end"] >= 0, mine["messages"] > 0
    waited = begun & (mine["ready"] >= 0)
    never = np.iinfo(np.int64).max
    start = _of_rows(np.minimum, np.where(begun, mine["start"], never), first)
    whole: Columns = {
        "npus": _different(mine["rank"], row, len(first)),
        "chunks": _different(mine["chunk"], row, len(first)),
        "start": np.where(start < never, start, -1),
        "end": np.where(_of_rows(np.minimum, mine["end"], first) >= 0, _of_rows(np.maximum, mine["end"], first), -1),
    }
    words = [
        kinds.get((collective, phase), "")
        for collective, phase in zip(*(places[name].tolist() for name in names[:2]), strict=True)
    ]
    whole["kind"] = np.array(words, dtype=object)
    return {
        **places,
        **whole,
        "time": _share(np.where(done, mine["end"] - mine["start"], 0), done, first),
        "queueing": _share(np.where(waited, mine["start"] - mine["ready"], 0), waited, first),
        "network": _share(np.where(some, mine["network"], 0), np.where(some, mine["messages"], 0), first),
    }


def _of_rows(what: np.ufunc, values: NDArray[Any], first: Longs) -> Longs:
    """Of each row of a table, whose parts follow each other: their sum, or whatever is asked."""
    found: Longs = what.reduceat(values.astype(np.int64), first) if len(first) else np.zeros(0, np.int64)
    return found


def _different(values: Longs, row: Longs, rows: int) -> Longs:
    """How many different values each row has."""
    span = int(values.max(initial=0)) + 1
    return np.bincount(np.unique(row * span + values) // span, minlength=rows).astype(np.int64)


def _share(values: Longs, counted: NDArray[Any], first: Longs) -> NDArray[np.float64]:
    """The sum of each row over what was counted; NaN where there was nothing."""
    counts = _of_rows(np.add, counted, first)
    told: NDArray[np.float64] = np.full(len(first), np.nan)
    np.divide(_of_rows(np.add, values, first), counts, out=told, where=counts > 0)
    return told


def differing(traffic: Longs, shape: Sequence[int]) -> Longs:
    """The dimension in which the ends of each row of the traffic differ; ALL where it is not one alone."""
    differs, weight = [], 1
    for size in shape:
        differs.append(traffic[:, 0] // weight % size != traffic[:, 1] // weight % size)
        weight *= size
    apart = np.stack(differs, axis=1) if differs else np.zeros((len(traffic), 1), dtype=bool)
    return np.where(apart.sum(axis=1) == 1, apart.argmax(axis=1), ALL).astype(np.int64)


def _worked(chunks: dict[str, Longs], npus: int, cycles: int) -> dict[int, Longs]:
    """Per dimension: cycles in which each NPU had at least one chunk at work there, int64[NPUs]."""
    begun = chunks["start"] >= 0
    dim, rank, start = chunks["dimension"][begun], chunks["rank"][begun], chunks["start"][begun]
    end = np.where(chunks["end"][begun] >= 0, chunks["end"][begun], cycles)
    # All NPUs and dimensions one after the other on one axis of time, so that the union is taken at once.
    dims, place = np.unique(dim, return_inverse=True)
    where = place * npus + rank
    apart = max(cycles, int(end.max(initial=0))) + 1
    order = np.lexsort((start, where))
    first, last = (start + where * apart)[order], (end + where * apart)[order]
    covered = np.maximum.accumulate(np.concatenate([[0], last]))[:-1]
    alone = np.maximum(last - np.maximum(first, covered), 0)
    found = np.zeros(len(dims) * npus, dtype=np.int64)
    np.add.at(found, where[order], alone)
    return dict(zip(dims.tolist(), found.reshape(-1, npus), strict=True))


def _mean(values: Longs) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _queueing(chunks: dict[str, Longs]) -> float:
    begun = (chunks["start"] >= 0) & (chunks["ready"] >= 0)
    return _mean((chunks["start"] - chunks["ready"])[begun])


def _network(chunks: dict[str, Longs]) -> float:
    some = chunks["messages"] > 0
    messages = int(chunks["messages"][some].sum())
    return int(chunks["network"][some].sum()) / messages if messages else float("nan")
