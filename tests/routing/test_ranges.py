"""How the VCs of a link are shared out among its classes, and what a relation says when nothing else is said."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.routing import RANDOM, Way, vc_ranges
from tests.routing.nets import grid


@given(st.integers(1, 64), st.integers(1, 8))
def test_even_shares(vcs: int, classes: int) -> None:
    if classes > vcs:
        with pytest.raises(InputError, match=f"allowed: at least {classes}"):
            vc_ranges(vcs, classes)
        return
    low, high = vc_ranges(vcs, classes)
    assert low.tolist() == [c * vcs // classes for c in range(classes)]
    assert high.tolist() == [(c + 1) * vcs // classes for c in range(classes)]


@pytest.mark.parametrize(
    ("vcs", "classes", "fixed", "ranges"),
    [
        (8, 3, (1, 1, 0), [(0, 1), (1, 2), (2, 8)]),
        (8, 3, (0, 0, 1), [(0, 3), (3, 7), (7, 8)]),
        (5, 3, (0, 1, 0), [(0, 2), (2, 3), (3, 5)]),
        (8, 2, (1, 2), [(0, 1), (1, 3)]),  # the others are used by nobody
        (4, 2, (1, 1, 0), [(0, 1), (1, 2)]),  # a link with fewer classes than others
        (4, 3, (2,), [(0, 2), (2, 3), (3, 4)]),
    ],
)
def test_fixed_numbers(vcs: int, classes: int, fixed: tuple[int, ...], ranges: list[tuple[int, int]]) -> None:
    low, high = vc_ranges(vcs, classes, fixed)
    assert list(zip(low.tolist(), high.tolist(), strict=True)) == ranges


@pytest.mark.parametrize(("vcs", "fixed", "least"), [(2, (1, 1, 0), 3), (3, (2, 1, 1), 4), (0, (), 3), (-1, (1,), 3)])
def test_too_few(vcs: int, fixed: tuple[int, ...], least: int) -> None:
    with pytest.raises(InputError, match=f"network.router.vcs: .* allowed: at least {least}"):
        vc_ranges(vcs, 3, fixed)


def test_defaults() -> None:
    torus = grid("ring", [4, 3, 2])
    assert torus.home.tolist() == list(range(24))
    assert torus.sets == 0
    assert torus.deterministic
    assert torus.ways == (Way(0),)
    assert torus.stride.tolist() == [1, 4, 12]
    assert torus.plane_escape.tolist() == [-1, -1]
    assert torus.plane_select.tolist() == [RANDOM, RANDOM]
    assert torus.fixed_vcs == (0, 0)
    assert np.array_equal(torus.digits @ torus.stride, np.arange(24))
    assert torus.route(0, 5, -1) == torus.route(0, 5, 0)
