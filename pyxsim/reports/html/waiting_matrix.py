"""The heat map of who waited for whom."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.reports.html.elements import Panel, cut
from pyxsim.reports.html.plotly_style import figure, plain, unlike
from pyxsim.reports.text.facts import percent

MOST_NAMED = 16  # victims whose shares are written in the cells


def waiting_matrix(
    title: str, text: str, victims: Sequence[str], culprits: Sequence[str], cycles: IntArray, *, wide: bool = True
) -> Panel:
    """Return a panel with the share of each culprit in the waiting of each victim.

    `cycles`: int64[victims, culprits].
    """
    shares = cycles / np.maximum(1, cycles.sum(axis=1, keepdims=True))
    named = len(victims) <= MOST_NAMED
    heat = {
        "type": "heatmap",
        "x": unlike([plain(cut(name, 20)) for name in culprits]),
        "y": unlike([plain(cut(name, 24)) for name in victims]),
        "z": shares,
        "customdata": cycles,
        "text": [[percent(share) if share and named else "" for share in row] for row in shares.tolist()],
        "texttemplate": "%{text}",
        "coloraxis": "coloraxis",
        "xgap": 2,
        "ygap": 2,
        "hovertemplate": "%{y} waited %{customdata:,} cycles for %{x}: %{z:.1%}<extra></extra>",
    }
    sketch = {
        "coloraxis": {"cmin": 0, "cmax": 1, "showscale": False},
        "xaxis": {"title": {"text": "waited for"}, "showgrid": False, "type": "category"},
        "yaxis": {"autorange": "reversed", "showgrid": False, "type": "category"},
        "margin": {"t": 10},
    }
    row = 44 if named else 32
    return Panel(title, text, figure([heat], sketch), 110 + row * max(2, len(victims)), wide=wide)
