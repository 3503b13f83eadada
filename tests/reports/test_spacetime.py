"""The picture of a schedule: every message is in it, in its step and with its blocks."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.quiver import Quiver

from pyxsim import library
from pyxsim.collective.lookup import get_schedule
from pyxsim.errors import InputError
from pyxsim.reports.plots.spacetime import MAX_LABELS, MAX_NAMED, runs, spacetime

library.load_all()


def arrows(ax: Axes, label: str) -> list[tuple[int, int, int]]:
    """(step, from, to) of the messages that are drawn under this label."""
    at = next(i for i, c in enumerate(ax.collections) if c.get_label() == label)
    lines, heads = ax.collections[at : at + 2]
    assert isinstance(lines, LineCollection)
    assert isinstance(heads, Quiver)
    tails = np.array(lines.get_segments())
    assert tails[:, 1].tolist() == heads.get_offsets().tolist()  # the second half goes on where the first ends
    ends = np.rint(heads.get_offsets()[:, 1] + heads.V).astype(int)
    return [(int(a[0]), int(a[1]), b) for (a, _), b in zip(tails, ends.tolist(), strict=True)]


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([3], "3"),
        ([2, 0, 1], "0-2"),
        ([0, 1, 2, 8, 12, 13], "0-2, 8, 12-13"),
        ([1, 3, 5, 7], "1-7 by 2"),
        ([0, 4], "0, 4"),
        ([], ""),
    ],
)
def test_numbers_as_a_short_text(numbers: list[int], text: str) -> None:
    assert runs(numbers) == text


def test_a_ring() -> None:
    ax = spacetime(get_schedule("all-reduce", "ring", 3))
    ring = [(0, 1), (1, 2), (2, 0)]
    assert arrows(ax, "added") == [(step, a, b) for step in (0, 1) for a, b in ring]
    assert arrows(ax, "stored") == [(step, a, b) for step in (2, 3) for a, b in ring]
    assert ax.get_title(loc="left") == "ring all-reduce on 3 ranks: 4 steps"
    assert [text.get_text() for text in ax.texts[:3]] == ["2", "0", "1"]


@pytest.mark.parametrize(("n", "numbers"), [(3, range(4)), (12, range(22)), (40, range(0, 78, 2))])
def test_the_steps_that_there_are_have_numbers(n: int, numbers: range) -> None:
    ax = spacetime(get_schedule("all-reduce", "ring", n))
    assert [label.get_text() for label in ax.get_xticklabels()] == [str(step) for step in numbers]
    assert [tick - 0.5 for tick in ax.get_xticks()] == list(numbers)
    assert ax.get_xlim() == (0, 2 * n - 2)


def test_messages_between_the_same_ranks_have_one_label() -> None:
    ax = spacetime(get_schedule("broadcast", "double-binary-tree:2", 2))
    assert [text.get_text() for text in ax.texts] == ["0-3"]
    assert len(arrows(ax, "stored")) == 4


def test_what_the_network_adds_up_meets_in_a_point() -> None:
    ax = spacetime(get_schedule("all-reduce", "in-switch", 5))
    (lines,) = [c for c in ax.collections if c.get_label() == "added"]
    assert {tuple(segment[1]) for segment in np.array(lines.get_segments())} == {(0.5, 2.0)}


def test_large_and_small_ones() -> None:
    many = get_schedule("all-gather", "ring", MAX_NAMED + 1)
    assert len(many) > MAX_LABELS
    ax = spacetime(many)
    assert not ax.texts
    assert spacetime(get_schedule("all-reduce", "ring", 1)).texts[0].get_text() == "a single rank sends no messages"
    with pytest.raises(InputError, match="39,800 messages; allowed: at most 20,000"):
        spacetime(get_schedule("all-to-all", "direct", 200))
