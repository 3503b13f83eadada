"""The figures of an experiment's parts: those of [cost], else those of the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyxsim.costs.catalogue import entries, entry
from pyxsim.errors import InputError
from pyxsim.settings.cost import Cost
from pyxsim.settings.estimate import Estimate
from pyxsim.settings.types import Table

_EXAMPLES = {
    "energy": "an energy such as '5 pJ/bit'",
    "idle": "a share such as 0.9",
    "power": "a power such as '500 W'",
    "price": "a price such as '30 k$'",
    "capacity": "a bandwidth such as '6.4 TB/s'",
}
_PRICES = {"links": "a price such as '4 $/GBps'", "memories": "a price such as '5 $/GB'"}
DEFAULT_LINK, DEFAULT_SWITCH = "board", "tomahawk-5"


@dataclass(frozen=True)
class Figures:
    """A part: the table of [cost] laid over an entry of the catalogue.

    Attributes
    ----------
    kind, name, key
        The file of the catalogue, the entry ("" without one), and the key path of the table.
    values
        The figures that are known, by their keys.
    source
        Where the figures of the entry are from.
    """

    kind: str
    name: str
    key: str
    values: Mapping[str, Any]
    source: str

    def get(self, name: str) -> Any:
        """Return a figure, or None."""
        return self.values.get(name)

    def need(self, name: str) -> Any:
        """Return a figure. Raises InputError if neither the table nor the entry has it."""
        if name in self.values:
            return self.values[name]
        raise self.missing(name)

    def missing(self, name: str) -> InputError:
        """Return the error for a figure that is not known."""
        what = f"the catalogue has no {name} of '{self.name}'" if self.name else "is missing"
        allowed = _PRICES.get(self.kind, _EXAMPLES[name]) if name == "price" else _EXAMPLES[name]
        return InputError(what, key=f"{self.key}.{name}", allowed=allowed)


def figures(kind: str, table: Table | None, key: str, default: str = "") -> Figures:
    """Return the figures of a part. Raises InputError for an entry that the catalogue does not have."""
    own = {} if table is None else _known(table)
    name = own.pop("type", default)
    if not name:
        found_figures, source = own, "[cost]"
    else:
        found = entry(kind, name, f"{key}.type")
        source = found.origin if not own else f"{found.origin}; [cost]: {', '.join(own)}"
        found_figures = {**_known(found.figures), **own}
    _check_idle(kind, found_figures, own, key)
    return Figures(kind, name, key, found_figures, source)


def _check_idle(kind: str, figures: Mapping[str, Any], own: Mapping[str, Any], key: str) -> None:
    """Raise InputError for more power without work than with it. Of links and switches `idle` is a share."""
    idle, power = figures.get("idle"), figures.get("power")
    if kind not in ("npus", "hosts") or idle is None or power is None or idle.typical <= power.typical:
        return
    watts = [f"{float(each.typical):g} W" for each in (idle, power)]
    name, allowed = ("idle", f"at most {watts[1]}") if "idle" in own else ("power", f"at least {watts[0]}")
    raise InputError(f"{watts[0]} without work are more than {watts[1]} at work", key=f"{key}.{name}", allowed=allowed)


def _known(table: Table) -> dict[str, Any]:
    return {key: value for key in table.model_fields_set if (value := getattr(table, key)) is not None}


@dataclass(frozen=True)
class PartFigures:
    """The figures of all parts of a network with some kinds of links.

    Attributes
    ----------
    npu, host, memory
        None if these parts are not counted.
    links, switches
        One per kind of links.
    electricity, pue
        Dollars per joule, and the factor for the energy of the data centre.
    notes
        What is not counted, and which defaults were taken.
    """

    cost: Cost
    npu: Figures | None
    host: Figures | None
    memory: Figures | None
    links: list[Figures]
    switches: list[Figures]
    electricity: Estimate
    pue: Estimate
    notes: list[str] = field(default_factory=list)


def part_figures(cost: Cost | None, kinds: int, device: str | None) -> PartFigures:
    """Return the figures of the parts.

    Parameters
    ----------
    cost
        The table [cost]; None: defaults.
    kinds
        Number of kinds of links.
    device
        system.npu.device, for the default of `npu`.

    Raises
    ------
    InputError
        For unknown entries, and lists of another length.
    """
    given = Cost() if cost is None else cost
    facility, notes = entries("facilities"), []
    npu = None
    if given.npu is not None or device in entries("npus"):
        npu = figures("npus", given.npu, "cost.npu", device if device in entries("npus") else "")
    else:
        why = "no cost.npu and no system.npu.device" if device is None else f"the catalogue has no '{device}'"
        notes.append(f"NPUs are not counted: {why}")
    if given.noc is None and given.links is None:
        notes.append(f'no cost.links: all links count as "{DEFAULT_LINK}"')
    return PartFigures(
        given,
        npu,
        None if given.host is None else figures("hosts", given.host, "cost.host"),
        None if given.memory is None else figures("memories", given.memory, "cost.memory"),
        [figures("links", *given.of_kind("links", kind, kinds), DEFAULT_LINK) for kind in range(kinds)],
        [figures("switches", *given.of_kind("switch", kind, kinds), DEFAULT_SWITCH) for kind in range(kinds)],
        given.electricity or facility["electricity"].figures.electricity,
        given.pue or facility["pue"].figures.pue,
        notes,
    )
