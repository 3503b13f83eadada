"""ASTRA-sim's names of keys in [system], and the conversion of their values from ASTRA-sim's system files.

    preferred-dataset-splits = 4        chunks = 4
    endpoint-delay = 10                 endpoint_delay = "10 ns"
    all-reduce-implementation = "ring_direct4"      all_reduce = ["ring", "direct:4"]

Values in pyxsim's form are accepted as they are. [system] accepts both names with any `compat`, so this file is not in
the wing pyxsim/compat/astra/. renamed.py has pyxsim's own former names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from pyxsim.errors import InputError
from pyxsim.settings.algorithms import KINDS, algorithm_key

# ASTRA-sim's names for orders of dimensions and of queues; some have two.
DIMENSION_ORDERS = {
    "ascending": "ascending",
    "baseline": "ascending",
    "roundRobin": "round-robin",
    "offlineGreedy": "themis",
    "themis": "themis",
    "offlineGreedyFlex": "themis-flex",
    "themisFlex": "themis-flex",
}
QUEUE_ORDERS = {
    "FIFO": "FIFO",
    "RG": "RG",
    "smallestFirst": "smallest-first",
    "SCF": "smallest-first",
    "lessRemainingPhaseFirst": "fewest-phases-first",
}
Reader = Callable[[Any], Any]
TABLE = "system"


def _same(value: Any) -> Any:
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _nanoseconds(value: Any) -> Any:
    return f"{value} ns" if _is_number(value) else value


def _memory(value: Any) -> Any:
    """GB/s; 0 means no memory time."""
    if value == 0 and _is_number(value):
        return None
    return f"{value} GB/s" if _is_number(value) else value


def _flag(value: Any) -> Any:
    return bool(value) if value in (0, 1) else value


def _joined(value: Any) -> Any:
    """Names of algorithms: a list, or a text joined by "_"."""
    return value.split("_") if isinstance(value, str) and "_" in value else value


def _traces(value: Any) -> Any:
    """The prefix of Chakra traces, one file per rank."""
    if isinstance(value, list | tuple) and len(value) == 1:
        (value,) = value
    return f"{value}.*.et" if isinstance(value, str) else value


SPELLINGS: dict[str, tuple[str, Reader]] = {
    "preferred-dataset-splits": ("chunks", _same),
    "active-chunks-per-dimension": ("active_chunks", _same),
    "scheduling-policy": ("scheduling", _same),
    "collective-optimization": ("optimization", _same),
    "intra-dimension-scheduling": ("intra_dimension", _same),
    "inter-dimension-scheduling": ("inter_dimension", _same),
    "num-queues-per-dim": ("queues", _same),
    "endpoint-delay": ("endpoint_delay", _nanoseconds),
    "local-mem-bw": ("local_memory_bandwidth", _memory),
    "boost-mode": ("boost", _flag),
    **{f"{kind}-implementation": (algorithm_key(kind), _joined) for kind in KINDS},
    **{f"{kind}-implementation-custom": (algorithm_key(kind), _traces) for kind in KINDS},
}


def respell(data: dict[str, Any], renamed: dict[str, str]) -> list[InputError]:
    """Rename the keys of [system] to pyxsim's names, in place.

    Parameters
    ----------
    data
        Tables of an experiment.
    renamed
        Gets the new key path of each renamed key, with the original one.

    Returns
    -------
    list of InputError
        One for each key that is given under two names.
    """
    table = data.get(TABLE)
    if not isinstance(table, dict):
        return []
    faults = []
    for spelled in [key for key in table if key in SPELLINGS]:
        key, read = SPELLINGS[spelled]
        value = read(table.pop(spelled))
        if key in table:
            faults.append(
                InputError(
                    f"same setting as `{_written(key, renamed)}`", key=f"{TABLE}.{spelled}", allowed="one of them"
                )
            )
            continue
        table[key] = value
        renamed[f"{TABLE}.{key}"] = f"{TABLE}.{spelled}"
    return faults


def of_system_file(path: str) -> str:
    """Convert a key path of [system] to the key of a system file: all_reduce[1] -> all-reduce-implementation[1]."""
    match = re.fullmatch(rf"{TABLE}\.(\w+)(.*)", path)
    if match is None:
        return path
    spelled = next((spelled for spelled, (own, _) in SPELLINGS.items() if own == match[1]), None)
    return path if spelled is None else spelled + match[2]


def _written(key: str, renamed: dict[str, str]) -> str:
    return renamed.get(f"{TABLE}.{key}", key).removeprefix(f"{TABLE}.")


def as_written(path: str, renamed: Mapping[str, str]) -> str:
    """Return a key path as the user wrote it."""
    for own, spelled in renamed.items():
        if path == own or path.startswith((f"{own}.", f"{own}[")):
            return spelled + path.removeprefix(own)
    return path
