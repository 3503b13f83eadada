"""Comparison of one or more experiments on several backends, and with the lower bound."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.errors import InputError
from pyxsim.results.provenance import provenance
from pyxsim.results.result import Result
from pyxsim.results.table import Facts, Framed, Table, Variable, column, number, plain, texts
from pyxsim.results.views import Viewed
from pyxsim.units import plural

PACKET, ETHERNET = "packet", "ethernet"
FABRICS = (PACKET, ETHERNET)
"""Backends that simulate packets. Ethernet is another fabric, not a model of the packet backend."""
LINKS = "links"
"""The name of the lower bound in lists of backends: bytes over link capacity, and the shortest route."""
BUSIEST = "busiest link"


@dataclass(eq=False)
class Entry:
    """A point on one backend: its result, or the reason why it has none."""

    backend: str
    result: Result | None = None
    reason: str = ""

    @property
    def cycles(self) -> int | None:
        """Simulated time of a complete run; else None."""
        return self.result.time_cycles if self.result is not None and self.result.complete else None


@dataclass(frozen=True)
class Busiest:
    """The link with the most traffic: its name, and its busy cycles."""

    link: str
    cycles: int


@dataclass(frozen=True)
class Chain:
    """The chain of dependent messages that ends with the last arrival, on a backend that simulates packets.

    Attributes
    ----------
    messages
        Number of messages.
    spent
        Cycles of the run by what they were spent on: GAPS between an arrival and what it triggers, KNOWN to the model
        without congestion, PACKETS for headers, partly filled flits and routers, and the parts of waiting. On Ethernet,
        FRAMES for headers and store and forward.
    unaware
        The time of a model without congestion, derived from the waiting of all messages.
    """

    messages: int
    spent: Mapping[str, int]
    unaware: int


@dataclass(frozen=True)
class PacketEstimate:
    """Estimates of the packet backend before packets are simulated.

    Attributes
    ----------
    overhead
        Extra time of uncontended messages over the model without congestion, relative to the latter.
    covered
        Share of the time for which buffers and virtual channels can keep each link busy.
    certain
        Whether the routes are known: then the busiest link is a lower bound.
    meet
        Whether messages from several links contend for one link.
    own
        Whether an NPU has a lane for each of its links, as the models assume.
    lanes
        Cycles that the lanes of an NPU need for its messages.
    """

    overhead: float
    covered: float
    certain: bool
    meet: bool = False
    own: bool = True
    lanes: int = 0


GAPS, KNOWN, PACKETS, FRAMES = "endpoints", "bytes", "packets", "frames"


@dataclass(eq=False, repr=False)
class Compared(Facts):
    """One experiment on several backends.

    Attributes
    ----------
    label
        Name, unique in a comparison.
    title, clock_hz, experiment_toml
        As of a Result.
    lower_bound
        Lower bound of the run time in cycles, from the links alone.
    entries
        One Entry per backend.
    values
        What distinguishes the point, by key path.
    variant
        Name of the variant.
    loops
        For each kind of link: flits that a VC buffer needs to cover the credit loop, and flits that it holds.
    chains
        Where the time of packets went, by backend, with attribution.
    estimate
        Estimates of the packet backend before packets are simulated.
    """

    label: str
    title: str
    clock_hz: Fraction
    lower_bound: Fraction
    entries: list[Entry]
    values: Mapping[str, Any] = field(default_factory=dict)
    variant: str | None = None
    experiment_toml: str = ""
    loops: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    chains: Mapping[str, Chain] = field(default_factory=dict)
    estimate: PacketEstimate | None = None

    @property
    def chain(self) -> Chain | None:
        """The chain of the packet backend."""
        return self.chains.get(PACKET)

    @property
    def warnings(self) -> list[str]:
        """Each warning of the results once, with the backends that gave it unless all did."""
        backends: dict[str, list[str]] = {}
        results = [entry.result for entry in self.entries if entry.result is not None]
        for result in results:
            for text in dict.fromkeys(result.warnings):
                backends.setdefault(text, []).append(result.backend)
        return [
            text if len(names) == len(results) else f"{', '.join(names)}: {text}" for text, names in backends.items()
        ]

    def __repr__(self) -> str:
        times = (f"{entry.backend} {'-' if entry.cycles is None else entry.cycles}" for entry in self.entries)
        return f"Compared({self.label}: {', '.join(times)} cycles)"

    @property
    def facts(self) -> list[tuple[str, str]]:
        """(label, text) pairs for notebooks: the title, and the time on each backend."""
        times = [
            (entry.backend, entry.reason if entry.cycles is None else f"{entry.cycles:,} cycles")
            for entry in self.entries
        ]
        return [("title", self.title), *times]

    def result(self, backend: str) -> Result | None:
        """Return the result on a backend; None without one."""
        return next((entry.result for entry in self.entries if entry.backend == backend), None)

    def cycles(self, backend: str) -> int | None:
        """Return the simulated time on a backend; None without one."""
        return next((entry.cycles for entry in self.entries if entry.backend == backend), None)

    @property
    def complete(self) -> bool:
        """Whether each backend has a complete result or a reason for having none."""
        return all(entry.cycles is not None or entry.reason for entry in self.entries)

    def ns(self, cycles: int | Fraction) -> float:
        """Convert cycles to nanoseconds."""
        return float(Fraction(cycles) * 10**9 / self.clock_hz)

    def error(self, backend: str) -> float | None:
        """Return the relative error of a backend against packets: -0.3 is 30 % too short; None if unknown."""
        packet, other = self.cycles(PACKET), self.cycles(backend)
        return other / packet - 1 if packet and other is not None else None

    @property
    def others(self) -> list[str]:
        """The backends without packets."""
        return [entry.backend for entry in self.entries if entry.backend not in FABRICS]

    @property
    def spread(self) -> float:
        """The largest ratio of the times of two backends."""
        times = [entry.cycles for entry in self.entries if entry.cycles]
        return max(times) / min(times) if times else 1.0

    @property
    def busiest(self) -> Busiest | None:
        """The link with the most traffic, from a backend that counts flits of links.

        With adaptive routes it is the busiest link of the packets; without packets, that of evenly spread routes.
        """
        certain = self.estimate is not None and self.estimate.certain
        for result in map(self.result, (*self.others, PACKET) if certain else (PACKET, *reversed(self.others))):
            if result is not None and result.complete and result.busy_total.any():
                link = int(np.argmax(result.busy_total))
                return Busiest(result.links.name[link], int(result.busy_total[link]))
        return None


@dataclass(eq=False, repr=False)
class Comparison(Framed, Viewed):
    """Points on backends.

    Attributes
    ----------
    title, seed, provenance
        As of a Result.
    backends
        Names of the backends.
    points
        One Compared per experiment.
    within
        Allowed relative error of a backend.
    complete
        Whether no run is missing.
    """

    title: str
    backends: Sequence[str]
    points: list[Compared]
    within: float = 0.1
    seed: int = 1
    complete: bool = True
    provenance: dict[str, str] = field(default_factory=provenance)

    def __repr__(self) -> str:
        return f"Comparison({self.title}: {plural(len(self.points), 'point')} on {', '.join(self.backends)})"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write .h5, .json or .md, by the extension of the name. Raises InputError if that is impossible."""
        self.view("save", path)

    def table(self) -> Table:
        """Points x backends: times, and their ratios to packets and to the lower bound."""
        return comparison_table(self)

    def plot(self, ax: Any = None) -> Any:
        """Plot the time of each point on each backend over that of packets; takes and returns matplotlib Axes."""
        return self.view("plot", ax)

    def point(self, label: str) -> Compared:
        """Return the point with this label. Raises InputError."""
        for point in self.points:
            if point.label == label:
                return point
        raise InputError(f"no point '{label}'", key="label", allowed=[p.label for p in self.points], given=label)

    @property
    def worst(self) -> Compared | None:
        """The point with the largest spread."""
        return max(self.points, key=lambda point: point.spread, default=None)

    def json(self) -> dict[str, Any]:
        """Return everything except the tables of single results."""
        return {
            "title": self.title,
            "within": self.within,
            "backends": list(self.backends),
            "complete": self.complete,
            "seed": self.seed,
            "version": self.provenance.get("version", ""),
            "points": [_point(point) for point in self.points],
        }


def _point(point: Compared) -> dict[str, Any]:
    busiest = point.busiest
    return {
        "label": point.label,
        "variant": point.variant,
        "values": dict(point.values),
        "title": point.title,
        "complete": point.complete,
        "lower_bound_ns": point.ns(point.lower_bound),
        "busiest_link": None if busiest is None else {"link": busiest.link, "ns": point.ns(busiest.cycles)},
        "backends": [_entry(point, entry) for entry in point.entries],
        "collectives": ends(point),
    }


def _entry(point: Compared, entry: Entry) -> dict[str, Any]:
    result = entry.result
    row: dict[str, Any] = {"backend": entry.backend, "reason": entry.reason or None}
    if result is None:
        return row
    packet = point.cycles(PACKET)
    cycles = entry.cycles
    return {
        **row,
        "complete": result.complete,
        "time_ns": result.time_ns,
        "to_packet": cycles / packet if cycles is not None and packet else None,
        "to_lower_bound": float(cycles / point.lower_bound) if cycles is not None and point.lower_bound else None,
        "lower_bound_ns": plain(result.lower_bound_ns),
        "sim_cpu_s": result.sim_cpu_s,
        "warnings": result.warnings,
    }


def ends(point: Compared) -> list[dict[str, Any]]:
    """Return a row per collective and message: its start, and its end on each backend (ns; None: it did not end)."""
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for entry in point.entries:
        for index, (name, start, end) in enumerate(_intervals(entry.result)):
            row = rows.setdefault((name, index), {"name": name, "start_ns": point.ns(start), "end_ns": {}})
            row["end_ns"][entry.backend] = point.ns(end) if end >= 0 else None
    return list(rows.values())


def by_traffic(point: Compared) -> dict[str, dict[str, float]]:
    """Return for each name of collectives and messages ns from first start to last end, by backend; NaN: no end."""
    begin: dict[str, float] = {}
    last: dict[str, dict[str, float]] = {}
    for row in ends(point):
        name = row["name"]
        begin[name] = min(begin.get(name, row["start_ns"]), row["start_ns"])
        for backend, end in row["end_ns"].items():
            latest = last.setdefault(name, {})
            latest[backend] = float(np.maximum(latest.get(backend, 0.0), float("nan") if end is None else end))
    return {name: {key: end - begin[name] for key, end in times.items()} for name, times in last.items()}


def _intervals(result: Result | None) -> Iterator[tuple[str, int, int]]:
    for row in [*result.collectives, *result.point_to_point] if result is not None else ():
        yield str(row.get("name", "")), int(row["start"]), int(row["end"])


def comparison_table(comparison: Comparison) -> Table:
    """Make the table of a comparison: points x backends."""
    points, backends = comparison.points, list(comparison.backends)
    both = ("point", "backend")

    def grid(value_of: Callable[[Compared, str], Any]) -> NDArray[np.float64]:
        rows = [[number(value_of(point, backend)) for backend in backends] for point in points]
        return np.array(rows, np.float64).reshape(len(points), len(backends))

    def time(point: Compared, backend: str) -> float | None:
        cycles = point.cycles(backend)
        return None if cycles is None else point.ns(cycles)

    def error(point: Compared, backend: str) -> float | None:
        return point.error(backend) if PACKET in backends else None

    def to_lower_bound(point: Compared, backend: str) -> float | None:
        cycles = point.cycles(backend)
        return float(cycles / point.lower_bound) if cycles is not None and point.lower_bound else None

    def cpu(point: Compared, backend: str) -> float | None:
        result = point.result(backend)
        return None if result is None else result.sim_cpu_s

    bounds = np.array([point.ns(point.lower_bound) for point in points], np.float64)
    swept = list(dict.fromkeys(key for point in points for key in point.values))
    variables = {
        "point": Variable(
            ("point",), texts([point.label for point in points]), {"long_name": "label of the point of the comparison"}
        ),
        "backend": Variable(("backend",), texts(backends), {"long_name": "backend (model of the network)"}),
        **{key: Variable(("point",), column([p.values.get(key) for p in points]), {}) for key in swept},
        "lower_bound_ns": _variable(("point",), bounds, "lower bound of the time on these links"),
        "time_ns": _variable(both, grid(time), "simulated time"),
        "error": _variable(both, grid(error), "relative difference from the time of packets"),
        "to_lower_bound": _variable(both, grid(to_lower_bound), "time over the lower bound"),
        "sim_cpu_s": _variable(both, grid(cpu), "CPU time of the simulation without preparation"),
    }
    return Table(variables, (*swept, "lower_bound_ns"), {"title": comparison.title}, "comparison")


def _variable(dims: tuple[str, ...], values: NDArray[Any], text: str) -> Variable:
    """A variable without units, which are in its name: xarray would decode nanoseconds in a file as dates."""
    return Variable(dims, values, {"long_name": text})
