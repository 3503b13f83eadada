"""The words of the progress line."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pyxsim.runner.hooks import Progress
from pyxsim.runner.progress_bar import TEXT, clock, words


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.4, "59 s"), (59.6, "1:00"), (3599, "59:59"), (7384, "2:03:04"), (1e6, "277:46:40")],
)
def test_seconds_for_people(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_what_is_shown() -> None:
    # 250 us at 2 GHz are 500 000 cycles; 10 million visits in 4 s; a quarter of the work took 4 s, so 12 s are left.
    progress = Progress(500_000, 3 << 19, 6 << 20, 12_000_000, 10_000_000, Fraction(2 * 10**9))
    assert words(progress, 4.0, 0.25) == ("250 us simulated", "1.50 MiB of 6 MiB, 2.50 M visits/s, 12 s left")


def test_nothing_done_yet() -> None:
    progress = Progress(0, 0, 1, 0, 0, Fraction(10**9))
    assert words(progress, 0.0, 0.0) == ("0 ns simulated", "0 B of 1 B, 0 visits/s, ? left")


def test_it_fits_beside_the_bar() -> None:
    """In 80 columns, whatever the numbers."""
    progress = Progress(123_456_789, 1023 << 30, 1023 << 40, 10**13, 10**13, Fraction(10**9))
    done, left = words(progress, 1e6, 0.5)
    assert len(f"{done}  {left}") <= TEXT
