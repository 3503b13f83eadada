"""Schedules derived from schedules: the same messages between other ranks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pyxsim.collective.compiled import CompiledSchedule


def renamed(schedule: CompiledSchedule, rank: npt.NDArray[np.integer]) -> CompiledSchedule:
    """Return the schedule in which rank[r] does what rank r did; `rank` is a permutation of 0 .. n-1.

    Blocks are renamed with the ranks that they belong to, so the result is a schedule of the same kind: rank r still
    ends with block r, and block i*n+j still goes from i to j.
    """
    s = schedule
    name = np.asarray(rank, dtype=np.int64)
    if not np.array_equal(np.sort(name), np.arange(s.n)):
        raise ValueError(f"not a permutation of {s.n} ranks: {rank}")
    parts = s.blocks // s.kind.units(s.n)
    block = (s.kind.moved(name)[:, None] * parts + np.arange(parts)).ravel()
    cell = np.concatenate([block, np.arange(s.blocks, s.cells)]).astype(np.int32)
    empty = np.empty_like(s.empty)
    empty[block] = s.empty
    to = name.astype(np.int32)
    block_ids = cell[s.block_ids]
    return replace(
        s,
        src=to[s.src],
        dst=to[s.dst],
        block_ids=block_ids,
        put_ids=block_ids if s.put_ids is s.block_ids else cell[s.put_ids],
        content=block_ids if s.content is s.block_ids else cell[s.content],
        empty=empty,
        root=int(name[s.root]),
    )


def mirrored(schedule: CompiledSchedule) -> CompiledSchedule:
    """Return the schedule in the opposite direction: rank (n - r) % n does what rank r did. Cached.

    A ring that sends to the next rank sends to the previous one, and a message against the direction goes with it.
    """

    def build() -> CompiledSchedule:
        mirrored = renamed(schedule, -np.arange(schedule.n) % schedule.n)
        return replace(mirrored, way=-schedule.way)

    return schedule.variant("mirror", build)


def rooted_at(schedule: CompiledSchedule, root: int) -> CompiledSchedule:
    """Return the schedule of a rooted kind for another root: all ranks are shifted. Cached."""
    if schedule.root == root or not schedule.kind.rooted:
        return schedule
    on = (np.arange(schedule.n) + root - schedule.root) % schedule.n
    return schedule.variant(("root", root), lambda: renamed(schedule, on))
