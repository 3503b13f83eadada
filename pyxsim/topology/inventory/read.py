"""Tell the formats of inventories apart, and read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from pyxsim.errors import InputError
from pyxsim.textfile import read_text
from pyxsim.topology.inventory.hwloc import read_hwloc
from pyxsim.topology.inventory.infragraph import read_infragraph
from pyxsim.topology.inventory.nccl import read_nccl
from pyxsim.topology.inventory.nvidia_smi import is_matrix, read_matrix
from pyxsim.topology.inventory.parts import Parts
from pyxsim.xml_elements import Element, read_xml

_OF_XML: Mapping[str, Callable[[Path, Element], Parts]] = {"system": read_nccl, "topology": read_hwloc}
_GRAPHS = (".graphml", ".gml", ".json", ".toml", ".csv", ".dot", ".gexf", ".net")
_KINDS = "YAML of InfraGraph, XML of NCCL or hwloc, or the matrix of nvidia-smi"


def read_inventory(path: Path) -> Parts | None:
    """Return the parts of an inventory; None for other graphs. Raises InputError."""
    ending = path.suffix.lower()
    if ending in (".yaml", ".yml"):
        return read_infragraph(path)
    if ending == ".xml":
        root = read_xml(str(path), _KINDS)
        if root.tag not in _OF_XML:
            root.refuse("is not an inventory", allowed=list(_OF_XML), given=root.tag)
        return _OF_XML[root.tag](path, root)
    if ending in _GRAPHS:
        return None
    text = read_text(path, "an edge list")
    return read_matrix(path, text) if is_matrix(text) else None


def refuse_options(path: Path, nodes: int, rates: Mapping[str, str] | None) -> None:
    """Raise InputError for options that only inventories have."""
    for key, given in (("nodes", nodes != 1), ("rates", rates is not None)):
        if given:
            raise InputError(f"{path} is not an inventory", key=f"network.options.{key}", allowed=_KINDS)
