"""Tell the formats of inventories apart, and read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyxsim.errors import InputError
from pyxsim.topology.inventory.infragraph import read_infragraph
from pyxsim.topology.inventory.parts import Parts

ENDINGS: Mapping[str, Callable[[Path], Parts]] = {".yaml": read_infragraph, ".yml": read_infragraph}


def inventory_reader(path: Path, text: Callable[[], str]) -> Callable[[Path], Parts] | None:
    """Return the reader of an inventory; None for other graphs.

    Parameters
    ----------
    path
        The file; its ending decides for YAML and XML.
    text
        Returns the content of the file, for other endings.
    """
    return ENDINGS.get(path.suffix.lower())


def inventory_graph(parts: Parts, nodes: int, rates: Mapping[str, str] | None) -> Any:
    """Return the graph of an inventory as `Parts.graph`. Raises InputError."""
    return parts.graph(nodes, rates)


def refuse_options(path: Path, nodes: int, rates: Mapping[str, str] | None) -> None:
    """Raise InputError for options that only inventories have."""
    for key, given in (("nodes", nodes != 1), ("rates", rates is not None)):
        if given:
            problem = f"{path} is not an inventory"
            raise InputError(problem, key=f"network.options.{key}", allowed="YAML of InfraGraph")
