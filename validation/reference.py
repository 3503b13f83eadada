"""Numbers of other simulators: inputs/reference/ of the source tree."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from pyxsim.errors import InputError

TREE = Path(__file__).resolve().parents[1]


@cache
def reference(name: str) -> Any:
    """Return the content of inputs/reference/NAME.json. Raises InputError outside of a source tree."""
    path = TREE / "inputs" / "reference" / f"{name}.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(
            "the numbers to compare with are not here", file=str(path), allowed="run it in the source tree"
        ) from error
