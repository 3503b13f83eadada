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
def laid_out(figures_without_layout: Callable[..., None] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures have their layout in these tests."""
    if figures_without_layout is not None:
        monkeypatch.setattr("matplotlib.layout_engine.ConstrainedLayoutEngine.execute", figures_without_layout)
