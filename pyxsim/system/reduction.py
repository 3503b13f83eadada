"""Which messages an endpoint pays the reduction delay for."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from pyxsim.collective.lookup import get_algorithm

if TYPE_CHECKING:
    from pyxsim.system.work import GroupTask

# (group task, message, how many its receiver has taken in hand before) -> does it cost a reduction?
Rule = Callable[["GroupTask", int, int], bool]


def every_addition(task: GroupTask, message: int, before: int) -> bool:
    """Every message that is added to the receiver's data."""
    return task.program.reduce[message]


def astra_sim_1(task: GroupTask, message: int, before: int) -> bool:
    """As ASTRA-sim counts: in rounds of P bundles that are free and Z that cost, whatever the messages carry.

    The first P bundles are a rank's first sends, every message taken in is one more. A reduce-scatter pays in every
    round, an all-reduce in every second, other collectives never. So halving-doubling pays log2(N) - 1 times for
    log2(N) additions, and direct with a window of 1 every second time (PacketBundle of ASTRA-sim 1).
    """
    phase = task.stage.phase
    free, paid = _rounds(phase.algorithm, phase.npus)
    turn, place = divmod(free + before, free + paid)
    if place < free:
        return False
    return phase.kind == "reduce-scatter" or (phase.kind == "all-reduce" and turn % 2 == 0)


@lru_cache(maxsize=256)
def _rounds(named: str, n: int) -> tuple[int, int]:
    """(P, Z) of an algorithm on n ranks."""
    algorithm = get_algorithm(named)
    name = algorithm.name.removeprefix("one-").partition(":")[0]
    return _ROUNDS.get(name, _ring)(n, algorithm.window)


def _ring(n: int, window: int | None) -> tuple[int, int]:
    return 1, n - 1


def _direct(n: int, window: int | None) -> tuple[int, int]:
    width = min(window or n - 1, n - 1)
    return width, width


def _halving_doubling(n: int, window: int | None) -> tuple[int, int]:
    return 1, max(n.bit_length() - 2, 0)


_ROUNDS = {"ring": _ring, "direct": _direct, "halving-doubling": _halving_doubling}
