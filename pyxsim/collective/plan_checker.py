"""The proof that the phases of a plan fit together: every NPU ends with every contribution, byte by byte.

`checker` proves the schedules in any order of arrival. Here their messages are executed once, in order, on all groups
of all phases, with real addresses: every byte of every NPU is the set of NPUs whose contributions it holds. The time is
proportional to NPUs times bytes: for small sizes, where unequal and empty blocks occur.
"""

from __future__ import annotations

from itertools import islice

import numpy as np

from pyxsim.collective.arrays import I64, pointers
from pyxsim.collective.byte_matrix import ByteMatrix
from pyxsim.collective.checker import prove
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.plan import Phase, Plan, cut, whole_bytes
from pyxsim.collective.schedule import ScheduleError

# What an NPU holds: address -> contributions (a bit mask of NPUs). In an all-to-all every source has its own addresses.
Memory = dict[int, int]
Cells = dict[int, Memory]


def prove_plan(plan: Plan) -> None:
    """Raise ScheduleError unless the plan computes its collective on all NPUs and moves the bytes that its sizes state.

    If the sizes of messages are given and the data unknown, only the schedules are proved.
    """
    if any(phase.schedule().given_bytes is not None for phase in plan.phases):
        for phase in plan.phases:
            prove(phase.schedule())
        return
    memories = _start(plan)
    for number, phase in enumerate(plan.phases):
        where = f"{plan.kind} of {plan.size} bytes on {plan.shape}, phase {number} ({phase.kind} along {phase.dims})"
        _expect_sizes(memories, phase.bytes_in, f"{where} at its start")
        for group in phase.groups.tolist():
            _run_group(phase, group, memories)
        _expect_sizes(memories, phase.bytes_out, f"{where} at its end")
    for npu, (memory, wanted) in enumerate(zip(memories, _end(plan), strict=True)):
        if memory != wanted:
            wrong = min(address for address in memory | wanted if memory.get(address) != wanted.get(address))
            missing = wanted.get(wrong, 0) & ~memory.get(wrong, 0)
            raise ScheduleError(
                f"{plan.kind} of {plan.size} bytes on {plan.shape}: NPU {npu} ends with a wrong byte {wrong}",
                rank=npu,
                missing=[source for source in range(plan.npus) if missing >> source & 1],
            )


def final_pieces(plan: Plan) -> tuple[I64, I64]:
    """Return (first byte, bytes) of each NPU's part when the whole is cut along all dimensions, int64[NPUs] each.

    A reduce-scatter ends there, an all-gather begins there, and in an all-to-all every source sends it to the NPU.
    """
    if not plan.phases:
        return np.zeros(plan.npus, dtype=np.int64), np.full(plan.npus, plan.size, dtype=np.int64)
    finest = max(plan.phases, key=lambda phase: len(phase.cuts))
    return cut(plan.shape, (*finest.cuts, finest.dims), finest.whole)


def _start(plan: Plan) -> list[Memory]:
    if plan.matrix is not None:
        at = _addresses(plan.matrix)
        return [dict.fromkeys(range(at[i, 0], at[i, -1]), 1 << i) for i in range(plan.npus)]
    first, size = (array.tolist() for array in final_pieces(plan))
    whole = whole_bytes(plan.kind, plan.size, plan.npus)
    if plan.kind in ("all-gather", "gather"):
        return [dict.fromkeys(range(first[i], first[i] + size[i]), 1 << i) for i in range(plan.npus)]
    # All-to-all: source i uses the addresses from i * size on.
    base = plan.size if plan.kind == "all-to-all" else 0
    held = [dict.fromkeys(range(i * base, i * base + whole), 1 << i) for i in range(plan.npus)]
    return _at_root(plan, held) if plan.kind in ("broadcast", "scatter") else held


def _addresses(matrix: ByteMatrix) -> I64:
    """int64[n, n + 1]: the first address of what rank i has for rank j, and behind the last one."""
    ends = np.cumsum(matrix.rows).reshape(matrix.rows.shape)
    first = (ends - matrix.rows)[:, :1]
    return np.concatenate([first, ends], axis=1)


def _end(plan: Plan) -> list[Memory]:
    if plan.matrix is not None:
        at = _addresses(plan.matrix).tolist()
        everyone = range(plan.npus)
        return [{a: 1 << i for i in everyone for a in range(at[i][j], at[i][j + 1])} for j in everyone]
    first, size = (array.tolist() for array in final_pieces(plan))
    mine = [range(first[i], first[i] + size[i]) for i in range(plan.npus)]
    everybody, root = (1 << plan.npus) - 1, 1 << plan.root
    if plan.kind == "all-to-all":
        return [
            {source * plan.size + a: 1 << source for source in range(plan.npus) for a in mine[i]}
            for i in range(plan.npus)
        ]
    if plan.kind in ("all-gather", "gather"):
        gathered = {a: 1 << i for i in range(plan.npus) for a in mine[i]}
        return _at_root(plan, [gathered] * plan.npus) if plan.kind == "gather" else [gathered] * plan.npus
    pieces = mine if plan.kind in ("reduce-scatter", "scatter") else [range(plan.size)] * plan.npus
    mask = root if plan.kind in ("broadcast", "scatter") else everybody
    ends = [dict.fromkeys(addresses, mask) for addresses in pieces]
    return _at_root(plan, ends) if plan.kind == "reduce" else ends


def _at_root(plan: Plan, memories: list[Memory]) -> list[Memory]:
    return [memory if npu == plan.root else {} for npu, memory in enumerate(memories)]


def _expect_sizes(memories: list[Memory], wanted: I64, where: str) -> None:
    for npu, (memory, size) in enumerate(zip(memories, wanted.tolist(), strict=True)):
        if len(memory) != size:
            raise ScheduleError(f"{where}: NPU {npu} holds {len(memory)} bytes instead of {size}", rank=npu)


def _run_group(phase: Phase, group: list[int], memories: list[Memory]) -> None:
    """Execute the schedule of a phase on one group, on memories cut in blocks."""
    npu = group[0]
    sizes = phase.block_sizes(int(phase.keys[npu]))
    schedule = phase.schedule().without_empty(sizes)
    prove(schedule)
    base = int(cut(phase.shape, phase.cuts, phase.whole)[0][npu])
    names = _pair_blocks if phase.kind == "all-to-all" else _plain_blocks
    held = [names(phase, schedule, rank, memories[group[rank]], base, sizes) for rank in range(phase.npus)]
    _exchange(schedule, held, sizes)
    for npu in group:
        memories[npu] = {}
    for block in range(schedule.blocks):
        for rank in schedule.goals(block):
            memories[group[rank]].update(held[rank].get(block, {}))


def _exchange(schedule: CompiledSchedule, held: list[Cells], sizes: I64) -> None:
    """Execute the messages in order, those of a step at once."""
    s = schedule
    for step in np.split(np.arange(len(s)), np.flatnonzero(np.diff(s.step)) + 1):
        carried = [[held[s.src[m]].get(cell, {}) for cell in s.blocks_of(m).tolist()] for m in step]
        if len(step) and s.join[step[0]] >= 0:
            total = carried[0]
            for others in carried[1:]:
                total = [_sum(s, one, other) for one, other in zip(total, others, strict=True)]
            carried = [total] * len(step)
        for m, cells in zip(step.tolist(), carried, strict=True):
            places = slice(s.block_ptr[m], s.block_ptr[m + 1])
            for block, put, new in zip(s.content[places].tolist(), s.put_ids[places].tolist(), cells, strict=True):
                if len(new) != sizes[block]:
                    raise ScheduleError(f"{s}: block {block} has {len(new)} bytes instead of {sizes[block]}")
                target = held[s.dst[m]]
                target[put] = _sum(s, target[put], new) if s.reduce[m] else dict(new)


def _sum(schedule: CompiledSchedule, one: Memory, other: Memory) -> Memory:
    again = not schedule.kind.idempotent and any(one[a] & other.get(a, 0) for a in one)
    if one.keys() != other.keys() or again:
        raise ScheduleError("contributions to other bytes are added, or the same contributions twice")
    return {a: one[a] | other[a] for a in one}


def _plain_blocks(phase: Phase, schedule: CompiledSchedule, rank: int, memory: Memory, base: int, sizes: I64) -> Cells:
    """The blocks of a piece that begins at `base`, as far as the rank holds them."""
    at = (base + pointers(sizes)).tolist()
    return {
        block: {a: memory[a] for a in range(at[block], at[block + 1]) if a in memory}
        for block in range(schedule.blocks)
    }


def _pair_blocks(phase: Phase, schedule: CompiledSchedule, rank: int, memory: Memory, base: int, sizes: I64) -> Cells:
    """Block rank*n+j: the rank's data, from all sources, for the part of the piece that belongs to rank j."""
    n, parts = phase.npus, schedule.blocks // phase.npus**2
    if phase.matrix is not None:
        return _uneven_pairs(phase, phase.matrix, schedule, rank, memory, sizes)
    at = base + pointers(sizes[: n * parts] // phase.copies)
    first = rank * n * parts
    held: Cells = {block: {} for block in range(first, first + n * parts)}
    within = np.fromiter(memory, np.int64, len(memory)) % phase.whole
    blocks = first + np.searchsorted(at, within, "right") - 1
    for (address, mask), block in zip(memory.items(), blocks.tolist(), strict=True):
        held[block][address] = mask
    return held


def _uneven_pairs(
    phase: Phase, matrix: ByteMatrix, schedule: CompiledSchedule, rank: int, memory: Memory, sizes: I64
) -> Cells:
    """The same with a matrix: the data for rank j, in the order of their addresses, cut into the blocks of the pair."""
    n, parts = phase.npus, schedule.blocks // phase.npus**2
    ends = np.cumsum(matrix.rows)  # of what rank i has for rank j
    held: Cells = {block: {} for block in range(rank * n * parts, (rank + 1) * n * parts)}
    pair = np.searchsorted(ends, np.fromiter(memory, np.int64, len(memory)), "right")
    rows = sorted(zip(memory.items(), phase.ranks[pair % len(matrix)].tolist(), strict=True))
    for to in range(n):
        mine = iter([item for item, target in rows if target == to])
        for part in range(parts):
            block = (rank * n + to) * parts + part
            held[block] = dict(islice(mine, int(sizes[block])))
        if next(mine, None) is not None:
            raise ScheduleError(f"{schedule}: rank {rank} holds more for rank {to} than its blocks carry", rank=rank)
    return held
