"""A trace of Nsight Systems as a graph: what each GPU did, in the order and with the pauses of the trace.

An activity begins as long after the activity of its GPU that ended last as it did in the trace, and after the one
before it in its stream. It takes its recorded time, but for the collectives of NCCL of which the trace has the bytes:
these are simulated.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.errors import InputError
from pyxsim.workload.durations import cycles
from pyxsim.workload.graph import Call, Kind, TaskGraph
from pyxsim.workload.nsight.database import Activities, Message, opened

_PER_SECOND = 10**9
_KINDS = {
    "AllReduce": "all-reduce",
    "AllGather": "all-gather",
    "ReduceScatter": "reduce-scatter",
    "Broadcast": "broadcast",
    "Reduce": "reduce",
}
_GAP = "pause"


def graph_of(
    name: str,
    npus: int,
    clock: Fraction = Fraction(_PER_SECOND),
    compute_scale: Fraction = Fraction(1),
    comm_scale: Fraction = Fraction(1),
) -> TaskGraph:
    """Return the tasks of a trace for a network of `npus`. Raises InputError.

    GPUs are numbered by process, then device. Each activity has two tasks: the pause before it, and itself.
    """
    with opened(name) as export:
        rows, messages = export.activities(), export.messages()
    gpus, npu = _numbered(rows.process, rows.device)
    if gpus > npus:
        raise InputError(f"has {gpus} GPUs", file=name, allowed=f"up to {npus}, the NPUs of the network")
    order = np.lexsort((rows.end, rows.start, npu))
    rows = replace(rows, **{each: getattr(rows, each)[order] for each in _COLUMNS})
    npu = npu[order]
    call, calls = _collectives(rows, npu, messages, comm_scale)
    last, before = _before(rows, npu)
    gap = rows.start - np.where(last >= 0, rows.end[last], rows.start.min())
    count = len(npu)
    of_nccl = np.array([name is not None for name in _operations(rows.names)], np.bool_)[rows.name]
    copies = np.isin(rows.name, [number for number, text in enumerate(rows.names) if text in ("memcpy", "memset")])
    kind = np.select([call >= 0, of_nccl, copies], [Kind.COLLECTIVE, Kind.MARK, Kind.MEMORY], Kind.COMPUTE)
    ticks = np.empty(2 * count, np.int64)
    ticks[::2] = cycles(gap, clock)
    ticks[1::2] = np.where(
        kind == Kind.COMPUTE,
        cycles(rows.end - rows.start, clock * compute_scale),
        np.where(call >= 0, 0, cycles(rows.end - rows.start, clock)),
    )
    own = np.arange(count)
    waits = np.concatenate([2 * own[last >= 0], 2 * own + 1, 2 * own[before >= 0] + 1])
    on = np.concatenate([2 * last[last >= 0] + 1, 2 * own, 2 * before[before >= 0] + 1])
    by_task = np.argsort(waits, kind="stable")
    before_start = np.zeros(2 * count + 1, np.int64)
    np.cumsum(np.bincount(waits, minlength=2 * count), out=before_start[1:])
    nothing = np.zeros(2 * count, np.int64)
    return TaskGraph(
        npus=npus,
        npu=np.repeat(npu, 2).astype(np.int32),
        kind=_interleaved(np.full(count, Kind.MARK), kind).astype(np.int8),
        ticks=ticks,
        size=nothing,
        peer=np.full(2 * count, -1, np.int32),
        match=nothing.copy(),
        call=_interleaved(np.full(count, -1), call).astype(np.int32),
        resource=np.full(2 * count, -1, np.int8),
        layer=np.full(2 * count, -1, np.int32),
        name=_interleaved(np.zeros(count, np.int64), rows.name + 1).astype(np.int32),
        part=np.zeros(2 * count, np.int8),
        before_start=before_start,
        before=on[by_task],
        calls=calls,
        names=[_GAP, *rows.names],
        resources=(),
    )


_COLUMNS = ("start", "end", "device", "process", "stream", "name")


def _interleaved(even: IntArray, odd: IntArray) -> IntArray:
    return np.column_stack([even, odd]).ravel()


def _numbered(process: IntArray, device: IntArray) -> tuple[int, IntArray]:
    """How many GPUs there are, and which one each activity is of, by process, then device."""
    _, of_process = np.unique(process, return_inverse=True)
    devices, of_device = np.unique(device, return_inverse=True)
    pair = of_process.ravel() * len(devices) + of_device.ravel()
    pairs, number = np.unique(pair, return_inverse=True)  # of the pairs that occur: a damaged file may name many
    return len(pairs), number.ravel()


def _before(rows: Activities, npu: IntArray) -> tuple[IntArray, IntArray]:
    """For each activity the one of its GPU that ended last before it began, and the one before it in its stream; -1
    for none. Rows are sorted by NPU and start."""
    last, stream = np.full(len(npu), -1, np.int64), np.full(len(npu), -1, np.int64)
    begin = np.searchsorted(npu, np.arange(int(npu.max()) + 2))
    for first, end in zip(begin[:-1].tolist(), begin[1:].tolist(), strict=True):
        mine = slice(first, end)
        # An activity of 0 ns may end when another begins that has the same start: only earlier rows count.
        by_end = np.argsort(rows.end[mine], kind="stable")
        place = np.searchsorted(rows.end[mine][by_end], rows.start[mine], side="right") - 1
        found = np.where(place >= 0, by_end[place], -1)
        own = np.arange(end - first)
        later = found >= own
        found[later] = own[later] - 1  # rows of 0 ns at the same time: the row above, if it has ended
        ended = (found >= 0) & (rows.end[mine][found] <= rows.start[mine])
        last[mine] = np.where(ended, found + first, -1)
        by_stream = np.lexsort((own, rows.stream[mine]))
        same = rows.stream[mine][by_stream][1:] == rows.stream[mine][by_stream][:-1]
        stream[mine][by_stream[1:][same]] = by_stream[:-1][same] + first
    return last, stream


def _operations(names: list[str]) -> list[str | None]:
    """The operation of NCCL of each kernel name; None for other kernels."""
    found: list[str | None] = []
    for name in names:
        head, _, rest = name.partition("_")
        of_nccl = head in ("ncclDevKernel", "ncclKernel")
        found.append(rest.partition("_")[0].partition("(")[0] or "?" if of_nccl else None)
    return found


def _collectives(
    rows: Activities, npu: IntArray, messages: dict[tuple[int, str], list[Message]], comm_scale: Fraction
) -> tuple[IntArray, list[Call]]:
    """The call of each activity, -1 for none, and the calls.

    The k-th kernel of an operation on a GPU carries out the k-th call of its process, if there are as many of both; the
    k-th of a communicator and operation on each GPU are one collective, if all agree on the bytes.
    """
    call = np.full(len(npu), -1, np.int64)
    calls: list[Call] = []
    words = _operations(rows.names)
    turns: dict[tuple[int, str], dict[int, list[tuple[int, Message]]]] = {}
    if not messages:
        return call, calls
    begin = np.flatnonzero(np.diff(npu, prepend=-1))  # rows are sorted by NPU, NPUs by process
    processes, gpus = np.unique(rows.process[begin], return_counts=True)
    alone = set(processes[gpus == 1].tolist())
    is_of = {word: np.array([other == word for other in words], np.bool_)[rows.name] for word in _KINDS}
    for first, end in zip(begin.tolist(), [*begin[1:].tolist(), len(npu)], strict=True):
        one, process = int(npu[first]), int(rows.process[first])
        if process not in alone:
            continue  # which GPU a call of NCCL is for cannot be told
        for word in _KINDS:
            kernels = first + np.flatnonzero(is_of[word][first:end])
            made = messages.get((process, word), [])
            if len(kernels) == len(made):
                for kernel, message in zip(kernels.tolist(), made, strict=True):
                    turns.setdefault((message.communicator, word), {}).setdefault(one, []).append((kernel, message))
    for (_, word), of in turns.items():
        many = {len(each) for each in of.values()}
        if len(of) < 2 or len(many) > 1:
            continue
        for together in zip(*of.values(), strict=True):
            message = together[0][1]
            if any(other != message for _, other in together) or message.root >= len(of):
                continue
            size = max(int(message.size * comm_scale), 1) * (len(of) if word == "ReduceScatter" else 1)
            root = sorted(of)[message.root] if word in ("Broadcast", "Reduce") else None
            call[[kernel for kernel, _ in together]] = len(calls)
            calls.append(Call(_KINDS[word], size, members=tuple(sorted(of)), root=root, name=word))
    return call, calls
