"""The system text of ASTRA-sim 1 as a table [system]. Delays are in cycles of 1 ns."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pyxsim.compat.astra.files.algorithms import algorithms
from pyxsim.compat.astra.files.text import Text
from pyxsim.file_entries import MANY, PathLike
from pyxsim.settings.algorithms import ASTRA_KINDS
from pyxsim.settings.spelling import DIMENSION_ORDERS, QUEUE_ORDERS

REDUCTION = 30  # cycles: a write and two reads of 10 each where no memory model is attached (Sys.cc of version 1)
_OPTIMIZATIONS = {name: name for name in ("baseline", "localBWAware")}
# Keys of the version of 2020, which has a different system layer.
_OF_2020 = {
    "collective-implementation": "all-reduce-implementation and the like",
    "direct-collective-window": "a window in the name of the algorithm, such as direct4",
    "packet-routing": "to leave it out: the algorithm decides the route of messages",
    "injection-policy": "to leave it out: the algorithm decides how many messages are in flight",
}


def text_system(
    path: PathLike, dims: int | None = None, kinds: Collection[str] = ()
) -> tuple[dict[str, Any], list[str]]:
    """Return the table [system] of a system text, and warnings. Raises InputError.

    `dims`: of the network, if known; `kinds`: kinds of collectives that the algorithms must support.
    """
    text = Text(path)
    table: dict[str, Any] = {
        "compat": "astra-sim-1",
        "scheduling": text.choice("scheduling-policy", {"LIFO": "LIFO", "FIFO": "FIFO"}),
        "endpoint_delay": f"{text.count('endpoint-delay', 10, least=0)} ns",
        "reduction_delay": f"{REDUCTION} ns",
        "active_chunks": text.count("active-chunks-per-dimension", 1, most=MANY),
        "chunks": text.count("preferred-dataset-splits", 1, most=MANY),
        "optimization": text.choice("collective-optimization", _OPTIMIZATIONS, "baseline"),
        "intra_dimension": text.choice("intra-dimension-scheduling", QUEUE_ORDERS, "FIFO"),
        "inter_dimension": text.choice("inter-dimension-scheduling", DIMENSION_ORDERS, "ascending"),
    }
    for kind in ASTRA_KINDS:
        names = _algorithms(text, f"{kind}-implementation", dims, kind if kind in kinds else None)
        if names:
            table[kind.replace("-", "_")] = names[0] if len(names) == 1 else names
    if text.flag("boost-mode", False):
        table["boost"] = True
    bus = {name: f"{text.cut(name, 0)} ns" for name in ("L", "o", "g")}
    bus |= {"G": f"{text.number('G', 0)} ns", "reduction_delay": f"{text.cut('local-reduction-delay', 1)} ns"}
    if text.flag("model-shared-bus", False):
        # It replaces the endpoint delays.
        del table["endpoint_delay"], table["reduction_delay"]
        table["shared_bus"] = bus
    text.flag("seprate-log", True)  # results are in one file
    for key, instead in _OF_2020.items():
        text.refuse(key, "belongs to the version of 2020, which has a different system layer", instead)
    text.finish()
    return table, text.warnings


def _algorithms(text: Text, key: str, dims: int | None, kind: str | None) -> list[str] | None:
    word = text.raw(key, "")
    return algorithms(text, key, word.split("_"), dims, kind) if word else None
