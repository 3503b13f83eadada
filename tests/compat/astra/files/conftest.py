"""Fixtures of the tests of ASTRA-sim's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyxsim import library
from tests.compat.astra.files.files import Write, WriteJson, write_json, write_text

library.load_all()


@pytest.fixture
def write(tmp_path: Path) -> Write:
    return lambda pairs: write_text(tmp_path / "file.txt", pairs)


@pytest.fixture
def write_object(tmp_path: Path) -> WriteJson:
    return lambda pairs: write_json(tmp_path / "file.json", pairs)
