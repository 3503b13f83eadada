"""Groups of NPUs, and which of them are grids."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.collective.communicator import NO_GRID, Communicator, coordinates
from pyxsim.errors import InputError

SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=3)


@pytest.mark.parametrize(
    ("members", "shape", "dims"),
    [
        (range(8), (2, 2, 2), (0, 1, 2)),
        ([0, 1], (2,), (0,)),
        ([2, 3, 6, 7], (2, 2), (0, 2)),  # y = 1
        ([0, 4], (2,), (2,)),
        ([5], (1,), (0,)),
        ([1, 0], (2,), NO_GRID),  # in another order
        ([0, 3], (2,), NO_GRID),  # a diagonal
        ([0, 1, 2], (3,), NO_GRID),
        ([0, 4, 1, 5], (4,), NO_GRID),
    ],
)
def test_what_is_a_grid(members: list[int], shape: tuple[int, ...], dims: tuple[int, ...]) -> None:
    """In a network of 2 x 2 x 2 NPUs."""
    found = Communicator.of(list(members), [2, 2, 2])
    assert found == Communicator(tuple(members), shape, dims)
    assert len(found) == len(members)
    assert found.is_grid == (dims != NO_GRID)


@pytest.mark.parametrize(
    ("members", "told"),
    [([], "the group has no NPUs"), ([0, 8], "there is no NPU 8; allowed: NPUs 0 to 7"), ([3, 1, 3], "NPU 3 .* twice")],
)
def test_what_is_no_group(members: list[int], told: str) -> None:
    with pytest.raises(InputError, match=told):
        Communicator.of(members, [2, 4])


@given(SHAPES, st.data())
def test_groups_along_dimensions_share_out_the_npus(shape: list[int], data: st.DataObject) -> None:
    dims = data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    groups = Communicator.along(sorted(dims), shape)
    assert sorted(npu for group in groups for npu in group.members) == list(range(math.prod(shape)))
    assert [group.members[0] for group in groups] == sorted(group.members[0] for group in groups)
    for group in groups:
        fixed = {tuple(x for dim, x in enumerate(coordinates(npu, shape)) if dim not in dims) for npu in group.members}
        assert len(fixed) == 1
        # The same as a list of NPUs, but for dimensions of one NPU.
        found = Communicator.of(group.members, shape)
        assert found.is_grid
        assert math.prod(found.shape) == len(group) == math.prod(group.shape)
    if len(dims) == len(shape):
        assert groups == [Communicator.whole(shape)]


@given(SHAPES, st.data())
def test_any_grid_is_found(shape: list[int], data: st.DataObject) -> None:
    places = [sorted(data.draw(st.sets(st.integers(0, size - 1), min_size=1))) for size in shape]
    members = [
        npu
        for npu in range(math.prod(shape))
        if all(x in p for x, p in zip(coordinates(npu, shape), places, strict=True))
    ]
    group = Communicator.of(members, shape)
    assert group.is_grid
    assert [len(p) for p in places if len(p) > 1] == [size for size in group.shape if size > 1]
