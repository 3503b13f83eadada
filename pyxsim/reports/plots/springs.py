"""Positions for drawings of arbitrary graphs: connected routers close together, none overlapping."""

from __future__ import annotations

import numpy as np

from pyxsim.routing.graph import FAR, Graph, distances
from pyxsim.topology import Topology
from pyxsim.topology.place import Points, circle

MOST = 400  # routers beyond which a circle is used
ROUNDS = 300


def springs(topology: Topology) -> Points:
    """Return positions whose distances approximate the hops between routers (stress; Kamada and Kawai 1989)."""
    count = topology.routers
    if not 3 <= count <= MOST:
        return circle(count)
    graph = Graph(count, np.arange(count, dtype=np.int32), topology.link_src, topology.link_dst, topology.link_name)
    away = distances(graph)
    hops = np.where(away >= FAR, away[away < FAR].max() + 1, away).astype(np.float64)
    hops = 1.6 * (hops + hops.T) / 2
    at = _start(hops)
    # Stress majorisation (Gansner, Koren and North 2004): each router moves to the mean position of its distances.
    weight = 1 / np.where(hops > 0, hops, np.inf) ** 2
    for _ in range(ROUNDS):
        apart = at[:, None] - at[None, :]
        length = np.hypot(apart[..., 0], apart[..., 1])
        pull = weight * hops / np.where(length > 0, length, np.inf)
        at = (weight @ at + (pull[..., None] * apart).sum(axis=1)) / weight.sum(axis=1)[:, None]
    return at / max(nearest(at), 0.35)


def nearest(at: Points) -> float:
    """Return the smallest distance between two routers, at most 1."""
    if len(at) > 2000:
        order = np.lexsort(at.T)
        gaps = [np.hypot(*(at[order[k:]] - at[order[:-k]]).T).min() for k in (1, 2, 3)]
        return min(1.0, *map(float, gaps))
    gap = np.hypot(*(at[:, None] - at[None, :]).transpose(2, 0, 1))
    np.fill_diagonal(gap, 1.0)
    return min(1.0, float(gap.min(initial=1.0)))


def _start(hops: Points) -> Points:
    """Classical multidimensional scaling."""
    square = hops**2
    centred = -0.5 * (square - square.mean(axis=0) - square.mean(axis=1)[:, None] + square.mean())
    values, vectors = np.linalg.eigh(centred)
    # The sign of an eigenvector is arbitrary: its largest component is positive.
    vectors = vectors * np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(len(vectors))])
    at: Points = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 1e-6))
    # Separate routers at equal positions.
    return at + 0.05 * circle(len(at), 1.0)
