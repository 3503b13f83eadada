"""Issued collectives of ASTRA-sim's system layer, and their streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.compat.astra.system.chunks import CommGroup, Cut, Step
from pyxsim.compat.astra.system.queues import QueueChoice
from pyxsim.system.work import Collective


@dataclass(frozen=True)
class Chunk:
    """A stream: one chunk with its phases.

    rows    int64[phases, members, 6]: ready, start, end, messages, network, awaited
    owner   per member: the number of its collective
    left    per member: the cycle in which it left the last phase
    """

    owner: IntArray
    size: int
    comm: CommGroup
    steps: Sequence[Step]
    places: Sequence[QueueChoice]
    rows: IntArray
    left: IntArray

    @property
    def collective(self) -> int:
        """The number of its collective; the first one of several that are one."""
        return int(self.owner.min())


@dataclass
class Issued:
    """An issued collective and its progress.

    number    in the order of the calls
    counts    whether its priority is the next one instead of a given one
    places    with `joined`: the position of each NPU
    turn      of an open one: number of equal collectives before it on these NPUs
    streams   None until it is planned; of collectives that are one in version 1, the streams are with the first
    cuts      its chunks
    shared    the streams of its NPUs
    ranks     of an open one: the rank of each NPU in them
    serial    of an open one: number of streams that each of its NPUs has begun before it
    left      members of streams that have not finished
    ends      per NPU of the network: the end of its last chunk, -1 before
    """

    collective: Collective
    comm: CommGroup
    key: str
    number: int
    counts: bool
    places: dict[int, int] = field(default_factory=dict)
    turn: int = 0
    cuts: list[Cut] = field(default_factory=list)
    streams: list[int] | None = None
    shared: list[int] = field(default_factory=list)
    ranks: dict[int, int] = field(default_factory=dict)
    serial: int = 0
    begun: bool = False
    left: int = 0
    ends: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def equal_key(self) -> tuple[object, ...]:
        """Key of the collectives on other groups that are one with it in version 1."""
        collective, comm = self.collective, self.comm
        when = (True, self.turn) if collective.is_open else (False, collective.start)
        return collective.kind, collective.size, when, comm.dims, comm.names, comm.involved
