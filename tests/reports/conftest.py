"""The same small results as the tests of pyxsim.results use; and figures with their layout."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

_path = Path(__file__).parents[1] / "results" / "conftest.py"
_spec = importlib.util.spec_from_file_location("results_made_by_hand", _path)
assert _spec is not None
assert _spec.loader is not None
_by_hand = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_by_hand)

result = _by_hand.result
build = _by_hand.build
empty = _by_hand.empty


@pytest.fixture(autouse=True)
def whole_figures(rough_figures: dict[str, Callable[..., None]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures have their layout and all their pixels in these tests."""
    for name, function in rough_figures.items():
        monkeypatch.setattr(name, function)
