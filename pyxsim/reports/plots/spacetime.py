"""The plot of a schedule: ranks from top to bottom, steps from left to right, an arrow per message."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from pyxsim.collective.bounds import waves
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.errors import InputError
from pyxsim.reports.plots.style import GREY, axes, colour, nothing, titled
from pyxsim.reports.text.facts import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_MESSAGES = 20_000  # more messages would be a grey square
MAX_LABELS = 60  # maximum messages with labels
MAX_NAMED = 64  # maximum ranks with names
MAX_PARTED = 64  # maximum steps with grid lines
INCHES_PER_NUMBER = 0.25  # of a step
ADDED, STORED = colour(4), colour(0)


def runs(numbers: list[int]) -> str:
    """Return numbers as a short text: "0-3, 8, 12-13", or "1-7 by 2" if equally spaced."""
    ordered = sorted(numbers)
    apart = {high - low for low, high in pairwise(ordered)}
    if len(ordered) > 2 and len(apart) == 1 and apart != {1}:
        return f"{ordered[0]}-{ordered[-1]} by {apart.pop()}"
    parts: list[list[int]] = []
    for number in ordered:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def spacetime(schedule: CompiledSchedule, ax: Axes | None = None) -> Axes:
    """Arrows: sender and receiver of each message, if every message takes one step.

    Step k lasts from k to k + 1. Reduced and stored messages have different colours; messages that the network reduces
    meet in one point.

    Raises
    ------
    InputError
        If the schedule has too many messages.
    """
    s = schedule
    if len(s) > MAX_MESSAGES:
        raise InputError(f"a picture cannot show {len(s):,} messages", allowed=f"at most {MAX_MESSAGES:,}")
    steps = list(waves(s))
    ax = axes(ax, min(14.0, max(6.5, 1.6 + 0.75 * len(steps))), min(10.0, max(2.5, 1.2 + 0.34 * s.n)))
    if not steps:
        return nothing(ax, "a single rank sends no messages")
    from matplotlib.collections import LineCollection

    ax.hlines(np.arange(s.n), 0, len(steps), colors="#DDDDDD", lw=0.8, zorder=0)
    step = np.concatenate([np.full(len(sent), number) for number, sent in enumerate(steps)])
    message = np.concatenate(steps)
    src, dst, joined = s.src[message], s.dst[message], s.join[message] >= 0
    adds = s.adds[message]
    middle = np.where(joined, (s.n - 1) / 2, (src + dst) / 2)
    tails = np.stack([np.stack([step + at, y], axis=1) for at, y in ((0.06, src), (0.5, middle))], axis=1)
    thin = 1.3 if len(s) <= 200 else 0.6
    heads: Any = {"angles": "xy", "scale_units": "xy", "scale": 1, "units": "inches", "width": thin / 72, "zorder": 2}
    heads |= {"headwidth": 5, "headlength": 6, "headaxislength": 5}  # widths
    for which, tint, label in ((adds, ADDED, "added"), (~adds, STORED, "stored")):
        if which.any():
            ax.add_collection(LineCollection(list(tails[which]), colors=tint, lw=thin, label=label))
            x, y = tails[which, 1].T
            ax.quiver(x, y, np.full_like(x, 0.44), dst[which] - y, color=tint, **heads)
    if joined.any():
        ax.plot(step[joined] + 0.5, middle[joined], ls="", marker="s", ms=9, color=ADDED)
    if len(s) <= MAX_LABELS and s.given_bytes is None:
        _label(ax, s, list(zip(step.tolist(), message.tolist(), (src + 0.5 * (middle - src)).tolist(), strict=True)))
    if s.n <= MAX_NAMED:
        ax.set_yticks(np.arange(s.n))
    ax.set(xlim=(0, len(steps)), ylim=(s.n - 0.5, -0.7), xlabel="step", ylabel="rank")
    _number(ax, len(steps))
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0, labelsize=8 if s.n <= 24 else 6)
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, handlelength=1, borderaxespad=0.2, frameon=False)
    titled(ax, f"{s}: {plural(len(steps), 'step')}")
    return ax


def _number(ax: Axes, steps: int) -> None:
    """Label the steps: all of them, or every second, fifth, tenth, ... where space is short."""
    width = ax.get_window_extent().width / (figure.dpi if (figure := ax.get_figure()) else 100)
    rounds = (k * 10**power for power in range(9) for k in (1, 2, 5))
    apart = next(number for number in rounds if number * width >= steps * INCHES_PER_NUMBER)
    ax.set_xticks(np.arange(0, steps, apart) + 0.5, [str(step) for step in range(0, steps, apart)])
    ax.tick_params(axis="x", length=0)
    if steps <= MAX_PARTED:
        ax.vlines(np.arange(1, steps), 0, 1, colors="#EEEEEE", lw=0.8, zorder=0, transform=ax.get_xaxis_transform())


def _label(ax: Axes, s: CompiledSchedule, placed: list[tuple[int, int, float]]) -> None:
    """Write the blocks on the arrows; messages between the same ranks share a label."""
    together: dict[tuple[int, int, int], tuple[list[int], float]] = {}
    for step, m, height in placed:
        blocks, _ = together.setdefault((step, int(s.src[m]), int(s.dst[m])), ([], height))
        blocks += s.content[s.block_ptr[m] : s.block_ptr[m + 1]].tolist()
    box = {"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none"}
    for (step, _, _), (blocks, height) in together.items():
        text = runs(blocks)
        text = text if len(text) <= 8 else f"{len(blocks)} blocks"
        ax.text(step + 0.28, height, text, fontsize=6.5, color=GREY, ha="center", va="center", bbox=box)
