"""Routing traces: which experts the tokens of a real run went to.

JSON lines have the experts of one token in one layer (`layer` or `layer_index`, `experts` or `expert_ids`), or a list
`routing` of such entries, as SimLLM's traces do; other lines (headers, requests) are ignored. A CSV table has a row per
source and expert: `expert`, `tokens`, and optionally `layer` and `source`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.errors import InputError
from pyxsim.textfile import csv_rows, json_objects

MOST_ENTRIES = 2**22  # tokens times layers, or rows of a table
_LAYER, _EXPERTS = ("layer", "layer_index"), ("experts", "expert_ids")
_COLUMNS = ("layer", "source", "expert", "tokens")


@dataclass(frozen=True)
class RoutingTrace:
    """What a file tells: by layer, the experts of its tokens, int64[tokens, top_k], or counts, int64[sources, experts].

    Layers, tokens and sources that a file does not have repeat those that it has.
    """

    tokens: tuple[IntArray, ...] = ()
    shares: tuple[IntArray, ...] = ()

    def counts(self, tokens: IntArray, layer: int, step: int, experts: int, top_k: int) -> IntArray:
        """Return the tokens that each source sends to each expert, int64[sources, experts]."""
        if self.shares:
            table = self.shares[layer % len(self.shares)]
            rows = [_apportioned(table[at % len(table)], count, top_k) for at, count in enumerate(tokens.tolist())]
            return np.array(rows, np.int64).reshape(len(tokens), experts)
        known = self.tokens[layer % len(self.tokens)]
        ends = np.cumsum(tokens) + step * int(tokens.sum())
        counts = np.zeros((len(tokens), experts), np.int64)
        for at, (count, end) in enumerate(zip(tokens.tolist(), ends.tolist(), strict=True)):
            mine = known[np.arange(end - count, end) % len(known)]
            counts[at] = np.bincount(mine.ravel(), minlength=experts)
        return counts


def read_routing(path: Path, experts: int, top_k: int) -> RoutingTrace:
    """Read a routing trace of a model with `experts` experts, `top_k` for each token. Raises InputError."""
    if path.suffix == ".csv":
        return _table(path, experts)
    if path.suffix not in (".jsonl", ".json"):
        allowed = "a routing trace (.jsonl) or a table of counts (.csv)"
        raise InputError("unknown format of a routing trace", file=str(path), allowed=allowed)
    layers: dict[int, list[tuple[int, ...]]] = {}
    for total, (place, layer, chosen) in enumerate(_entries(path), 1):
        if len(chosen) != top_k or len(set(chosen)) < top_k or not all(0 <= one < experts for one in chosen):
            problem = f"a token goes to the experts {list(chosen)[:9]}"
            raise InputError(problem, file=place, allowed=f"{top_k} different experts from 0 to {experts - 1}")
        layers.setdefault(layer, []).append(chosen)
        if total > MOST_ENTRIES:
            raise InputError("too many entries", file=place, allowed=f"{MOST_ENTRIES} tokens of layers")
    if not layers:
        raise InputError("has no tokens", file=str(path), allowed='lines with "layer" and "experts", or "routing"')
    return RoutingTrace(tokens=tuple(np.array(layers[layer], np.int64) for layer in sorted(layers)))


def _entries(path: Path) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    """Yield the place, layer and experts of each token."""
    for place, row in json_objects(path, "a routing trace", '{"layer": 0, "experts": [3, 5]}'):
        rows = row.get("routing", [row])
        for entry in rows if isinstance(rows, list) else [rows]:
            found = _entry(entry)
            if found is not None:
                yield place, *found
            elif entry is not row:
                allowed = '{"layer_index": 0, "expert_ids": [3, 5]}'
                raise InputError("an entry of `routing` has no layer or no experts", file=place, allowed=allowed)


def _entry(entry: Any) -> tuple[int, tuple[int, ...]] | None:
    """The layer and experts of an entry; None if it has none."""
    if not isinstance(entry, dict):
        return None
    layer = next((entry[key] for key in _LAYER if key in entry), None)
    chosen = next((entry[key] for key in _EXPERTS if key in entry), None)
    if type(layer) is not int or not isinstance(chosen, list) or not all(type(one) is int for one in chosen):
        return None
    return layer, tuple(cast(list[int], chosen))


def _table(path: Path, experts: int) -> RoutingTrace:
    """Counts by layer and source from a CSV file with a header."""
    header, rows = csv_rows(path, "a table of counts")
    if not {"expert", "tokens"} <= set(header) <= set(_COLUMNS):
        problem = f"the columns are {', '.join(header)[:80] or 'missing'}"
        raise InputError(problem, file=f"{path}:1", allowed=", ".join(_COLUMNS))
    found: dict[tuple[int, int], IntArray] = {}
    for number, (place, row) in enumerate(rows, 1):
        try:
            values = dict(zip(header, map(int, row), strict=True))
        except ValueError:
            raise InputError(f"'{','.join(row)[:40]}' is not a row of counts", file=place) from None
        if number > MOST_ENTRIES or not (0 <= values["expert"] < experts and 0 <= values["tokens"] < 2**40):
            problem = f"expert {values['expert']} with {values['tokens']} tokens"
            raise InputError(problem, file=place, allowed=f"experts 0 to {experts - 1}, tokens of 0 or more")
        key = values.get("layer", 0), values.get("source", 0)
        found.setdefault(key, np.zeros(experts, np.int64))[values["expert"]] += values["tokens"]
    layers = sorted({layer for layer, _ in found})
    shares = tuple(np.array([counts for key, counts in sorted(found.items()) if key[0] == layer]) for layer in layers)
    if not shares or any((table.sum(axis=1) == 0).any() for table in shares):
        raise InputError("a source has no tokens", file=str(path), allowed="at least one token for each source")
    return RoutingTrace(shares=shares)


def _apportioned(weights: IntArray, tokens: int, top_k: int) -> IntArray:
    """`top_k` copies of some tokens in proportion to weights, at most one copy of a token for each expert.

    By largest remainders: exact where the weights are the counts themselves.
    """
    counts, left = np.zeros(len(weights), np.int64), tokens * top_k
    free = weights > 0
    while left:
        if not free.any():  # as few experts as this have no counts: the others take the rest
            free = counts < tokens
            weights = np.where(free, 1, 0)
        share = weights * free
        exact = left * share / share.sum()
        wanted = np.minimum(np.floor(exact).astype(np.int64), tokens - counts)
        if not wanted.any():
            order = np.argsort(-(exact - np.floor(exact)), kind="stable")
            wanted[[at for at in order.tolist() if free[at]][:left]] = 1
        counts += wanted
        left -= int(wanted.sum())
        free &= counts < tokens
    return counts
