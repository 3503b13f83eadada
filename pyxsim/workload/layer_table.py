"""Computation, communication and exposed communication by layer.

The columns of ASTRA-sim 1's workload texts for any graph (training_job.py has those of the texts themselves). Each
cycle in which an NPU computes, or only communicates, counts for one task: of the active ones, the first to end. So the
layers add up to `usage`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import IntArray
from pyxsim.workload.graph import Kind, Part, TaskGraph
from pyxsim.workload.spans import shares
from pyxsim.workload.usage import COMMUNICATION, AtWork

SHORT = {
    Part.FORWARD: "fwd",
    Part.WEIGHT_GRADIENT: "wg",
    Part.INPUT_GRADIENT: "ig",
    Part.UPDATE: "update",
    Part.NONE: "other",
}
"""Names of the parts in the names of columns."""

NO_LAYER, WHOLE = "no layer", "all"
_WHAT = ("compute", "comm", "exposed")


def layer_table(graph: TaskGraph, work: AtWork) -> dict[str, NDArray[Any]]:
    """Return one row per layer, and one for tasks without a layer; a graph without layers is one row.

    Cycles are means over `npus`, the NPUs with tasks of the layer. `exposed_most` and `exposed_npu`: the NPU with the
    most exposed communication over all parts. `finished`: when the last NPU finished the layer.
    """
    layers = max(len(graph.layers), int(graph.layer.max(initial=-1)) + 1)
    mine = work.of(graph.kind[work.task] != Kind.MARK)
    layer = graph.layer[mine.task].astype(np.int64)
    layer[layer < 0] = layers
    rows = layers + 1
    pairs, pair = np.unique(layer * graph.npus + mine.npu, return_inverse=True)
    of_pair = pairs // graph.npus
    kind, part = graph.kind[mine.task], graph.part[mine.task]
    npus = np.bincount(of_pair, minlength=rows)
    columns: dict[str, NDArray[Any]] = {"name": _names(graph, layers), "npus": npus}
    measured = dict(zip(_WHAT, _measured(mine, kind, graph.npus), strict=True))
    for what, cycles in measured.items():
        for each, short in SHORT.items():
            columns[f"{short}_{what}"] = _mean(_sums(layer[part == each], cycles[part == each], rows), npus)
    memory = np.where(kind == Kind.MEMORY, mine.end - mine.begin, 0)
    columns["memory"] = _mean(_sums(layer, memory, rows), npus)
    exposed = _sums(pair.ravel(), measured["exposed"], len(pairs))
    columns["exposed_most"], columns["exposed_npu"] = _most(of_pair, pairs % graph.npus, exposed, rows)
    finished = np.zeros(rows, np.int64)
    np.maximum.at(finished, layer, mine.end)
    columns["finished"] = finished
    shown = slice(None, rows if npus[-1] else layers)
    return {name: column[shown] for name, column in columns.items()}


def _names(graph: TaskGraph, layers: int) -> NDArray[Any]:
    named = [*graph.layers, *(f"layer {number}" for number in range(len(graph.layers), layers))]
    return np.array([*named, NO_LAYER if layers else WHOLE], dtype=object)


def _measured(work: AtWork, kind: NDArray[np.int8], npus: int) -> tuple[IntArray, IntArray, IntArray]:
    """Per task: the cycles of computation and of communication that count for it, and its exposed cycles."""
    compute, talk = kind == Kind.COMPUTE, np.isin(kind, COMMUNICATION)
    nothing = np.zeros(0, np.int64)
    durations, exposed = np.zeros(len(kind), np.int64), np.zeros(len(kind), np.int64)
    for which, without, out in (
        (compute, (np.zeros(npus + 1, np.int64), nothing, nothing), durations),
        (talk, work.of(compute).spans(npus), exposed),
    ):
        rows = np.flatnonzero(which)
        rows = rows[np.lexsort((work.end[rows], work.npu[rows]))]
        out[rows] = shares(work.npu[rows], work.begin[rows], work.end[rows], without)
    return durations, np.where(talk, work.end - work.begin, 0), exposed


def _sums(where: IntArray, values: IntArray, rows: int) -> IntArray:
    sums = np.zeros(rows, np.int64)
    np.add.at(sums, where, values)
    return sums


def _mean(sums: IntArray, count: IntArray) -> NDArray[np.float64]:
    return sums / np.maximum(count, 1)


def _most(row: IntArray, npu: IntArray, values: IntArray, rows: int) -> tuple[IntArray, IntArray]:
    """Per row the greatest value and the first NPU that has it; -1 for none. Sorted by row and NPU."""
    most, owner = np.zeros(rows, np.int64), np.full(rows, -1, np.int64)
    np.maximum.at(most, row, values)
    those = np.flatnonzero(values == most[row])[::-1]  # the last assignment wins
    owner[row[those]] = npu[those]
    return most, owner
