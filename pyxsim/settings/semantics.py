"""What the semantics of other simulators do not know: refused with the reason, as nothing may be read and ignored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyxsim.errors import InputError
from pyxsim.settings.algorithms import ALGORITHM_KEYS, ASTRA_KINDS, KINDS, is_file

if TYPE_CHECKING:
    from pyxsim.settings.collective import Collective
    from pyxsim.settings.system import System

# Settings that a semantics has nothing for: key -> reason. A key counts as given when it differs from its default.
_UNKNOWN: dict[str, dict[str, str]] = {
    "astra-sim-1": {
        "start_skew": "all NPUs begin together",
        "stragglers": "all NPUs are alike",
        "groups": "collectives concern all NPUs, or dimensions",
        "rendezvous": "its messages are not asked for; version 2's are",
        "endpoint": "its endpoints have delays",
        "remote_memory": "its workloads only say how long memory takes",
    },
    "astra-sim-2": {
        "reduction_delay": "a reduction takes what local_memory_bandwidth says",
        "boost": "it reads the key and never uses it",
        "endpoint": "its endpoints have delays",
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
# Kinds that version 1 does not have.
ONLY_OURS = tuple(kind for kind in KINDS if kind not in ASTRA_KINDS)


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
    if compat == "astra-sim-1":
        given = [kind for kind in ONLY_OURS if getattr(system, kind) is not None]
        faults += [_fault(kind, compat, "it has no such collective") for kind in given]
    faults += _memory_faults(system, compat)
    return [*faults, *refuse_files(((key, getattr(system, key)) for key in ALGORITHM_KEYS), compat)]


def _memory_faults(system: System, compat: str) -> Iterator[InputError]:
    """Remote memory that only we have."""
    memory = system.remote_memory
    if compat == "astra-sim-2" and memory is not None:
        if memory.kind in ("zero-infinity", "hierarchical"):
            reason = "its code has per-npu, per-node and pool"
            yield _fault("remote_memory.kind", compat, reason, f"'{memory.kind}'")
        elif memory.sharing == "fair":
            yield _fault("remote_memory.sharing", compat, "it serves one access after the other", "'fair'")


def _default(system: System, key: str) -> Any:
    info = type(system).model_fields[key]
    default = info.get_default(call_default_factory=True)
    # Quantities have their default as a text.
    return getattr(type(system)(), key) if isinstance(default, str) else default


def _fault(key: str, compat: str, reason: str, what: str = "it") -> InputError:
    return InputError(f"{compat} does not know {what}: {reason}", key=key, allowed="to leave it out, or no compat")


def refuse(collective: Collective, compat: str | None) -> Iterator[InputError]:
    """What a collective asks for that a semantics does not have; keys within its table."""
    if compat is None:
        return
    if collective.kind in ONLY_OURS and compat == "astra-sim-1":
        yield InputError(f"{compat} has no {collective.kind}", key="kind", allowed="another kind, or no compat")
    for key in ("npus", "group") if compat == "astra-sim-1" else ():
        if getattr(collective, key) is not None:
            yield _fault(key, compat, "collectives concern all NPUs, or dimensions: `dims`")


def refuse_messages(compat: str | None) -> Iterator[InputError]:
    """The fault of messages from NPU to NPU beside collectives."""
    if compat == "astra-sim-1":
        yield _fault("", compat, "there are only collectives")


def refuse_files(names: Iterable[tuple[str, object]], compat: str | None) -> Iterator[InputError]:
    """The faults of algorithms of one's own, which stand in files. `names`: of algorithms, with their keys."""
    for key, value in names if compat == "astra-sim-1" else ():
        for name in (value,) if isinstance(value, str) else value if isinstance(value, tuple) else ():
            if is_file(name):
                yield _fault(key, str(compat), "they run without compat only", "algorithms of one's own")
