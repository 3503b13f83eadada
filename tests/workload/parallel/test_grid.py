"""Who works with whom, by coordinates that are counted one by one."""

from __future__ import annotations

import itertools
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.collective.communicator import Communicator
from pyxsim.settings.parallelism import AXES
from pyxsim.workload.parallel.grid import Grid, dims_of


@given(
    sizes=st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4)),
    expert=st.integers(1, 3),
    order=st.permutations(AXES),
)
def test_groups(sizes: tuple[int, int, int], expert: int, order: list[str]) -> None:
    tensor, replicas, pipeline = sizes
    grid = Grid(tensor, replicas * expert, pipeline, expert, tuple(order))
    extents = {"tensor": tensor, "data": replicas * expert, "pipeline": pipeline}
    at = {}  # (tensor, data, pipeline) of each NPU, the first of the order counting fastest
    for number, place in enumerate(itertools.product(*(range(extents[axis]) for axis in reversed(order)))):
        by_axis = dict(zip(reversed(order), place, strict=True))
        at[number] = (by_axis["tensor"], by_axis["data"], by_axis["pipeline"])
    assert len(grid) == len(at)
    everything = range(pipeline)
    same = {
        "tensor": lambda t, d, p: (d, p),
        "data": lambda t, d, p: (t, p),
        "pipeline": lambda t, d, p: (t, d),
        "expert": lambda t, d, p: (t, p, d // expert),
        "replica": lambda t, d, p: (t, p, d % expert),
    }
    for axis, key in same.items():
        groups: dict[tuple[int, ...], list[int]] = {}
        for number, place in at.items():
            groups.setdefault(key(*place), []).append(number)
        found = grid.groups(axis, everything)
        assert sorted(found) == sorted(map(tuple, groups.values()))
    for stage in everything:
        assert sorted(grid.stage(stage).tolist()) == [npu for npu, place in at.items() if place[2] == stage]
    # Who pass data on to each other differ in their stage only.
    for npus in zip(*(grid.stage(stage).tolist() for stage in everything), strict=True):
        assert len({at[npu][:2] for npu in npus}) == 1


@pytest.mark.parametrize(
    ("grid", "axis", "shape", "dims"),
    [
        (Grid(8, 4, 1), "tensor", (8, 4), (0,)),
        (Grid(8, 4, 1), "data", (8, 4), (1,)),
        (Grid(8, 4, 1), "tensor", (2, 4, 4), (0, 1)),
        (Grid(8, 4, 1), "tensor", (16, 2), None),  # a part of a dimension
        (Grid(8, 4, 1), "data", (16, 2), None),
        (Grid(1, 32, 1), "data", (4, 8), (0, 1)),
        (Grid(4, 8, 1, order=("data", "tensor", "pipeline")), "tensor", (8, 4), (1,)),
        (Grid(4, 8, 1, 2), "expert", (4, 2, 4), (1,)),
        (Grid(4, 8, 1, 2), "replica", (4, 2, 4), (2,)),
    ],
)
def test_groups_that_are_dimensions(
    grid: Grid, axis: str, shape: tuple[int, ...], dims: tuple[int, ...] | None
) -> None:
    groups = grid.groups(axis, range(grid.pipeline))
    assert dims_of(groups, shape) == dims


def test_a_part_of_a_dimension_is_a_grid_all_the_same() -> None:
    """Eight of sixteen neighbours go along their dimension, with its algorithm: not as a mere list."""
    first, *_ = Grid(8, 4, 1).groups("tensor", [0])
    assert Communicator.of(first, (16, 2)).dims == (0,)
    # Of replicas 8 apart in dimensions of 16 and 2, all combinations of some coordinates.
    apart, *_ = Grid(8, 4, 1).groups("data", [0])
    group = Communicator.of(apart, (16, 2))
    assert (group.shape, group.dims) == ((2, 2), (0, 1))
    assert prod(group.shape) == len(apart)
