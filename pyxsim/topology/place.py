"""Positions of routers in drawings: float64[routers, 2], y upward; neighbors are about 1 apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]


def circle(count: int, radius: float = 0.0, gap: float = 1.0) -> Points:
    """Return points spaced evenly on a circle, clockwise from the top; with `radius` 0, neighbors are `gap` apart."""
    radius = radius or max(gap * count / (2 * np.pi), 0.6 * gap)
    angle = np.pi / 2 - 2 * np.pi * np.arange(count) / max(count, 1)
    return (radius if count > 1 else 0.0) * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def circles(groups: int, members: int) -> Points:
    """Return groups on a circle, each a circle of its members whose first member is the outermost."""
    inner = circle(members)
    size = 2 * (float(np.abs(inner).max()) if members > 1 else 0.3) + 1.2
    centres = circle(groups, gap=size)
    points = []
    for group in range(groups):
        turn = -2 * np.pi * group / groups
        rotate = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
        points.append(centres[group] + inner @ rotate)
    return np.concatenate(points)


def levels(counts: Sequence[int], height: float = 0.0) -> Points:
    """Return rows of equal width, the first at the bottom; `height` is the distance of rows, 0 for the default."""
    width = max(counts)
    height = height or max(1.5, width / 6)
    rows = [np.stack([width * (np.arange(n) + 0.5) / n, np.full(n, i * height)], axis=1) for i, n in enumerate(counts)]
    return np.concatenate(rows)
