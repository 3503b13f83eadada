"""The Python face of the executor of tasks. Time is in cycles; tasks and NPUs are numbers from 0."""

from collections.abc import Sequence
from enum import IntEnum

from numpy.typing import ArrayLike

from pyxsim.arrays import Int32Array, IntArray

class Way(IntEnum):
    """How a task ends."""

    TIMED = 0
    SEND = 1
    RECEIVE = 2
    TOLD = 3

def find_cycle(before_start: IntArray, before: IntArray) -> list[int]:
    """Tasks of which each waits for the next, and the last for the first; empty where there are none such."""

class Tasks:
    """The tasks of a graph, one that can be carried out (graph.check).

    `way`: how a task ends: TIMED, after its `ticks`; SEND, RECEIVE and TOLD, when `run` is told so (of a receive, when
    that is told of the matching send). `room`: how many tasks each resource takes at a time. `channel`: of
    messages; the k-th send and the k-th receive of a channel are one message. `begin`: when each NPU begins.

    One step: `run` for the cycle, with what has ended in it; `outbox`: what is to be handed to the system layer now, in
    this order; `next`: the cycle of the next step if nothing is told before.
    """

    ready: IntArray
    start: IntArray
    end: IntArray
    cause: Int32Array
    """The task whose end let it start: the last that it waited for, or who had the resource; -1: none."""
    sender: Int32Array
    """Of each message the task that sends it."""
    receiver: Int32Array
    """Of each message the task that receives it."""
    left: int
    """Tasks that have not ended."""

    def __init__(
        self,
        npus: int,
        npu: ArrayLike,
        way: ArrayLike,
        ticks: ArrayLike,
        resource: ArrayLike,
        room: Sequence[int],
        before_start: IntArray,
        before: IntArray,
        channel: ArrayLike,
        begin: Sequence[int],
    ) -> None: ...
    def run(self, now: int, told: IntArray) -> None:
        """Carry everything on that has something to do in cycle `now`, or before. `told`: sends and TOLD tasks that
        have ended in this cycle."""
    def outbox(self) -> Int32Array:
        """Sends and TOLD tasks that start now; each is given once."""
    def next(self) -> int:
        """The next cycle in which a task starts or ends; -1: none, before something is told."""
