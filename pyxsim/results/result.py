"""The result of one simulation, as plain data: what the summary, the plots and the file are made from.

Times are whole cycles of the network clock. Arrays over links have L entries, the network links in the order of the
topology; injection and ejection lanes are not in them. T is the number of time windows.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.errors import InputError
from pyxsim.network.windows import Windows
from pyxsim.results.attribution import Attribution, told
from pyxsim.results.chunk_delays import ChunkDelays
from pyxsim.results.memory import Memory
from pyxsim.results.provenance import provenance
from pyxsim.results.rates import Rates, rates
from pyxsim.results.table import Columns, Framed, Rows, Table
from pyxsim.results.traffic import TRAFFIC_KEYS, Traffic
from pyxsim.results.views import Viewed
from pyxsim.results.work import Work
from pyxsim.system.table import COLUMNS as CHUNK_COLUMNS
from pyxsim.units import format_bytes, parse_bytes

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import xarray as xr

    from pyxsim.results.frames import Frames

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float64]

STALLS = ("stall_credit", "stall_vc", "stall_arbitration", "stall_serial")
COUNTERS = ("flits", *STALLS)


@dataclass(eq=False, repr=False)
class LinkTable(Framed):
    """The network links: names, ends (routers), dimension, bandwidth (bytes/s), latency (cycles), and the time that a
    flit takes, `s_num / s_den` cycles."""

    name: list[str]
    src: Ints
    dst: Ints
    dim: Ints
    bandwidth: Floats
    latency: Longs
    s_num: Longs
    s_den: Longs
    _result: Result | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        for column, kind in _LINK_COLUMNS.items():
            values = np.asarray(getattr(self, column), dtype=kind)
            if values.shape != (len(self.name),):
                raise ValueError(f"link column {column} has shape {values.shape} for {len(self.name)} names")
            setattr(self, column, values)

    def __len__(self) -> int:
        return len(self.name)

    def __repr__(self) -> str:
        return f"LinkTable({len(self)} links)"

    @classmethod
    def empty(cls) -> LinkTable:
        """The links of a system of one NPU."""
        return cls([], *(np.zeros(0, dtype=kind) for kind in _LINK_COLUMNS.values()))

    def table(self) -> Table:
        """The group /links of the HDF5 file: link columns, and the counters per time window."""
        if self._result is None:
            raise ValueError("this LinkTable belongs to no Result: it has no counters")
        return self._result.frames["links"]


_LINK_COLUMNS: dict[str, type[np.generic]] = {
    "src": np.int32,
    "dst": np.int32,
    "dim": np.int32,
    "bandwidth": np.float64,
    "latency": np.int64,
    "s_num": np.int64,
    "s_den": np.int64,
}


def _no_chunks() -> dict[str, Longs]:
    return {column: np.zeros(0, dtype=np.int64) for column in CHUNK_COLUMNS}


@dataclass(eq=False, repr=False)
class Result(Viewed):
    """Everything that is known at the end of a run.

    `totals` {counter: int64[L]} and `windows` have the counters flits, stall_credit, stall_vc, stall_arbitration and
    stall_serial; one that is missing counts as zero. `buffer_max` int32[L]: most flits in one VC buffer of the link.
    `chunks` {column: int64}: one entry per chunk, phase and rank. `collectives`: dicts with start, end (cycles), bytes,
    bound (cycles) and ratio, further keys allowed; `messages`: dicts of messages from NPU to NPU. `by_dimension` and
    `phases`: columns of equal length, see output/phases.py. `carried`: of how many NPUs the data were compared with the
    result computed directly; None if none were carried. `layers`: columns of equal length, cycles. `traffic`: what was
    measured of open traffic. `counts`: npus, messages, packets, flits, flit_hops, router_visits, bytes_delivered, and
    what else a backend counts. `bound_ns`: lower bound of the time, None if there is none. `topology` (optional) is
    what the drawing shows. `dimensions`: what each network dimension is, "ring 4"; by default as topology and settings
    say. `link_kinds`: what the values of `links.dim` are called where they are not the dimensions: "local", "global";
    else empty. `failure`: how the simulated system failed, if it did. `attribution`: where the time of messages went;
    None unless the settings ask for it, and the backend knows. `work`: what the tasks of a workload did; None where
    there is no graph of them. `chunk_delays`: of the chunks of NPU 0, in a workload.
    `memory`: what remote memories and shared endpoints did, where there are such.
    """

    time_cycles: int
    clock_hz: Fraction
    complete: bool
    links: LinkTable
    windows: Windows
    totals: dict[str, Longs]
    buffer_max: Ints | None = None
    chunks: dict[str, Longs] = field(default_factory=_no_chunks)
    collectives: list[dict[str, Any]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    by_dimension: dict[str, NDArray[Any]] = field(default_factory=dict)
    phases: dict[str, NDArray[Any]] = field(default_factory=dict)
    layers: dict[str, NDArray[Any]] = field(default_factory=dict)
    traffic: Traffic | None = None
    attribution: Attribution | None = None
    work: Work | None = None
    chunk_delays: ChunkDelays | None = None
    memory: Memory | None = None
    counts: dict[str, Any] = field(default_factory=dict)
    bound_ns: int | float | None = None
    sim_cpu_s: float = 0.0
    total_cpu_s: float = 0.0
    peak_rss_mb: float = 0.0
    backend: str = "packet"
    seed: int = 1
    carried: int | None = None
    experiment_toml: str = ""
    warnings: list[str] = field(default_factory=list)
    topology: Any = None
    dimensions: list[str] = field(default_factory=list)
    link_kinds: list[str] = field(default_factory=list)
    failure: str = ""
    provenance: dict[str, str] = field(default_factory=provenance)

    def __post_init__(self) -> None:
        count = len(self.links)
        self.links._result = self
        self.clock_hz = Fraction(self.clock_hz)
        self.bound_ns = plain(self.bound_ns)
        self.totals = {name: np.asarray(self.totals.get(name, np.zeros(count)), dtype=np.int64) for name in COUNTERS}
        peak = np.zeros(count) if self.buffer_max is None else self.buffer_max
        self.buffer_max = np.asarray(peak, dtype=np.int32)
        if not len(self.windows) and any(values.any() for values in self.totals.values()):
            self.windows = Windows.whole(self.time_cycles, self.totals)
        zeros = np.zeros((len(self.windows), count), dtype=np.uint64)
        counts = {name: self.windows.counts.get(name, zeros) for name in COUNTERS}
        self.windows = Windows(self.windows.start, self.windows.length, counts)
        for name, values in self.totals.items():
            if values.shape != (count,) or counts[name].shape != zeros.shape:
                raise ValueError(f"counter {name}: {values.shape} and {counts[name].shape} for {count} links")
        if not self.dimensions:
            self.dimensions = self._known_dimensions()
        if not self.link_kinds and self.topology is not None:
            kinds = list(self.topology.link_kinds)
            self.link_kinds = kinds if kinds != [f"d{dim}" for dim in range(len(kinds))] else []
        lengths = {len(values) for values in self.chunks.values()}
        if set(self.chunks) != set(CHUNK_COLUMNS) or len(lengths) > 1:
            raise ValueError(f"chunks need the columns {', '.join(CHUNK_COLUMNS)}, of one length")

        self._frame()

    def _frame(self) -> None:
        """Let tables know what they are, so that they can be had as data frames: result.chunks.to_pandas()."""
        for name, attribute in _FRAMES.items():
            values = getattr(self, attribute)
            make = Columns if isinstance(values, dict) else Rows
            setattr(self, attribute, make(values, partial(self.frames.__getitem__, name)))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._frame()

    def _known_dimensions(self) -> list[str]:
        if self.topology is not None:
            return [f"{dim.name} {dim.npus}" for dim in self.topology.dims]
        network: dict[str, Any] = self.experiment.get("network", {})
        if dims := network.get("dims"):
            return [f"{dim.get('block')} {dim.get('npus')}" for dim in dims]
        return [f"{npus} NPUs" for npus in network.get("shape") or []]

    # Time

    @property
    def time_ns(self) -> int | float:
        """The simulated time; an int where it is whole nanoseconds."""
        return self.to_ns(self.time_cycles)

    def to_ns(self, cycles: int | Fraction) -> int | float:
        """Cycles of this run's clock in nanoseconds."""
        exact = Fraction(cycles) * 10**9 / self.clock_hz
        return exact.numerator if exact.denominator == 1 else float(exact)

    @property
    def ratio(self) -> float | None:
        """Simulated time over its lower bound."""
        return self.time_ns / self.bound_ns if self.bound_ns else None

    # Links

    @cached_property
    def busy(self) -> Longs:
        """Cycles in which each link was sending, int64[T, L].

        A flit keeps its link for s cycles from where it was counted; what does not fit into its window is told in the
        next ones. Over all windows the sum is floor(flits * s), exactly.
        """
        flits = np.cumsum(self.windows.counts["flits"], axis=0, dtype=np.int64)
        work = _times(flits, self.links.s_num, self.links.s_den)
        if not len(work):
            return work
        # What a server that never idles with work waiting has done by the end of each window: Lindley's recursion.
        ends = np.minimum(self.windows.start + self.windows.length, max(self.time_cycles, 1))[:, np.newaxis]
        slack = np.vstack([np.zeros((1, work.shape[1]), dtype=np.int64), work - ends])
        done = ends + np.minimum.accumulate(slack, axis=0)[1:]
        # Work is left over at the end only where a model sends more than a link can carry; it shows as more than 100 %.
        done[-1] = work[-1]
        return np.diff(done, axis=0, prepend=0)

    @property
    def busy_total(self) -> Longs:
        """Cycles in which each link was sending, int64[L]."""
        return _times(self.totals["flits"], self.links.s_num, self.links.s_den)

    @property
    def window_cycles(self) -> Longs:
        """Length of each window, int64[T]: the last one ends with the run."""
        ends = np.minimum(self.windows.start + self.windows.length, max(self.time_cycles, 1))
        return np.maximum(ends - self.windows.start, 1)

    @property
    def utilization(self) -> Floats:
        """Share of each window in which each link was sending, float64[T, L]."""
        return self.busy / self.window_cycles[:, np.newaxis].astype(np.float64)

    @property
    def link_utilization(self) -> Floats:
        """Share of the whole run in which each link was sending, float64[L]."""
        return self.busy_total / float(max(1, self.time_cycles))

    # The experiment

    @cached_property
    def experiment(self) -> dict[str, Any]:
        """The resolved settings; empty where there is no text of them."""
        try:
            return tomllib.loads(self.experiment_toml)
        except tomllib.TOMLDecodeError:
            return {}

    @property
    def title(self) -> str:
        """What was simulated, in a few words: "torus 4x4x4, all-reduce of 1 MiB"."""
        return title_of(self.experiment)

    @property
    def rates(self) -> Rates | None:
        """Algorithm and bus bandwidth where the run was one collective over all NPUs."""
        if len(self.collectives) != 1 or not self.complete:
            return None
        (row,) = self.collectives
        npus = int(self.counts.get("npus", 0))
        if row.get("npus", npus) != npus or row.get("group", "all") != "all":
            return None
        kind = row.get("kind") or self.experiment.get("collective", {}).get("kind", "")
        seconds = float((row["end"] - row["start"]) / self.clock_hz)
        return rates(str(kind), int(self.counts.get("npus", 0)), int(row["bytes"]), seconds)

    # Where the time went: see Attribution

    @property
    def traffic_names(self) -> list[str]:
        """Whose traffic there is; empty without attribution."""
        return self.attribution.traffic_names if self.attribution else []

    @property
    def congestion(self) -> Columns:
        """Who waited where, why, and for whom: `Attribution.blame`; empty without attribution."""
        return self._columns("blame", self.attribution.blame if self.attribution else {})

    @property
    def latency(self) -> Columns:
        """The parts of the latency of each message: `Attribution.latency`; empty without attribution."""
        return self._columns("latency", self.attribution.latency if self.attribution else {})

    @property
    def stays(self) -> Columns:
        """The same of each packet at each link: `Attribution.stays`; empty without attribution = "messages"."""
        return self._columns("stays", self.attribution.stays if self.attribution else {})

    # What the tasks of a workload did: see Work

    @property
    def npus(self) -> Columns:
        """What each NPU did: `Work.npus`; empty without a graph of tasks."""
        return self._columns("npus", self.work.npus if self.work else {})

    @property
    def critical_path(self) -> Columns:
        """Why the end is not sooner, step by step: `Work.path`; empty without a graph of tasks."""
        return self._columns("critical_path", self.work.path if self.work else {})

    @property
    def tasks(self) -> Columns:
        """The tasks: `Work.tasks`; empty unless the settings ask for them."""
        return self._columns("tasks", self.work.tasks if self.work else {})

    def _columns(self, name: str, columns: dict[str, Any]) -> Columns:
        return Columns(columns, partial(self.frames.__getitem__, name))

    # Ways out

    @property
    def frames(self) -> Frames:
        """Everything that is known as tables, by the names of the groups of the HDF5 file."""
        from pyxsim.results.frames import Frames

        return Frames(self)

    def to_xarray(self, table: str) -> xr.Dataset:
        """A group of the HDF5 file ("links", "chunks", "congestion") as an xarray.Dataset, without a file."""
        return self.frames[table].to_xarray()

    def to_pandas(self, table: str, rows: str | Sequence[str] | None = None) -> pd.DataFrame:
        """The same as a pandas.DataFrame; see Table.to_pandas."""
        return self.frames[table].to_pandas(rows)

    def to_polars(self, table: str, rows: str | Sequence[str] | None = None) -> pl.DataFrame:
        """The same as a polars.DataFrame."""
        return self.frames[table].to_polars(rows)

    def json(self) -> dict[str, Any]:
        """The numbers that scripts rely on: docs/output.md lists the keys."""
        known = {
            "time_ns": self.time_ns,
            "cycles": self.time_cycles,
            **{key: self.counts.get(key, 0) for key in JSON_COUNTS},
            "not_skipped": self.counts.get("not_skipped"),
            "threads_why": self.counts.get("threads_why", ""),
            "sim_cpu_s": self.sim_cpu_s,
            "total_cpu_s": self.total_cpu_s,
            "peak_rss_mb": self.peak_rss_mb,
            "bound_ns": self.bound_ns,
            "carried": self.carried,
            "attribution": told(self),
            "backend": self.backend,
            "seed": self.seed,
            "version": self.provenance.get("version", ""),
            **(self.traffic.summary if self.traffic is not None else {}),
            **(self.work.json(self.to_ns) if self.work is not None else {}),
            **(self.memory.json(self.time_cycles) if self.memory is not None else {}),
        }
        return {key: plain(value) for key, value in known.items()}

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """The small tables as rows for JSON, where a number that there is not is null."""
        columns = {"by_dimension": self.by_dimension, "phases": self.phases, "layers": self.layers}
        found = {"collectives": self.collectives, "point_to_point": self.messages}
        for name, table in columns.items():
            lists = [values.tolist() for values in table.values()]
            found[name] = [dict(zip(table, row, strict=True)) for row in zip(*lists, strict=True)]
        return {
            name: [{key: _known(value) for key, value in row.items()} for row in rows] for name, rows in found.items()
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the HDF5 file; a file of that name is replaced in one step. InputError where that is impossible."""
        from pyxsim.results.hdf5 import write

        write(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Result:
        """Read a file of `save` back. InputError where it is none."""
        from pyxsim.results.hdf5 import read

        return read(path)

    @property
    def plot(self) -> Any:
        """The plots of this result: `result.plot.utilization()` and others; each takes and returns matplotlib Axes."""
        return self.view("plot")

    def __repr__(self) -> str:
        state = "" if self.complete else ", incomplete"
        return f"Result({self.title}: {self.time_ns} ns{state})"

    def _repr_html_(self) -> str:
        return str(self.view("html")) if "html" in self.views else f"<pre>{escape(repr(self))}</pre>"


# The tables that are attributes, and what these are called.
_FRAMES = {
    "chunks": "chunks",
    "collectives": "collectives",
    "messages": "messages",
    "layers": "layers",
    "phases": "phases",
    "dimensions": "by_dimension",
}
JSON_COUNTS = (
    "npus",
    "messages",
    "packets",
    "flits",
    "flit_hops",
    "router_visits",
    "bytes_delivered",
    "skipped_cycles",
    "skipped_visits",
    "threads",
    "resumed",
)
JSON_TRAFFIC = tuple(TRAFFIC_KEYS)
# Of the numbers and counts, those that tell how it was computed: the same experiment may give others.
HOW_IT_RAN = {"sim_cpu_s", "total_cpu_s", "peak_rss_mb"} | {
    *("skipped_cycles", "skipped_visits", "not_skipped", "threads", "threads_asked", "threads_why", "resumed")
}


def plain(value: Any) -> Any:
    """A number as Python and JSON know it: no NumPy type, no Fraction."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Fraction):
        return value.numerator if value.denominator == 1 else float(value)
    return value


def _known(value: Any) -> Any:
    """A number for JSON, which has no NaN."""
    found = plain(value)
    return None if found != found else found


def _times(flits: Longs, num: Longs, den: Longs) -> Longs:
    """floor(flits * num / den) without leaving 64 bits on the way."""
    whole, rest = np.divmod(flits, den)
    return np.asarray(whole * num + rest * num // den, dtype=np.int64)


def title_of(experiment: dict[str, Any]) -> str:
    """What an experiment simulates, in a few words."""
    parts = [_network_title(experiment.get("network", {})), _load_title(experiment)]
    return ", ".join(part for part in parts if part) or "experiment"


def _network_title(network: dict[str, Any]) -> str:
    dims, name = network.get("dims") or [], network.get("name")
    if dims and not name:
        return " x ".join(f"{dim.get('block', '?')} {dim.get('npus', '?')}" for dim in dims)
    shape = "x".join(str(n) for n in network.get("shape") or [dim.get("npus", "?") for dim in dims])
    return f"{name or network.get('topology') or ''} {shape}".strip()


def _load_title(experiment: dict[str, Any]) -> str:
    if collective := experiment.get("collective"):
        return _collective_title(collective, len(experiment.get("message", ())))
    if messages := experiment.get("message"):
        return f"{len(messages)} message{'' if len(messages) == 1 else 's'}"
    if traffic := experiment.get("traffic"):
        return _traffic_title(traffic)
    workload = experiment.get("workload", {})
    return str(workload.get("model") or workload.get("file") or "")


def _collective_title(collective: dict[str, Any] | list[dict[str, Any]], messages: int) -> str:
    rows = collective if isinstance(collective, list) else [collective]
    parts = [f"{len(rows)} collectives"]
    if len(rows) == 1:
        kind, size = rows[0].get("kind", "collective"), rows[0].get("size")
        parts = [kind if size is None else f"{kind} of {_size(size)}"]
    if messages:
        parts.append(f"{messages} message{'' if messages == 1 else 's'}")
    return " and ".join(parts)


def _traffic_title(traffic: dict[str, Any]) -> str:
    if trace := traffic.get("trace"):
        return f"trace {trace}"
    if classes := traffic.get("classes"):
        return f"traffic of {len(classes)} classes"
    pattern = f"{traffic.get('pattern', '')} traffic".strip()
    if batch := traffic.get("batch"):
        return f"{pattern}, {batch.get('count', 1)} x {batch.get('size', '?')} packets each"
    return f"{pattern} at load {traffic.get('load', '?')}"


def _size(value: object) -> str:
    """A size from settings, which may be bytes or a text with a unit, for people."""
    try:
        return format_bytes(value if isinstance(value, int) else parse_bytes(value))
    except InputError:
        return str(value)
