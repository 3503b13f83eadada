"""The nodes of a trace as arrays: for readers that make the same of equal nodes."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from pyxsim.chakra.messages import Node

class Rows:
    """Nodes in the order of the file, a row each.

    Attributes
    ----------
    firsts
        Nodes, each the first one of its class. Nodes of a class have the same type and duration, and the same
        attributes of those that are used.
    names
        Names of nodes.
    """

    message: int
    begin: int
    firsts: list[Node]
    names: list[str]

    def __init__(self, used: Iterable[str], alone: Iterable[int]) -> None:
        """`used`: names of attributes. `alone`: types of which each node is a class of its own."""

    def feed(self, data: bytes, last: bool) -> int:
        """Take messages of the wire format; return the bytes that were used: what follows begins those of the next
        call. Raises WireError, for the message `message`, which begins at the byte `begin`."""

    def add(self, node: Node) -> None:
        """Take a node."""

    def columns(
        self,
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64]]:
        """Return number, class and name of each row; and what row r waits for, numbers of nodes, each once:
        ``before[start[r]:start[r + 1]]``."""
