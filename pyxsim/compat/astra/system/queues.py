"""Round-robin choice of the queue, the direction and the tree of a phase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyxsim.compat.astra.system.refuse import refuse_other_queue, refuse_other_tree
from pyxsim.system.options import ASTRA_SIM_1, Options

ANY, FIRST_HALF, SECOND_HALF = range(3)


@dataclass(frozen=True)
class QueueChoice:
    """A queue: its number in the dimension, its plane in the network, and +1 (clockwise) or -1."""

    number: int
    plane: int
    direction: int


class QueueRotation:
    """Round robin over the queues of a dimension, separately for each NPU.

    Phases of any kind rotate over all queues; in ASTRA-sim 2 those of a localBWAware all-reduce use the first half on
    the way out and the second half on the way back.
    """

    def __init__(self, options: Options, npus: int) -> None:
        self._queues = [list(queues) for queues in options.queues]
        self._halves = options.compat != ASTRA_SIM_1
        self._next = np.zeros((3, len(self._queues), npus), np.int64)
        for dim, queues in enumerate(self._queues):
            self._next[SECOND_HALF, dim] = len(queues) // 2
        planes = [queue.plane for queues in self._queues for queue in queues]
        # With rings of its own a queue has a fixed direction; otherwise any queue can use both.
        self._fixed = len(set(planes)) == len(planes) > len(self._queues)

    @property
    def matter(self) -> bool:
        """Whether any dimension has several queues."""
        return any(len(queues) > 1 for queues in self._queues)

    def follow(self, dim: int, npu: int, half: int, place: QueueChoice) -> None:
        """Check that an NPU would choose the queue that others use. Raises InputError otherwise."""
        if len(self._queues[dim]) > 1 and self.take(dim, (npu,), half) != place:
            refuse_other_queue()

    def take(self, dim: int, members: Sequence[int], half: int) -> QueueChoice:
        """Return the next queue of a dimension for these NPUs. Raises InputError if their rotations differ."""
        queues = self._queues[dim]
        half = half if self._halves else ANY
        turns = self._next[half, dim]
        number = int(turns[members[0]])
        if (turns[list(members)] != number).any() if len(queues) > 1 else False:
            refuse_other_queue()
        begin, end = {
            ANY: (0, len(queues)),
            FIRST_HALF: (0, len(queues) // 2),
            SECOND_HALF: (len(queues) // 2, len(queues)),
        }[half]
        turns[list(members)] = number + 1 if number + 1 < end else begin
        queue = queues[number]
        if self._fixed:
            return QueueChoice(number, queue.plane, queue.direction)
        back = half == SECOND_HALF or (half == ANY and len(queues) > 1 and number >= len(queues) // 2)
        direction = -1 if back else 1
        plane = next((other.plane for other in (queue, *queues) if other.direction == direction), queue.plane)
        return QueueChoice(number, plane, direction)


class TreeRotation:
    """Alternates between the two trees of a dimension, separately for each NPU and kind of collective."""

    def __init__(self, npus: int) -> None:
        self._npus = npus
        self._next: dict[tuple[str, int], NDArray[np.int8]] = {}

    @property
    def matter(self) -> bool:
        """Whether a tree has been used."""
        return bool(self._next)

    def take(self, kind: str, dim: int, members: Sequence[int]) -> int:
        """Return the next tree for these NPUs, 0 or 1. Raises InputError if they differ."""
        turns = self._next.setdefault((kind, dim), np.zeros(self._npus, np.int8))
        member_turns = turns[list(members)]
        if (member_turns != member_turns[0]).any():
            refuse_other_tree(kind)
        turns[list(members)] = 1 - member_turns
        return int(member_turns[0])

    def follow(self, kind: str, dim: int, npu: int, tree: int) -> None:
        """Check that an NPU would choose the tree that others use. Raises InputError otherwise."""
        if tree >= 0 and self.take(kind, dim, (npu,)) != tree:
            refuse_other_tree(kind)
