"""How busy dimensions were, how long chunks waited: against sums by hand, and against a cycle-by-cycle count."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.results.phases import differing, dimension_table, phase_table
from pyxsim.system.table import COLUMNS as CHUNK_COLUMNS

NO_TRAFFIC = [(np.zeros((0, 5), dtype=np.int64), 1)]


def chunks(*rows: tuple[int, ...]) -> dict[str, Any]:
    """Rows (collective, chunk, phase, rank, dimension, ready, start, end, messages, network)."""
    names = ("collective", "chunk", "phase", "rank", "dimension", "ready", "start", "end", "messages", "network")
    columns = {name: np.array([row[i] for row in rows], dtype=np.int64) for i, name in enumerate(names)}
    zeros = np.zeros(len(rows), dtype=np.int64)
    return {name: columns.get(name, zeros) for name in CHUNK_COLUMNS}


ROWS = chunks(
    (0, 0, 0, 0, 0, 0, 0, 10, 2, 14),
    (0, 0, 0, 1, 0, 0, 4, 12, 2, 10),
    (0, 1, 0, 0, 0, 0, 6, 14, 1, 6),  # overlaps the first chunk for 4 cycles
    (0, 0, 1, 0, 1, 10, 15, 20, 1, 3),
    (0, 1, 1, 0, 1, 14, -1, -1, -1, -1),  # waits to the end
)


def test_dimensions_by_hand() -> None:
    traffic = np.array([[0, 1, 0, 100, 3], [0, 2, 0, 50, 2], [1, 2, 0, 7, 1]])
    table = {name: values.tolist() for name, values in dimension_table(ROWS, [(traffic, 1)], (2, 2), 20).items()}
    assert table["dimension"] == [0, 1, -1]
    assert table["bytes"] == [300, 100, 7]
    # NPU 0 was at work in cycles 0 to 13 of 20, NPU 1 in 4 to 11, the other two never.
    assert table["occupancy_npu0"][:2] == [14 / 20, 5 / 20]
    assert table["occupancy"][:2] == [(14 + 8) / 80, 5 / 80]
    assert table["queueing"][:2] == [(0 + 4 + 6) / 3, 5.0]
    assert table["network"][:2] == [30 / 5, 3.0]
    assert math.isnan(table["queueing"][2])


def test_phases_by_hand() -> None:
    table = {name: values.tolist() for name, values in phase_table(ROWS, {(0, 0): "all-reduce"}, 4).items()}
    assert table["phase"] == [0, 1]
    assert table["kind"] == ["all-reduce", ""]
    assert table["npus"] == [2, 1]
    assert table["chunks"] == [2, 2]
    assert (table["start"], table["end"]) == ([0, 15], [14, -1])
    assert table["time"] == [(10 + 8 + 8) / 3, 5.0]


@given(
    st.lists(
        st.tuples(
            *(st.integers(0, 2) for _ in range(4)),  # collective, chunk, phase, rank
            st.integers(-1, 1),
            *(st.integers(-1, 5) for _ in range(5)),
        ),
        max_size=20,
    )
)
def test_phases_one_by_one(rows: list[tuple[int, ...]]) -> None:
    """Each row of the table from the parts that belong to it."""
    table = {name: values.tolist() for name, values in phase_table(chunks(*rows), {}, 3).items()}
    places = sorted({(row[0], row[2], row[4]) for row in rows})
    assert list(zip(table["collective"], table["phase"], table["dimension"], strict=True)) == places

    def mean(of: list[int], over: int) -> float | None:
        return sum(of) / over if over > 0 else None

    for number, place in enumerate(places):
        mine = [row for row in rows if (row[0], row[2], row[4]) == place]
        begun = [row for row in mine if row[6] >= 0]
        ended = [row for row in mine if row[7] >= 0]
        waited = [row for row in begun if row[5] >= 0]
        got = [row for row in mine if row[8] > 0]
        wanted = {
            "npus": len({row[3] for row in mine}),
            "chunks": len({row[1] for row in mine}),
            "start": min((row[6] for row in begun), default=-1),
            "end": max(row[7] for row in mine) if len(ended) == len(mine) else -1,
            "time": mean([row[7] - row[6] for row in ended], len(ended)),
            "queueing": mean([row[6] - row[5] for row in waited], len(waited)),
            "network": mean([row[9] for row in got], sum(row[8] for row in got)),
        }
        found = {name: table[name][number] for name in wanted}
        assert {name: None if math.isnan(value) else value for name, value in found.items()} == wanted


def test_nothing() -> None:
    table = dimension_table(chunks(), NO_TRAFFIC, (4,), 0)
    assert table["dimension"].tolist() == [0]
    assert table["occupancy"].tolist() == [0.0]
    assert all(len(column) == 0 for column in phase_table(chunks(), {}, 4).values())


def test_ends_that_differ_in_several_dimensions() -> None:
    rows = np.array([[0, 3, 0, 1, 1], [0, 4, 0, 1, 1], [5, 6, 0, 1, 1], [0, 5, 0, 1, 1]])
    assert differing(rows, (4, 2)).tolist() == [0, 1, 0, -1]


ROW = st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 30), st.integers(0, 12))


@given(st.lists(ROW, max_size=12))
def test_occupancy_is_what_counting_says(spans: list[tuple[int, int, int, int]]) -> None:
    rows = [(0, i, 0, rank, dim, at, at, at + length, 0, 0) for i, (rank, dim, at, length) in enumerate(spans)]
    table = dimension_table(chunks(*rows), NO_TRAFFIC, (3, 1), 50)
    for place, dim in enumerate(table["dimension"].tolist()):
        busy = {(rank, cycle) for rank, d, at, length in spans if d == dim for cycle in range(at, at + length)}
        assert math.isclose(table["occupancy"][place] * 150, len(busy))
        assert math.isclose(table["occupancy_npu0"][place] * 50, sum(rank == 0 for rank, _ in busy))
