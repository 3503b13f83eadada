"""The time of a forest, or of paths, on the links that their messages cross."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.collective.custom.forest import Forest
from pyxsim.collective.custom.paths import Paths
from pyxsim.synthesis.link_graph import LinkGraph


def link_units(graph: LinkGraph, plan: Forest | Paths, kind: str = "all-gather") -> IntArray:
    """int64[links]: the units that each link carries in a phase of the kind."""
    parent, child, weight = plan.edge_units(kind)
    n = graph.npus
    load = np.bincount(parent.astype(np.int64) * n + child, weights=weight, minlength=0)
    used = np.flatnonzero(load)
    src, dst, route = graph.pairs
    key = src * n + dst
    order = np.argsort(key)
    place = order[np.minimum(np.searchsorted(key[order], used), len(key) - 1)]
    if (key[place] != used).any():
        raise ValueError("an edge is not between adjacent NPUs")
    links = np.zeros(len(graph.src), np.int64)
    for hop in route[place].T:
        there = hop >= 0
        np.add.at(links, hop[there], load[used][there].astype(np.int64))
    return links


def paths_time(graph: LinkGraph, paths: Paths) -> Fraction:
    """Return the time of the busiest link, for data of 1 at every NPU, equally much for each."""
    return _time(graph, link_units(graph, paths, "all-to-all"), Fraction(paths.units * paths.n))


def forest_time(graph: LinkGraph, forest: Forest, kind: str) -> Fraction:
    """Return the time of the busiest link, of all phases in turn, for data of 1 at every NPU at link rates in units.

    Without latencies, and without the time until the first data arrive.
    """
    phases = ("reduce-scatter", "all-gather") if kind == "all-reduce" and forest.up is None else (kind,)
    total = Fraction(0)
    per = Fraction(forest.units)
    if kind == "all-to-all":
        per *= forest.n
    if forest.up is not None:
        per /= forest.n
    for phase in phases:
        total += _time(graph, link_units(graph, forest, phase), per)
    return total


def plan_time(graph: LinkGraph, plan: Forest | Paths, kind: str) -> Fraction:
    """Return the time of the busiest link; see `forest_time` and `paths_time`."""
    return paths_time(graph, plan) if isinstance(plan, Paths) else forest_time(graph, plan, kind)


def _time(graph: LinkGraph, units: IntArray, per: Fraction) -> Fraction:
    rates = graph.rate.tolist()
    return max(Fraction(int(load), rate * per) for load, rate in zip(units.tolist(), rates, strict=True) if rate)
