"""`pyxsim list`: list the shelves, or show a model layer by layer, or a system."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyxsim import library
from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.cost import CATALOGUE, catalogue_facts, catalogue_notes
from pyxsim.cli.models import device_facts, device_notes, model_facts, model_notes, show_model
from pyxsim.cli.systems import system_facts, system_notes
from pyxsim.cli.topology import show_topology
from pyxsim.collective.kinds import KINDS
from pyxsim.errors import InputError
from pyxsim.models import model_files
from pyxsim.plugins import allocators, backends, transports
from pyxsim.registry import (
    Entry,
    blocks,
    collectives,
    graph_routings,
    grid_routings,
    patterns,
    readers,
    routings,
    topologies,
)
from pyxsim.reports.html.elements import html_panels
from pyxsim.results.dataset import Dataset, every
from pyxsim.study.check import checks


@dataclass(frozen=True)
class Item:
    """An entry of a shelf. `options`: its parameters besides the size with their defaults: {"bidirectional":
    "true"}."""

    name: str
    help: str
    aliases: list[str]
    options: dict[str, str]
    file: str
    kinds: list[str] | None = None
    when: str | None = None
    vc_classes: str | None = None
    adaptive: bool | None = None

    @property
    def notes(self) -> list[str]:
        """Details in addition to the help."""
        notes = [", ".join(self.kinds)] if self.kinds is not None else []
        if self.when:
            notes.append(f"only {self.when}")
        if self.vc_classes:
            notes.append(f"VC classes: {self.vc_classes}" + ("; adaptive" if self.adaptive else ""))
        if self.aliases:
            notes.append(f"also called {', '.join(self.aliases)}")
        if self.options and self.kinds is None:
            notes.append("options: " + ", ".join(f"{k} = {v}" if v else k for k, v in self.options.items()))
        return notes

    def json(self) -> dict[str, Any]:
        """Return the fields that are set."""
        return {key: value for key, value in vars(self).items() if value is not None}


def list_shelves(
    out: CommandOutput, what: str | None = None, libraries: Iterable[str] = (), on: str | None = None
) -> None:
    """Run `pyxsim list` for all shelves, one shelf, a model (with times `on` a device) or a system. Raises
    InputError."""
    libraries = list(libraries)
    files = library.data_files(extra_dirs=libraries)
    if what is not None and what not in _TITLES and what not in files:
        _show_model(out, what, on, files, libraries)
        return
    if on is not None:
        raise InputError("has no effect without a model", key="--device", allowed="with the name of a model")
    if what in files:
        show_topology(out, str(what), libraries=libraries)
        return
    library.load_all(libraries)
    shelves = {
        "topologies": [_item(entry, ("shape",)) for entry in topologies.entries],
        "blocks": [_item(entry, ("npus",)) for entry in blocks.entries],
        "collectives": [
            _item(entry, ("kind", "npus"), list(entry.info.get("kinds", KINDS))) for entry in collectives.entries
        ],
        "patterns": [_item(entry, ("context",)) for entry in patterns.entries],
        "readers": [_item(entry, ("name", "context")) for entry in readers.entries],
        "routings": [
            *(_routing(entry, "grids") for entry in grid_routings.entries),
            *(_routing(entry, "graphs") for entry in graph_routings.entries),
            *(_item(entry, ("wires",)) for entry in routings.entries),
        ],
        "allocators": [_allocator(entry) for entry in allocators.entries],
        "backends": [_backend(entry) for entry in backends.entries],
        "transports": [_transport(entry) for entry in transports.entries],
        "checks": [_item(entry, ("prepared",)) for entry in checks.entries],
        "datasets": [_dataset(spec) for spec in every()],
        "panels": [_item(entry, ("result", "detail")) for entry in html_panels.entries],
    }
    folders = {shelf: [str(path) for path in library.shelf_dirs(shelf, libraries)] for shelf in library.SHIPPED}
    models, machines, systems = model_facts(), device_facts(), system_facts(files)
    entries = {shelf: [(item.name, item.help, item.notes) for item in items] for shelf, items in shelves.items()}
    entries["models"] = [(model["name"], model["help"], model_notes(model)) for model in models]
    entries["devices"] = [(machine["name"], machine["help"], device_notes(machine)) for machine in machines]
    entries["systems"] = [(system["name"], system["help"], system_notes(system)) for system in systems]
    catalogue = {kind: catalogue_facts(kind) for kind in CATALOGUE if what in (None, kind)}
    for kind, facts in catalogue.items():
        entries[kind] = [(one["name"], one["help"], catalogue_notes(kind, one["name"])) for one in facts]
    _show(out, {name: items for name, items in entries.items() if what in (None, name)})
    listing = {
        **{name: [item.json() for item in items] for name, items in shelves.items()},
        "models": models,
        "devices": machines,
        "systems": systems,
        **catalogue,
        "folders": folders,
    }
    out.put(listing if what is None else {what: listing[what]})


def _show_model(
    out: CommandOutput, name: str, on: str | None, systems: Iterable[str], libraries: Iterable[str]
) -> None:
    try:
        show_model(out, name, on)
    except InputError as error:
        if error.key != "model":
            raise
        library.load_all(libraries)
        shown = {"topology": topologies, "collective": collectives}
        known = [f"`pyxsim {command} {name}`" for command, shelf in shown.items() if name in shelf]
        if known:
            raise InputError(f"'{name}' has its own command", key="list", allowed=" or ".join(known)) from None
        allowed = [*_TITLES, *model_files(), *systems, "a file, .csv or .toml"]
        raise InputError(f"unknown shelf, model or system '{name}'", key="list", allowed=allowed, given=name) from None


def _item(entry: Entry[Any], size: Sequence[str], kinds: list[str] | None = None) -> Item:
    module = sys.modules.get(entry.module)
    function = entry.value
    # The docstring of a partial or an instance is that of its class, not of this entry.
    doc = inspect.getdoc(function) if inspect.isfunction(function) else None
    text = doc or inspect.getdoc(module) or ""
    return Item(
        entry.name,
        " ".join(text.split("\n\n")[0].split()),
        list(entry.aliases),
        _options(function, size),
        str(getattr(module, "__file__", "") or ""),
        kinds,
    )


def _routing(entry: Entry[Any], networks: str) -> Item:
    """A routing with its options and the networks that offer it."""
    info = entry.info
    return replace(
        _item(entry, tuple(inspect.signature(entry.value).parameters)[:1]),
        when=info.get("networks", networks),
        vc_classes=info.get("vc_classes"),
        adaptive=info.get("adaptive", False),
    )


def _backend(entry: Entry[Any]) -> Item:
    """The entry of a backend, with its capabilities."""
    text = inspect.getdoc(entry.value) or ""
    capabilities = [name for name, value in vars(entry.value.capabilities).items() if value]
    module = sys.modules[entry.value.__module__]
    about = " ".join(text.split("\n\n")[0].split())
    return Item(entry.name, about, list(entry.aliases), {}, str(module.__file__), capabilities)


def _allocator(entry: Entry[Any]) -> Item:
    """An allocator with its stages and other traits."""
    module = sys.modules[entry.module]
    text = inspect.getdoc(entry.value) if inspect.isclass(entry.value) else inspect.getdoc(module)
    traits = entry.info["traits"]
    notes = [stage.upper() for stage in traits.stages]
    notes += [f"{entry.name}:1 to {entry.name}:{traits.iterations}"] if traits.iterations else []
    about = " ".join((text or "").split("\n\n")[0].split())
    return Item(entry.name, about, list(entry.aliases), {}, str(module.__file__), notes)


def _transport(entry: Entry[Any]) -> Item:
    """A transport of the Ethernet backend with its options."""
    paragraphs = (inspect.getdoc(entry.value) or "").split("\n\n")
    compiled = paragraphs[0].startswith(f"{entry.value.__name__}(")  # Cython puts the signature first
    about = " ".join(paragraphs[min(compiled, len(paragraphs) - 1)].split())
    defaults = getattr(entry.value, "options", None)
    options = _options(entry.value, ()) if defaults is None else {name: json.dumps(v) for name, v in defaults.items()}
    file = str(sys.modules[entry.value.__module__].__file__)
    return Item(entry.name, about, list(entry.aliases), options, file)


def _dataset(spec: Dataset) -> Item:
    file = inspect.getsourcefile(spec.values) or ""
    return Item(spec.name, spec.text, [], {}, file, when=spec.when or None)


def _options(function: Any, size: Sequence[str]) -> dict[str, str]:
    """The parameters other than the size."""
    try:
        parameters = [p for p in inspect.signature(function).parameters.values() if p.name not in size]
    except (TypeError, ValueError):
        return {}
    # in TOML: true, 4, "text"
    return {p.name: "" if p.default is p.empty else json.dumps(p.default, default=str) for p in parameters}


_TITLES = {
    "topologies": "topologies: [network] topology = ...",
    "blocks": "blocks: [[network.dims]] block = ...; a network is a product of blocks",
    "collectives": "collective algorithms: [system] all_reduce = ...",
    "patterns": "patterns of open traffic: [traffic] pattern = ...",
    "readers": "workload readers: [workload] file = ...",
    "routings": "routings: [network.router] routing = ...; trees, dragonflies and Garnet's networks have routings of "
    "their own",
    "allocators": "allocators: [network.router] va_allocator = ..., sa_allocator = ...",
    "backends": "backends: pyxsim run --backend ...",
    "transports": "transports of the Ethernet backend: [network.ethernet] transport = ...",
    "checks": "checks: pyxsim check",
    "datasets": "datasets: the tables of a result (result.NAME in Python, /NAME in the HDF5 file)",
    "panels": "panels of the HTML page: pyxsim report",
    "models": "models: [workload] model = ...; pyxsim list NAME shows the layers",
    "devices": "devices: [system.npu] device = ...",
    "systems": "systems: [network] topology = ...; pyxsim list NAME shows the numbers and their sources",
    "links": "links: [cost.links] type = ...",
    "switches": "switches: [cost.switch] type = ...",
    "npus": "NPUs: [cost.npu] type = ...",
    "hosts": "hosts: [cost.host] type = ...",
    "memories": "memories: [cost.memory] type = ...",
    "facilities": "defaults of [cost] electricity and pue",
    "technologies": "technologies of networks on a chip: [cost.noc] technology = ...",
}


def _show(out: CommandOutput, shelves: dict[str, list[tuple[str, str, list[str]]]]) -> None:
    from rich.table import Table
    from rich.text import Text

    for number, (shelf, items) in enumerate(shelves.items()):
        table = Table.grid(padding=(0, 2))
        table.add_column(style="bold", no_wrap=True)
        table.add_column()
        for name, about, notes in items:
            table.add_row(f"  {name}", Text(about))
            for note in notes:
                table.add_row("", Text(note, style="dim"))
        out.say(*([""] if number else []), _TITLES[shelf], table)
