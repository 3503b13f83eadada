"""Systems of the shelf: a network with its name, its settings and where these come from, as data.

A file `topologies/NAME.toml` has the tables [network] and [system] of an experiment, and says what it is, who published
which number, and what is assumed. An experiment asks for it by `[network] topology = "NAME"`. What it says itself goes
first, key by key; the settings that it ends with say all, so they need no shelf any more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator

from pyxsim import library, registry
from pyxsim.errors import InputError, bundle, raise_all
from pyxsim.settings.faults import translate
from pyxsim.settings.network import MAX_NPUS, Network
from pyxsim.settings.system import System
from pyxsim.settings.toml import read_toml
from pyxsim.settings.types import Bandwidth, Line, Table, Word, fresh, listed, number, whole

_STEP = re.compile(r'"([^"]+)"|\[(\d+)\]|([\w-]+)')
_EACH = ("bandwidth", "latency")  # told for the network, or in each of its dimensions
_BELONGS = {"routing": "routing_options", "pipeline": "latency"}  # in a router, which means nothing without the first


class Source(Table):
    """Where numbers come from."""

    title: Line = Field(description="What it is called.")
    url: Line = Field(description="Where it is.")
    year: Annotated[int, *whole(1950, 2100)] = Field(description="When it appeared, or was read if it has no date.")
    says: Line | None = Field(default=None, description="What is taken from it, in short.")


class Assumption(Table):
    """A number that nobody published."""

    key: Word = Field(description="Which setting it is, a key path of this file such as `network.latency`.")
    why: Line = Field(description="Why this one.")


class Published(Table):
    """What the sources say of the whole, both directions of a link counted together, as vendors do. A test of what
    ships holds the links against it."""

    payload: Annotated[Fraction, *number(0, 1)] = Field(
        default=Fraction(1),
        description="The part of these rates that is payload, which is what the bandwidths of the network are.",
    )
    npu: Bandwidth | None = Field(default=None, description="All links of an NPU.")
    all: Bandwidth | None = Field(default=None, description="That of all NPUs together.")
    bisection: Bandwidth | None = Field(default=None, description="The links between two halves.")


class NamedSystem(Table):
    """A file `topologies/NAME.toml`: a system that experiments ask for by `[network] topology = "NAME"`."""

    help: Line = Field(description="What it is, in a line.")
    npus: Annotated[int, *whole(1, MAX_NPUS)] = Field(description="NPUs that it has as it stands here.")
    network: Network = Field(description="As in an experiment.")
    system: System | None = Field(default=None, description="As in an experiment: what suits its NPUs.")
    published: Published = Field(
        default_factory=Published, description="What is said of the whole, for comparison with what the links give."
    )
    source: Annotated[tuple[Source, ...], Field(min_length=1)] = Field(description="Where the numbers come from.")
    assumed: tuple[Assumption, ...] = Field(default=(), description="Numbers that no source has.")

    @model_validator(mode="after")
    def _assumes_what_is_there(self) -> NamedSystem:
        tables = {"network": fresh(self.network), "system": fresh(self.system) or {}}
        raise_all(
            [
                InputError(f"the file does not set {each.key}", key=f"assumed[{i}].key", allowed="a key of this file")
                for i, each in enumerate(self.assumed)
                if _reach(tables, each.key) < len(_steps(each.key))
            ]
        )
        return self


def read_system(path: str | PathLike[str]) -> NamedSystem:
    """The system of a file. Raises InputError with all that is wrong with it."""
    return _read(path)[0]


def _read(path: str | PathLike[str]) -> tuple[NamedSystem, dict[str, Any]]:
    data = read_toml(path)
    try:
        return NamedSystem.model_validate(data), data
    except ValidationError as error:
        raise bundle([fault.at(file=str(path)) for fault in translate(error, NamedSystem)]) from None


class Systems:
    """The systems of the shelves, looked for when first asked. `libraries`: folders besides what ships."""

    def __init__(self, libraries: Iterable[str | PathLike[str]] = ()) -> None:
        self._libraries = [Path(folder) for folder in listed(libraries)]
        self._tables: dict[str, dict[str, Any]] = {}  # of those that were asked for: a sweep asks thousands of times

    @cached_property
    def files(self) -> dict[str, Path]:
        """Their files by name."""
        return library.data_files(extra_dirs=self._libraries)

    def laid_under(self, data: dict[str, Any]) -> Underlay | None:
        """Put the system that an experiment names under its tables, which change; None if it names none.

        Raises InputError for what cannot go together.
        """
        network = data.get("network")
        name = network.get("topology") if isinstance(network, dict) else None
        if not isinstance(network, dict) or not isinstance(name, str):
            return None
        if name in registry.topologies or name not in self.files:  # to look through the shelves takes much longer
            return None
        path = self.files[name]
        if name not in self._tables:
            self._tables[name] = _read(path)[1]
        tables = self._tables[name]
        if tables["network"].get("topology") in self.files:
            raise InputError("is a system, too", file=str(path), key="network.topology", allowed="a topology, or dims")
        if network.get("dims") is not None:
            raise InputError("both 'topology' and 'dims' are given", key="network.dims", allowed="exactly one of them")
        under = Underlay(str(path), tables, {"network": network, "system": data.get("system")})
        data["network"] = {"name": name, **_network(name, tables["network"], network, path.parent)}
        own = data.get("system")
        # A system file of ASTRA-sim says all, and should not find its keys taken.
        if own is None or (isinstance(own, dict) and "file" not in own):
            data["system"] = _over(tables.get("system", {}), own or {})
        return under


@dataclass(frozen=True)
class Underlay:
    """What lies under an experiment. `file`: of the system; `tables`: its own, `above`: those of the experiment."""

    file: str
    tables: Mapping[str, Any]
    above: Mapping[str, Any]

    def told(self, fault: InputError) -> InputError:
        """A fault with the system's file, if only that has its key; else with the key as the experiment has it."""
        key = fault.key or ""
        if isinstance(self.above.get("network"), Mapping) and self.above["network"].get("shape") is not None:
            key = re.sub(r"^network\.dims(\[\d+\])\.npus$", r"network.shape\1", key)
        file = self.file if _reach(self.tables, key) > _reach(self.above, key) else fault.file
        return InputError(fault.problem, file=file, key=key or None, allowed=fault.allowed, given=fault.given)


def _network(name: str, base: Mapping[str, Any], own: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The table [network] of a system with what the experiment says itself."""
    base, own = fresh(base), {key: value for key, value in own.items() if key != "topology"}
    dims = base.get("dims") or []
    shape, sizes = own.get("shape"), base.get("shape") or dims
    if isinstance(shape, list) and sizes and len(shape) != len(sizes):
        problem = f"the shape has {len(shape)} entries, {name} has {len(sizes)} dimensions"
        raise InputError(problem, key="network.shape", allowed=f"a list of {len(sizes)} numbers")
    if shape is not None and not sizes:
        allowed = f"network.options: {', '.join(base.get('options', {}))}"
        raise InputError(f"{name} has no shape of its own", key="network.shape", allowed=allowed)
    if dims and isinstance(shape, list):
        del own["shape"]
        for dim, size in zip(dims, shape, strict=True):
            dim["npus"] = size
    for dim in dims:
        for key in _EACH:
            if key in own:
                dim.pop(key, None)
    router, options = own.get("router"), base.get("options", {})
    if isinstance(router, dict):
        for key, other in _BELONGS.items():
            if key in router:
                base.get("router", {}).pop(other, None)
    if isinstance(options.get("file"), str):  # a graph beside the system
        options["file"] = str(folder / options["file"])
    return _over(base, own)


def _over(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Tables in each other: what is in both is taken from the second."""
    merged = {**base, **own}
    for key, value in base.items():
        if isinstance(value, Mapping) and isinstance(own.get(key), Mapping):
            merged[key] = _over(value, own[key])
    return merged


def _steps(key: str) -> list[str | int]:
    return [int(index) if index else quoted or word for quoted, index, word in _STEP.findall(key)]


def _reach(tables: Any, key: str) -> int:
    """How many steps of a key path lead somewhere in some tables."""
    for count, step in enumerate(_steps(key)):
        if isinstance(step, int):
            there = isinstance(tables, list | tuple) and step < len(tables)
        else:
            there = isinstance(tables, Mapping) and step in tables
        if not there:
            return count
        tables = tables[step]
    return len(_steps(key))
