"""What libpyxsim (c/libpyxsim.c) calls in Python: rarely, so that its messages cost no Python each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyxsim.embed.simulator import Simulator
from pyxsim.errors import PyxsimError, StuckError

Opened = tuple[Simulator, Callable[[int | None], int], list[str], float, Any]

_LINK = np.dtype([("flits", np.int64), ("bytes", np.int64), ("busy", np.float64)])


def from_text(text: str, backend: str) -> Opened:
    """Return a simulator of settings as TOML or JSON, `advance`, the names of its links, its clock and its inbox."""
    return _opened(Simulator.from_text(text, backend=backend))


def from_file(path: str, backend: str) -> Opened:
    """Return the same of a file."""
    return _opened(Simulator(path, backend=backend))


def _opened(simulator: Simulator) -> Opened:
    exchange = simulator.exchange
    return (
        simulator,
        exchange.advance,
        simulator.statistics().link,
        float(simulator.clock_hz),
        exchange.capsule(),
    )


def take_arrivals(simulator: Simulator, memory: memoryview) -> int:
    """Write messages that have arrived to an array of pyxsim_arrival; return how many."""
    return simulator.exchange.take_arrivals(np.frombuffer(memory, np.int64).reshape(-1, 2))


def write_links(simulator: Simulator, memory: memoryview) -> int:
    """Write the counters of links to an array of pyxsim_link; return how many."""
    table, statistics = np.frombuffer(memory, _LINK), simulator.statistics()
    for name in _LINK.names or ():
        table[name] = getattr(statistics, name)[: len(table)]
    return len(table)


def explained(error: BaseException) -> tuple[int, str]:
    """Return the code of an error, as `enum pyxsim_error_code`, and its text."""
    lines = [str(error), *error.waits] if isinstance(error, StuckError) else [str(error)]
    if isinstance(error, PyxsimError):
        return error.exit_code, "\n".join(lines)
    return 1, f"{type(error).__name__}: {error}"
