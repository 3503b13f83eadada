"""A system file of ASTRA-sim, of either version, as a table [system]."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pyxsim.compat.astra.files.system_json import json_system
from pyxsim.compat.astra.files.system_text import text_system
from pyxsim.file_entries import PathLike


def read_system(
    path: PathLike, dims: int | None = None, wanted: Collection[str] = ()
) -> tuple[dict[str, Any], list[str]]:
    """The table, and warnings. A name that ends in .json is JSON of version 2, any other text of version 1.

    `dims`, `wanted`: see `text_system`. Raises InputError.
    """
    if str(path).lower().endswith(".json"):
        return json_system(path, dims, wanted)
    return text_system(path, dims, wanted), []


def system_tables(path: PathLike, dims: int | None = None, wanted: Collection[str] = ()) -> dict[str, Any]:
    """The table alone."""
    return read_system(path, dims, wanted)[0]
