"""The table of the layers of a workload: computation, communication and exposed communication."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from pyxsim.reports.text.facts import plural
from pyxsim.results.result import Result
from pyxsim.results.work import alike
from pyxsim.units import format_time_ns

if TYPE_CHECKING:
    from rich.table import Table

MAX_LAYERS = 6
MAX_PARTS = 3
_TITLES = {"compute": "compute", "comm": "communication", "exposed": "exposed"}
PARTS = {"fwd": "forward", "wg": "weights", "ig": "inputs", "update": "update", "other": "the rest"}


def tables(result: Result) -> Iterator[Table]:
    """Yield the table of the layers with most exposed communication, if there are several layers."""
    if len(result.layers.get("name", ())) > 1 and "finished" in result.layers:
        yield _table(result)


def _table(result: Result) -> Table:
    from rich.table import Table
    from rich.text import Text

    layers = result.layers
    parts = [part for part in PARTS if f"{part}_compute" in layers]
    columns = {what: np.sum([layers[f"{part}_{what}"] for part in parts], axis=0) for what in _TITLES}
    exposed = {part: layers[f"{part}_exposed"] for part in parts}
    counts, title = {}, "layer of NPU 0"
    names, npus = layers["name"].tolist(), layers.get("npus")
    most = MAX_PARTS
    if npus is not None:
        # The additional column replaces a part.
        most, counts, title = MAX_PARTS - 1, {"NPUs": npus}, "layer"
        # The sum over layers is the mean over all NPUs.
        weight = npus / max(1, len(result.npus.get("idle", ())))
    together = _groups(names) if npus is not None and len(names) > MAX_LAYERS else {}
    # The parts with most exposed communication.
    chosen = sorted(parts, key=lambda part: -float(exposed[part].sum()))[:most]
    columns |= {part: exposed[part] for part in parts if part in chosen}
    whole = {key: float((column if npus is None else column * weight).sum()) for key, column in columns.items()}
    if 0 < len(together) < len(names):
        rows = list(together.values())
        counts, title = {"layers": np.array([len(row) for row in rows])}, "layers, mean over the NPUs"
        columns = {key: np.array([(column * weight)[row].sum() for row in rows]) for key, column in columns.items()}
        names = list(together)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column(title, no_wrap=True)
    for key in (*counts, *columns):
        table.add_column(
            _TITLES.get(key) or (f"of {PARTS[key]}" if key in PARTS else key), justify="right", no_wrap=True
        )
    shown = np.sort(np.lexsort((-columns["compute"], -columns["exposed"]))[:MAX_LAYERS])
    for row in shown.tolist():
        cells = [f"{column[row]:,}" for column in counts.values()]
        table.add_row(Text(names[row]), *cells, *(_time(result, float(column[row])) for column in columns.values()))
    more = len(names) - len(shown)
    label = f"all, with {plural(more, 'more layer')}" if more else "all"
    table.add_row(
        label,
        *("mean" if key == "NPUs" else "" for key in counts),
        *(_time(result, part) for part in whole.values()),
        style="bold",
    )
    return table


def _groups(names: list[str]) -> dict[str, list[int]]:
    """Group layers whose names differ by numbers only: the blocks of a model."""
    groups: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        groups.setdefault(alike(name), []).append(row)
    return {names[rows[0]] if len(rows) == 1 else name: rows for name, rows in groups.items()}


def _time(result: Result, cycles: float) -> str:
    return format_time_ns(Fraction(cycles) * 10**9 / result.clock_hz) if cycles else "-"
