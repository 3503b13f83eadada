"""Link names made when they are read are those that a list would hold."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from pyxsim.topology.link_names import LinkNames

NAMES = LinkNames(
    [["d0", "d0'"], ["d1"], []],
    [4, 2, 0],
    np.array([0, 1, 2, 0, 1, 2], np.int32),
    np.array([1, 2, 0, 2, 0, 1], np.int32),
    ["a", "b", "c"],
)
WRITTEN = ["d0:a->b", "d0':b->c", "d0:c->a", "d0':a->c", "d1:b->a", "d1:c->b"]


def test_every_way_to_read() -> None:
    assert list(NAMES) == WRITTEN
    assert [NAMES[link] for link in range(len(NAMES))] == WRITTEN
    assert NAMES[-1] == WRITTEN[-1]
    assert NAMES[1:5:2] == WRITTEN[1:5:2]
    assert NAMES == WRITTEN
    assert WRITTEN == NAMES
    assert NAMES == copy.deepcopy(NAMES) == pickle.loads(pickle.dumps(NAMES))
    assert WRITTEN[:-1] != NAMES
    assert ["", *WRITTEN[1:]] != NAMES
    assert "d1:c->b" in NAMES
    assert NAMES.index("d1:b->a") == 4
    assert np.asarray(NAMES, dtype=object).tolist() == WRITTEN
    with pytest.raises(IndexError):
        NAMES[6]
