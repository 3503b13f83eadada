"""The network YAML of ASTRA-sim 2's analytical backends as a table [network]. Units: GB/s of 2^30 bytes, ns."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from pyxsim.compat.astra.files.blocks import BLOCKS, dimension, flit_setting
from pyxsim.file_entries import PathLike
from pyxsim.flat_yaml import Yaml

_NO_TIME = Fraction(1, 10**20)  # ns: a link needs a latency; below the resolution of ASTRA-sim's doubles


def yaml_tables(path: PathLike) -> tuple[dict[str, Any], int]:
    """Return the table [network] of a file, and the number of dimensions. Raises InputError."""
    file = Yaml(path)
    if isinstance(file.raw("topology", ""), str) and file.given("topology"):
        blocks = [file.choice("topology", BLOCKS)]  # one dimension, as in version 1 over this network
    else:
        blocks = file.words("topology", BLOCKS)
    dims = len(blocks) or None
    npus = file.counts("npus_count", dims, least=2)
    bandwidth = file.numbers("bandwidth", dims, above=True)
    latency = [number or _NO_TIME for number in file.numbers("latency", dims)]
    file.finish()
    rows = zip(blocks, npus, bandwidth, latency, strict=True)
    dims_tables = [dimension(*row) for row in rows]
    return {"dims": dims_tables, "clock": "1 GHz", **flit_setting(dims_tables)}, len(blocks)
