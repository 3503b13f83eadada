"""Small, fast networks for any number of NPUs, and experiments on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyxsim.results.result import Result
from pyxsim.runner.lifecycle import run
from validation.case import not_too_fast

Tables = dict[str, Any]
# A fast and simple machine: no claim depends on it.
WIRES: Tables = {"flit": "64 B", "packet": "1 KiB", "bandwidth": "64 GB/s", "latency": "3 cycles"}


def factors(n: int) -> tuple[int, int]:
    """Return the factors (smaller, larger) of n closest to a square; (1, n) for a prime."""
    small = max(f for f in range(1, int(n**0.5) + 1) if n % f == 0)
    return small, n // small


def networks(n: int) -> Iterator[Tables]:
    """Tables [network] of n NPUs with one dimension and, unless n is a prime, with several."""
    yield {"topology": "ring", "shape": [n]}
    yield {"topology": "ring", "shape": [n], "options": {"bidirectional": False}}
    yield {"topology": "mesh", "shape": [n]}
    yield {"topology": "switch", "shape": [n]}
    yield {"topology": "fully-connected", "shape": [n]}
    small, large = factors(n)
    if small == 1:
        return
    yield {"topology": "torus", "shape": [small, large]}
    yield {"topology": "mesh", "shape": [large, small]}
    yield {"dims": [{"block": "switch", "npus": large}, {"block": "ring", "npus": small}]}
    yield {"topology": "fat-tree", "options": {"children": [small, large], "parents": [2]}}
    yield {"topology": "leaf-spine", "options": {"npus": large, "leaves": small, "spines": 3}}
    yield {"topology": "dragonfly", "options": {"p": 1, "a": large, "h": 1, "g": small}}


def name_of(network: Tables) -> str:
    """Return the name of a network: its topology, or its blocks."""
    return str(network.get("topology") or " x ".join(dim["block"] for dim in network["dims"]))


def dimensions(network: Tables) -> int:
    """Return the number of dimensions that collectives see in a network."""
    return len(network.get("shape") or network.get("dims") or [0, 0])


def simulated(tables: Tables, backend: str = "packet") -> Result:
    """Return the result of an experiment, which must be complete and not faster than its links allow."""
    result = run(tables, backend=backend)
    not_too_fast(result)
    return result
