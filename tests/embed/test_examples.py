"""The clients of examples/ do what their first lines say."""

from __future__ import annotations

import runpy
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_python_ring_is_the_closed_form() -> None:
    names = runpy.run_path(str(EXAMPLES / "ring_all_reduce.py"))
    assert names["simulated"]() == names["closed_form"]()


def test_ranks_of_asyncio_form_a_pipeline() -> None:
    """The stages work at the same time: from the second on, each ends one computation and one message after the one
    before; without messages the last would end after (ranks + batches - 1) computations of 20,000 cycles."""
    names = runpy.run_path(str(EXAMPLES / "asyncio_ranks.py"))
    ends = names["main"]()
    assert ends == sorted(ends)
    assert (names["RANKS"] + names["BATCHES"] - 1) * 20_000 < ends[-1] < 140_000
