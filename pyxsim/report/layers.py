"""What the layers of a workload took, as a table for the summary: computing, communication, and what was waited for."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.output.result import Result
from pyxsim.report.facts import plural
from pyxsim.units import format_time_ns

if TYPE_CHECKING:
    from rich.console import RenderableType

MAX_LAYERS = 6
MAX_PARTS = 3
_TITLES = {"compute": "compute", "comm": "communication", "exposed": "exposed"}
_PARTS = {"fwd": "forward", "wg": "weights", "ig": "inputs", "update": "update", "other": "the rest"}


def tables(result: Result) -> Iterator[RenderableType]:
    """The layers that waited most, in their order, and all together; nothing where there is one, or none."""
    if len(result.layers.get("name", ())) > 1 and "finished" in result.layers:
        yield _table(result)


def _table(result: Result) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    layers = result.layers
    parts = {part: title for part, title in _PARTS.items() if f"{part}_compute" in layers}
    sums = {what: np.sum([layers[f"{part}_{what}"] for part in parts], axis=0) for what in _TITLES}
    exposed = {part: layers[f"{part}_exposed"] for part in parts}
    # The parts that were waited for most.
    chosen = sorted(parts, key=lambda part: -float(exposed[part].sum()))[:MAX_PARTS]
    exposed = {part: exposed[part] for part in parts if part in chosen}
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    of = "" if "npus" in layers else " of NPU 0"
    table.add_column(f"layer{of}", no_wrap=True, overflow="ellipsis", max_width=26)
    npus = layers.get("npus")
    titles = [*_TITLES.values(), *(f"of {parts[part]}" for part in exposed)]
    for title in titles if npus is None else ["NPUs", *titles]:
        table.add_column(title, justify="right", no_wrap=True)
    columns = [*sums.values(), *exposed.values()]
    shown = np.sort(np.lexsort((-sums["compute"], -sums["exposed"]))[:MAX_LAYERS])
    for layer in shown.tolist():
        many = [] if npus is None else [f"{npus[layer]:,}"]
        times = (_time(result, float(column[layer])) for column in columns)
        table.add_row(Text(str(layers["name"][layer])), *many, *times)
    more = len(sums["compute"]) - len(shown)
    label = f"all, with {plural(more, 'more layer')}" if more else "all"
    many = [] if npus is None else ["mean"]
    table.add_row(label, *many, *(_time(result, _all(result, column)) for column in columns), style="bold")
    return table


def _all(result: Result, column: NDArray[Any]) -> float:
    """All layers together: of the one NPU, or the mean over the NPUs of what each has of them."""
    if "npus" not in result.layers:
        return float(column.sum())
    return float((column * result.layers["npus"]).sum() / max(1, len(result.npus.get("idle", ()))))


def _time(result: Result, cycles: float) -> str:
    return format_time_ns(Fraction(cycles) * 10**9 / result.clock_hz) if cycles else "-"
