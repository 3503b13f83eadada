"""The network JSON of ASTRA-sim 1's analytical backend ("Hierarchical") as a table [network].

Units: GB/s of 2^30 bytes, ns; the bandwidth of the memory in bytes per ns. A message has all links of its NPU that lead
its way at once: those of both directions of a ring, those that a pair of NPUs has, those to the switch. They count as
one link here, as wide as all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from pyxsim.compat.astra.files.blocks import BLOCKS, dimension, time
from pyxsim.compat.astra.files.json_file import Json
from pyxsim.file_entries import PathLike

_MEMORY = {"latency": 0, "bandwidth": 1, "scale": 0}
_PLACES = {name: name for name in ("T", "N", "P", "PP")}  # tile, node, package, pod: what links cost in $


class Hierarchy(NamedTuple):
    """What such a file says of its dimensions, a value for each."""

    blocks: list[str]
    units: list[int]
    links: list[int]
    latency: list[Fraction]
    bandwidth: list[Fraction]
    places: list[str]
    extra: dict[str, list[Fraction]]
    memory: dict[str, list[Fraction]]


def hierarchy(path: PathLike, given: Mapping[str, str] | None = None) -> Hierarchy:
    """What is in such a file. Raises InputError. `given`: see hierarchical_tables."""
    file = Json(path)
    for key, words in (given or {}).items():
        file.replace(key, words.split(","), f"--{key}")
    # What may be left out is so since the tutorial of 2023.
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
            file.fault("dimension-type", "pods are joined by switches only, as there", "T, N or P where no Switch is")
    scale = memory["scale"]
    if any(scale) and not all(width for width, factor in zip(memory["bandwidth"], scale, strict=False) if factor):
        file.fault("hbm-bandwidth", "is 0 where hbm-scale is not", "a number above 0")
    if file.sound("topologies-per-dim", "units-count", "links-count", "dimensions-count"):
        for dim, (block, npus, count) in enumerate(zip(blocks, units, links, strict=True)):
            if not _together(block, npus, count):
                file.fault("links-count", f"{count} are too few for dimension {dim}", _NEEDED[block])
    file.finish()
    return Hierarchy(blocks, units, links, latency, bandwidth, places, extra, memory)


def hierarchical_tables(path: PathLike, given: Mapping[str, str] | None = None) -> tuple[dict[str, Any], int]:
    """The table [network] for such a file, and the number of dimensions. Raises InputError.

    `given`: lists of numbers of the command line, with commas, in place of those of the file.
    """
    of = hierarchy(path, given)
    rows = zip(of.blocks, of.units, of.links, of.bandwidth, of.latency, strict=True)
    table: dict[str, Any] = {
        "dims": [
            dimension(block, npus, width * _together(block, npus, count), late)
            for block, npus, count, width, late in rows
        ],
        "clock": "1 GHz",
    }
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


def _together(block: str, npus: int, links: int) -> int:
    """How many of an NPU's links one message has."""
    if block == "ring":
        return links // 2 * 2
    return links // max(1, npus - 1) if block == "fully-connected" else links
