"""Named systems: networks with their settings and the sources of their figures, as TOML files on the shelf.

A file `topologies/NAME.toml` has the tables [network] and [system] of an experiment, a description, the source of each
figure, and assumptions. An experiment selects it by `[network] topology = "NAME"`; its own keys override those of the
system. The resolved settings contain everything and no longer depend on the shelf.
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
_EACH = ("bandwidth", "latency")  # keys of the network or of each of its dimensions
_BELONGS = {"routing": "routing_options", "pipeline": "latency"}  # in a router; the second depends on the first


class Source(Table):
    """The source of figures."""

    title: Line = Field(description="Title.")
    url: Line = Field(description="Address.")
    year: Annotated[int, *whole(1950, 2100)] = Field(description="Year of publication, or of access if undated.")
    says: Line | None = Field(default=None, description="Which figures the source provides.")


class Assumption(Table):
    """A figure without a published source."""

    key: Word = Field(description="Key path in this file, such as `network.latency`.")
    why: Line = Field(description="Reason for the value.")


class Published(Table):
    """Published totals, with both directions of a link added, as vendors do; a test compares the links with them."""

    payload: Annotated[Fraction, *number(0, 1)] = Field(
        default=Fraction(1),
        description="Share of these rates that is payload; the bandwidths of the network count payload only.",
    )
    npu: Bandwidth | None = Field(default=None, description="Total bandwidth of the links of an NPU.")
    all: Bandwidth | None = Field(default=None, description="Total bandwidth of all NPUs.")
    bisection: Bandwidth | None = Field(default=None, description="Bisection bandwidth.")


class NamedSystem(Table):
    """A file `topologies/NAME.toml`: a system that experiments select by `[network] topology = "NAME"`."""

    help: Line = Field(description="Description in one line.")
    npus: Annotated[int, *whole(1, MAX_NPUS)] = Field(description="Number of NPUs.")
    network: Network = Field(description="As in an experiment.")
    system: System | None = Field(default=None, description="As in an experiment.")
    published: Published = Field(
        default_factory=Published, description="Published totals, for comparison with the sums over the links."
    )
    source: Annotated[tuple[Source, ...], Field(min_length=1)] = Field(description="Sources of the figures.")
    assumed: tuple[Assumption, ...] = Field(default=(), description="Figures without a source.")

    @model_validator(mode="after")
    def _check_assumptions(self) -> NamedSystem:
        tables = {"network": fresh(self.network), "system": fresh(self.system) or {}}
        raise_all(
            [
                InputError(
                    f"the file does not set {assumption.key}", key=f"assumed[{i}].key", allowed="a key of this file"
                )
                for i, assumption in enumerate(self.assumed)
                if _reach(tables, assumption.key) < len(_steps(assumption.key))
            ]
        )
        return self


def read_system(path: str | PathLike[str]) -> NamedSystem:
    """Read a system file. Raises InputError with all problems."""
    return _read(path)[0]


def _read(path: str | PathLike[str]) -> tuple[NamedSystem, dict[str, Any]]:
    data = read_toml(path)
    try:
        return NamedSystem.model_validate(data), data
    except ValidationError as error:
        raise bundle([fault.at(file=str(path)) for fault in translate(error, NamedSystem)]) from None


class Systems:
    """The named systems of the shelves and of some libraries; files are read on first use."""

    def __init__(self, libraries: Iterable[str | PathLike[str]] = ()) -> None:
        self._libraries = [Path(folder) for folder in listed(libraries)]
        self._tables: dict[str, dict[str, Any]] = {}  # cache: a sweep reads a system thousands of times

    @cached_property
    def files(self) -> dict[str, Path]:
        """The system files by name."""
        return library.data_files(extra_dirs=self._libraries)

    def laid_under(self, data: dict[str, Any]) -> Underlay | None:
        """Merge the named system of an experiment into its tables `data`, in place; None if it names none.

        Raises InputError where experiment and system contradict each other.
        """
        network = data.get("network")
        name = network.get("topology") if isinstance(network, dict) else None
        if not isinstance(network, dict) or not isinstance(name, str):
            return None
        if name in registry.topologies or name not in self.files:  # the cheap test first: the shelves are slow to scan
            return None
        path = self.files[name]
        if name not in self._tables:
            self._tables[name] = _read(path)[1]
        tables = self._tables[name]
        if tables["network"].get("topology") in self.files:
            raise InputError(
                "a system cannot name another system",
                file=str(path),
                key="network.topology",
                allowed="a topology, or dims",
            )
        if network.get("dims") is not None:
            raise InputError("cannot be combined with 'topology'", key="network.dims", allowed="one of them")
        under = Underlay(str(path), tables, {"network": network, "system": data.get("system")})
        data["network"] = {"name": name, **over_base(name, tables["network"], network, path.parent)}
        own = data.get("system")
        # A system file of ASTRA-sim sets all keys; values of the named system must not take precedence.
        if own is None or (isinstance(own, dict) and "file" not in own):
            data["system"] = _over(tables.get("system", {}), own or {})
        return under


@dataclass(frozen=True)
class Underlay:
    """A named system below an experiment: its file, its `tables`, and the tables of the experiment `above` it."""

    file: str
    tables: Mapping[str, Any]
    above: Mapping[str, Any]

    def located(self, fault: InputError) -> InputError:
        """Return an error with the system's file if only that sets the key; else with the key as in the experiment."""
        key = fault.key or ""
        if isinstance(self.above.get("network"), Mapping) and self.above["network"].get("shape") is not None:
            key = re.sub(r"^network\.dims(\[\d+\])\.npus$", r"network.shape\1", key)
        file = self.file if _reach(self.tables, key) > _reach(self.above, key) else fault.file
        return InputError(fault.problem, file=file, key=key or None, allowed=fault.allowed, given=fault.given)


def over_base(name: str, base: Mapping[str, Any], own: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the table [network] of a system or graph, overridden by that of the experiment. Raises InputError."""
    base, own = fresh(base), {key: value for key, value in own.items() if key != "topology"}
    dims = base.get("dims") or []
    shape, sizes = own.get("shape"), base.get("shape") or dims
    if isinstance(shape, list) and sizes and len(shape) != len(sizes):
        problem = f"the shape has {len(shape)} entries, but {name} has {len(sizes)} dimensions"
        raise InputError(problem, key="network.shape", allowed=f"a list of {len(sizes)} numbers")
    if shape is not None and not sizes:
        allowed = f"network.options: {', '.join(base.get('options', {}))}"
        raise InputError(f"{name} has no shape", key="network.shape", allowed=allowed)
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
    if isinstance(options.get("file"), str):  # a graph next to the system's file
        options["file"] = str(folder / options["file"])
    return _over(base, own)


def _over(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Merge nested tables; the second takes precedence."""
    merged = {**base, **own}
    for key, value in base.items():
        if isinstance(value, Mapping) and isinstance(own.get(key), Mapping):
            merged[key] = _over(value, own[key])
    return merged


def _steps(key: str) -> list[str | int]:
    return [int(index) if index else quoted or word for quoted, index, word in _STEP.findall(key)]


def _reach(tables: Any, key: str) -> int:
    """The number of leading steps of a key path that exist in `tables`."""
    for count, step in enumerate(_steps(key)):
        if isinstance(step, int):
            exists = isinstance(tables, list | tuple) and step < len(tables)
        else:
            exists = isinstance(tables, Mapping) and step in tables
        if not exists:
            return count
        tables = tables[step]
    return len(_steps(key))
