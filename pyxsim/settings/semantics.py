"""Settings that the semantics of other simulators (`compat`) do not support: each is an error with the reason.

The checks are here and not in the wing, so that reading an experiment reports all its faults at once; the wing refuses
what depends on the network or the workload (pyxsim/compat/astra/system/refuse.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyxsim.errors import InputError
from pyxsim.settings.algorithms import ALGORITHM_KEYS, ASTRA_KINDS, KINDS, is_file
from pyxsim.settings.collective import Collective

# Unsupported settings: key -> reason. A key counts as set when it differs from its default.
_UNKNOWN: dict[str, dict[str, str]] = {
    "astra-sim-1": {
        "start_skew": "all NPUs start together",
        "stragglers": "all NPUs are identical",
        "groups": "collectives run on all NPUs, or along dimensions",
        "rendezvous": "only ASTRA-sim 2 has this protocol",
        "endpoint": "its endpoints have fixed delays",
        "remote_memory": "its workloads contain only memory times",
    },
    "astra-sim-2": {
        "reduction_delay": "the time of a reduction follows from local_memory_bandwidth",
        "boost": "it reads this key but ignores it",
        "endpoint": "its endpoints have fixed delays",
        "start_skew": "all NPUs start together",
        "stragglers": "all NPUs are identical",
    },
}
# Unsupported values of supported settings: key -> (values, reason).
_WORDS: dict[str, dict[str, tuple[tuple[str, ...], str]]] = {
    "astra-sim-1": {"scheduling": (("explicit",), "it supports only LIFO and FIFO")},
    "astra-sim-2": {
        "inter_dimension": (("round-robin", "themis", "themis-flex"), "it always takes the dimensions in order"),
        "intra_dimension": (("RG", "smallest-first", "fewest-phases-first"), "its queues are FIFO"),
    },
}
# Kinds of collectives that version 1 does not have.
ONLY_OURS = tuple(kind for kind in KINDS if kind not in ASTRA_KINDS)


def faults_of(system: Any) -> list[InputError]:
    """Return an error for each setting in [system] that its `compat` does not support."""
    compat = system.compat
    if compat is None:
        return []
    unknown = _UNKNOWN.get(compat, {})
    set_keys = [key for key in unknown if getattr(system, key) != _default(system, key)]
    faults = [_fault(key, compat, unknown[key]) for key in set_keys]
    for key, (words, reason) in _WORDS.get(compat, {}).items():
        word = getattr(system, key)
        if word in words:
            faults.append(_fault(key, compat, reason, f"'{word}'"))
    if compat == "astra-sim-1":
        set_keys = [kind for kind in ONLY_OURS if getattr(system, kind) is not None]
        faults += [_fault(kind, compat, "it has no such collective") for kind in set_keys]
    faults += _memory_faults(system, compat)
    return [*faults, *refuse_files(((key, getattr(system, key)) for key in ALGORITHM_KEYS), compat)]


def _memory_faults(system: Any, compat: str) -> Iterator[InputError]:
    """Errors for kinds of remote memory that ASTRA-sim does not have."""
    memory = system.remote_memory
    if compat == "astra-sim-2" and memory is not None:
        if memory.kind in ("zero-infinity", "hierarchical"):
            reason = "it supports only per-npu, per-node and pool"
            yield _fault("remote_memory.kind", compat, reason, f"'{memory.kind}'")
        elif memory.sharing == "fair":
            yield _fault("remote_memory.sharing", compat, "it serves one access at a time", "'fair'")


def _default(system: Any, key: str) -> Any:
    info = type(system).model_fields[key]
    default = info.get_default(call_default_factory=True)
    # Defaults of quantities are texts.
    return getattr(type(system)(), key) if isinstance(default, str) else default


def _fault(key: str, compat: str, reason: str, what: str = "this setting") -> InputError:
    return InputError(f"{compat} does not support {what}: {reason}", key=key, allowed="no value, or no compat")


def refuse(collective: Collective, compat: str | None) -> Iterator[InputError]:
    """Yield an error for each setting of a collective that a semantics does not support; keys within its table."""
    if compat is None:
        return
    if collective.kind in ONLY_OURS and compat == "astra-sim-1":
        yield InputError(f"{compat} has no {collective.kind}", key="kind", allowed="another kind, or no compat")
    for key in ("npus", "group") if compat == "astra-sim-1" else ():
        if getattr(collective, key) is not None:
            yield _fault(key, compat, "collectives run on all NPUs, or along dimensions (`dims`)")


def refuse_messages(compat: str | None) -> Iterator[InputError]:
    """Yield an error if a semantics does not support messages between NPUs."""
    if compat == "astra-sim-1":
        yield _fault("", compat, "its workloads contain collectives only", "messages")


def refuse_files(names: Iterable[tuple[str, object]], compat: str | None) -> Iterator[InputError]:
    """Yield an error per algorithm from a file that a semantics does not support; `names`: (key, algorithms)."""
    for key, value in names if compat == "astra-sim-1" else ():
        for name in (value,) if isinstance(value, str) else value if isinstance(value, tuple) else ():
            if is_file(name):
                yield _fault(key, str(compat), "its algorithms are fixed", "algorithms from files")
