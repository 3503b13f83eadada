"""Whether trees or paths give a schedule of a collective for a group, with their units cut in slices."""

from __future__ import annotations

from typing import Protocol

from pyxsim.errors import InputError

MOST_BLOCKS = 4096  # units times slices of a rank
MOST_MESSAGES = 2**22


class UnitRoutes(Protocol):
    """Trees or paths that carry the units of the data of `n` ranks."""

    @property
    def n(self) -> int: ...
    @property
    def units(self) -> int: ...
    @property
    def kinds(self) -> tuple[str, ...]: ...
    def messages(self, kind: str, slices: int = 1) -> int: ...


def check_slices(routes: UnitRoutes, kind: str, slices: int, name: str, n: int | None) -> None:
    """Raise InputError unless the routes give a schedule of the kind for a group of `n` ranks (None: their own)."""
    if n not in (None, routes.n):
        allowed = f"a group of {routes.n}; 'one-' before the path treats the NPUs of all dimensions as one group"
        raise InputError(f"{name} is for {routes.n} NPUs, but the group has {n}", allowed=allowed)
    if kind not in routes.kinds:
        raise InputError(f"{name} does not support {kind}", allowed=", ".join(routes.kinds))
    if routes.units * slices > MOST_BLOCKS:
        problem = f"{slices} slices of {routes.units} units are {routes.units * slices}"
        raise InputError(problem, allowed=f"at most {MOST_BLOCKS // routes.units} slices")
    if (messages := routes.messages(kind, slices)) > MOST_MESSAGES:
        raise InputError(f"{name}: {messages} messages", allowed=f"at most {MOST_MESSAGES}: fewer slices")
