"""Tables of prices, powers and energies, with their uncertainty."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyxsim.costs import DesignCost, RunEnergy, StepCost
from pyxsim.reports.text.energy_facts import amount
from pyxsim.settings.estimate import Estimate

if TYPE_CHECKING:
    from rich.table import Table

UNKNOWN = "unknown"


def dollars(value: float) -> str:
    """Return a price: 1234567 -> "$1,234,567", 0.00123 -> "$0.00123"."""
    return f"${value:,.0f}" if value >= 1000 else f"${value:.3g}"


def spread(estimate: Estimate | None, unit: str) -> str:
    """Return an estimate with its bounds: "700 W (532 W to 700 W)"; "$" as unit for prices."""
    if estimate is None:
        return UNKNOWN
    values = [float(value) for value in (estimate.typical, estimate.low, estimate.high)]
    typical, low, high = (dollars(value) if unit == "$" else amount(value, unit) for value in values)
    return typical if low == high else f"{typical} ({low} to {high})"


def design_table(design: DesignCost) -> Table:
    """Return the table of the parts of a system."""
    table = _table("part", "count", "price", "power idle", "power peak")
    for part in design.parts:
        price = spread(part.price, "$") if part.price is None or float(part.price.high) else "-"
        table.add_row(
            f"{part.kind} {part.name}".strip(),
            f"{part.count:,g}",
            price,
            spread(part.idle, "W"),
            spread(part.peak, "W"),
        )
    return table


def design_facts(design: DesignCost) -> Iterator[tuple[str, str]]:
    """Yield the sums of a system."""
    for label, name, unit in (("price", "capex", "$"), ("idle", "power_idle", "W"), ("peak", "power_peak", "W")):
        value, why = design.known(name)
        wall = f", with a PUE of {float(design.figures.pue.typical):g}" if unit == "W" else ""
        yield label, f"{spread(value, unit)}{wall}" if why is None else f"{UNKNOWN}: {why}"
    if area := sum(part.area for part in design.parts):
        yield "area", f"{area:.4g} mm2"


def energy_table(run: RunEnergy) -> Table:
    """Return the table of the energy of a run by kind of parts."""
    table = _table("energy of", "count", "traffic, work", "idle", "energy")
    for row in run.parts:
        estimate = Estimate(row["low"], row["energy"], row["high"])
        cells = (amount(row["dynamic"], "J"), amount(row["idle"], "J"), spread(estimate, "J"))
        name = "links (each direction)" if row["part"] == "links" else row["part"]
        table.add_row(name, f"{row['count']:,}", *cells)
    return table


def run_facts(step: StepCost) -> Iterator[tuple[str, str]]:
    """Yield the sums of a run."""
    yield "energy", spread(step.run.total, "J")
    yield "at the wall", f"{spread(step.energy, 'J')}, mean power {spread(step.power, 'W')}"
    if step.energy_per_bit is not None:
        yield "network", f"{spread(step.energy_per_bit, 'J')} per delivered bit"
    yield "electricity", spread(step.energy_dollars, "$")
    why = step.design.known("capex")[1]
    if why is not None:
        yield "price", f"{UNKNOWN}: {why}"
    else:
        yield "share of the price", spread(step.system_dollars, "$")
        yield "cost of the run", spread(step.dollars, "$")
    if step.energy_per_token is not None:
        price = step.dollars_per_token if why is None else None
        cost = "" if price is None else f", {spread(price * 1e6, '$')} per million"
        yield "per token", f"{spread(step.energy_per_token, 'J')}{cost}"


def _table(first: str, *others: str) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column(first, no_wrap=True)
    for title in others:
        table.add_column(title, justify="right", no_wrap=True)
    return table


def rows_of(pairs: Iterator[tuple[str, str]]) -> Any:
    """Return pairs as a grid of rich."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for label, value in pairs:
        grid.add_row(label, Text(value))
    return grid
