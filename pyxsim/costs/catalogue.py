"""The catalogue: parts with their powers and prices and the sources of these, as TOML files in data/."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from pyxsim.costs.noc.technology import Technology
from pyxsim.errors import InputError, bundle, raise_all
from pyxsim.settings.cost import Cost, LinkCost, MemoryCost, PartCost, SwitchCost
from pyxsim.settings.faults import translate
from pyxsim.settings.named import Assumption, Source
from pyxsim.settings.toml import read_toml
from pyxsim.settings.types import Flag, Table, shown

_DATA = Path(__file__).parent / "data"
KINDS: Mapping[str, type[Table]] = {
    "links": LinkCost,
    "switches": SwitchCost,
    "npus": PartCost,
    "hosts": PartCost,
    "memories": MemoryCost,
    "facilities": Cost,
    "technologies": Table,
}
"""The files of the catalogue, and the table of [cost] that has their figures."""
_ABOUT = ("help", "source", "assumed", "medium", "reach")


class Citation(Source):
    """The source of figures of the catalogue."""

    secondary: Flag = Field(default=False, description="Whether the source reports figures of another source.")


@dataclass(frozen=True)
class Entry:
    """An entry of the catalogue.

    Attributes
    ----------
    name, help
        Name and description.
    figures
        The table of [cost] with the figures of the entry; of a technology a `Technology`.
    sources
        Where they are from.
    assumed
        Figures without a source, and why they are as they are.
    medium, reach
        Of a link; else "".
    """

    name: str
    help: str
    figures: Any
    sources: tuple[Citation, ...]
    assumed: tuple[Assumption, ...] = ()
    medium: str = ""
    reach: str = ""

    @property
    def origin(self) -> str:
        """The sources in one line."""
        names = [f"{one.title} ({one.year}{', secondary' if one.secondary else ''})" for one in self.sources]
        return "; ".join([*names, *(f"assumed: {one.key}" for one in self.assumed)])

    def json(self) -> dict[str, Any]:
        """Return the entry with its figures as a file has them."""
        if isinstance(self.figures, Technology):
            figures = {field.name: getattr(self.figures, field.name) for field in fields(Technology)}
        else:
            figures = self.figures.model_dump(exclude_unset=True)
        about = {"medium": self.medium, "reach": self.reach} if self.medium else {}
        sources = [one.model_dump(exclude_none=True) for one in self.sources]
        assumed = [one.model_dump() for one in self.assumed]
        return {"name": self.name, "help": self.help, **about, **figures, "source": sources, "assumed": assumed}


@cache
def entries(kind: str) -> dict[str, Entry]:
    """Return the entries of a kind, a key of `KINDS`, by name."""
    path = _DATA / f"{kind}.toml"
    return {name: _entry(name, table, kind, str(path)) for name, table in read_toml(path).items()}


def entry(kind: str, name: str, key: str) -> Entry:
    """Return an entry of the catalogue. Raises InputError with the `key` of the setting."""
    known = entries(kind)
    if name not in known:
        raise InputError(f"'{name}' is not in the catalogue", key=key, allowed=list(known), given=name)
    return known[name]


def technology(name: str, changed: Mapping[str, Any] | None = None, key: str = "cost.noc") -> Technology:
    """Return a process of the catalogue with some parameters `changed`. Raises InputError."""
    base: Technology = entry("technologies", name, f"{key}.technology").figures
    values = {field.name: getattr(base, field.name) for field in fields(Technology)}
    return _technology({**values, **_checked(changed or {}, values, f"{key}.parameters")})


def _checked(changed: Mapping[str, Any], known: Mapping[str, Any], key: str) -> dict[str, Any]:
    faults = []
    for name, value in changed.items():
        if name not in known:
            faults.append(InputError("unknown key", key=f"{key}.{name}", allowed=list(known), given=name))
        elif isinstance(known[name], tuple):
            if not (
                isinstance(value, list | tuple) and len(value) == 2 and all(type(x) is int and x > 0 for x in value)
            ):
                problem = f"{shown(value)} is not the size of a cell"
                faults.append(InputError(problem, key=f"{key}.{name}", allowed="width and height in tracks: [16, 8]"))
        elif isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e6:
            allowed = "a number above zero in the unit of docs/cost.md"
            faults.append(InputError(f"{shown(value)} is not a number", key=f"{key}.{name}", allowed=allowed))
        elif not value and name not in _MAY_BE_ZERO:
            faults.append(InputError("is zero", key=f"{key}.{name}", allowed="a number above zero"))
    raise_all(faults)
    return dict(changed)


_MAY_BE_ZERO = ("overlap_capacitance", "leakage_n", "leakage_p", "sram_leakage")


def _technology(values: Mapping[str, Any]) -> Technology:
    typed: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list | tuple) else float(value) for name, value in values.items()
    }
    return Technology(**typed)


def _entry(name: str, table: Mapping[str, Any], kind: str, file: str) -> Entry:
    about = {key: table[key] for key in _ABOUT if key in table}
    figures = {key: value for key, value in table.items() if key not in about}
    model = KINDS[kind]
    try:
        sources = tuple(Citation.model_validate(one) for one in about.pop("source"))
        assumed = tuple(Assumption.model_validate(one) for one in about.pop("assumed", ()))
        made: Any = _technology(figures) if kind == "technologies" else model.model_validate(figures)
    except ValidationError as error:
        raise bundle([fault.at(file=file) for fault in translate(error, model)]) from None
    return Entry(name, about.pop("help"), made, sources, assumed, **about)
