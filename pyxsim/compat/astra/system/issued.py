"""What has been issued to the system layer of ASTRA-sim, and its streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pyxsim.compat.astra.system.chunks import CommGroup, Cut, Step
from pyxsim.compat.astra.system.queues import QueueChoice
from pyxsim.system.work import Collective

Longs = NDArray[np.int64]


@dataclass(frozen=True)
class Chunk:
    """A stream: its phases, and what is counted of them: int64[phases, members, 6].

    `owner`: for each member the number of its collective; `left`: when it was through with the last phase.
    """

    owner: Longs
    size: int
    comm: CommGroup
    steps: Sequence[Step]
    places: Sequence[QueueChoice]
    rows: Longs
    left: Longs

    @property
    def collective(self) -> int:
        """The number of its collective; of several that are one, of the first."""
        return int(self.owner.min())


@dataclass
class Issued:
    """A collective, and what becomes of it.

    number    in the order of the calls
    counts    its priority is the next one, not given
    places    of one whose NPUs are told of: the position of each
    turn      of an open one: how many of its kind there are before it on these NPUs
    streams   None until it is planned; of those that are one in version 1, with the first
    cuts      its chunks
    shared    the streams that its NPUs are in
    ranks     of an open one: each NPU's place in them
    serial    of an open one: how many streams each of its NPUs has begun before it
    left      members of streams that are not through
    ends      of each NPU of the network: when it was through with the last chunk, -1 before
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
    ends: Longs = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def alike(self) -> tuple[object, ...]:
        """What it has in common with those on other groups that are one collective with it in version 1."""
        collective, comm = self.collective, self.comm
        when = (True, self.turn) if collective.is_open else (False, collective.start)
        return collective.kind, collective.size, when, comm.dims, comm.names, comm.involved
