"""Key figures of requests that were served."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from pyxsim.reports.text.facts import Fact, percent
from pyxsim.reports.text.text_table import Sheet
from pyxsim.reports.text.text_width import WIDTH
from pyxsim.results.result import Result
from pyxsim.units import format_time_ns

if TYPE_CHECKING:
    from rich.console import RenderableType

TIMES = {
    "ttft": "to the first token (TTFT)",
    "tpot": "between tokens (TPOT)",
    "end_to_end": "to the last token",
    "queueing": "in the queue",
    "kv_transfer": "move of the KV cache",
}
STATISTICS = ("mean", "p50", "p90", "p99")


def facts(result: Result) -> list[Fact]:
    """Return the requests that have ended, throughput and goodput."""
    if result.serving is None:
        return []
    row = result.serving.summary
    note = f"of {row['requests']}"
    if row["rejected"]:
        note += f", {row['rejected']} rejected"
    if row["preemptions"]:
        note += f"; {row['preemptions']} preemptions"
    lines = [Fact("requests", str(row["finished"]), f"{note}; {row['generated']} tokens of outputs")]
    if not np.isnan(row["requests_per_s"]):
        note = f"{row['requests_per_s']:.4g} requests/s, {row['prompt_tokens_per_s']:.4g} tokens/s of prompts"
        lines.append(Fact("throughput", f"{row['tokens_per_s']:.4g} tokens/s", note))
        share = percent(row["good"] / max(row["requests"], 1))
        lines.append(Fact("goodput", f"{row['goodput']:.4g} requests/s", f"{share} of the requests keep the objective"))
    return lines


def tables(result: Result, width: int | None = WIDTH) -> Iterator[RenderableType]:
    """Yield the times of requests. `width`: as in Sheet."""
    if result.serving is not None:
        yield sheet(result).rich(width=width)


def sheet(result: Result) -> Sheet:
    """Return the mean and percentiles of the times of requests."""
    assert result.serving is not None
    row = result.serving.summary
    rows = [
        [title, *(_time(row[f"{name}_{word}"]) for word in STATISTICS)]
        for name, title in TIMES.items()
        if not np.isnan(row[f"{name}_mean"])
    ]
    return Sheet(("time of requests", *STATISTICS), rows)


def _time(seconds: float) -> str:
    return format_time_ns(Fraction(seconds * 1e9))
