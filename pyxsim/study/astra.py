"""ASTRA-sim 1's input files as an experiment: the Garnet network text and the system text, `key: value` each.

The result is an ordinary experiment (`resolved_toml` shows it) with `compat = "astra-sim-1"`. Every key is honoured, or
refused with a reason, or is one that the original reads and never uses. docs/formats.md lists them.

Units of these files: widths in bits per cycle, latencies and delays in cycles of 1 ns, sizes in bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from pyxsim import library
from pyxsim.collective.lookup import get_algorithm
from pyxsim.errors import InputError, raise_all
from pyxsim.settings import Experiment, canonical_algorithm, load_experiment
from pyxsim.study.garnet_credit import credit_lead
from pyxsim.textfile import read_text
from pyxsim.workload import read_text_workload

PathLike = str | Path
_MOST = 2**40
SERDES = 4  # cycles that Garnet's two serialisers cost a hop: 1 + 1 on each side


class Entry(NamedTuple):
    """A value of such a file and where it stands."""

    value: str
    place: str  # file:line


class Text:
    """A file of `key: value` pairs, with the values taken out one by one; what is left at the end is unknown."""

    def __init__(self, path: PathLike) -> None:
        self.file = str(path)
        self.entries: dict[str, Entry] = {}
        self.faults: list[InputError] = []
        self._known: list[str] = []
        words = [(word, number) for number, line in enumerate(read_text(path).splitlines(), 1) for word in line.split()]
        if not words:
            raise InputError("is empty", file=self.file, allowed="pairs 'key: value'")
        for (key, line), (value, _) in zip(words[::2], [*words[1::2], ("", 0)], strict=False):
            if not key.endswith(":") or not value or value.endswith(":"):
                raise InputError(
                    f"'{key} {value}'.".rstrip(".") + " is no pair", file=f"{self.file}:{line}", allowed="'key: value'"
                )
            if key[:-1] in self.entries:
                raise InputError("is given twice", file=f"{self.file}:{line}", key=key[:-1])
            self.entries[key[:-1]] = Entry(value, f"{self.file}:{line}")

    def text(self, key: str, default: str | None = None) -> str:
        """The value of a key."""
        self._known.append(key)
        if key in self.entries:
            return self.entries[key].value
        if default is None:
            self.faults.append(InputError("is missing", file=self.file, key=key))
            return ""
        return default

    def count(self, key: str, default: int | None = None, least: int = 1) -> int:
        """The value of a key as a whole number."""
        word = self.text(key, None if default is None else str(default))
        if not word:
            return least
        if not word.isascii() or not word.isdigit() or len(word) > 15 or not least <= int(word) <= _MOST:
            self.fault(key, f"'{word}' is none of what is allowed", f"a whole number from {least}")
            return least
        return int(word)

    def choice(self, key: str, words: Mapping[str, Any], default: str | None = None) -> Any:
        """What the word of a key stands for."""
        word = self.text(key, default)
        if word in words:
            return words[word]
        if word:
            self.fault(key, f"'{word}' is not in this version", list(words), word)
        return None

    def unused(self, *keys: str) -> None:
        """Keys that the original reads and never uses."""
        self._known += keys

    def fault(self, key: str, problem: str, allowed: str | list[str], given: str | None = None) -> None:
        place = self.entries[key].place if key in self.entries else self.file
        self.faults.append(InputError(problem, file=place, key=key, allowed=allowed, given=given))

    def sound(self, *keys: str) -> bool:
        """Whether nothing is wrong with these keys so far: a fault is told once, not again by what follows from it."""
        return not any(fault.key in keys for fault in self.faults)

    def finish(self) -> None:
        """Raise all faults, those of unknown keys included."""
        for key, entry in self.entries.items():
            if key not in self._known:
                self.faults.append(
                    InputError("unknown key", file=entry.place, key=key, allowed=sorted(self._known), given=key)
                )
        raise_all(self.faults)


def astra_experiment(
    network: PathLike,
    system: PathLike,
    workload: PathLike,
    *,
    passes: int = 1,
    comm_scale: str | float = 1,
    compute_scale: str | float = 1,
    overrides: tuple[str, ...] = (),
) -> Experiment:
    """The experiment of three files of ASTRA-sim 1. Raises InputError."""
    library.load_all()
    tables, dims = network_tables(network)
    layer = read_text_workload(workload).layers[0]
    data: dict[str, Any] = {
        "network": tables,
        "system": system_tables(system, dims, layer.weight_gradient.kind),
        "workload": {
            "file": str(workload),
            "passes": passes,
            "comm_scale": str(comm_scale),
            "compute_scale": str(compute_scale),
        },
    }
    return load_experiment(data, overrides)


# --- the network text -------------------------------------------------------------------------------------------------


def network_tables(path: PathLike) -> tuple[dict[str, Any], int]:
    """The table [network] for a Garnet network text, and the number of dimensions. Raises InputError."""
    text = Text(path)
    npus, packages = text.count("num-npus"), text.count("num-packages")
    if text.sound("num-npus", "num-packages") and npus % packages:
        text.fault("num-packages", f"{packages} packages do not share {npus} NPUs evenly", "a divisor of num-npus")
    build = text.choice("topology", {"Torus3D": _torus, "NV_Switch": _switch})
    text.unused("local-packet-size", "local-link-efficiency", "package-link-efficiency")
    if build is None:
        text.unused(
            "package-rows", "local-rings", "vertical-rings", "horizontal-rings", "links-per-tile", "routing-algorithm"
        )
        shape: list[int] = [npus]
        options: dict[str, int] = {}
    else:
        shape, options = build(text, npus // packages or 1, packages)
    flit = text.count("flit-width", 128, least=8)
    if flit % 8:
        text.fault("flit-width", f"{flit} bits are no whole bytes", "a multiple of 8")
    local = _phits(text, "tile-link-width", flit)
    package = _phits(text, "package-link-width", flit)
    packet = text.count("package-packet-size", 64)
    latency = text.count("local-link-latency", 1), text.count("package-link-latency", 1)
    stages = text.count("router-latency", 1)
    # 16 is what the original gives all of its virtual networks but the third.
    vcs, depth = text.count("vcs-per-vnet", 4), text.count("buffers-per-vc", 16)
    text.finish()
    others = len(shape) - 1
    flits = -(-packet * 8 // flit)
    phits = [local] + [package] * others
    # A packet smaller than a flit still is one flit.
    flit_bytes = flit // 8
    return {
        "topology": "garnet-torus" if build is _torus else "garnet-switch",
        "shape": shape,
        "options": options,
        "clock": "1 GHz",
        "flit": f"{flit_bytes} B",
        "packet": f"{max(packet, flit_bytes)} B",
        "pad_packets": True,
        "bandwidth": [_rate(Fraction(flit_bytes, k)) for k in phits],
        "latency": [f"{latency[0]} ns"] + [f"{latency[1]} ns"] * others,
        "lane_bandwidth": _rate(Fraction(flit_bytes)),
        "lane_latency": f"{latency[0]} ns",
        "router": {
            "pipeline": "garnet",
            "latency": stages,
            "vcs": vcs,
            "buffer": depth,
            "vc_reuse": "drained",
            "arbiter": "step",
            "injection": "interleaved",
            "ordered": True,
            "output_queue": True,
            "serdes": SERDES,
            "serdes_credit": [SERDES + k - 1 - credit_lead(k, flits) for k in phits],
            "routing": "ring",
        },
    }, len(shape)


def _torus(text: Text, local: int, packages: int) -> tuple[list[int], dict[str, int]]:
    rows = text.count("package-rows", 2)
    if text.sound("num-packages", "package-rows") and packages % rows:
        text.fault("package-rows", f"{packages} packages do not fill {rows} rows", "a divisor of num-packages")
    text.choice("routing-algorithm", {"Ring_XY": True}, "table")
    text.unused("links-per-tile")
    options = {f"{name}_rings": text.count(f"{name}-rings", 1) for name in ("local", "horizontal", "vertical")}
    return [local, packages // rows or 1, rows], options


def _switch(text: Text, local: int, packages: int) -> tuple[list[int], dict[str, int]]:
    text.choice("routing-algorithm", {"AllToAll": True}, "table")
    text.unused("package-rows", "vertical-rings", "horizontal-rings")
    return [local, packages], {
        "local_rings": text.count("local-rings", 1),
        "links_per_tile": text.count("links-per-tile", 1),
    }


def _phits(text: Text, key: str, flit: int) -> int:
    """Cycles that a flit takes on a link of the width under `key`."""
    width = text.count(key, 128)
    if text.sound("flit-width", key) and width > flit:
        text.fault(key, f"a link of {width} bits is wider than the flit of {flit} bits", "at most flit-width")
    return max(1, -(-flit // width))


def _rate(bytes_per_ns: Fraction) -> str:
    """Bytes per cycle of 1 GHz as a bandwidth."""
    return f"{bytes_per_ns.numerator * 10**9}/{bytes_per_ns.denominator} B/s"


# --- the system text --------------------------------------------------------------------------------------------------

REDUCTION = 30  # cycles: a write and two reads of 10 each where no memory model is attached (Sys.cc of version 1)
_ORDERS = {
    "ascending": "ascending",
    "baseline": "ascending",
    "roundRobin": "round-robin",
    "offlineGreedy": "themis",
    "themis": "themis",
}


def system_tables(path: PathLike, dims: int, wanted: str | None = None) -> dict[str, Any]:
    """The table [system] for a system text and a network of `dims` dimensions. Raises InputError.

    `wanted`: the kind of collective that will be run; only its algorithms have to exist.
    """
    text = Text(path)
    table: dict[str, Any] = {
        "compat": "astra-sim-1",
        "scheduling": text.choice("scheduling-policy", {"LIFO": "LIFO", "FIFO": "FIFO"}),
        "endpoint_delay": f"{text.count('endpoint-delay', 10, least=0)} ns",
        "reduction_delay": f"{REDUCTION} ns",
        "active_chunks": text.count("active-chunks-per-dimension", 1),
        "chunks": text.count("preferred-dataset-splits", 1),
        "optimization": text.choice(
            "collective-optimization", {"baseline": "baseline", "localBWAware": "localBWAware"}, "baseline"
        ),
        "intra_dimension": text.choice("intra-dimension-scheduling", {"FIFO": "FIFO"}, "FIFO"),
        "inter_dimension": text.choice("inter-dimension-scheduling", _ORDERS, "ascending"),
    }
    for kind in ("all-reduce", "reduce-scatter", "all-gather", "all-to-all"):
        names = _algorithms(text, f"{kind}-implementation", dims, kind if kind == wanted else None)
        if names:
            table[kind.replace("-", "_")] = names
    text.choice("boost-mode", {"0": False}, "0")
    text.choice("model-shared-bus", {"0": False}, "0")
    # They matter to the shared bus only; the log is written in another form.
    text.unused("local-reduction-delay", "L", "o", "g", "G", "seprate-log")
    text.finish()
    return table


def _algorithms(text: Text, key: str, dims: int, kind: str | None) -> list[str] | str | None:
    """An algorithm for each dimension; one name alone stands for all of them. `kind`: what they must be able to do."""
    word = text.text(key, "")
    if not word:
        return None
    names = []
    for spelled in word.split("_"):
        try:
            names.append(canonical_algorithm(spelled))
            if kind is not None:
                get_algorithm(names[-1]).check(kind)
        except InputError as error:
            # In the words of the file, whose spelling is not ours.
            problem = error.problem if f"'{spelled}'" in error.problem else f"'{spelled}': {error.problem}"
            told = InputError(problem, allowed=error.allowed, given=error.given)
            text.faults.append(told.at(file=text.entries[key].place, key=key))
            return None
    if len(names) == 1:
        return names[0]
    if len(names) != dims:
        text.fault(key, f"{len(names)} algorithms for {dims} dimensions", f"one name, or {dims} names joined by '_'")
    return names
