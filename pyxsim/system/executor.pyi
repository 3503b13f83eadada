"""The executor's Python face. Time is in cycles; tasks, programs and messages are numbers from 0."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyxsim.system.options import SharedBus
from pyxsim.system.pipes import Pipes
from pyxsim.system.program import Program

Longs = NDArray[np.int64]

class Executor:
    """Executes programs on groups of NPUs. It decides nothing: who starts when is told to it.

    `endpoint_delay`: cycles per NPU to take a message in, and before it sends its first ones. `slow_num / slow_den`:
    per NPU, what its costs of reductions (and the bus) are multiplied with. `bus`: messages cross the bus of their NPU
    on the way out and on the way in, and pay no endpoint delay. `log`: keep what `take_log` gives. `pipes`: what
    messages of programs with traffic go through before they leave, and before they are taken in.

    One round: `arrive` and `start`, `run_events` for the cycle, `take_ended`, again until nothing has ended; then the
    `outbox` goes to the network, and `sent` says under which numbers.
    """

    sources: list[Program]
    """The programs, by their numbers."""

    def __init__(
        self,
        endpoint_delay: ArrayLike,
        slow_num: ArrayLike,
        slow_den: ArrayLike,
        *,
        bus: SharedBus | None = None,
        log: bool = False,
        pipes: Pipes | None = None,
    ) -> None: ...
    def add_program(self, program: Program) -> int: ...
    def add_task(self, program: int, members: Sequence[int], plane: int, back: int, tag: int = 0) -> int:
        """A program on the NPUs `members`, one per rank. `plane`: of messages that go clockwise, `back`: of others;
        `tag`: whose traffic they are."""
    def start(self, task: int, rank: int, now: int) -> None:
        """A rank has its data, and its turn: it sends, and takes in what came early."""
    def arrive(self, messages: Longs, cycles: Longs) -> None:
        """Messages of the network, by their numbers there, are at their receivers' interfaces."""
    def run_events(self, now: int) -> None:
        """Everything that is due up to this cycle."""
    def next_event(self) -> int:
        """The cycle of the next event; -1: none."""
    def outbox(self) -> tuple[Longs, Longs, Longs, Longs, Longs]:
        """(source, destination, bytes, plane, tag) of what is to be handed to the network."""
    def sent(self, first: int, at: int) -> None:
        """The outbox was handed over; its messages have the numbers from `first` on."""
    def take_ended(self) -> list[tuple[int, int, int, int]]:
        """(task, rank, messages received, cycles that these were in the network) of ranks that have done everything."""
    def take_told(self) -> list[int]:
        """Keys of what is through a pipe and is no message, in order."""
    def take_log(self) -> Longs:
        """int64[K, 3], rows (0 left its sender or 1 taken in, task, message), in order."""
    def missing(self, task: int, rank: int) -> list[tuple[int, bool]]:
        """(sender's rank, has it left?) of what a rank that works has still to take in."""
