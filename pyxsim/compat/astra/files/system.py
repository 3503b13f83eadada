"""A system file of either version of ASTRA-sim as a table [system]."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pyxsim.compat.astra.files.system_json import json_system
from pyxsim.compat.astra.files.system_text import text_system
from pyxsim.file_entries import PathLike


def read_system(
    path: PathLike, dims: int | None = None, kinds: Collection[str] = ()
) -> tuple[dict[str, Any], list[str]]:
    """Return the table and warnings. A file *.json is of version 2, any other a text of version 1. Raises InputError.

    `dims`, `kinds`: see `text_system`.
    """
    if str(path).lower().endswith(".json"):
        return json_system(path, dims, kinds)
    return text_system(path, dims, kinds)


def system_tables(path: PathLike, dims: int | None = None, kinds: Collection[str] = ()) -> dict[str, Any]:
    """Return the table alone."""
    return read_system(path, dims, kinds)[0]
