"""Tables of texts."""

from __future__ import annotations

from typing import Any

import pytest

from pyxsim.reports.text.text_table import Sheet


def test_cells_are_texts() -> None:
    row: list[Any] = ["x", 1]
    with pytest.raises(TypeError, match=r"row 1 of a Sheet is \['x', 1\]; expected texts"):
        Sheet(["a", "b"], [["x", "y"], row])
