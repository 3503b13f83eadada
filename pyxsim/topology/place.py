"""Where routers may stand in a picture. Units: neighbours are about one step apart; y upward."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]


def circle(count: int, radius: float = 0.0, gap: float = 1.0) -> Points:
    """Evenly on a circle, the first on top, then clockwise; `radius` 0: neighbours are `gap` apart."""
    radius = radius or max(gap * count / (2 * np.pi), 0.6 * gap)
    angle = np.pi / 2 - 2 * np.pi * np.arange(count) / max(count, 1)
    return (radius if count > 1 else 0.0) * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def circles(groups: int, members: int) -> Points:
    """Groups on a circle, each a circle of its members that begins on the side which looks outward."""
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
    """Rows above each other, the first at the bottom, all as wide as the widest; `height` 0: a good distance."""
    width = max(counts)
    height = height or max(1.5, width / 6)
    rows = [np.stack([width * (np.arange(n) + 0.5) / n, np.full(n, i * height)], axis=1) for i, n in enumerate(counts)]
    return np.concatenate(rows)
