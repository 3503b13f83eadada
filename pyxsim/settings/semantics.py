"""What the semantics of other simulators do not know: refused with the reason, as nothing may be read and ignored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pyxsim.errors import InputError

if TYPE_CHECKING:
    from pyxsim.settings.system import System

# Settings that a semantics has nothing for: key -> reason. A key counts as given when it differs from its default.
_UNKNOWN: dict[str, dict[str, str]] = {
    "astra-sim-1": {
        "local_memory_bandwidth": "a reduction takes the same time whatever its size: reduction_delay",
        "start_skew": "all NPUs begin together",
        "stragglers": "all NPUs are alike",
        "groups": "collectives concern all NPUs, or dimensions",
    },
    "astra-sim-2": {
        "reduction_delay": "a reduction takes what local_memory_bandwidth says",
        "boost": "it reads the key and never uses it",
        "start_skew": "all NPUs begin together",
        "stragglers": "all NPUs are alike",
    },
}
# Words of a key that a semantics has, that it does not know: (key, words) -> reason.
_WORDS: dict[str, dict[str, tuple[tuple[str, ...], str]]] = {
    "astra-sim-1": {"scheduling": (("explicit",), "it knows LIFO and FIFO only")},
    "astra-sim-2": {
        "inter_dimension": (("round-robin", "themis", "themis-flex"), "it always takes the dimensions in order"),
        "intra_dimension": (("RG", "smallest-first", "fewest-phases-first"), "its queues are FIFO"),
    },
}
# Kinds that they do not have.
ONLY_OURS = ("broadcast", "reduce", "gather", "scatter", "barrier")


def faults_of(system: System) -> list[InputError]:
    """What [system] asks for that its `compat` does not know."""
    compat = system.compat
    if compat is None:
        return []
    given = [key for key in _UNKNOWN[compat] if getattr(system, key) != _default(system, key)]
    faults = [_fault(key, compat, _UNKNOWN[compat][key]) for key in given]
    for key, (words, reason) in _WORDS[compat].items():
        word = getattr(system, key)
        if word in words:
            faults.append(_fault(key, compat, reason, f"'{word}'"))
    faults += [
        _fault(kind, compat, "it has no such collective") for kind in ONLY_OURS if getattr(system, kind) is not None
    ]
    return faults


def _default(system: System, key: str) -> Any:
    info = type(system).model_fields[key]
    default = info.get_default(call_default_factory=True)
    # Quantities have their default as a text.
    return getattr(type(system)(), key) if isinstance(default, str) else default


def _fault(key: str, compat: str, reason: str, what: str = "it") -> InputError:
    return InputError(f"{compat} does not know {what}: {reason}", key=key, allowed="to leave it out, or no compat")


def refuse_kind(kind: str, compat: str | None, key: str) -> Iterable[InputError]:
    """The fault of a collective that a semantics does not have."""
    if compat is not None and kind in ONLY_OURS:
        yield InputError(f"{compat} has no {kind}", key=key, allowed="another kind, or no compat")
