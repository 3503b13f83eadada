"""The network JSON of ASTRA-sim 1's analytical backend ("Hierarchical") as a table [network].

Units: GB/s of 2^30 bytes, ns; the bandwidth of the memory in bytes per ns. A message has all links of its NPU that lead
its way at once: those of both directions of a ring, those that a pair of NPUs has, those to the switch. They count as
one link here, as wide as all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyxsim.study.astra.blocks import BLOCKS, dimension, time
from pyxsim.study.astra.entries import PathLike
from pyxsim.study.astra.json_file import Json

_PLACES = {name: name for name in ("T", "N", "P", "PP")}  # tile, node, package, pod: what links cost in $


def hierarchical_tables(path: PathLike, given: Mapping[str, str] | None = None) -> tuple[dict[str, Any], int]:
    """The table [network] for such a file, and the number of dimensions. Raises InputError.

    `given`: lists of numbers of the command line, with commas, in place of those of the file.
    """
    file = Json(path)
    for key, words in (given or {}).items():
        file.replace(key, words.split(","), f"--{key}")
    file.choice("topology-name", {"Hierarchical": True})
    dims = file.count("dimensions-count")
    blocks = file.words("topologies-per-dim", BLOCKS, dims)
    units = file.counts("units-count", dims)
    links = file.counts("links-count", dims)
    latency = file.numbers("link-latency", dims, above=True)
    bandwidth = file.numbers("link-bandwidth", dims, above=True)
    nic, router = file.numbers("nic-latency", dims), file.numbers("router-latency", dims)
    memory = file.numbers("hbm-latency", dims)
    memory_width = file.numbers("hbm-bandwidth", dims)
    scale = file.numbers("hbm-scale", dims)
    places = file.words("dimension-type", _PLACES, dims) if file.given("dimension-type") else []
    for block, place in zip(blocks, places, strict=False):
        if place == "PP" and block not in (None, "switch"):
            file.fault("dimension-type", "pods are joined by switches only, as there", "T, N or P where no Switch is")
    if any(scale) and not all(width for width, factor in zip(memory_width, scale, strict=False) if factor):
        file.fault("hbm-bandwidth", "is 0 where hbm-scale is not", "a number above 0")
    if file.sound("topologies-per-dim", "units-count", "links-count", "dimensions-count"):
        for dim, (block, npus, count) in enumerate(zip(blocks, units, links, strict=True)):
            if not _together(block, npus, count):
                file.fault("links-count", f"{count} are too few for dimension {dim}", _NEEDED[block])
    file.finish()
    rows = zip(blocks, units, links, bandwidth, latency, strict=True)
    table: dict[str, Any] = {
        "dims": [
            dimension(block, npus, width * _together(block, npus, count), late)
            for block, npus, count, width, late in rows
        ],
        "clock": "1 GHz",
    }
    extra = {"nic_latency": nic, "router_latency": router}
    summands: dict[str, Any] = {key: [time(value) for value in values] for key, values in extra.items() if any(values)}
    if any(scale):
        summands["hbm_latency"] = [time(value) for value in memory]
        summands["hbm_bandwidth"] = [f"{width or 1} GB/s" for width in memory_width]
        summands["hbm_scale"] = [str(factor) for factor in scale]
    if summands:
        table["analytical"] = summands
    return table, dims


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
