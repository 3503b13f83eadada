"""The shelf of algorithms, which the tests of this floor use as material."""

from __future__ import annotations

import pytest

from pyxsim import library


@pytest.fixture(scope="session", autouse=True)
def shelf() -> None:
    library.load_all()
