"""One experiment, or several, on several models of the network, and against what their links could do at best."""

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
from pyxsim.results.table import Framed, Table, Variable, column, number, plain, texts
from pyxsim.results.views import Viewed

PACKET = "packet"
LINKS = "links"
"""What the bound is called where backends are: bytes over the capacity of links and the shortest way."""
BUSIEST = "busiest link"


@dataclass(eq=False)
class Entry:
    """A point on one backend: its result, or the reason why there is none."""

    backend: str
    result: Result | None = None
    reason: str = ""

    @property
    def cycles(self) -> int | None:
        """The simulated time of a run that came to its end."""
        return self.result.time_cycles if self.result is not None and self.result.complete else None


@dataclass(frozen=True)
class Busiest:
    """The link on which the routes of the messages put most: its name, and the cycles that it is busy at least."""

    link: str
    cycles: int


@dataclass(frozen=True)
class Chain:
    """What the time of the packets hung on: messages that followed each other, up to the last arrival.

    `messages`: how many; `spent`: cycles by what they were spent on, in all the time of the run: GAPS between an
    arrival and what it set off, KNOWN to the model without congestion, what PACKETS take more when nothing is in their
    way (headers, flits that are not full, routers), and the parts of waiting. `unaware`: the time that a model without
    congestion would tell, as it follows from what all messages waited.
    """

    messages: int
    spent: Mapping[str, int]
    unaware: int


@dataclass(frozen=True)
class Cheap:
    """What is known of packets before any is simulated.

    overhead  what messages take more than the model without congestion says when nothing is in their way, of the latter
    covered   share of the time for which buffers and virtual channels can keep each link busy
    certain   whether the routes are known: then no run is faster than its busiest link
    meet      whether messages from several links want the same one
    own       whether what an NPU sends over different links goes over lanes of their own, as models think
    lanes     cycles until the lanes of an NPU can have carried what is its own
    """

    overhead: float
    covered: float
    certain: bool
    meet: bool = False
    own: bool = True
    lanes: int = 0


GAPS, KNOWN, PACKETS = "endpoints", "bytes", "packets"


@dataclass(eq=False)
class Compared:
    """One experiment on several backends.

    `label`: what it is called, unique in a comparison; `values`: what it differs in, by key path; `variant`: its name,
    where there are variants. `physical`: cycles until the end that no machine with these links can beat.
    `loops`: of each kind of links (`needed`, `flits`): what a VC buffer must hold to cover the credit loop, and holds.
    """

    label: str
    title: str
    clock_hz: Fraction
    physical: Fraction
    entries: list[Entry]
    values: Mapping[str, Any] = field(default_factory=dict)
    variant: str | None = None
    experiment_toml: str = ""
    loops: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    chain: Chain | None = None
    cheap: Cheap | None = None

    def result(self, backend: str) -> Result | None:
        """The result on a backend; None where there is none."""
        return next((each.result for each in self.entries if each.backend == backend), None)

    def cycles(self, backend: str) -> int | None:
        """The simulated time on a backend; None where there is none."""
        return next((each.cycles for each in self.entries if each.backend == backend), None)

    @property
    def complete(self) -> bool:
        """Whether each backend came to an end, be it with a reason."""
        return all(each.cycles is not None or each.reason for each in self.entries)

    def ns(self, cycles: int | Fraction) -> float:
        """Cycles in nanoseconds."""
        return float(Fraction(cycles) * 10**9 / self.clock_hz)

    def error(self, backend: str) -> float | None:
        """By how much the time of a backend differs from that of the packets, of the latter: -0.3 is 30 % too short."""
        packet, other = self.cycles(PACKET), self.cycles(backend)
        return other / packet - 1 if packet and other is not None else None

    @property
    def others(self) -> list[str]:
        """The backends without packets."""
        return [each.backend for each in self.entries if each.backend != PACKET]

    @property
    def apart(self) -> float:
        """How far the models are from each other: the largest ratio of two times."""
        times = [each.cycles for each in self.entries if each.cycles]
        return max(times) / min(times) if times else 1.0

    @property
    def busiest(self) -> Busiest | None:
        """Of all links the one that the routes put most on, if a backend knows what links carry.

        Where packets choose their ways it is what they did; without packets, what those would do that choose evenly.
        """
        certain = self.cheap is not None and self.cheap.certain
        for result in map(self.result, (*self.others, PACKET) if certain else (PACKET, *reversed(self.others))):
            if result is not None and result.complete and result.busy_total.any():
                link = int(np.argmax(result.busy_total))
                return Busiest(result.links.name[link], int(result.busy_total[link]))
        return None


@dataclass(eq=False, repr=False)
class Comparison(Framed, Viewed):
    """Points on backends. `within`: by how much an answer may be off, as a share. `complete`: nothing is missing."""

    title: str
    backends: Sequence[str]
    points: list[Compared]
    within: float = 0.1
    seed: int = 1
    complete: bool = True
    provenance: dict[str, str] = field(default_factory=provenance)

    def __repr__(self) -> str:
        return f"Comparison({self.title}: {len(self.points)} points on {', '.join(self.backends)})"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write .h5, .json or .md, as the name says. InputError where that is impossible."""
        self.view("save", path)

    def table(self) -> Table:
        """Points x backends: times, and what they are to that of packets and to the bound of the links."""
        return comparison_table(self)

    def plot(self, ax: Any = None) -> Any:
        """The time of each point on each backend, over that of packets; takes and returns matplotlib Axes."""
        return self.view("plot", ax)

    def point(self, label: str) -> Compared:
        """The point of that label. Raises InputError."""
        for point in self.points:
            if point.label == label:
                return point
        raise InputError("no point has that label", key=label, allowed=[p.label for p in self.points], given=label)

    @property
    def worst(self) -> Compared | None:
        """The point where the models differ most."""
        return max(self.points, key=lambda point: point.apart, default=None)

    def json(self) -> dict[str, Any]:
        """Everything but the tables of single results, as one object."""
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
        "physical_ns": point.ns(point.physical),
        "busiest_link": None if busiest is None else {"link": busiest.link, "ns": point.ns(busiest.cycles)},
        "backends": [_entry(point, each) for each in point.entries],
        "collectives": ends(point),
    }


def _entry(point: Compared, entry: Entry) -> dict[str, Any]:
    result = entry.result
    told: dict[str, Any] = {"backend": entry.backend, "reason": entry.reason or None}
    if result is None:
        return told
    packet = point.cycles(PACKET)
    cycles = entry.cycles
    return {
        **told,
        "complete": result.complete,
        "time_ns": result.time_ns,
        "to_packet": cycles / packet if cycles is not None and packet else None,
        "to_physical": float(cycles / point.physical) if cycles is not None and point.physical else None,
        "bound_ns": plain(result.bound_ns),
        "sim_cpu_s": result.sim_cpu_s,
        "warnings": result.warnings,
    }


def ends(point: Compared) -> list[dict[str, Any]]:
    """A row for each collective and message: its start, and its end on each backend (ns; None: it has none)."""
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for entry in point.entries:
        for number, (name, start, end) in enumerate(_asked(entry.result)):
            row = rows.setdefault((name, number), {"name": name, "start_ns": point.ns(start), "end_ns": {}})
            row["end_ns"][entry.backend] = point.ns(end) if end >= 0 else None
    return list(rows.values())


def by_traffic(point: Compared) -> dict[str, dict[str, float]]:
    """Of each name of collectives and messages: ns from its first start to its last end, by backend; NaN: no end."""
    begin: dict[str, float] = {}
    last: dict[str, dict[str, float]] = {}
    for row in ends(point):
        name = row["name"]
        begin[name] = min(begin.get(name, row["start_ns"]), row["start_ns"])
        for backend, end in row["end_ns"].items():
            mine = last.setdefault(name, {})
            mine[backend] = float(np.maximum(mine.get(backend, 0.0), float("nan") if end is None else end))
    return {name: {key: end - begin[name] for key, end in times.items()} for name, times in last.items()}


def _asked(result: Result | None) -> Iterator[tuple[str, int, int]]:
    for row in [*result.collectives, *result.point_to_point] if result is not None else ():
        yield str(row.get("name", "")), int(row["start"]), int(row["end"])


def comparison_table(comparison: Comparison) -> Table:
    """Points x backends."""
    points, backends = comparison.points, list(comparison.backends)
    both = ("point", "backend")

    def grid(tell: Callable[[Compared, str], Any]) -> NDArray[np.float64]:
        rows = [[number(tell(point, backend)) for backend in backends] for point in points]
        return np.array(rows, np.float64).reshape(len(points), len(backends))

    def time(point: Compared, backend: str) -> float | None:
        cycles = point.cycles(backend)
        return None if cycles is None else point.ns(cycles)

    def error(point: Compared, backend: str) -> float | None:
        return point.error(backend) if PACKET in backends else None

    def to_physical(point: Compared, backend: str) -> float | None:
        cycles = point.cycles(backend)
        return float(cycles / point.physical) if cycles is not None and point.physical else None

    def cpu(point: Compared, backend: str) -> float | None:
        result = point.result(backend)
        return None if result is None else result.sim_cpu_s

    physical = np.array([point.ns(point.physical) for point in points], np.float64)
    swept = list(dict.fromkeys(key for point in points for key in point.values))
    variables = {
        "point": Variable(("point",), texts([point.label for point in points]), {"long_name": "label of the point"}),
        "backend": Variable(("backend",), texts(backends), {"long_name": "model of the network"}),
        **{key: Variable(("point",), column([p.values.get(key) for p in points]), {}) for key in swept},
        "physical_ns": _about(("point",), physical, "time that no machine with these links can beat"),
        "time_ns": _about(both, grid(time), "simulated time"),
        "error": _about(both, grid(error), "by how much the time differs from that of packets, of the latter"),
        "to_physical": _about(both, grid(to_physical), "time over that which no machine can beat"),
        "sim_cpu_s": _about(both, grid(cpu), "CPU time of the simulation alone"),
    }
    return Table(variables, (*swept, "physical_ns"), {"title": comparison.title}, "comparison")


def _about(dims: tuple[str, ...], values: NDArray[Any], text: str) -> Variable:
    """Without a unit, which the name tells: xarray would turn nanoseconds into dates when it reads them from a file."""
    return Variable(dims, values, {"long_name": text})
