"""Groups of ranks that communicate, from a JSON file, {"1": [0, 1], "2": [2, 3]}, or from a trace.

A node names its group in its attribute `pg_name`; "" and "0" mean all ranks.
"""

from __future__ import annotations

import json
import re
from os import PathLike
from pathlib import Path
from typing import Any

from pyxsim.errors import InputError, raise_all
from pyxsim.textfile import read_text

ALL = ("", "0")  # names of the group of all ranks
_ALLOWED = '{"1": [ranks], "2": [ranks], ...}'


def read_groups(path: str | PathLike[str], ranks: int | None = None) -> dict[str, tuple[int, ...]]:
    """Return the ranks of each group, in the order of the file. `ranks`: number of ranks. Raises InputError."""
    file = str(path)
    try:
        pairs = json.loads(read_text(path, "the groups"), object_pairs_hook=_Pairs)
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        problem = str(error) if isinstance(error, json.JSONDecodeError) else "a number is too long, or it is too deep"
        raise InputError(f"not valid JSON: {problem}", file=file, allowed=_ALLOWED) from error
    if not isinstance(pairs, _Pairs):
        raise InputError("has no object", file=file, allowed=_ALLOWED)
    groups: dict[str, tuple[int, ...]] = {}
    faults = []
    for name, members in pairs:
        if name in groups:
            faults.append(InputError("occurs twice", file=file, key=name))
        elif not re.fullmatch(r"[1-9]\d{0,17}", name, re.ASCII):
            faults.append(InputError("is not a group number", file=file, key=name, allowed="1, 2, 3, ..."))
        elif (fault := wrong_members(members, ranks)) is not None:
            faults.append(fault.at(file=file, key=name))
        else:
            groups[name] = tuple(members)
    raise_all(faults)
    return groups


def groups_beside(name: str | PathLike[str]) -> Path | None:
    """Return the file of groups beside traces, PREFIX.groups.json, as pyxsim writes it; None if there is none.

    `name`: PREFIX.*.et, PREFIX or a trace.
    """
    folder, stem = Path(name).parent, Path(name).name
    prefixes = [stem, stem.split(".*")[0], ".".join(stem.removesuffix(".gz").split(".")[:-2])]
    return next((file for prefix in prefixes if (file := folder / f"{prefix}.groups.json").is_file()), None)


class _Pairs(list[tuple[str, Any]]):
    """An object of JSON, in which a name may occur twice."""


def wrong_members(members: Any, ranks: int | None) -> InputError | None:
    """The fault of a list of ranks; None for a valid one."""
    most = "a number from 0" if ranks is None else f"0 to {ranks - 1}"
    if not isinstance(members, list) or isinstance(members, _Pairs) or not members:
        return InputError("is not a list of ranks", allowed=f"a list of different ranks, each {most}")
    seen = set()
    for rank in members:
        if not isinstance(rank, int) or isinstance(rank, bool) or rank < 0 or (ranks is not None and rank >= ranks):
            return InputError(f"has rank {json.dumps(rank)[:40]}", allowed=most)
        if rank in seen:
            return InputError(f"has rank {rank} twice", allowed="each rank once")
        seen.add(rank)
    return None


def process_groups(values: str) -> dict[str, Any]:
    """Return the process groups of PyTorch that its trace converter puts into the inputs of a metadata node.

    `values` is a string such as [{"pg_name": "1", "ranks": [0, 1]}, ...]. The ranks are not checked; an empty list
    means all ranks. Other metadata have no groups.
    """
    try:
        return {str(int(load["pg_name"])): load["ranks"] for load in json.loads(values[2:-2])}
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}
