"""Schedules with explicit waits, for readers of formats that state them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pyxsim.collective.arrays import pointers
from pyxsim.collective.cell_contents import check_messages, contents
from pyxsim.collective.compiled import CompiledSchedule, StepOrigin
from pyxsim.collective.dependencies import explicit_gates
from pyxsim.collective.kinds import Kind, get_kind


class Message(NamedTuple):
    """One message, or one local step (src == dst), with explicit waits.

    Attributes
    ----------
    cells, puts
        Cells of the sender, and those of the receiver in which they are stored or added; None for the same.
    waits
        Earlier messages that must have arrived at the sender before this one may leave.
    nbytes
        Its size, in formats without data; then it has no cells.
    extra_ns
        Extra time of a local step, or UNKNOWN_NS.
    summed
        The receiver adds what is stored to its data in a local step.
    written
        The step of the program that it was made from.
    """

    src: int
    dst: int
    cells: Sequence[int] = ()
    puts: Sequence[int] | None = None
    reduce: bool = False
    waits: Sequence[int] = ()
    way: int = +1
    join: int = -1
    nbytes: int | None = None
    extra_ns: int = 0
    summed: bool = False
    written: StepOrigin | None = None


def compile_messages(
    kind: str | Kind,
    n: int,
    messages: Sequence[Message],
    *,
    algorithm: str,
    blocks: int | None = None,
    cells: int | None = None,
    unproved: str = "",
    signals: bool = False,
) -> CompiledSchedule:
    """Return the schedule of messages in an order in which they could be executed one by one.

    `blocks`, `cells`: as in `Schedule`. All messages have `nbytes`, or none; if they do, `unproved` states why there is
    no proof about data. `signals`: messages between ranks may have no cells; they take no time in the network. Raises
    ScheduleError for impossible messages.
    """
    kind = get_kind(kind)
    sizes = [message.nbytes for message in messages if message.nbytes is not None]
    if sizes and len(sizes) < len(messages):
        raise ValueError("either all messages have a size or none has")
    extra = [message.extra_ns for message in messages]
    written = tuple(message.written for message in messages)
    blocks = kind.default_blocks(n) if blocks is None else blocks
    puts = [message.cells if message.puts is None else message.puts for message in messages]
    for message, to in zip(messages, puts, strict=True):
        if len(message.cells) != len(to):
            raise ValueError(f"{len(message.cells)} cells cannot be put into {len(to)}")
    block_ids = np.array([cell for message in messages for cell in message.cells], dtype=np.int32)
    put_ids = np.array([cell for to in puts for cell in to], dtype=np.int32)
    joins = np.array([message.join for message in messages], dtype=np.int32)
    begins = np.ones(len(messages), dtype=bool)
    begins[1:] = (joins[1:] < 0) | (joins[1:] != joins[:-1])
    gates = explicit_gates([message.src for message in messages], [message.waits for message in messages])
    result = CompiledSchedule(
        kind=kind,
        algorithm=algorithm,
        n=n,
        blocks=blocks,
        cells=blocks if cells is None else cells,
        window=None,
        src=np.array([message.src for message in messages], dtype=np.int32),
        dst=np.array([message.dst for message in messages], dtype=np.int32),
        reduce=np.array([message.reduce for message in messages], dtype=bool),
        way=np.array([message.way for message in messages], dtype=np.int8),
        join=joins,
        step=(np.cumsum(begins) - 1).astype(np.int32),
        block_ptr=pointers(np.array([len(message.cells) for message in messages], dtype=np.int64)),
        block_ids=block_ids,
        put_ids=block_ids if np.array_equal(block_ids, put_ids) else put_ids,
        content=block_ids,
        gate=gates.of,
        gate_ptr=gates.ptr,
        gate_ids=gates.ids,
        need=np.zeros(len(messages), dtype=np.int32),
        empty=np.zeros(blocks, dtype=bool),
        summed=np.array([message.summed for message in messages], dtype=bool),
        written=written if any(written) else (),
        explicit_waits=True,
        extra_ns=np.array(extra, dtype=np.int64) if any(extra) else None,
        given_bytes=np.array(sizes, dtype=np.int64) if sizes else None,
        unproved=unproved,
    )
    check_messages(result, np.ones(len(messages), dtype=bool), signals=signals)
    return result if sizes else replace(result, content=contents(result))
