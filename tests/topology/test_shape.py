"""What is a shape, and how its faults are told."""

from __future__ import annotations

import numpy as np
import pytest

from pyxsim.errors import InputError
from pyxsim.topology import check_shape


@pytest.mark.parametrize("shape", [[4, 2, 1], (4, 2, 1), np.array([4, 2, 1]), iter([4, 2, 1])])
def test_numbers_of_any_kind_become_a_tuple_of_ints(shape: object) -> None:
    sizes = check_shape(shape)
    assert sizes == (4, 2, 1)
    assert all(type(size) is int for size in sizes)


@pytest.mark.parametrize(
    ("shape", "dimensions", "words"),
    [
        ([], None, "the shape is empty"),
        ([4, 0], None, "a dimension of 0 NPUs"),
        ([-4], None, "a dimension of -4 NPUs"),
        ([4.0], None, "4.0 is not a number of NPUs"),
        (["4"], None, "'4' is not a number of NPUs"),
        ([True], None, "true is not a number of NPUs"),
        ([None], None, "None is not a number of NPUs"),
        ("444", None, "'444' is not a shape"),
        (4, None, "4 is not a shape"),
        ([4, 4], 1, "[4, 4] has 2 dimensions; allowed: a list of one number"),
        ([4], 2, "[4] has 1 dimensions; allowed: a list of 2 numbers"),
        ([5000], None, "a dimension of 5000 NPUs is too large"),
        ([4096, 4096], None, "16777216 NPUs are too many"),
    ],
)
def test_faults(shape: object, dimensions: int | None, words: str) -> None:
    with pytest.raises(InputError) as caught:
        check_shape(shape, dimensions)
    assert caught.value.key == "network.shape"
    assert words in str(caught.value)
