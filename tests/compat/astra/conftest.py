"""The same small results as the tests of pyxsim.results use."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_path = Path(__file__).parents[2] / "results" / "conftest.py"
_spec = importlib.util.spec_from_file_location("results_made_by_hand", _path)
assert _spec is not None
assert _spec.loader is not None
_by_hand = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_by_hand)

result = _by_hand.result
build = _by_hand.build
empty = _by_hand.empty
