"""Registries that packages fill: the wings of `pyxsim.compat`, one for each simulator that pyxsim reproduces, the
folders of `pyxsim.network`, one for each family of backends, the allocators of the
router, and the transports of the Ethernet backend.

The packages below name no wing. The `__init__.py` of a wing registers what it offers, by a target that is imported on
first use, so that a run without `compat` imports nothing of it. A package of your own does the same from its entry
point `pyxsim.library` (docs/extending.md).
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from pyxsim.errors import InputError
from pyxsim.registry import Entry, Registry, V

T = TypeVar("T")
_ROOT = Path(__file__).parent
WINGS = ("compat/*",)
BACKENDS = (*WINGS, "network/*", "reference")
ALLOCATORS = ("core/router/allocators",)
TRANSPORTS = ("network/ethernet/transports",)


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
        takes = [registered for registered in self.entries if suffix in registered.info.get("suffixes", ())]
        takes = takes or [registered for registered in self.entries if "suffixes" not in registered.info]
        if not takes:
            known = sorted({suffix for entry in self.entries for suffix in entry.info["suffixes"]})
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


@dataclass(frozen=True)
class AllocatorTraits:
    """What an allocator can do, as registered.

    Attributes
    ----------
    stages : tuple of str
        Where it can be used: "va" (VC allocation), "sa" (switch allocation).
    iterations : int
        The most iterations that `NAME:N` may request; 0: the name takes no number.
    by_age : bool
        The rank of a request includes the cycle in which its message was sent.
    stateless : bool
        The grants depend on nothing but the requests, so that fast-forward may skip cycles.
    direct : tuple of str
        Stages in which the router implements it without a request matrix; the fast path has only these.
    """

    stages: tuple[str, ...] = ("va", "sa")
    iterations: int = 0
    by_age: bool = False
    stateless: bool = False
    direct: tuple[str, ...] = ()


class AllocatorRegistry(WingRegistry[Any]):
    """The registry of allocators: compiled functions (capsules), and classes of users (docs/extending_allocator.md)."""

    def register(self, name: str, *, aliases: Iterable[str] = (), module: str = "", **traits: Any) -> Callable[[V], V]:
        """Decorator: register an allocator with its `AllocatorTraits`."""
        module = module or str(sys._getframe(1).f_globals.get("__name__", ""))
        return super().register(name, aliases=aliases, module=module, traits=AllocatorTraits(**traits))

    def traits(self, name: str) -> AllocatorTraits:
        """Return the traits of an allocator. Raises InputError for an unknown name."""
        traits: AllocatorTraits = self.entry(name).info["traits"]
        return traits

    def spellings(self, stage: str) -> list[str]:
        """Return the names for a stage, and `NAME:N` for those with iterations."""
        usable = [entry for entry in self.entries if stage in entry.info["traits"].stages]
        counted = [entry.name for entry in usable if entry.info["traits"].iterations]
        return [*(entry.name for entry in usable), *(f"{name}:N" for name in counted)]


def imported(target: str) -> Callable[..., Any]:
    """Return a function that imports "module:function" when it is called, and calls it."""

    def call(*args: Any, **options: Any) -> Any:
        return Target(target).load()(*args, **options)

    return call


system_layers: WingRegistry[Callable[..., Any]] = WingRegistry("system layer")
"""`system.compat` -> (network, shape, options) -> SystemLayer."""
job_classes: WingRegistry[Callable[..., Any]] = WingRegistry("order of events")
"""`system.compat` -> (class of a graph job, settings of [system]) -> the class that replaces it."""
queue_orders: WingRegistry[Callable[..., int] | None] = WingRegistry("order of a queue", ("system",))
"""`system.intra_dimension` -> (task, kind of the task admitted before) -> its rank; the lowest rank is next. None: all
tasks have the same rank."""
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
transports: LazyRegistry[Any] = LazyRegistry("transport", TRANSPORTS)
"""Classes of transports of `network.ethernet.transport` (pyxsim/network/ethernet/transport.pyx)."""

allocators: AllocatorRegistry = AllocatorRegistry("allocator", ALLOCATORS)
"""Allocators of `network.router.va_allocator` and `sa_allocator`."""
