"""htsim_uec's command line: its options, their defaults, and those that are refused."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyxsim.errors import InputError

INT_MAX = 2**31 - 1
BALANCE = ("mixed", "bitmap", "oblivious", "reps", "reps_legacy")
ALGORITHMS = ("nscc", "dctcp", "constant")
POWERS_OF_TWO = ("mixed", "bitmap", "oblivious")  # algorithms that mask the number of paths
MOST_PATHS = 10_000
HEADER = 64  # bytes

_LOGS = ("flow_events", "sink", "nic", "tor_downqueue", "tor_upqueue", "switch", "traffic", "queue_usage")
# Options that select a model which is absent here: what is supported.
_ONLY = {"-strat": "ecmp_host", "-queue_type": "composite", "-host_queue_type": "fair_prio", "-planes": "1"}
_REFUSED = {
    "-pcie": "the model of PCIe at the receiver is absent",
    "-ar_sticky_delta": "adaptive routing is absent",
    "-ar_granularity": "adaptive routing is absent",
    "-ar_method": "adaptive routing is absent",
}


@dataclass(frozen=True)
class HtsimOptions:
    """Values of htsim_uec's options; times in picoseconds, sizes in bytes, rates in bit/s."""

    matrix: str | None = None
    topology: str | None = None
    log: str | None = None
    nodes: int = 0
    tiers: int = 3
    end: int = 1_000_000_000
    seed: int = 13
    line: int = 100_000_000_000
    mtu: int = 4150
    hop_latency: int = 1_000_000
    switch_latency: int = 0
    queue_packets: int | None = None
    queue_factor: int = 0
    ecn_packets: tuple[int, int] | None = None
    trimming: bool = True
    trim_size: int = 64
    window_packets: int = 0
    target: int = 0
    qa_gate: int = -1
    paths: int = 64
    balance: str = "mixed"
    failed: int = 0
    sack_threshold: int = 16384
    sleek: bool = False
    sender_cc: bool = True
    receiver_cc: bool = False
    sender_flag: bool = False
    algorithm: str = "nscc"
    oversubscribed_cc: bool = False
    never_oversubscribed_cc: bool = False
    oversub_ai: float = 0.01
    oversub_md: float = 0.5
    oversub_alpha: float = 0.5
    accurate_base_rtt: bool = False
    update_rtt_on_nack: bool = True
    reuse: bool = False
    notes: tuple[str, ...] = ()


# Options without a value: what they set, as htsim does, from left to right.
_FLAGS: dict[str, dict[str, Any]] = {
    "-conn_reuse": {"reuse": True},
    "-receiver_cc_only": {
        "sender_cc": False,
        "receiver_cc": True,
        "sender_flag": False,
        "oversubscribed_cc": False,
    },
    "-sender_cc_only": {"sender_cc": True, "receiver_cc": False, "sender_flag": True, "oversubscribed_cc": False},
    "-sender_cc": {"sender_cc": True, "sender_flag": True, "oversubscribed_cc": False},
    "-receiver_cc": {"receiver_cc": True},
    "-oversubscribed_cc": {"oversubscribed_cc": True},
    "-force_disable_oversubscribed_cc": {"oversubscribed_cc": False, "never_oversubscribed_cc": True},
    "-enable_accurate_base_rtt": {"accurate_base_rtt": True},
    "-disable_base_rtt_update_on_nack": {"update_rtt_on_nack": False},
    "-sleek": {"sleek": True},
    "-disable_trim": {"trimming": False},
}
# Whole numbers: the field, least and most.
_WHOLE = {
    "-nodes": ("nodes", 0, 1_000_000),
    "-tiers": ("tiers", 2, 3),
    "-seed": ("seed", -INT_MAX - 1, INT_MAX),
    "-mtu": ("mtu", HEADER + 1, 65_535),
    "-q": ("queue_packets", 1, 10_000_000),
    "-queue_size_bdp_factor": ("queue_factor", 0, 1_000_000),
    "-trimsize": ("trim_size", HEADER, 65_535),
    "-cwnd": ("window_packets", 0, 10_000_000),
    "-paths": ("paths", 1, MOST_PATHS),
    "-failed": ("failed", 0, INT_MAX),
    "-sack_threshold": ("sack_threshold", 0, 65_535),
}
# Microseconds: the field, most.
_TIMES = {
    "-hop_latency": ("hop_latency", 1e6),
    "-switch_latency": ("switch_latency", 1e6),
    "-target_q_delay": ("target", 1e6),
}
_FRACTIONS = {"-Ai": "oversub_ai", "-Md": "oversub_md", "-alpha": "oversub_alpha"}
_TEXTS = {"-tm": "matrix", "-topo": "topology", "-o": "log"}
_CHOICES = {"-load_balancing_algo": ("balance", BALANCE), "-sender_cc_algo": ("algorithm", ALGORITHMS)}
_OTHER = ("-end", "-linkspeed", "-qa_gate", "-ecn", "-log", "-logtime", "-logtime_us", "-debug")
OPTIONS = (*_TEXTS, *_WHOLE, *_TIMES, *_FRACTIONS, *_CHOICES, *_FLAGS, *_ONLY, *_REFUSED, *_OTHER)


def read_options(words: Sequence[str]) -> HtsimOptions:
    """Return the values of a command line of htsim_uec. Raises InputError."""
    options = HtsimOptions()
    rest = list(words)
    while rest:
        name = rest.pop(0)
        if name in _REFUSED:
            raise InputError(f"is not supported: {_REFUSED[name]}", key=name)
        if name not in OPTIONS:
            raise InputError(f"unknown option '{name}'", key="htsim", allowed=sorted(OPTIONS), given=name)
        if name in _FLAGS:
            options = replace(options, **_FLAGS[name])
        elif name == "-debug":
            options = _noted(options, "-debug prints nothing here")
        else:
            needed = 2 if name == "-ecn" else 1
            if len(rest) < needed:
                raise InputError("the value is missing", key=name, allowed="-ecn LOW HIGH" if needed > 1 else None)
            values, rest = rest[:needed], rest[needed:]
            options = _with_value(options, name, *values)
    return _checked(options)


def _noted(options: HtsimOptions, note: str) -> HtsimOptions:
    return replace(options, notes=(*options.notes, note))


def _with_value(options: HtsimOptions, name: str, value: str, second: str = "") -> HtsimOptions:
    """Return the options with the value of one of them."""
    change: dict[str, Any]
    if name in _TEXTS:
        if not value:
            raise InputError("the name is empty", key=name)
        change = {_TEXTS[name]: value}
    elif name in _WHOLE:
        field, least, most = _WHOLE[name]
        change = {field: whole(value, name, least, most)}
    elif name in _TIMES:
        field, top = _TIMES[name]
        change = {field: int(number(value, name, top) * 1_000_000)}
    elif name in _FRACTIONS:
        change = {_FRACTIONS[name]: number(value, name, 1e6)}
    elif name in _CHOICES:
        field, allowed = _CHOICES[name]
        if value not in allowed:
            raise InputError(f"unknown value '{value}'", key=name, allowed=allowed, given=value)
        change = {field: value}
        if field == "algorithm":
            change |= {"sender_cc": True, "sender_flag": True}
    elif name in _ONLY:
        if value != _ONLY[name]:
            raise InputError(f"'{value}' is not supported", key=name, allowed=_ONLY[name])
        change = {}
    elif name == "-end":
        change = {"end": whole(value, name, 0, INT_MAX) * 1_000_000}
    elif name == "-linkspeed":
        change = {"line": int(number(value, name, 1e8) * 1_000_000)}
    elif name == "-qa_gate":
        change = {"qa_gate": int(number(value, name, 62, least=-1))}
    elif name == "-ecn":
        change = {"ecn_packets": (whole(value, name, 0, INT_MAX), whole(second, name, 0, INT_MAX))}
    else:
        if name == "-log" and value not in _LOGS:
            raise InputError(f"unknown log '{value}'", key=name, allowed=_LOGS, given=value)
        return _noted(options, f"{name} {value} concerns htsim's log, which is not written")
    return replace(options, **change)


def whole(text: str, key: str, least: int, most: int, file: str | None = None) -> int:
    """Return a whole number. Raises InputError."""
    allowed = f"a whole number from {least} to {most}"
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        raise InputError(f"'{text}' is not a whole number", file=file, key=key, allowed=allowed)
    if not least <= int(text) <= most:
        raise InputError(f"{text} is out of range", file=file, key=key, allowed=allowed)
    return int(text)


def number(text: str, key: str, most: float, least: float = 0, file: str | None = None) -> float:
    """Return a number. Raises InputError."""
    allowed = f"a number from {least:g} to {most:g}"
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"'{text}' is not a number", file=file, key=key, allowed=allowed) from None
    if not math.isfinite(value) or not least <= value <= most:
        raise InputError(f"{text} is out of range", file=file, key=key, allowed=allowed)
    return value


def _checked(options: HtsimOptions) -> HtsimOptions:
    """Return the options if they agree with each other."""
    if options.trim_size > options.mtu:
        raise InputError(f"{options.trim_size} is out of range", key="-trimsize", allowed=f"64 to {options.mtu} (-mtu)")
    if options.balance in POWERS_OF_TWO and options.paths & (options.paths - 1):
        allowed = f"a power of two with -load_balancing_algo {options.balance}"
        raise InputError(f"{options.paths} is not a power of two", key="-paths", allowed=allowed)
    if options.line < 1_000_000:
        raise InputError("is out of range", key="-linkspeed", allowed="1 to 1e8 (Mb/s)")
    return options
