"""Add file names to faults of the input."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from pyxsim.errors import InputError, bundle, single_faults
from pyxsim.settings.faults import key_path
from pyxsim.settings.override import parse_override


def by_hand(key: str, overrides: Iterable[str]) -> bool:
    """Return whether an override such as "system.queues=1" set the value of a key."""
    paths = _paths(tuple(overrides))
    return any(key == path or key.startswith((f"{path}.", f"{path}[")) for path in paths)


@lru_cache(maxsize=1)
def _paths(overrides: tuple[str, ...]) -> list[str]:
    """The keys of overrides; thousands of faults may ask for those of a long one."""
    return [key_path(parse_override(text)[0]) for text in overrides]


def placed(error: InputError, file: str, overrides: Iterable[str] = ()) -> InputError:
    """Return the faults with their file; `--set` for an overridden key. Faults of options keep their place."""
    overrides = tuple(overrides)

    def place(fault: InputError) -> InputError:
        key = fault.key or ""
        if fault.file is not None or key.startswith("--"):
            return fault
        return fault.at(file="--set" if by_hand(key, overrides) else file)

    return bundle([place(fault) for fault in single_faults(error)])
