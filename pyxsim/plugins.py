"""Registries that packages fill: the wings of `pyxsim.compat`, one for each simulator that pyxsim reproduces, and the
folders of `pyxsim.network`, one for each family of backends.

The packages below name no wing. The `__init__.py` of a wing registers what it offers, by a target that is imported on
first use, so that a run without `compat` imports nothing of it. A package of your own does the same from its entry
point `pyxsim.library` (docs/extending.md).
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from pyxsim.errors import InputError
from pyxsim.registry import Entry, Registry

T = TypeVar("T")
_ROOT = Path(__file__).parent
WINGS = ("compat/*",)
BACKENDS = (*WINGS, "network/*", "reference")


@functools.cache
def load(packages: tuple[str, ...]) -> None:
    """Import the `__init__.py` of every wing or backend in these folders, in alphabetical order."""
    for folder in sorted(each for pattern in packages for each in _ROOT.glob(pattern)):
        if (folder / "__init__.py").is_file():
            importlib.import_module(".".join(("pyxsim", *folder.relative_to(_ROOT).parts)))


class WingRegistry(Registry[T]):
    """A registry that imports the packages that fill it before the first lookup."""

    def __init__(self, kind: str, packages: tuple[str, ...] = WINGS) -> None:
        super().__init__(kind)
        self._packages = packages

    def names(self) -> list[str]:
        """All names in alphabetical order."""
        load(self._packages)
        return super().names()

    def canonical(self, name: str) -> str:
        """The name for a name or alias. Raises InputError with the closest match for an unknown one."""
        load(self._packages)
        return super().canonical(name)

    def __contains__(self, name: object) -> bool:
        load(self._packages)
        return super().__contains__(name)

    def reader(self, path: str | Path) -> T:
        """The reader of a file by its suffix (`suffixes` of the entry; an entry without any reads all others).

        Raises InputError if no reader takes it.
        """
        suffix = Path(path).suffix.lower()
        takes = [each for each in self.entries if suffix in each.info.get("suffixes", ())]
        takes = takes or [each for each in self.entries if "suffixes" not in each.info]
        if not takes:
            known = sorted({each for entry in self.entries for each in entry.info["suffixes"]})
            raise InputError(f"unknown form of a {self.kind}", file=str(path), allowed=known, given=suffix)
        return takes[0].value


class LazyRegistry(WingRegistry[T]):
    """A registry of targets "module:Class", each of which is imported when it is first looked up.

    A run then imports the one backend that it uses. Decorated classes, such as a user's, register as elsewhere.
    """

    def entry(self, name: str) -> Entry[T]:
        """The entry under a name or alias, its targets imported. Raises InputError for an unknown name."""
        entry = super().entry(name)
        targets = {key: value for key, value in entry.info.items() if isinstance(value, Target)}
        if isinstance(entry.value, Target) or targets:
            info = {**entry.info, **{key: target.load() for key, target in targets.items()}}
            value = entry.value.load() if isinstance(entry.value, Target) else entry.value
            entry = self._entries[entry.name] = replace(entry, value=value, info=info)
        return entry

    @property
    def entries(self) -> list[Entry[T]]:
        """All entries in the order of their names, all imported."""
        return [self.entry(name) for name in self.names()]


@dataclass(frozen=True)
class Target:
    """An object that is imported on first use: "module:name"."""

    path: str

    def load(self) -> Any:
        """Import the module and return the object."""
        module, _, name = self.path.partition(":")
        return getattr(importlib.import_module(module), name)


def imported(target: str) -> Callable[..., Any]:
    """Return a function that imports "module:function" when it is called, and calls it."""

    def call(*args: Any, **options: Any) -> Any:
        return Target(target).load()(*args, **options)

    return call


system_layers: WingRegistry[Callable[..., Any]] = WingRegistry("system layer")
"""`system.compat` -> (network, shape, options) -> SystemLayer."""
system_files: WingRegistry[Callable[..., Any]] = WingRegistry("system file")
"""Readers of `system.file`: path -> (keys of [system], warnings)."""
network_files: WingRegistry[Callable[..., Any]] = WingRegistry("network file")
"""Readers of other simulators' network files: path -> keys of [network]."""
commands: WingRegistry[Callable[..., Any]] = WingRegistry("command")
"""Functions that add a command to the typer application."""
backends: LazyRegistry[Any] = LazyRegistry("backend", BACKENDS)
"""Classes of backends (pyxsim/network/protocol.py).

`cost`: order in `pyxsim compare`, cheapest first. `compared`: False leaves it out of `compare` unless named.
`open_traffic`: the class of its `OpenBackend`.
"""
