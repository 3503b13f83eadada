"""The key figure of the energy of a run."""

from __future__ import annotations

from pyxsim.reports.text.facts import Fact
from pyxsim.results.result import Result

_STEPS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n"))


def amount(value: float, unit: str) -> str:
    """Return a number with a prefix, to three digits: 0.00123, "J" -> "1.23 mJ"."""
    size, prefix = next((step for step in _STEPS if abs(value) >= step[0]), (1e-12, "p"))
    return f"{value / size:.3g} {prefix}{unit}" if value else f"0 {unit}"


def facts(result: Result) -> list[Fact]:
    """Return the energy of a run with [cost], its bounds and the shares of its parts."""
    rows = result.energy
    if not rows:
        return []
    low, total, high = (sum(row[bound] for row in rows) for bound in ("low", "energy", "high"))
    shares = [f"{row['part']} {row['energy'] / total:.1%}" for row in rows if row["energy"]]
    bounds = "" if low == high else f"{amount(low, 'J')} to {amount(high, 'J')}; "
    return [Fact("energy", amount(total, "J"), bounds + ", ".join(shares))]
