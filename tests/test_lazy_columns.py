"""Lazy columns are equal to the arrays that they stand for, whole and in blocks."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyxsim
from pyxsim import lazy_columns
from pyxsim.arrays import IntArray
from pyxsim.lazy_columns import LazyColumns, Repeated, blocks, mapped, sources
from pyxsim.results.phases import dimension_table, phase_table
from pyxsim.system import table

NAMES = ("a", "b", "c")
SMALL = st.integers(0, 5)


@st.composite
def columns(draw: st.DrawFn) -> tuple[LazyColumns, dict[str, IntArray]]:
    """Lazy columns, and their arrays written out row by row."""
    constants: list[int] = []
    repeated: dict[str, list[Repeated]] = {"b": [], "c": []}
    rows: list[tuple[int, int, int]] = []
    sizes = draw(st.lists(st.integers(0, 4), max_size=5))
    for size in sizes:
        constants.append(draw(SMALL))
        written = []
        for name in ("b", "c"):
            if draw(st.booleans()):
                values = draw(st.lists(SMALL, min_size=size, max_size=size))
                repeated[name].append((np.array(values, np.int64), None))
                written.append(values)
            else:
                values = draw(st.lists(SMALL, min_size=1, max_size=3))
                index = draw(st.lists(st.integers(0, len(values) - 1), min_size=size, max_size=size))
                repeated[name].append((np.array(values, np.int64), np.array(index, np.int64)))
                written.append([values[place] for place in index])
        rows += [(constants[-1], b, c) for b, c in zip(*written, strict=True)]
    lazy = LazyColumns(NAMES, np.array(sizes, np.int64), {"a": np.array(constants, np.int64)}, repeated)
    return lazy, {name: np.array([row[place] for row in rows], np.int64) for place, name in enumerate(NAMES)}


def same(some: Mapping[str, IntArray], other: Mapping[str, IntArray]) -> bool:
    return list(some) == list(other) and all(np.array_equal(some[name], other[name]) for name in some)


@given(columns(), st.integers(0, 6), st.integers(0, 6))
def test_equal_to_the_arrays(both: tuple[LazyColumns, dict[str, IntArray]], first: int, last: int) -> None:
    lazy, arrays = both
    assert same(lazy, arrays)
    assert same(pickle.loads(pickle.dumps(lazy)), arrays)
    assert same({name: np.asarray(column) for name, column in sources(lazy).items()}, arrays)
    assert {column.shape for column in sources(lazy).values()} == {(len(arrays["a"]),)}
    chosen = (arrays["b"] >= first) & (arrays["b"] < last)
    assert same(lazy.between("b", first, last), {name: column[chosen] for name, column in arrays.items()})
    assert same(mapped(lazy, "a", lambda values: values + 1), {**arrays, "a": arrays["a"] + 1})


def test_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy_columns, "BLOCK", 2)
    numbers = np.arange(4)
    lazy = LazyColumns(("a", "b"), np.array([4, 4]), {"a": np.array([7, 8])}, {"b": [(numbers, None)] * 2})
    found = [(block["a"].tolist(), block["b"].tolist()) for block in blocks(lazy, "b", 4)]
    assert found == [([7, 8], [npu, npu]) for npu in range(4)]
    assert [block["a"].tolist() for block in blocks(dict(lazy), "b", 4)] == [[7] * 4 + [8] * 4]


@pytest.mark.parametrize("backend", ["analytical", "packet"])
def test_a_run_with_lazy_columns(backend: str, monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    """The tables of a run are the same, and so is its file, whether its chunks are lazy or not."""

    def run() -> pyxsim.Result:
        overrides = ["network.shape=[4,4]", 'collective.size="64 KiB"', "system.chunks=3"]
        return pyxsim.run("inputs/torus_all_reduce.toml", overrides=overrides, backend=backend)

    plain = run()
    monkeypatch.setattr(table, "LEAST_ROWS", 0)
    monkeypatch.setattr(table, "LEAST_RUN", 0)
    monkeypatch.setattr(lazy_columns, "BLOCK", 24)
    lazy = run()
    assert isinstance(lazy.chunks.source, LazyColumns)
    assert not isinstance(plain.chunks.source, LazyColumns)
    assert same(lazy.chunks, plain.chunks)
    for name in ("dimensions", "phases"):
        for column, values in getattr(plain, name).items():
            np.testing.assert_array_equal(getattr(lazy, name)[column], values)
    lazy.save(f"{tmp_path}/lazy.h5")
    loaded = pyxsim.load(f"{tmp_path}/lazy.h5")
    assert same({name: loaded.chunks[name] for name in plain.chunks}, plain.chunks)
    assert loaded.chunks.to_pandas().equals(lazy.chunks.to_pandas())
    other = copy.deepcopy(lazy)
    other.chunks["start"] = other.chunks["start"] + 1
    assert same(lazy.chunks, plain.chunks)
    traffic = [(np.zeros((0, 5), np.int64), 1)]
    for of_lazy, of_plain in (
        (dimension_table(lazy.chunks.source, traffic, (4, 4), 9), dimension_table(plain.chunks, traffic, (4, 4), 9)),
        (phase_table(lazy.chunks.source, {}, 16), phase_table(plain.chunks, {}, 16)),
    ):
        for column, values in of_plain.items():
            np.testing.assert_array_equal(of_lazy[column], values)
