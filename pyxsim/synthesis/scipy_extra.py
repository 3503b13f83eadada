"""The methods that need scipy: maximum flows and integer programming."""

from __future__ import annotations

from importlib.util import find_spec

from pyxsim.errors import InputError

INSTALL = "requires scipy: pip install 'pyxsim[design]'"


def has_scipy() -> bool:
    """Whether scipy is installed."""
    return find_spec("scipy") is not None


def require_scipy(what: str) -> None:
    """Raise InputError if scipy is missing."""
    if not has_scipy():
        raise InputError(f"{what} {INSTALL}")
