"""The time of a forest on the links that its messages cross."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.collective.custom.forest import Forest
from pyxsim.synthesis.link_graph import LinkGraph


def link_units(graph: LinkGraph, forest: Forest, kind: str = "all-gather") -> IntArray:
    """int64[links]: the units that each link carries in a phase of the kind, of all-reduce trees in both directions.

    An all-to-all carries, on an edge, the blocks of all ranks below it.
    """
    tree, parent, child = forest.edges
    weight = forest.count[tree].astype(np.int64)
    if kind == "all-to-all":
        weight *= forest.below()[tree, child]
    if kind == "reduce-scatter":
        parent, child = child, parent
    if forest.up is not None:
        parent, child, weight = np.append(parent, child), np.append(child, parent), np.append(weight, weight)
    n = graph.npus
    load = np.bincount(parent.astype(np.int64) * n + child, weights=weight, minlength=0)
    used = np.flatnonzero(load)
    src, dst, route = graph.pairs
    key = src * n + dst
    order = np.argsort(key)
    place = order[np.minimum(np.searchsorted(key[order], used), len(key) - 1)]
    if (key[place] != used).any():
        raise ValueError("an edge of the forest is not between adjacent NPUs")
    links = np.zeros(len(graph.src), np.int64)
    for hop in route[place].T:
        there = hop >= 0
        np.add.at(links, hop[there], load[used][there].astype(np.int64))
    return links


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
        units = link_units(graph, forest, phase)
        rates = graph.rate.tolist()
        total += max(Fraction(int(load), rate * per) for load, rate in zip(units.tolist(), rates, strict=True) if rate)
    return total
