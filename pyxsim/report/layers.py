"""What the layers of a workload took, as a table for the summary: computing, communication, and what was waited for."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from pyxsim.output.result import Longs, Result
from pyxsim.report.facts import plural
from pyxsim.units import format_time_ns

if TYPE_CHECKING:
    from rich.console import RenderableType

MAX_LAYERS = 6
_TITLES = {"compute": "compute", "comm": "communication", "exposed": "exposed"}
_PARTS = {"fwd": "forward", "wg": "weights", "ig": "inputs"}


def tables(result: Result) -> Iterator[RenderableType]:
    """The layers that took most, in their order, and all together; nothing where there is one, or none."""
    if len(result.layers.get("name", ())) > 1 and "finished" in result.layers:
        yield _table(result)


def _table(result: Result) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    sums = {what: np.sum([result.layers[f"{part}_{what}"] for part in _PARTS], axis=0) for what in _TITLES}
    exposed = {title: result.layers[f"{part}_exposed"] for part, title in _PARTS.items()}
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("layer of NPU 0", no_wrap=True, overflow="ellipsis", max_width=26)
    for title in (*_TITLES.values(), *(f"of {part}" for part in exposed)):
        table.add_column(title, justify="right", no_wrap=True)
    columns = [*sums.values(), *exposed.values()]
    shown = np.sort(np.argsort(-(sums["exposed"] + sums["compute"]), kind="stable")[:MAX_LAYERS])
    for layer in shown.tolist():
        name = Text(str(result.layers["name"][layer]))
        table.add_row(name, *(_time(result, column[layer : layer + 1]) for column in columns))
    more = len(sums["compute"]) - len(shown)
    label = f"all, with {plural(more, 'more layer')}" if more else "all"
    table.add_row(label, *(_time(result, column) for column in columns), style="bold")
    return table


def _time(result: Result, cycles: Longs) -> str:
    total = int(cycles.sum())
    return format_time_ns(Fraction(total) * 10**9 / result.clock_hz) if total else "-"
