"""`pyxsim cost`: price and power of a system, energy and cost of a run; and the catalogue for `pyxsim list`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyxsim.cli.command_output import CommandOutput
from pyxsim.costs import StepCost
from pyxsim.costs.catalogue import KINDS, entries
from pyxsim.reports.text import cost_tables
from pyxsim.study.cost import cost

CATALOGUE = ("links", "switches", "npus", "hosts", "memories", "facilities", "technologies")
assert set(CATALOGUE) == set(KINDS)


def show_cost(out: CommandOutput, file: str, overrides: Iterable[str], libraries: Iterable[str]) -> None:
    """Print what the system of an experiment costs, or a run. Raises InputError."""
    found = cost(file, overrides, libraries=libraries)
    if isinstance(found, StepCost):
        design, notes, sums = found.design, found.run.notes, {"run": found.json()}
        out.say(cost_tables.energy_table(found.run), "", cost_tables.rows_of(cost_tables.run_facts(found)), "")
    else:
        design, notes, sums = found, found.notes, {}
    out.say(cost_tables.design_table(design), "", cost_tables.rows_of(cost_tables.design_facts(design)))
    if notes:
        out.say("", *notes)
    out.put({"design": design.json(), **sums})


def catalogue_facts(kind: str) -> list[dict[str, Any]]:
    """Return the entries of a kind of the catalogue."""
    return [one.json() for one in entries(kind).values()]


def catalogue_notes(kind: str, name: str) -> list[str]:
    """Return figures and sources of an entry as lines."""
    one = entries(kind)[name]
    about = ("name", "help", "source", "assumed", "medium", "reach")
    shown = {key: value for key, value in one.json().items() if key not in about}
    if kind == "technologies":
        shown = {
            "supply": f"{shown['supply']} V",
            "wire": f"{2e15 * (shown['wire_ground'] + shown['wire_coupling']):.0f} fF/mm",
        }
    return ["; ".join(f"{key} {_text(value)}" for key, value in shown.items()), one.origin]


def _text(value: Any) -> str:
    if isinstance(value, list):
        low, typical, high = value
        return f"{typical} ({low} to {high})"
    return str(value)
