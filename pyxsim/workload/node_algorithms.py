"""Algorithms of single trace nodes: the YAML file of ASTRA-sim 2's per-node-custom-implementation."""

from __future__ import annotations

from pathlib import Path

from pyxsim.errors import InputError
from pyxsim.file_entries import PathLike
from pyxsim.flat_yaml import Yaml
from pyxsim.settings.algorithms import data_algorithm


def node_algorithms(path: PathLike, folder: Path) -> dict[int, str]:
    """Return the traces of the algorithm, PREFIX.*.et, by node number. Raises InputError.

    The file has lines `number: PREFIX`. `folder`: where relative prefixes start.
    """
    file = Yaml(path)
    algorithms: dict[int, str] = {}
    for key in list(file.entries):
        prefix = file.raw(key)
        if not key.isdigit():
            file.fault(key, "is not a node number", "lines such as '7: traces/ring'")
        elif not isinstance(prefix, str):
            file.fault(key, "lacks the prefix of its traces", "lines such as '7: traces/ring'")
        elif int(key) in algorithms:
            file.fault(key, "is given twice", "each node once")
        else:
            try:
                algorithms[int(key)] = f"{folder / data_algorithm(prefix)}.*.et"
            except InputError as error:
                file.faults.append(error.at(file=file.place(key), key=key))
    file.finish()
    return algorithms
