"""The proof that the phases of a plan fit together: every NPU ends with every contribution, byte by byte.

The schedules themselves are proved by `checker`, in any order of arrival; here their messages are executed once, in
order, on all groups of all phases, with real addresses: every byte of every NPU is the set of the NPUs whose
contributions it holds. Takes time in proportion to NPUs times bytes: meant for small sizes, which also are the ones
where blocks of different and of no bytes occur.
"""

from __future__ import annotations

import numpy as np

from pyxsim.collective.arrays import I64, pointers
from pyxsim.collective.checker import prove
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.plan import Phase, Plan, cut
from pyxsim.collective.schedule import ScheduleError

# What an NPU holds: address -> contributions (a bit mask of NPUs). In an all-to-all every source has its own addresses.
Memory = dict[int, int]


def prove_plan(plan: Plan) -> None:
    """Raise ScheduleError unless the plan does on all NPUs what its kind says, and moves what its sizes say."""
    memories = _start(plan)
    for number, phase in enumerate(plan.phases):
        where = f"{plan.kind} of {plan.size} bytes on {plan.shape}, phase {number} ({phase.kind} along {phase.dims})"
        _expect_sizes(memories, phase.bytes_in, f"{where}: comes in")
        for group in phase.groups.tolist():
            _run_group(phase, group, memories)
        _expect_sizes(memories, phase.bytes_out, f"{where}: goes out")
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
    """(first byte, bytes) of what belongs to each NPU when the whole is cut along all dimensions, int64[NPUs] each.

    That is where a reduce-scatter ends, an all-gather begins, and what every source sends to it in an all-to-all.
    """
    if not plan.phases:
        return np.zeros(plan.npus, dtype=np.int64), np.full(plan.npus, plan.size, dtype=np.int64)
    finest = max(plan.phases, key=lambda phase: len(phase.cuts))
    return cut(plan.shape, (*finest.cuts, finest.dims), finest.whole)


def _start(plan: Plan) -> list[Memory]:
    first, size = (array.tolist() for array in final_pieces(plan))
    if plan.kind == "all-gather":
        return [dict.fromkeys(range(first[i], first[i] + size[i]), 1 << i) for i in range(plan.npus)]
    # All-to-all: source i uses the addresses from i * size on.
    base = plan.size if plan.kind == "all-to-all" else 0
    return [dict.fromkeys(range(i * base, i * base + plan.size), 1 << i) for i in range(plan.npus)]


def _end(plan: Plan) -> list[Memory]:
    first, size = (array.tolist() for array in final_pieces(plan))
    mine = [range(first[i], first[i] + size[i]) for i in range(plan.npus)]
    everybody = (1 << plan.npus) - 1
    if plan.kind == "all-to-all":
        return [
            {source * plan.size + a: 1 << source for source in range(plan.npus) for a in mine[i]}
            for i in range(plan.npus)
        ]
    if plan.kind == "all-gather":
        gathered = {a: 1 << i for i in range(plan.npus) for a in mine[i]}
        return [gathered] * plan.npus
    reduced = mine if plan.kind == "reduce-scatter" else [range(plan.size)] * plan.npus
    return [dict.fromkeys(addresses, everybody) for addresses in reduced]


def _expect_sizes(memories: list[Memory], wanted: I64, where: str) -> None:
    for npu, (memory, size) in enumerate(zip(memories, wanted.tolist(), strict=True)):
        if len(memory) != size:
            raise ScheduleError(f"{where}: NPU {npu} holds {len(memory)} bytes, not {size}", rank=npu)


def _run_group(phase: Phase, group: list[int], memories: list[Memory]) -> None:
    """Execute the schedule of a phase on one group, on memories cut in blocks."""
    npu = group[0]
    sizes = phase.block_sizes(int(phase.pieces[npu]))
    schedule = phase.schedule().without_empty(sizes)
    prove(schedule)
    base = int(cut(phase.shape, phase.cuts, phase.whole)[0][npu])
    names = _pair_blocks if phase.kind == "all-to-all" else _plain_blocks
    held = [names(phase, schedule, rank, memories[group[rank]], base, sizes) for rank in range(phase.npus)]
    for m in range(len(schedule)):
        source, target = held[schedule.src[m]], held[schedule.dst[m]]
        for block in schedule.blocks_of(m).tolist():
            if len(source[block]) != sizes[block]:
                raise ScheduleError(f"{schedule}: block {block} has {len(source[block])} bytes, not {sizes[block]}")
            target[block] = _sum(target[block], source[block]) if schedule.reduce[m] else dict(source[block])
    kind = schedule.kind
    goals = [kind.goal(phase.npus, b // (schedule.blocks // kind.units(phase.npus))) for b in range(schedule.blocks)]
    for rank, npu in enumerate(group):
        memories[npu] = {
            address: mask
            for block in range(schedule.blocks)
            if rank in goals[block]
            for address, mask in held[rank].get(block, {}).items()
        }


def _sum(one: Memory, other: Memory) -> Memory:
    if one.keys() != other.keys() or any(one[a] & other[a] for a in one):
        raise ScheduleError("contributions to other bytes, or the same contributions again, are added")
    return {a: one[a] | other[a] for a in one}


def _plain_blocks(
    phase: Phase, schedule: CompiledSchedule, rank: int, memory: Memory, base: int, sizes: I64
) -> dict[int, Memory]:
    """The blocks of a piece that begins at `base`, as far as the rank holds them."""
    at = (base + pointers(sizes)).tolist()
    return {
        block: {a: memory[a] for a in range(at[block], at[block + 1]) if a in memory}
        for block in range(schedule.blocks)
    }


def _pair_blocks(
    phase: Phase, schedule: CompiledSchedule, rank: int, memory: Memory, base: int, sizes: I64
) -> dict[int, Memory]:
    """Block rank*n+j: what the rank has, from all sources, for the part of the piece that belongs to rank j."""
    n, parts = phase.npus, schedule.blocks // phase.npus**2
    at = base + pointers(sizes[: n * parts] // phase.copies)
    held: dict[int, Memory] = {block: {} for block in range(schedule.blocks)}
    for address, mask in memory.items():
        within = address % phase.whole
        held[rank * n * parts + int(np.searchsorted(at, within, "right")) - 1][address] = mask
    return held
