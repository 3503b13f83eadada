"""Which messages cost a reduction: those that are added, or those that ASTRA-sim 1 counts."""

from __future__ import annotations

import pytest

from pyxsim.system.reduction import astra_sim_1, every_addition
from tests.system.ideal import system

T, R = 1000, 1  # cycles of a message, and of a reduction: so a time tells both apart


def paid(kind: str, algorithm: str, n: int, rule: object) -> tuple[int, int]:
    """(messages, reductions) that follow each other in a collective on n NPUs."""
    s = system([n], T, algorithm, reduction_delay=R, reduces=rule)
    s.issue(kind, 64 * n)
    return divmod(s.run(), T)


@pytest.mark.parametrize(
    ("kind", "algorithm", "n", "messages", "ours", "astra"),
    [
        # A ring adds up n - 1 messages, and both count them.
        ("all-reduce", "ring", 4, 6, 3, 3),
        ("all-reduce", "ring", 2, 2, 1, 1),
        ("reduce-scatter", "ring", 5, 4, 4, 4),
        ("all-gather", "ring", 4, 3, 0, 0),
        ("all-to-all", "ring", 4, 6, 0, 0),
        # Direct: all at once, so one reduction is seen.
        ("all-reduce", "direct", 4, 2, 1, 1),
        ("reduce-scatter", "direct", 4, 1, 1, 1),
        ("all-gather", "direct", 4, 1, 0, 0),
        ("all-to-all", "direct", 4, 1, 0, 0),
        # Halving-doubling adds up log2 n messages; ASTRA-sim pays for one less.
        ("all-reduce", "halving-doubling", 8, 6, 3, 2),
        ("reduce-scatter", "halving-doubling", 4, 2, 2, 1),
        ("reduce-scatter", "halving-doubling", 2, 1, 1, 0),
        ("all-gather", "halving-doubling", 8, 3, 0, 0),
        # One message at a time: ASTRA-sim pays for the first and the third of three (measured: 30 cycles less).
        ("reduce-scatter", "direct:1", 4, 3, 3, 2),
    ],
)
def test_reductions_on_the_way(kind: str, algorithm: str, n: int, messages: int, ours: int, astra: int) -> None:
    assert paid(kind, algorithm, n, every_addition) == (messages, ours)
    assert paid(kind, algorithm, n, astra_sim_1) == (messages, astra)
