"""What is observed, by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.runner.traffic.observe import Columns, Grid, Observer, Tally


def longs(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def test_a_grid() -> None:
    grid = Grid(100, 50)
    assert grid.index(longs(0, 99, 100, 149, 150)).tolist() == [-1, -1, 0, 0, 1]
    assert (grid.start(2), grid.whole(199), grid.whole(200), grid.whole(10)) == (200, 1, 2, 0)


@given(st.integers(0, 50), st.integers(1, 500), st.data())
def test_a_grid_of_parts(origin: int, length: int, data: st.DataObject) -> None:
    parts = data.draw(st.integers(1, length))
    grid = Grid(origin, length, parts)
    assert grid.start(0) == origin
    assert grid.start(parts) == origin + length
    cycles = np.arange(origin, origin + length)
    for batch in range(parts):
        mine = cycles[grid.index(cycles) == batch]
        assert mine.tolist() == list(range(grid.start(batch), grid.start(batch + 1)))
        assert abs(len(mine) - length / parts) < 1


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 300), st.integers(0, 9)), max_size=40))
def test_columns(adds: list[tuple[int, int, int]]) -> None:
    columns, expected = Columns(3), np.zeros((3, 302), dtype=int)
    for row, batch, amount in adds:
        columns.add(longs(row, row), longs(batch, batch), longs(amount, 1))
        expected[row, batch + 1] += amount + 1
    assert np.array_equal(columns.upto(301), expected[:, 1:])
    assert np.array_equal(columns.before, expected[:, 0])


def test_a_tally_merges() -> None:
    rng, tally, expected = np.random.default_rng(1), Tally(), Counter[tuple[int, int]]()
    for _ in range(30):
        klass, batch, latency = rng.integers(3, size=9000), rng.integers(-1, 50, 9000), rng.integers(4000, size=9000)
        tally.add(klass, batch, latency)
        inside = (batch >= 10) & (batch < 40)
        expected.update(zip(klass[inside].tolist(), latency[inside].tolist(), strict=True))
    values, counts = tally.of(10, 40, 3)
    found = {(k, int(v)): int(counts[k, i]) for k in range(3) for i, v in enumerate(values) if counts[k, i]}
    assert found == dict(expected)


def test_an_observer() -> None:
    seen = Observer(Grid(10, 10), npus=3, classes=1)
    seen.create(longs(0, 0, 0), longs(5, 12, 25), longs(2, 3, 4))
    assert seen.complete(2) == 0
    # The first was created before batch 0; the second arrives in batch 1.
    times = longs(5, 12), longs(6, 14), longs(11, 22)
    seen.arrive(longs(0, 0), *times, longs(2, 3), longs(2, 3), longs(1, 1), longs(0, 1))
    assert seen.complete(2) == 1
    assert seen.latency.upto(1).tolist() == [[10]]
    assert seen.network.upto(1).tolist() == [[8]]
    assert seen.hops.upto(1).tolist() == [[3]]
    assert seen.accepted_flits.upto(2).tolist() == [[2, 3]]
    packets, flits = seen.backlog(2)
    assert packets.tolist() == [1, 1]
    assert flits.tolist() == [3, 4]
    assert seen.nodes(0, 2).tolist() == [2, 3, 0]
    assert seen.tally.of(0, 2, 1)[0].tolist() == [10]
