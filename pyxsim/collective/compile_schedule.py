"""From a schedule as an algorithm states it to its arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pyxsim.collective.arrays import I32, I64, pointers
from pyxsim.collective.cell_contents import check_messages, contents
from pyxsim.collective.compiled import CompiledSchedule, needs_of_window
from pyxsim.collective.dependencies import gates
from pyxsim.collective.schedule import Schedule


def compiled(schedule: Schedule | CompiledSchedule, algorithm: str = "this schedule") -> CompiledSchedule:
    """Return the arrays of a schedule. Raises ScheduleError for impossible messages."""
    if isinstance(schedule, CompiledSchedule):
        return schedule
    steps = schedule.steps
    per_step = [len(step.src) for step in steps]

    def each(values: list[int] | list[bool], dtype: type[np.generic]) -> npt.NDArray[Any]:
        return np.repeat(np.array(values, dtype=dtype), per_step)

    block_ids = _joined([step.blocks for step in steps])
    put_ids = _joined([step.puts for step in steps])
    moves = not np.array_equal(put_ids, block_ids)
    result = CompiledSchedule(
        kind=schedule.kind,
        algorithm=algorithm,
        n=schedule.n,
        blocks=schedule.blocks,
        cells=schedule.cells,
        window=schedule.window,
        src=_joined([step.src for step in steps]),
        dst=_joined([step.dst for step in steps]),
        reduce=each([step.reduce for step in steps], np.bool_),
        way=each([step.way for step in steps], np.int8),
        join=each([step.join for step in steps], np.int32),
        step=each(list(range(len(steps))), np.int32),
        access=each([step.access for step in steps], np.int8) if any(step.access for step in steps) else None,
        fused=each([step.fused for step in steps], np.int32) if any(step.fused >= 0 for step in steps) else None,
        block_ptr=pointers(each([step.per_message for step in steps], np.int64)),
        block_ids=block_ids,
        put_ids=put_ids if moves else block_ids,
        content=block_ids,
        gate=np.zeros(0, dtype=np.int32),
        gate_ptr=np.zeros(1, dtype=np.int64),
        gate_ids=np.zeros(0, dtype=np.int32),
        need=np.zeros(sum(per_step), dtype=np.int32),
        empty=np.zeros(schedule.blocks, dtype=bool),
    )
    check_messages(result, each([step.local for step in steps], np.bool_))
    return _with_waits(replace(result, content=contents(result)))


def _with_waits(s: CompiledSchedule) -> CompiledSchedule:
    new_gates = gates(s.src, s.dst, s.reduce, s.step, s.block_ptr, s.block_ids, s.put_ids, s.cells)
    result = replace(s, gate=new_gates.of, gate_ptr=new_gates.ptr, gate_ids=new_gates.ids)
    return result if s.window is None else replace(result, need=needs_of_window(s, np.ones(len(s), dtype=bool)))


def _joined(parts: list[I64]) -> I32:
    return np.concatenate(parts).astype(np.int32) if parts else np.zeros(0, dtype=np.int32)
