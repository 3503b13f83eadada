"""The cost of a network of ASTRA-sim 1's analytical backend, by its list of prices."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, prod

from pyxsim.compat.astra.files.hierarchical import hierarchy
from pyxsim.file_entries import PathLike

# Dollars: a 50 GB/s link between packages, one within a package, a switch of 40 ports, a 50 GB/s network card.
_LINK, _TILE_LINK, _SWITCH, _CARD = 100.0, 50.0, 23_698, 1_200
_RATE, _PORTS = 50.0, 40


def network_cost(path: PathLike, given: Mapping[str, str]) -> float:
    """Return the cost of a network in dollars. Raises InputError."""
    of = hierarchy(path, given)
    npus, links, tiles, switches, cards = prod(of.units), 0.0, 0.0, 0, 0
    upto = 1
    for dim, (block, units, count) in enumerate(zip(of.blocks, of.units, of.links, strict=True)):
        upto *= units
        rate, place = float(of.bandwidth[dim]), of.places[dim]
        if block == "switch" and place == "PP":
            # A card and a link per 50 GB/s of a package, which is the first dimension.
            each = ceil(of.units[0] * rate * count / _RATE)
            uplinks = each * (upto // of.units[0])
            links, cards, switches = links + _LINK * uplinks, cards + uplinks, switches + ceil(uplinks / _PORTS)
            continue
        if block == "ring":
            many = npus // units * units * (count // 2)
        elif block == "switch":
            many = upto * count
            switches += ceil(many / _PORTS)
        else:
            many = npus // units * (units * (units - 1) // 2) * (count // (units - 1))
        if place != "T":
            links += rate / _RATE * _LINK * many
        else:  # for other blocks than rings ASTRA-sim uses a rate of -1
            tiles += (rate if block == "ring" else -1.0) / _RATE * _TILE_LINK * many
    return tiles + links + switches * _SWITCH + cards * _CARD
