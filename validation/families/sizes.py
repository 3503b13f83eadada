"""Extreme sizes: one byte, odd ones, and 5 GiB, which exceeds 32 bits: right, or refused."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod
from typing import Any

from pyxsim.collective.bounds import sent_bytes
from pyxsim.collective.plan import make_plan
from pyxsim.collective.plan_checker import prove_plan
from pyxsim.errors import InputError
from pyxsim.runner.lifecycle import run
from validation.case import Case, Found, Picture, Series, exact
from validation.machines import Tables, simulated

GIB = 2**30
HUGE = 5 * GIB
SIZES = (1, 3, 1021, 1_000_003, HUGE - 1, HUGE, HUGE + 1)
MOST_PROVED = 3  # bytes
SHAPES = ((7,), (4, 4, 4), (2, 3, 5))
# Each byte is reduced, or forwarded, in one message for each other NPU; shards are gathered from all NPUs.
CROSSINGS = {"all-reduce": 2, "reduce-scatter": 1, "all-gather": 1}
SOURCE = "docs/collectives.md"


def wanted(kind: str, size: int, npus: int) -> int:
    """Bytes that all NPUs send, for any size."""
    return CROSSINGS[kind] * (npus - 1) * size * (npus if kind == "all-gather" else 1)


def torus(shape: tuple[int, ...], size: int, kind: str, **system: Any) -> Tables:
    return {
        "network": {"topology": "torus", "shape": list(shape), "bandwidth": "100 GB/s"},
        "system": {kind.replace("-", "_"): "ring", **system},
        "collective": {"kind": kind, "size": f"{size} B"},
    }


def delivered(chunks: int) -> Found:
    """On the analytical backend."""
    pairs: list[tuple[float, float]] = []
    for kind in CROSSINGS:
        for shape in SHAPES:
            for size in SIZES:
                result = simulated(torus(shape, size, kind, chunks=chunks), "analytical")
                pairs.append((wanted(kind, size, prod(shape)), result.counts["bytes_delivered"]))
    return _found(pairs)


def planned() -> Found:
    """As plans; the small ones carry data."""
    pairs: list[tuple[float, float]] = []
    for kind in CROSSINGS:
        for shape in SHAPES:
            for size in SIZES:
                plan = make_plan(kind, size, shape, "ring")
                if size <= MOST_PROVED:
                    prove_plan(plan)
                pairs.append((wanted(kind, size, prod(shape)), int(sent_bytes(plan).sum())))
    return _found(pairs)


def _found(pairs: list[tuple[float, float]]) -> Found:
    worst, picture = exact(pairs, "bytes")
    told = {"sizes": f"1 B to {HUGE + 1:,} B", "runs": str(len(pairs))}
    return Found(worst, Picture(picture.x, picture.y, picture.series, log=True), told)


# Inputs on which the original fails: NPUs on a ring, bytes, settings, and words of the refusal.
DEADLY: tuple[tuple[int, int, dict[str, Any], str], ...] = (
    (4, HUGE, {"compat": "astra-sim-1", "all_reduce": "ring"}, "does not fit into the 32 bits"),
    (4, 3, {"compat": "astra-sim-1", "all_reduce": "ring", "chunks": 4}, "chunks of 0 bytes forever"),
    (6, GIB, {"compat": "astra-sim-2", "all_reduce": "halving-doubling"}, "never ends"),
    (6, GIB, {"compat": "astra-sim-2", "all_reduce": "double-binary-tree"}, "crashes"),
    (4, GIB, {"compat": "astra-sim-2", "all_reduce": "ring", "endpoint_delay": "0 ns"}, "assertion"),
)


def refused() -> Found:
    """Count the inputs that run, or are refused for another reason."""
    faults = 0
    for npus, size, system, reason in DEADLY:
        told = {"endpoint_delay": "10 ns", **system}
        try:
            run(torus((npus,), size, "all-reduce", **told), backend="analytical")
        except InputError as error:
            faults += reason not in str(error)
        else:
            faults += 1
    picture = Picture("", "refused", [Series("pyxsim", [0], [len(DEADLY) - faults], "points")])
    return Found(faults, picture, {"sizes": "3 B to 5 GiB", "runs": str(len(DEADLY))})


def cases() -> Iterator[Case]:
    claim = "The bytes of all-reduce, reduce-scatter and all-gather equal the closed form exactly, up to 5 GiB"
    for chunks in (1, 7):
        run_it = partial(delivered, chunks)
        yield Case(f"sizes/analytical-{chunks}-chunks", f"{claim}, as delivered", SOURCE, 0, "bytes", run_it, 5)
    yield Case("sizes/plans", f"{claim}, as planned", SOURCE, 0, "bytes", planned, 5)
    claim = "With compat, inputs on which the original fails are rejected with the reason for its failure"
    source = "measurements with ASTRA-sim 1 and 2"
    yield Case("sizes/refused", claim, source, 0, "not rejected", refused, 1)


FAMILY = ("sizes", "The smallest and the largest sizes", ("sizes", "runs"), cases)
