"""The network JSON of ASTRA-sim 1's analytical backend ("Hierarchical") as a table [network].

Units: GB/s of 2^30 bytes, ns; memory bandwidth in bytes per ns. A message uses all links of its NPU to the destination
at once: both directions of a ring, all links of a pair of NPUs, all links to the switch. They become one link with
their total bandwidth.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from pyxsim.compat.astra.files.blocks import BLOCKS, dimension, flit_setting, time
from pyxsim.compat.astra.files.json_file import Json
from pyxsim.file_entries import PathLike

_MEMORY = {"latency": 0, "bandwidth": 1, "scale": 0}
_PLACES = {name: name for name in ("T", "N", "P", "PP")}  # tile, node, package, pod: decides the cost of links


class Hierarchy(NamedTuple):
    """The contents of such a file: a value per dimension."""

    blocks: list[str]
    units: list[int]
    links: list[int]
    latency: list[Fraction]
    bandwidth: list[Fraction]
    places: list[str]
    extra: dict[str, list[Fraction]]
    memory: dict[str, list[Fraction]]


def hierarchy(path: PathLike, given: Mapping[str, str] | None = None) -> Hierarchy:
    """Read such a file. Raises InputError. `given`: see hierarchical_tables."""
    file = Json(path)
    for key, words in (given or {}).items():
        file.replace(key, words.split(","), f"--{key}")
    # Optional keys are those of the tutorial of 2023.
    file.choice("topology-name", {"Hierarchical": True}, "Hierarchical")
    dims = file.count("dimensions-count", 1)
    blocks = file.words("topologies-per-dim", BLOCKS, dims)
    units = file.counts("units-count", dims)
    links = file.counts("links-count", dims)
    latency = file.numbers("link-latency", dims, above=True)
    bandwidth = file.numbers("link-bandwidth", dims, above=True)
    extra = {f"{name}_latency": file.numbers(f"{name}-latency", dims, default=0) for name in ("nic", "router")}
    memory = {name: file.numbers(f"hbm-{name}", dims, default=number) for name, number in _MEMORY.items()}
    places = file.words("dimension-type", _PLACES, dims) if file.given("dimension-type") else ["N"] * dims
    for block, place in zip(blocks, places, strict=False):
        if place == "PP" and block not in (None, "switch"):
            file.fault(
                "dimension-type", "pods are connected by switches only, as in ASTRA-sim", "T, N or P where no Switch is"
            )
    scale = memory["scale"]
    if any(scale) and not all(width for width, factor in zip(memory["bandwidth"], scale, strict=False) if factor):
        file.fault("hbm-bandwidth", "is 0 where hbm-scale is not", "a number above 0")
    if file.is_valid("topologies-per-dim", "units-count", "links-count", "dimensions-count"):
        for dim, (block, npus, count) in enumerate(zip(blocks, units, links, strict=True)):
            if not _links_of_message(block, npus, count):
                file.fault("links-count", f"{count} links are too few for dimension {dim}", _NEEDED[block])
    file.finish()
    return Hierarchy(blocks, units, links, latency, bandwidth, places, extra, memory)


def hierarchical_tables(path: PathLike, given: Mapping[str, str] | None = None) -> tuple[dict[str, Any], int]:
    """Return the table [network] of a file, and the number of dimensions. Raises InputError.

    `given`: lists of numbers of the command line, separated by commas, that replace those of the file.
    """
    of = hierarchy(path, given)
    rows = zip(of.blocks, of.units, of.links, of.bandwidth, of.latency, strict=True)
    dims = [
        dimension(block, npus, width * _links_of_message(block, npus, count), late)
        for block, npus, count, width, late in rows
    ]
    table: dict[str, Any] = {"dims": dims, "clock": "1 GHz", **flit_setting(dims)}
    summands: dict[str, Any] = {
        key: [time(value) for value in values] for key, values in of.extra.items() if any(values)
    }
    if any(of.memory["scale"]):
        summands["hbm_latency"] = [time(value) for value in of.memory["latency"]]
        summands["hbm_bandwidth"] = [f"{width or 1} GB/s" for width in of.memory["bandwidth"]]
        summands["hbm_scale"] = [str(factor) for factor in of.memory["scale"]]
    if summands:
        table["analytical"] = summands
    return table, len(of.units)


_NEEDED = {
    "ring": "at least 2: a ring has links in pairs",
    "fully-connected": "at least one for each other NPU of the dimension",
    "switch": "at least 1",
}


def _links_of_message(block: str, npus: int, links: int) -> int:
    """Number of an NPU's links that one message uses."""
    if block == "ring":
        return links // 2 * 2
    return links // max(1, npus - 1) if block == "fully-connected" else links
