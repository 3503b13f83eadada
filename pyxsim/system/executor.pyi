"""The Python interface of the executor. Times are cycles; tasks, programs and messages are numbers from 0."""

from collections.abc import Sequence

from numpy.typing import ArrayLike

from pyxsim.arrays import IntArray
from pyxsim.system.options import SharedBus
from pyxsim.system.pipes import Pipes
from pyxsim.system.program import Program

class Executor:
    """Executes programs on groups of NPUs; the caller decides when each rank starts.

    One round: `arrive` and `start`, then `run_events` for the cycle and `take_ended` until nothing has ended; then send
    the `outbox` over the network and call `sent`.

    Parameters
    ----------
    endpoint_delay
        Cycles per NPU to take in a message, and before its first messages.
    slow_num, slow_den
        Per NPU: the factor of its reduction (and bus) times.
    bus
        Messages cross the bus of their NPU both ways and pay no endpoint delay.
    log
        Keep the log of `take_log`.
    pipes
        Messages of programs with traffic pass these before they leave, and before they are taken in.
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
        """Add a program on the NPUs `members`, one per rank, and return its number. `plane`, `back`: of clockwise and
        of other messages; `tag`: labels their traffic."""
    def start(self, task: int, rank: int, now: int) -> None:
        """Start a rank: it sends, and takes in messages that arrived early."""
    def abandon(self, task: int) -> int:
        """End a task in the current cycle unless it has ended; return the bytes that it has not sent and never will.

        What it has sent arrives, and is ignored."""
    def arrive(self, messages: IntArray, cycles: IntArray) -> None:
        """Note that messages, by their numbers in the network, have reached their receivers' interfaces."""
    def task_of(self, message: int) -> int:
        """Return the task of a message, by its number in the network."""
    def run_events(self, now: int) -> None:
        """Process all events up to this cycle."""
    def next_event(self) -> int:
        """Return the cycle of the next event, -1 for none."""
    def outbox(self) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray]:
        """Return (source, destination, bytes, plane, tag) of the messages to send."""
    def accesses(self) -> tuple[IntArray, IntArray, IntArray]:
        """Return of the messages to send how they access memory: see `Backend.send_accesses`."""
    def sent(self, first: int, at: int) -> None:
        """Note that the outbox was sent in cycle `at`; its messages are numbered from `first` on."""
    def take_ended(self) -> list[tuple[int, int, int, int]]:
        """Return and forget the ranks that have finished: (task, rank, messages, their cycles in the network)."""
    def take_finished_keys(self) -> list[int]:
        """Return and forget the keys of moves and computations that have left a pipe, in order."""
    def take_log(self) -> IntArray:
        """Return and forget the log: int64[K, 3], rows (0 sent or 1 taken in, task, message), in order."""
    def missing(self, task: int, rank: int) -> list[tuple[int, bool]]:
        """Return (rank of the sender, was it sent?) of the messages that a started rank has not taken in."""
