"""The datasets dimensions and phases, computed from the rows of /chunks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import IntArray
from pyxsim.lazy_columns import blocks

Columns = dict[str, NDArray[Any]]

SEVERAL = -1  # several dimensions at once
NAMES = ("collective", "phase", "dimension")
NEVER = np.iinfo(np.int64).max

REDUCED = {
    "start": np.minimum,
    "end": np.maximum,
    "first_end": np.minimum,
    **dict.fromkeys(("time", "ended", "queued", "begun", "network", "messages", "npus"), np.add),
}
"""How the columns of parts of a phase become one. No NPU is in two blocks, so that their counts add up."""


def dimension_table(
    chunks: Mapping[str, IntArray], traffic: Iterable[tuple[IntArray, int]], shape: Sequence[int], cycles: int
) -> Columns:
    """Make the columns of /dimensions.

    Parameters
    ----------
    chunks
        Columns of /chunks.
    traffic
        Parts of what is sent: int64[K, 5], source, destination, plane, bytes, number of messages; and how many times
        the part is sent between other NPUs, whose coordinates differ in the same dimensions.
    shape
        NPUs per dimension.
    cycles
        Length of the run.
    """
    sent: Counter[int] = Counter()
    for rows, times in traffic:
        span, sizes = differing(rows, shape), rows[:, 3] * rows[:, 4]
        sent.update({dim: times * int(sizes[span == dim].sum()) for dim in np.unique(span).tolist()})
    npus = int(np.prod(shape))
    worked: dict[int, IntArray] = {}
    waited: Counter[tuple[str, int]] = Counter()
    seen = {*range(len(shape)), *sent}
    for block in blocks(chunks, "rank", npus):
        for dim in np.unique(block["dimension"]).tolist():
            seen.add(dim)
            of_dim = block["dimension"] == dim
            part = {name: block[name][of_dim] for name in ("rank", "ready", "start", "end", "messages", "network")}
            worked[dim] = worked.get(dim, 0) + _busy(part, npus, cycles)
            for name, count in _waits(part).items():
                waited[name, dim] += count
    dims = [*sorted(dim for dim in seen if dim >= 0), *sorted(dim for dim in seen if dim < 0)]
    shares = [worked.get(dim, np.zeros(npus)) / max(1, cycles) for dim in dims]
    return {
        "dimension": np.array(dims, np.int64),
        "bytes": np.array([sent[dim] for dim in dims], dtype=np.int64),
        "occupancy": np.array([share.mean() for share in shares]),
        "occupancy_npu0": np.array([share[0] for share in shares]),
        "queueing": np.array([_ratio(waited["queued", dim], waited["begun", dim]) for dim in dims]),
        "network": np.array([_ratio(waited["network", dim], waited["messages", dim]) for dim in dims]),
    }


def phase_table(chunks: Mapping[str, IntArray], kinds: dict[tuple[int, int], str], npus: int) -> Columns:
    """Make the columns of /phases, one row per collective, phase and dimension.

    `kinds`: (collective, phase) -> kind of the phase. `npus`: NPUs of the network.
    """
    sums, keys = zip(*(_sums(block) for block in blocks(chunks, "rank", npus)), strict=True)
    whole = _merged({name: np.concatenate([table[name] for table in sums]) for name in sums[0]})
    chunk_keys = {name: np.concatenate([key[name] for key in keys]) for name in (*NAMES, "chunk")}
    order, first = _grouped([chunk_keys[name] for name in (*NAMES, "chunk")])
    row = _grouped([chunk_keys[name][order][first] for name in NAMES])[1]
    kind_names = [
        kinds.get((collective, phase), "")
        for collective, phase in zip(whole["collective"].tolist(), whole["phase"].tolist(), strict=True)
    ]
    started, ended = whole["start"] < NEVER, whole["first_end"] >= 0
    return {
        **{name: whole[name] for name in NAMES},
        "npus": whole["npus"],
        "chunks": np.diff(row, append=len(first)),
        "start": np.where(started, whole["start"], -1),
        "end": np.where(ended, whole["end"], -1),
        "kind": np.array(kind_names, dtype=object),
        "time": _quotient(whole["time"], whole["ended"]),
        "queueing": _quotient(whole["queued"], whole["begun"]),
        "network": _quotient(whole["network"], whole["messages"]),
    }


def _sums(chunks: Mapping[str, IntArray]) -> tuple[dict[str, IntArray], dict[str, IntArray]]:
    """Return what the phases of some NPUs add up to, by column of REDUCED, and the keys of their chunks.

    Neighbouring parts of a chunk and phase are summed first: they are few, and sorted instead of the parts.
    """
    parts = len(chunks["rank"])
    new = np.zeros(parts, dtype=bool)
    new[:1] = True
    for name in (*NAMES, "chunk"):
        new[1:] |= chunks[name][1:] != chunks[name][:-1]
    begin = np.flatnonzero(new)
    keys = {name: chunks[name][begin] for name in (*NAMES, "chunk")}
    ready, started, ended = chunks["ready"], chunks["start"], chunks["end"]
    begun = (started >= 0) & (ready >= 0)
    values = {
        "start": np.where(started >= 0, started, NEVER),
        "end": ended,
        "first_end": ended,
        "time": np.where(ended >= 0, ended - started, 0),
        "ended": ended >= 0,
        "queued": np.where(begun, started - ready, 0),
        "begun": begun,
        "network": np.where(chunks["messages"] > 0, chunks["network"], 0),
        "messages": np.maximum(chunks["messages"], 0),
    }
    table = {name: keys[name] for name in NAMES}
    table |= {name: _reduced(REDUCED[name], column, begin) for name, column in values.items()}
    order, first = _grouped([keys[name] for name in NAMES])
    row = np.empty(len(order), np.int64)  # of the table, to which each run of parts belongs
    row[order] = np.repeat(np.arange(len(first)), np.diff(first, append=len(order)))
    whole = _merged(table)
    whole["npus"] = _different(chunks["rank"], np.repeat(row, np.diff(begin, append=parts)), len(first))
    return whole, keys


def _merged(table: dict[str, IntArray]) -> dict[str, IntArray]:
    """Merge the rows of the same collective, phase and dimension."""
    order, first = _grouped([table[name] for name in NAMES])
    merged = {name: table[name][order][first] for name in NAMES}
    return merged | {
        name: _reduced(REDUCED[name], column[order], first) for name, column in table.items() if name not in NAMES
    }


def _grouped(keys: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
    """Return an order of the rows that sorts their keys, and where each different key begins in it."""
    order = np.lexsort(keys[::-1])
    new = np.zeros(len(order), dtype=bool)
    new[:1] = True
    for key in keys:
        new[1:] |= key[order][1:] != key[order][:-1]
    return order, np.flatnonzero(new)


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


def _busy(parts: Mapping[str, IntArray], npus: int, cycles: int) -> IntArray:
    """int64[NPUs]: cycles in which each NPU had at least one of these parts."""
    begun = parts["start"] >= 0
    rank, start, end = (parts[name][begun] for name in ("rank", "start", "end"))
    end = np.where(end >= 0, end, cycles)
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


def _waits(parts: Mapping[str, IntArray]) -> dict[str, int]:
    """Return the cycles in the queue of parts that have begun, and the messages and their cycles in the network."""
    begun = (parts["start"] >= 0) & (parts["ready"] >= 0)
    has_messages = parts["messages"] > 0
    return {
        "queued": int((parts["start"] - parts["ready"])[begun].sum()),
        "begun": int(begun.sum()),
        "network": int(parts["network"][has_messages].sum()),
        "messages": int(parts["messages"][has_messages].sum()),
    }


def _ratio(total: int, count: int) -> float:
    return total / count if count else float("nan")
