"""Where runs over Garnet are known to differ from ASTRA-sim 1: refused, or said with the measured difference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyxsim.errors import InputError
from pyxsim.file_entries import PathLike
from pyxsim.settings.algorithms import algorithm_key
from pyxsim.units import parse_bytes


def check_order(system: Mapping[str, Any], file: PathLike) -> None:
    """Raise InputError for orders of chunks with which runs are known to differ."""
    greedy = str(system.get("inter_dimension", "")).startswith("themis")
    if greedy and system.get("intra_dimension") == "smallest-first":
        raise InputError(
            f"smallestFirst with {system['inter_dimension']} ends over Garnet with chunks in another order than in "
            "ASTRA-sim, and 5.4 % apart in the measured run",
            file=str(file),
            key="intra-dimension-scheduling",
            allowed="FIFO, or a network JSON, where both agree",
        )


def crowded(network: Mapping[str, Any], system: Mapping[str, Any], largest: Mapping[str, int]) -> list[str]:
    """Return warnings of rings on which more packets travel several hops than there are VCs.

    `largest`: bytes of the largest collective of each kind.
    """
    if network["topology"] != "garnet-torus":
        return []
    vcs, packet, warnings = network["router"]["vcs"], parse_bytes(network["packet"]), []
    for kind, size in sorted(largest.items()):
        names = system.get(algorithm_key(kind)) or ()
        names = [names] * len(network["shape"]) if isinstance(names, str) else names
        for npus, name in zip(network["shape"], names, strict=False):
            if not name.startswith("direct") or npus < 3:
                continue
            window = min(int(name.partition(":")[2] or npus), npus - 1)
            chunk = size // system["chunks"]
            message = chunk if kind == "all-gather" else chunk // npus
            packets = -(-message // packet) * window * (window + 1) // 2
            if window > 1 and packets > vcs:
                warnings.append(
                    f"{kind} by {name} on a ring of {npus}: up to {packets} packets share {vcs} VCs over several hops; "
                    "ASTRA-sim over Garnet may free VCs in another order (measured: 1.3 % apart)"
                )
    return warnings
