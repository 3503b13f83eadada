"""Layouts of ranks: groups are found again, and messages go where they say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.workload.making.layout import STAGES, Layout, Shift, Span, layout_of

AXES = st.lists(st.integers(2, 4), min_size=1, max_size=3).map(tuple)


@given(AXES, st.integers(1, 3), st.data())
def test_groups_are_those_of_their_span(axes: tuple[int, ...], stages: int, data: st.DataObject) -> None:
    layout = Layout(axes, stages)
    first = data.draw(st.integers(0, len(axes) - 1))
    span = Span(first, data.draw(st.integers(first + 1, len(axes))), data.draw(st.sampled_from(("own", "all"))))
    stage = data.draw(st.integers(0, stages - 1))
    groups = layout.groups(span, stage)
    size = layout.per_stage * (stages if span.stages == "all" else 1)
    assert sorted(rank for group in groups for rank in group) == [
        rank for rank in range(layout.ranks) if span.stages == "all" or layout.stage_of(rank) == stage
    ]
    assert {len(group) for group in groups} == {layout.size(span)}
    assert len(groups) * layout.size(span) == size
    if stages > 1 or span.stages == "own":
        assert all(layout.span(group, rank) == span for group in groups for rank in group)


@given(AXES, st.integers(1, 3))
def test_axes_are_found_again(axes: tuple[int, ...], stages: int) -> None:
    layout = Layout(axes, stages)
    groups = [group for axis in range(len(axes)) for group in layout.groups(Span(axis, axis + 1), 0)]
    assert layout_of(groups, layout.ranks, stages) == layout


@given(AXES, st.integers(1, 3), st.data())
def test_messages_go_to_the_place_of_their_shift(axes: tuple[int, ...], stages: int, data: st.DataObject) -> None:
    layout = Layout(axes, stages)
    source, target = (data.draw(st.integers(0, layout.ranks - 1)) for _ in range(2))
    shift = layout.shift(source, target)
    if shift is not None:
        assert layout.targets(np.array([source]), shift).tolist() == [target]
        back = layout.targets(np.array([target]), Shift(shift.axis, -shift.by))
        assert back.tolist() == [source]
    else:
        coordinates = [(rank // layout.per_stage, rank % layout.per_stage) for rank in (source, target)]
        assert source == target or coordinates[0][1] != coordinates[1][1]


def test_no_stage_lies_beyond_the_pipeline() -> None:
    assert Layout((2,), 2).targets(np.arange(4), Shift(STAGES, 1)).tolist() == [2, 3, -1, -1]


@pytest.mark.parametrize(
    ("groups", "ranks", "stages", "problem"),
    [
        ([(0, 1, 2)], 8, 1, "groups at distances 3 and 8 form no grid of 8 ranks"),
        ([(0, 1, 4, 5)], 8, 1, "the group of ranks 0, 1, 4, 5 is not on the grid of 4 x 2 ranks"),
        ([(1, 2)], 4, 1, "the group of ranks 1, 2 is not on the grid of 2 x 2 ranks"),
        ([(0, 1)], 6, 4, "6 ranks are no 4 pipeline stages of equal size"),
        ([(0, 3, 4)], 6, 2, "the group of ranks 0, 3, 4 is not on the grid of 3 ranks in each of 2 stages"),
    ],
)
def test_irregular_groups_are_refused(groups: list[tuple[int, ...]], ranks: int, stages: int, problem: str) -> None:
    with pytest.raises(InputError) as error:
        layout_of(groups, ranks, stages)
    assert error.value.problem == problem
