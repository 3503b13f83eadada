"""`pyxsim list`: what is on the shelves, with what it says of itself."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyxsim import library
from pyxsim.cli.talk import Talk
from pyxsim.collective.kinds import KINDS
from pyxsim.registry import Entry, blocks, collectives, topologies
from pyxsim.traffic import patterns


@dataclass(frozen=True)
class Item:
    """One entry of a shelf. `options`: what it takes besides its size: {"bidirectional": "true"}."""

    name: str
    help: str
    aliases: list[str]
    options: dict[str, str]
    file: str
    kinds: list[str] | None = None

    def json(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if value is not None}


def list_shelves(talk: Talk, libraries: Iterable[str] = ()) -> None:
    """`pyxsim list`. Raises InputError for a broken file on a shelf."""
    libraries = list(libraries)
    library.load_all(libraries)
    shelves = {
        "topologies": [_item(entry, ("shape",)) for entry in topologies.entries],
        "blocks": [_item(entry, ("npus",)) for entry in blocks.entries],
        "collectives": [
            _item(entry, ("kind", "npus"), list(entry.info.get("kinds", KINDS))) for entry in collectives.entries
        ],
        "patterns": [_item(entry, ("place",)) for entry in patterns.entries],
    }
    systems = library.data_files(extra_dirs=libraries)
    folders = {shelf: [str(path) for path in library.shelf_dirs(shelf, libraries)] for shelf in library.SHELVES}
    _show(talk, shelves, systems)
    talk.put(
        {
            **{name: [item.json() for item in items] for name, items in shelves.items()},
            "systems": {name: str(path) for name, path in systems.items()},
            "folders": folders,
        }
    )


def _item(entry: Entry[Any], size: Sequence[str], kinds: list[str] | None = None) -> Item:
    module = sys.modules.get(entry.module)
    function = entry.value
    # What is no plain function (a partial, an instance) has the text of its class: not about this entry.
    own = inspect.getdoc(function) if inspect.isfunction(function) else None
    text = own or inspect.getdoc(module) or ""
    return Item(
        entry.name,
        " ".join(text.split("\n\n")[0].split()),
        list(entry.aliases),
        _options(function, size),
        str(getattr(module, "__file__", "") or ""),
        kinds,
    )


def _options(function: Any, size: Sequence[str]) -> dict[str, str]:
    """Parameters that do not say how large it is."""
    try:
        parameters = [p for p in inspect.signature(function).parameters.values() if p.name not in size]
    except (TypeError, ValueError):
        return {}
    # As TOML writes it: true, 4, "text".
    return {p.name: "" if p.default is p.empty else json.dumps(p.default, default=str) for p in parameters}


_TITLES = {
    "topologies": "topologies: [network] topology = ...",
    "blocks": "blocks: [[network.dims]] block = ..., products of which are networks",
    "collectives": "collective algorithms: [system] all_reduce = ...",
    "patterns": "patterns of open traffic: [traffic] pattern = ...",
}


def _show(talk: Talk, shelves: dict[str, list[Item]], systems: dict[str, Path]) -> None:
    from rich.table import Table
    from rich.text import Text

    for number, (shelf, items) in enumerate(shelves.items()):
        table = Table.grid(padding=(0, 2))
        table.add_column(style="bold", no_wrap=True)
        table.add_column()
        for item in items:
            table.add_row(f"  {item.name}", Text(item.help))
            notes = []
            if item.kinds is not None:
                notes.append(", ".join(item.kinds))
            if item.aliases:
                notes.append(f"also called {', '.join(item.aliases)}")
            if item.options and item.kinds is None:
                notes.append("options: " + ", ".join(f"{k} = {v}" if v else k for k, v in item.options.items()))
            for note in notes:
                table.add_row("", Text(note, style="dim"))
        talk.say(*([""] if number else []), _TITLES[shelf], table)
    if systems:
        talk.say("", "systems: pyxsim run NAME", *(f"  {name}  {path}" for name, path in systems.items()))
