"""The engine and record_dtypes.py agree on the sizes of records."""

from __future__ import annotations

import pytest

from pyxsim.core.state.record_dtypes import check_size
from pyxsim.errors import PyxsimError


def test_an_engine_that_is_older_than_the_files_is_told_as_such() -> None:
    check_size("vc", 64, 64)
    with pytest.raises(PyxsimError, match=r"different versions .*vc has 128 bytes there, 64 here.* pip install"):
        check_size("vc", 128, 64)
