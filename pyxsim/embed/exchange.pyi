"""The Python interface of the exchange. Times are cycles; messages are numbers from 0."""

from collections.abc import Callable, Sequence
from typing import Any

from pyxsim.arrays import IntArray
from pyxsim.network.protocol import Backend

class Exchange:
    """Carries messages of another simulator over a backend, and calls its functions when something ends.

    The order of a cycle: scheduled functions and messages that leave, in the order of the calls; then messages that
    arrive, in the order of the backend; then what these functions ask for, until nothing of this cycle is left. The
    messages of the cycle then enter the network together.

    Parameters
    ----------
    endpoint
        Cycles that each NPU takes before a message leaves, and after it has arrived.
    skew
        Cycles by which each NPU begins late with a message.
    shape, planes
        NPUs per dimension, and the plane of messages between NPUs that differ first in it.
    """

    receiving: int
    """Receptions that wait for their message."""
    arrived: int
    """Messages that have arrived."""

    def __init__(
        self,
        network: Backend,
        endpoint: Sequence[int],
        skew: Sequence[int],
        shape: Sequence[int],
        planes: Sequence[int],
    ) -> None: ...
    @property
    def now(self) -> int: ...
    @property
    def sent(self) -> int:
        """Messages so far: the number of the next one."""
    def capsule(self) -> Any:
        """Return the inbox for libpyxsim, which keeps this object alive."""
    def close(self) -> None:
        """Refuse all further calls."""
    def stop(self) -> None:
        """Let `advance` return after the current cycle."""
    def send(self, src: int, dst: int, size: int, tag: int | None, callback: Callable[[], Any] | None, at: int) -> int:
        """Send a message in cycle `at` (-1: the current one), and return its number.

        Without a tag, no reception takes it.
        """
    def recv(self, src: int, dst: int, size: int, tag: int, callback: Callable[[], Any] | None) -> None:
        """Call `callback` when a message of `send` with this key arrives or has arrived; first come, first served."""
    def schedule(self, at: int, callback: Callable[[], Any]) -> None: ...
    def submit(self, src: IntArray, dst: IntArray, size: IntArray, at: int) -> int:
        """Send K messages that no reception waits for, and return the number of the first one."""
    def advance(self, until: int | None) -> int:
        """Let time pass to cycle `until` (None: until nothing is left to do) and return the current cycle."""
    def arrivals_left(self) -> int:
        """Return how many messages of `submit` have arrived and are not taken."""
    def take_arrivals(self, into: IntArray) -> int:
        """Move the first ones to rows (message, cycle) of `into`, int64[K, 2]; return how many."""
    def waiting(self, most: int) -> list[tuple[int, int, int, int]]:
        """Return (source, destination, bytes, tag) of receptions that wait, one row per key."""
