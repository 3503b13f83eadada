"""The remote memory JSON of ASTRA-sim 2."""

from __future__ import annotations

from typing import Any

from pyxsim.study.astra.entries import PathLike
from pyxsim.study.astra.json_file import Json


def memory_table(path: PathLike) -> dict[str, Any] | None:
    """The table [system.remote_memory]; None where there is no such memory. Raises InputError."""
    file = Json(path)
    file.choice("memory-type", {"NO_MEMORY_EXPANSION": None})
    file.finish()
    return None
