"""Hops along tables, against one step after the other."""

from __future__ import annotations

import numpy as np
import pytest

from pyxsim.network.delay.unaware import hop_table


@pytest.mark.parametrize("npus", [1, 2, 3, 8, 13])
def test_one_way_round(npus: int) -> None:
    ids = np.arange(npus)
    following = np.where(ids[:, None] == ids, -1, ids[:, None])  # link i leads from NPU i to the next
    assert hop_table(following, (ids + 1) % npus, npus).tolist() == ((ids - ids[:, None]) % npus).tolist()


def test_over_a_switch() -> None:
    # Router 3 is a switch: links 0..2 lead up, 3..5 down.
    following = np.array([[-1, 0, 0], [1, -1, 1], [2, 2, -1], [3, 4, 5]])
    assert hop_table(following, np.array([3, 3, 3, 0, 1, 2]), 3).tolist() == [[0, 2, 2], [2, 0, 2], [2, 2, 0]]


def test_no_way_and_a_circle() -> None:
    # NPU 0 has no link; 1 and 2 send each other what is for NPU 0.
    following = np.array([[-1, -1, -1], [0, -1, 0], [1, 1, -1]])
    assert hop_table(following, np.array([2, 1]), 3).tolist() == [[0, -1, -1], [-1, 0, 1], [-1, 1, 0]]
