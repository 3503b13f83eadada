"""Registries: tables from names to what files on the shelves provide (topologies, patterns, collectives, ...).

Registries are the only global state of pyxsim. Files of the shelves fill them (see `library`); a user's file and a
shipped one use the same mechanism:

    from pyxsim.registry import topologies

    @topologies.register("torus")
    def torus(shape): ...
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pyxsim.errors import InputError, nearest

REGISTRIES: list[Registry[Any]] = []  # every registry that exists, whatever room defines it

T = TypeVar("T")
V = TypeVar("V")

OWN = "or your own: give its folder with --library DIR"


@dataclass(frozen=True)
class Entry(Generic[T]):
    """One registered object: its name, other spellings of it, what it says about itself, and who registered it."""

    name: str
    value: T
    aliases: tuple[str, ...] = ()
    info: dict[str, Any] = field(default_factory=dict)
    module: str = ""


class Registry(Generic[T]):
    """A table from names to objects of one kind.

    Parameters
    ----------
    kind
        The kind of object, as error messages name it: "topology".
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        REGISTRIES.append(self)
        self._entries: dict[str, Entry[T]] = {}
        self._spellings: dict[str, str] = {}

    def register(self, name: str, *, aliases: Iterable[str] = (), module: str = "", **info: Any) -> Callable[[V], V]:
        """Decorator: put the object under `name`; `info` are keywords that describe it (`entry(name).info`).

        Raises InputError when the name or an alias is taken.
        """

        # The caller, not value.__module__: a functools.partial would name functools.
        module = module or str(sys._getframe(1).f_globals.get("__name__", ""))
        others = tuple(aliases)

        def put(value: V) -> V:
            for spelling in (name, *others):
                if spelling in self._spellings:
                    owner = self._entries[self._spellings[spelling]].module
                    raise InputError(
                        f"the {self.kind} '{spelling}' of module {module} is already registered by module {owner}"
                    )
            self._entries[name] = Entry(name, value, others, info, module)  # type: ignore[arg-type]
            self._spellings.update(dict.fromkeys((name, *others), name))
            return value

        return put

    def canonical(self, name: str) -> str:
        """The name proper for a name or alias. Raises InputError with the closest match when nothing has that name."""
        if name in self._spellings:
            return self._spellings[name]
        raise self.unknown(name)

    def unknown(self, name: str, *more: str, key: str | None = None) -> InputError:
        """Return the fault of an unknown name. `more`: what else could be named there.

        A name that is close to no known one may come from a library folder that was not given.
        """
        known = [*self.names(), *more]
        own = () if nearest(name, known) else (OWN,)
        return InputError(f"unknown {self.kind} '{name}'", key=key, allowed=[*known, *own], given=name)

    def entry(self, name: str) -> Entry[T]:
        """The entry under a name or alias; InputError as `canonical`."""
        return self._entries[self.canonical(name)]

    def get(self, name: str) -> T:
        """The object under a name or alias; InputError as `canonical`."""
        return self.entry(name).value

    def names(self) -> list[str]:
        """All names in alphabetical order, without aliases."""
        return sorted(self._entries)

    @property
    def entries(self) -> list[Entry[T]]:
        """All entries in the order of their names."""
        return [self._entries[name] for name in self.names()]

    @property
    def registered(self) -> list[T]:
        """All objects in the order of registration."""
        return [entry.value for entry in self._entries.values()]

    def discard(self, module: str) -> None:
        """Forget what a module registered: its file turned out to be broken half way through."""
        for entry in [e for e in self._entries.values() if e.module == module]:
            del self._entries[entry.name]
            for spelling in (entry.name, *entry.aliases):
                del self._spellings[spelling]

    def __contains__(self, name: object) -> bool:
        return name in self._spellings

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self._entries)


topologies: Registry[Callable[..., Any]] = Registry("topology")
blocks: Registry[Callable[..., Any]] = Registry("block")
routings: Registry[Callable[..., Any]] = Registry("routing")
"""Functions of the Wires of any network, which every network accepts by name."""
grid_routings: Registry[Callable[..., Any]] = Registry("routing of grids")
"""Functions of dimension-order tables; every grid to which one `applies` offers it."""
graph_routings: Registry[Callable[..., Any]] = Registry("routing of graphs")
"""Functions of the Wires of a network with links in both directions; the topologies of graphs offer them."""
patterns: Registry[Callable[..., Any]] = Registry("traffic pattern")
collectives: Registry[Callable[..., Any]] = Registry("collective algorithm")
readers: Registry[Callable[..., Any]] = Registry("workload reader")
datasets: Registry[Any] = Registry("dataset")
