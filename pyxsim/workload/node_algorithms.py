"""Algorithms for single nodes of traces: the YAML file that version 2 calls per-node-custom-implementation."""

from __future__ import annotations

from pathlib import Path

from pyxsim.file_entries import PathLike
from pyxsim.flat_yaml import Yaml


def node_algorithms(path: PathLike, folder: Path) -> dict[int, str]:
    """By the number of a node PREFIX.*.et, the traces of its algorithm. Raises InputError.

    The file has a line `number: PREFIX` for each. `folder`: where relative prefixes count from.
    """
    file = Yaml(path)
    found: dict[int, str] = {}
    for key in list(file.entries):
        prefix = file.raw(key)
        if not key.isdigit():
            file.fault(key, "is no number of a node", "lines such as '7: traces/ring'")
        elif not isinstance(prefix, str):
            file.fault(key, "has no prefix of traces", "lines such as '7: traces/ring'")
        elif int(key) in found:
            file.fault(key, "is given twice", "each node once")
        else:
            found[int(key)] = f"{folder / prefix}.*.et"
    file.finish()
    return found
