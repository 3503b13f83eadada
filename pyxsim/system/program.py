"""A compiled schedule as what one group executes: plain lists, because they are walked message by message."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.plan import Phase


@dataclass(frozen=True)
class Program:
    """The messages of a phase on a group that works on a piece of certain bytes; messages without bytes are gone.

    src, dst, size, reduce  per message
    free       per rank: messages that wait for nothing
    opens      per message: gates that wait for its arrival
    gates      per gate: arrivals that it waits for
    behind     per gate: messages that may leave when it is open
    need       per message: arrivals, of whatever, that its sender must have had (a window), or None
    sends, receives  per rank: how many
    """

    src: list[int]
    dst: list[int]
    size: list[int]
    reduce: list[bool]
    free: list[list[int]]
    opens: list[list[int]]
    gates: list[int]
    behind: list[list[int]]
    need: list[int] | None
    sends: list[int]
    receives: list[int]

    @property
    def total(self) -> int:
        """Bytes of all messages."""
        return sum(self.size)


class Programs:
    """Makes programs, each only once."""

    def __init__(self) -> None:
        self._made: dict[Any, Program] = {}

    def get(self, phase: Phase, piece: int, *, mirror: bool) -> Program:
        """The program of a group that works on a piece of `piece` bytes (of `phase.pieces`)."""
        key = (phase.kind, phase.algorithm, phase.npus, phase.copies, piece, mirror)
        if key not in self._made:
            sizes = phase.block_sizes(piece)
            self._made[key] = _program(phase.schedule(mirror=mirror).without_empty(sizes), sizes)
        return self._made[key]


def _program(s: CompiledSchedule, sizes: np.ndarray[Any, Any]) -> Program:
    ptr, ids = s.sends
    free = [[int(m) for m in ids[ptr[rank] : ptr[rank + 1]] if s.gate[m] < 0 and s.need[m] == 0] for rank in range(s.n)]
    return Program(
        src=s.src.tolist(),
        dst=s.dst.tolist(),
        size=s.message_bytes(sizes).tolist(),
        reduce=s.reduce.tolist(),
        free=free,
        opens=_lists(*s.opens),
        gates=np.diff(s.gate_ptr).tolist(),
        behind=_lists(*s.behind),
        need=s.need.tolist() if s.need.any() else None,
        sends=np.bincount(s.src, minlength=s.n).tolist(),
        receives=np.bincount(s.dst, minlength=s.n).tolist(),
    )


def _lists(ptr: np.ndarray[Any, Any], ids: np.ndarray[Any, Any]) -> list[list[int]]:
    flat, ends = ids.tolist(), ptr.tolist()
    return [flat[a:b] for a, b in itertools.pairwise(ends)]
