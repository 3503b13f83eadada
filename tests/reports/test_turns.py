"""The plot of chunks: whose they are, which numbers they have, which of them wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from pyxsim.reports.plots.chunk_bars import chunks
from pyxsim.results.result import Result

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")

Row = tuple[int, int, int, int, int]  # collective, chunk, ready, start, end


@pytest.fixture
def chart(build: Callable[..., Result]) -> Iterator[Callable[..., Any]]:
    """A function that draws these chunks of NPU 0, all in dimension 0, in a run of 1000 cycles."""

    def draw(rows: list[Row], *names: str, **changes: Any) -> Any:
        empty = np.zeros(len(rows), dtype=np.int64)
        table = dict.fromkeys(build().chunks, empty)
        columns = np.array(rows, dtype=np.int64).T
        table |= dict(zip(("collective", "chunk", "ready", "start", "end"), columns, strict=True))
        told = [{"name": name, "kind": "all-reduce", "bytes": 8, "start": 0, "end": 1} for name in names]
        return chunks(build(chunks=table, collectives=told, time_cycles=1000, **changes))

    yield draw
    matplotlib.pyplot.close("all")


def legend(ax: Any) -> list[str]:
    found = ax.get_legend()
    return [text.get_text() for text in found.get_texts()] if found is not None else []


def tints(ax: Any) -> list[tuple[float, ...]]:
    bars = [c for c in ax.collections if hasattr(c, "get_paths") and len(c.get_facecolor())]
    return [tuple(tint) for c in bars for tint in c.get_facecolor()]


def test_chunks_of_one_collective_have_their_colours(chart: Callable[..., Any]) -> None:
    ax = chart([(0, 0, 0, 0, 400), (0, 1, 0, 400, 900)], "one")
    assert len(set(tints(ax))) == 2
    assert legend(ax) == []
    assert ax.get_title(loc="left") == "NPU 0: chunks by dimension"


def test_collectives_have_their_colours_and_names(chart: Callable[..., Any]) -> None:
    rows = [(0, 0, 0, 0, 300), (0, 1, 0, 300, 500), (2, 5, 500, 500, 800)]
    ax = chart(rows, "gradients", "elsewhere", "")
    first, second, third = tints(ax)
    assert first == second != third
    assert legend(ax) == ["gradients", "all-reduce"]
    assert [patch.get_facecolor() for patch in ax.get_legend().get_patches()] == [first, third]
    assert legend(chart(rows, "same", "same", "same")) == ["same 0", "same 2"]


def test_names_that_have_no_room(chart: Callable[..., Any]) -> None:
    rows = [(number, number, 0, 100 * number, 100 * number + 100) for number in range(9)]
    assert legend(chart(rows[:3], *("weights of the layer", "activations forward", "experts"))) == [
        "weights of...",
        "activation...",
        "experts",
    ]
    for ax in (chart(rows, *"abcdefghi"), chart(rows[:3], *(f"weight gradients {i}" for i in range(3)))):
        assert legend(ax) == []
        assert "collectives, dark to light)" in ax.get_title(loc="left")


def test_a_line_is_explained_where_it_can_be_seen(chart: Callable[..., Any]) -> None:
    assert legend(chart([(0, 0, 0, 0, 400), (0, 1, 300, 500, 900)], "one")) == ["waits"]
    assert legend(chart([(0, 0, 200, 600, 900)], "one")) == ["waits"]
    assert legend(chart([(0, 0, 0, 0, 400), (0, 1, 0, 400, 900)], "one")) == []  # behind the bar of another


def test_every_bar_has_its_number(chart: Callable[..., Any]) -> None:
    ax = chart([(0, 3, 0, 0, 400), (0, 12, 0, 400, 401), (0, 14, 0, 450, 450)], "one")
    assert [text.get_text() for text in ax.texts] == ["3", "12", "14"]
    beside = [text.get_ha() for text in ax.texts]
    assert beside == ["center", "left", "left"]
    tight = chart([(0, 3, 0, 0, 400), (0, 12, 0, 400, 401), (0, 14, 0, 402, 900)], "one")
    assert [text.get_text() for text in tight.texts] == ["3", "14"]
