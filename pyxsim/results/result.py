"""The result of one simulation.

Times are whole cycles of the network clock. Arrays over links have L entries: the links between routers in the order of
the topology, then the host links; lanes are not links. T is the number of time windows.
"""

from __future__ import annotations

import os
import tomllib
import warnings as python_warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import FloatArray, Int32Array, IntArray
from pyxsim.lazy_columns import sources
from pyxsim.network.protocol import BackendTable
from pyxsim.network.windows import Windows
from pyxsim.results import dataset
from pyxsim.results.attribution import Attribution, HotLink
from pyxsim.results.chunk_delays import ChunkDelays
from pyxsim.results.frames import Frames
from pyxsim.results.interference import interference
from pyxsim.results.links import LinkTable
from pyxsim.results.memory import Memory
from pyxsim.results.provenance import provenance
from pyxsim.results.rates import Rates, rates
from pyxsim.results.table import Columns, Rows, Table, plain
from pyxsim.results.title import title_of
from pyxsim.results.traffic import TRAFFIC_KEYS, Traffic
from pyxsim.results.views import Viewed
from pyxsim.results.work import Work
from pyxsim.system.table import COLUMNS as CHUNK_COLUMNS
from pyxsim.workload.serving_record import ServingRecord

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import xarray as xr


STALLS = ("stall_credit", "stall_vc", "stall_arbitration", "stall_serial")
COUNTERS = ("flits", *STALLS)
OPTIONAL_COUNTERS = ("slowed",)  # with faults that limit the bandwidth
RENAMED = {"by_dimension": "dimensions", "messages": "point_to_point", "detail": "chunk_delays"}


def _no_chunks() -> dict[str, IntArray]:
    return {column: np.zeros(0, dtype=np.int64) for column in CHUNK_COLUMNS}


class _Derived:
    """The columns of this dataset; empty if the result does not have it."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, result: Result | None, owner: type | None = None) -> Columns:
        if result is None:
            return self  # type: ignore[return-value]
        return Columns(dataset.get(self.name).arrays(result), partial(result.frames.__getitem__, self.name))


@dataclass(eq=False, repr=False)
class Result(Viewed):
    """All data of one run.

    Every dataset of docs/output.md is an attribute under its name, with `to_pandas()`, `to_polars()` and `to_xarray()`.

    Attributes
    ----------
    time_cycles : int
        Simulated time.
    clock_hz : Fraction
        Network clock.
    complete : bool
        Whether the run was not interrupted and did not fail.
    links : LinkTable
        The network links.
    windows : Windows
        Counters of each link in each time window, uint64[T, L] by counter.
    totals : dict of int64[L]
        Counters of each link over the run: flits, stall_credit, stall_vc, stall_arbitration, stall_serial. A missing
        counter is zero.
    buffer_max : int32[L]
        Most flits in one VC buffer of the link.
    chunks : Columns
        One row per chunk, phase and NPU, int64 columns.
    collectives : Rows
        One dict per collective: start, end, lower_bound (cycles), bytes, ratio, and more.
    point_to_point : Rows
        One dict per message from NPU to NPU that belongs to no collective.
    dimensions, phases, layers : Columns
        One row per network dimension; per collective, phase and dimension; per layer of the workload.
    training : Rows
        One dict with the throughput of a model's training; empty for other workloads.
    footprint : Rows
        One dict per pipeline stage and term: bytes that each NPU of the stage needs.
    traffic : Traffic or None
        Measurements of open traffic.
    attribution : Attribution or None
        Attribution of latencies, if the settings enable it and the backend supports it.
    work : Work or None
        Activity of the tasks of a workload; None without a task graph.
    chunk_delays : ChunkDelays or None
        Delays of the chunks of NPU 0 in a workload.
    memory : Memory or None
        Remote memories and shared endpoints.
    energy : Rows
        One dict per kind of part with its energy in the run; empty without `[cost]`.
    energy_links, energy_routers, energy_npus : Columns
        One row per link, router and NPU with its energy; empty without `[cost]`.
    serving : ServingRecord or None
        Requests that were served, iterations and their summary.
    jobs : Rows
        One dict per job of several jobs with its times; empty for others.
    job_restarts : Rows
        One dict per job of `[job.restart]`: where its time went.
    job_failures : Rows
        One dict per failure that ended such a job until it started again.
    backend_tables : dict of BackendTable
        Tables that only some backends have, by the name of their dataset: `flows`, `ports`, `port_windows`.
    counts : dict
        npus, messages, packets, flits, flit_hops, router_visits, bytes_delivered, and what else the backend counts.
    lower_bound_ns : int or float or None
        Least time of the run from cycle 0 in nanoseconds, the same for every backend; None for workloads that
        compute.
    optimum_ns : int or float or None
        Least time of the run with any algorithm, from cycle 0 in nanoseconds; None for workloads that compute, and
        where what a collective computes is not proved.
    optimum_limit : str
        What limits the optimum, such as "bottleneck cut before 8 of 32 NPUs".
    sim_cpu_s, total_cpu_s : float
        CPU seconds of the simulation, and of the process until the result existed.
    peak_rss_mb : float
        Peak memory in MB (10^6 bytes).
    backend : str
        Name of the network backend.
    seed : int
        Seed of the run.
    carried : int or None
        With `--carry`: of how many NPUs the data were compared with the directly computed result.
    experiment_toml : str
        Resolved settings.
    warnings : list of str
        Warnings of the run.
    hints : list of str
        What the experiment wastes, and which setting to change.
    topology : Topology or None
        Topology, for drawing; None in a loaded result.
    dimension_names : list of str
        Name of each network dimension, such as "ring 4"; by default from topology or settings.
    link_kinds : list of str
        Names of the values of `links.dim` if these are not dimensions, such as "local", "global".
    failure : str
        How the simulated system failed, or "".
    provenance : dict of str
        Version, libraries and time of creation.
    extra : dict of Table
        Datasets of the shelf `datasets/`, computed at the end of the run.
    """

    time_cycles: int
    clock_hz: Fraction
    complete: bool
    links: LinkTable
    windows: Windows
    totals: dict[str, IntArray]
    buffer_max: Int32Array | None = None
    chunks: Mapping[str, IntArray] = field(default_factory=_no_chunks)
    collectives: list[dict[str, Any]] = field(default_factory=list)
    point_to_point: list[dict[str, Any]] = field(default_factory=list)
    dimensions: dict[str, NDArray[Any]] = field(default_factory=dict)
    phases: dict[str, NDArray[Any]] = field(default_factory=dict)
    layers: dict[str, NDArray[Any]] = field(default_factory=dict)
    training: list[dict[str, Any]] = field(default_factory=list)
    footprint: list[dict[str, Any]] = field(default_factory=list)
    traffic: Traffic | None = None
    attribution: Attribution | None = None
    work: Work | None = None
    chunk_delays: ChunkDelays | None = None
    memory: Memory | None = None
    energy: list[dict[str, Any]] = field(default_factory=list)
    energy_links: dict[str, NDArray[Any]] = field(default_factory=dict)
    energy_routers: dict[str, NDArray[Any]] = field(default_factory=dict)
    energy_npus: dict[str, NDArray[Any]] = field(default_factory=dict)
    serving: ServingRecord | None = None
    jobs: list[dict[str, Any]] = field(default_factory=list)
    job_restarts: list[dict[str, Any]] = field(default_factory=list)
    job_failures: list[dict[str, Any]] = field(default_factory=list)
    backend_tables: dict[str, BackendTable] = field(default_factory=dict)
    counts: dict[str, Any] = field(default_factory=dict)
    lower_bound_ns: int | float | None = None
    optimum_ns: int | float | None = None
    optimum_limit: str = ""
    sim_cpu_s: float = 0.0
    total_cpu_s: float = 0.0
    peak_rss_mb: float = 0.0
    backend: str = "packet"
    seed: int = 1
    carried: int | None = None
    experiment_toml: str = ""
    warnings: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    topology: Any = None
    dimension_names: list[str] = field(default_factory=list)
    link_kinds: list[str] = field(default_factory=list)
    failure: str = ""
    provenance: dict[str, str] = field(default_factory=provenance)
    extra: dict[str, Table] = field(default_factory=dict)

    congestion = _Derived()
    blame = _Derived()
    latency = _Derived()
    stays = _Derived()
    npus = _Derived()
    critical_path = _Derived()
    tasks = _Derived()
    timeline = _Derived()
    links_total = _Derived()
    interference = _Derived()
    npu_memory = _Derived()
    requests = _Derived()
    iterations = _Derived()
    served = _Derived()
    memories = _Derived()
    layer_phases = _Derived()
    occupancy = _Derived()
    flows = _Derived()
    ports = _Derived()
    port_windows = _Derived()

    def __post_init__(self) -> None:
        count = len(self.links)
        self.clock_hz = Fraction(self.clock_hz)
        self.lower_bound_ns, self.optimum_ns = plain(self.lower_bound_ns), plain(self.optimum_ns)
        names = (*COUNTERS, *(name for name in OPTIONAL_COUNTERS if name in self.totals))
        self.totals = {name: np.asarray(self.totals.get(name, np.zeros(count)), dtype=np.int64) for name in names}
        peak = np.zeros(count) if self.buffer_max is None else self.buffer_max
        self.buffer_max = np.asarray(peak, dtype=np.int32)
        if not len(self.windows) and any(values.any() for values in self.totals.values()):
            self.windows = Windows.whole(self.time_cycles, self.totals)
        zeros = np.zeros((len(self.windows), count), dtype=np.uint64)
        counts = {name: self.windows.counts.get(name, zeros) for name in names}
        self.windows = Windows(self.windows.start, self.windows.length, counts)
        for name, values in self.totals.items():
            if values.shape != (count,) or counts[name].shape != zeros.shape:
                raise ValueError(f"counter {name}: {values.shape} and {counts[name].shape} for {count} links")
        if not self.dimension_names:
            self.dimension_names = self._known_dimensions()
        if not self.link_kinds and self.topology is not None:
            kinds = list(self.topology.link_kinds)
            self.link_kinds = kinds if kinds != [f"d{dim}" for dim in range(len(kinds))] else []
        lengths = {len(values) for values in sources(self.chunks).values()}
        if set(self.chunks) != set(CHUNK_COLUMNS) or len(lengths) > 1:
            raise ValueError(f"chunks require the columns {', '.join(CHUNK_COLUMNS)}, all of the same length")
        self.wrap()

    def wrap(self) -> None:
        """Give the fields that are datasets their data frames: result.chunks.to_pandas()."""
        self.links.make = partial(self.frames.__getitem__, "links")
        for spec in dataset.every():
            if spec.restored:
                make = Columns if spec.restored == "columns" else Rows
                values = make(getattr(self, spec.name), partial(self.frames.__getitem__, spec.name))
                setattr(self, spec.name, values)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.wrap()

    if not TYPE_CHECKING:  # a type checker reports unknown names

        def __getattr__(self, name: str) -> Any:
            if name in RENAMED:
                raise AttributeError(f"'{name}' has been renamed to '{RENAMED[name]}'")
            if not name.startswith("_") and name in self.__dict__.get("extra", ()):
                return self.extra[name]
            raise AttributeError(f"a Result has no attribute '{name}'")

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
        """Simulated time in nanoseconds; an int if it is whole."""
        return self.to_ns(self.time_cycles)

    def to_ns(self, cycles: int | Fraction) -> int | float:
        """Convert cycles to nanoseconds."""
        exact = Fraction(cycles) * 10**9 / self.clock_hz
        return exact.numerator if exact.denominator == 1 else float(exact)

    @property
    def bound_ns(self) -> int | float | None:
        """The former name of `lower_bound_ns`."""
        python_warnings.warn("'bound_ns' has been renamed to 'lower_bound_ns'", DeprecationWarning, stacklevel=2)
        return self.lower_bound_ns

    @property
    def ratio(self) -> float | None:
        """Simulated time over its lower bound."""
        return self.time_ns / self.lower_bound_ns if self.lower_bound_ns else None

    @property
    def of_optimum(self) -> float | None:
        """Optimum over simulated time: the share of what is possible at all."""
        return self.optimum_ns / self.time_ns if self.optimum_ns and self.time_cycles > 0 else None

    # Links

    @cached_property
    def busy(self) -> IntArray:
        """Cycles in which each link was sending, int64[T, L].

        A flit occupies its link for s cycles from the cycle in which it was counted; cycles beyond its window count in
        the next ones. The sum over all windows is floor(flits * s), exactly, and what faults add to it.
        """
        flits = np.cumsum(self.windows.counts["flits"], axis=0, dtype=np.int64)
        work = _times(flits, self.links.s_num, self.links.s_den)
        if "slowed" in self.windows.counts:
            work = work + np.cumsum(self.windows.counts["slowed"], axis=0, dtype=np.int64)
        if not len(work):
            return work
        # Work of a server by the end of each window if it never idles with work waiting: Lindley's recursion.
        ends = np.minimum(self.windows.start + self.windows.length, max(self.time_cycles, 1))[:, np.newaxis]
        slack = np.vstack([np.zeros((1, work.shape[1]), dtype=np.int64), work - ends])
        done = ends + np.minimum.accumulate(slack, axis=0)[1:]
        # Work remains at the end only if a model sends more than a link can carry; it shows as more than 100 %.
        done[-1] = work[-1]
        return np.diff(done, axis=0, prepend=0)

    @property
    def busy_total(self) -> IntArray:
        """Cycles in which each link was sending, int64[L]."""
        busy = _times(self.totals["flits"], self.links.s_num, self.links.s_den)
        return busy + self.totals["slowed"] if "slowed" in self.totals else busy

    @property
    def window_cycles(self) -> IntArray:
        """Length of each window, int64[T]: the last one ends with the run."""
        ends = np.minimum(self.windows.start + self.windows.length, max(self.time_cycles, 1))
        return np.maximum(ends - self.windows.start, 1)

    @property
    def utilization(self) -> FloatArray:
        """Share of each window in which each link was sending, float64[T, L]."""
        return self.busy / self.window_cycles[:, np.newaxis].astype(np.float64)

    @property
    def link_utilization(self) -> FloatArray:
        """Share of the whole run in which each link was sending, float64[L]."""
        return self.busy_total / float(max(1, self.time_cycles))

    @cached_property
    def has_link_counters(self) -> bool:
        """Whether the backend counted flits on links: reports leave out counters that it does not have."""
        return len(self.links) > 0 and (self._has_routers or bool(self.busy_total.any()))

    @cached_property
    def stall_causes(self) -> tuple[str, ...]:
        """Names of the stall counters of the backend: all with routers, otherwise those that are not zero."""
        return tuple(name for name in STALLS if self._has_routers or self.totals[name].any())

    @property
    def _has_routers(self) -> bool:
        return int(self.counts.get("router_visits", 0)) > 0

    # The experiment

    @cached_property
    def experiment(self) -> dict[str, Any]:
        """The resolved settings; empty without their text."""
        try:
            return tomllib.loads(self.experiment_toml)
        except tomllib.TOMLDecodeError:
            return {}

    @property
    def is_background(self) -> bool:
        """Whether `traffic` is that of background traffic, beside collectives, messages or a workload."""
        work = any(self.experiment.get(key) for key in ("collective", "message", "workload", "job"))
        return self.traffic is not None and work and bool(self.experiment.get("traffic"))

    @property
    def title(self) -> str:
        """The experiment in a few words: "torus 4x4x4, all-reduce of 1 MiB"."""
        return title_of(self.experiment)

    @property
    def rates(self) -> Rates | None:
        """Algorithm and bus bandwidth, if the run was one collective over all NPUs."""
        if len(self.collectives) != 1 or not self.complete:
            return None
        (row,) = self.collectives
        npus = int(self.counts.get("npus", 0))
        if row.get("npus", npus) != npus or row.get("group", "all") != "all":
            return None
        kind = row.get("kind") or self.experiment.get("collective", {}).get("kind", "")
        seconds = float((row["end"] - row["start"]) / self.clock_hz)
        return rates(str(kind), npus, int(row["bytes"]), seconds)

    # Attribution

    @property
    def traffic_names(self) -> list[str]:
        """Names of the traffics; empty without attribution."""
        return self.attribution.traffic_names if self.attribution else []

    def hot_links(self, count: int = 10) -> list[HotLink]:
        """Return the links and lanes at which packets waited longest; none without attribution."""
        if self.attribution is None:
            return []
        return self.attribution.hot_links(self.links.dim, self.link_utilization, self.time_cycles, count)

    # Output

    @property
    def frames(self) -> Frames:
        """All datasets with content, by name."""
        return Frames(self)

    def to_xarray(self, table: str) -> xr.Dataset:
        """Return a dataset ("links", "chunks", "congestion") as an xarray.Dataset, as in the HDF5 file."""
        return self.frames[table].to_xarray()

    def to_pandas(self, table: str, rows: str | Sequence[str] | None = None) -> pd.DataFrame:
        """Return a dataset as a pandas.DataFrame; see Table.to_pandas."""
        return self.frames[table].to_pandas(rows)

    def to_polars(self, table: str, rows: str | Sequence[str] | None = None) -> pl.DataFrame:
        """Return a dataset as a polars.DataFrame; see Table.to_pandas."""
        return self.frames[table].to_polars(rows)

    def json(self) -> dict[str, Any]:
        """Return the key numbers for scripts; docs/output.md lists them."""
        matrix = interference(self.attribution, len(self.jobs))
        known = {
            "time_ns": self.time_ns,
            "cycles": self.time_cycles,
            **{key: self.counts.get(key, 0) for key in JSON_COUNTS},
            **{key: self.counts[key] for key in JSON_PACKETS if key in self.counts},
            "not_skipped": self.counts.get("not_skipped"),
            "threads_why": self.counts.get("threads_why", ""),
            "sim_cpu_s": self.sim_cpu_s,
            "total_cpu_s": self.total_cpu_s,
            "peak_rss_mb": self.peak_rss_mb,
            "lower_bound_ns": self.lower_bound_ns,
            "optimum_ns": self.optimum_ns,
            "optimum_limit": self.optimum_limit,
            "carried": self.carried,
            "attribution": self.attribution and self.attribution.json(self.hot_links()),
            "backend": self.backend,
            "seed": self.seed,
            "version": self.provenance.get("version", ""),
            **(self.traffic.summary if self.traffic is not None else {}),
            **(self.work.json(self.to_ns) if self.work is not None else {}),
            **(self.memory.json(self.time_cycles) if self.memory is not None else {}),
            **{key: row[key] for row in self.training for key in THROUGHPUT},
            **({"serving": self.serving.summary_json()} if self.serving is not None else {}),
            **({} if matrix is None else {"interference": matrix.json()}),
        }
        return {key: plain(value) for key, value in known.items()}

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Return the small datasets as rows for JSON; a missing number is None."""
        return dataset.json_rows(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the HDF5 file; a file of that name is replaced in one step. Raises InputError if that is impossible."""
        self.view("save", path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Result:
        """Read a file that `save` wrote. Raises InputError for any other file."""
        read: Callable[[str | os.PathLike[str]], Result] = cls.views["load"]
        return read(path)

    @property
    def plot(self) -> Any:
        """The plots of this result: `result.plot.utilization()` and others; each takes and returns matplotlib Axes."""
        return self.view("plot")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.extra})

    def __repr__(self) -> str:
        state = "" if self.complete else ", incomplete"
        return f"Result({self.title}: {self.time_ns} ns{state})"

    def _repr_html_(self) -> str:
        return str(self.view("html")) if "html" in self.views else f"<pre>{escape(repr(self))}</pre>"


THROUGHPUT = ("model_flops", "mfu", "samples_per_s", "tokens_per_s", "tokens_per_s_npu")
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
JSON_PACKETS = (
    "groups",
    "classes",
    "episodes",
    "cached_episodes",
    "ranks",
    "packets_delivered",
    "packets_dropped",
    "packets_errored",
    "packets_in_network",
    "packets_trimmed",
    "packets_marked",
    "packets_resent",
    "packets_lost",
    "flits_lost",
    "flits_in_flight",
)
JSON_TRAFFIC = tuple(TRAFFIC_KEYS)
# Numbers that depend on how and where the run was computed, not on the experiment.
HOW_IT_RAN = {"sim_cpu_s", "total_cpu_s", "peak_rss_mb"} | {
    *("skipped_cycles", "skipped_visits", "not_skipped", "groups", "classes", "episodes", "cached_episodes"),
    *("threads", "threads_asked", "threads_why", "ranks", "resumed"),
}


def _times(flits: IntArray, num: IntArray, den: IntArray) -> IntArray:
    """Return floor(flits * num / den) without overflow of 64 bits."""
    whole, rest = np.divmod(flits, den)
    return np.asarray(whole * num + rest * num // den, dtype=np.int64)
