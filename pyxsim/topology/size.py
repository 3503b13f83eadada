"""Limits of the size of a network: larger arrays point to a mistake in the input.

Who builds a network announces its size before the arrays are made (`announce`). `announced_to` hears it, to estimate
the memory of the run while there is still time to refuse it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from pyxsim.errors import InputError

MAX_LINKS = 2**21
MAX_ENTRIES = 2**27  # 1 GB of tables


def check_size(links: int, entries: int, key: str = "network.shape") -> None:
    """Raise InputError if a network has too many links or table entries: before it is built, where that is known."""
    if links > MAX_LINKS:
        raise InputError(f"{links} links are too many", key=key, allowed=f"at most {MAX_LINKS}")
    if entries > MAX_ENTRIES:
        raise InputError(f"{entries} table entries are too many", key=key, allowed=f"at most {MAX_ENTRIES}")


@dataclass(frozen=True)
class NetworkSize:
    """The size of a network that is about to be built.

    Parameters
    ----------
    shape, algorithms
        NPUs and default collective algorithm of each dimension.
    entries
        Entries of the routing tables; of a graph 0 until its routes are about to be written.
    flags
        Entries of the table of links allowed on the way to each router with NPUs: links x such routers, of all planes;
        0 for products.
    separable
        Whether the network is a product, in which routes of one dimension are alike.
    """

    npus: int
    routers: int
    links: int
    shape: tuple[int, ...]
    algorithms: tuple[str, ...]
    planes: int = 1
    entries: int = 0
    flags: int = 0
    separable: bool = False


_listener: ContextVar[Callable[[NetworkSize], None] | None] = ContextVar("listener", default=None)


@contextmanager
def announced_to(listener: Callable[[NetworkSize], None]) -> Iterator[None]:
    """Call `listener` with the size of each network before it is built; what it raises ends the building."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def announce(size: NetworkSize) -> None:
    """Tell who listens how large a network will be."""
    listener = _listener.get()
    if listener is not None:
        listener(size)
