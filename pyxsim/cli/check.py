"""`pyxsim check`: everything that can be known of an experiment before it is run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from pyxsim import __version__
from pyxsim.analysis.packet_spacing import COVERED, kind_streams
from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.faults import placed
from pyxsim.cli.proof import Composition, prove_compositions, schedules
from pyxsim.errors import DeadlockError, InputError
from pyxsim.reports.text.facts import percent, plural, rounded
from pyxsim.results.table import plain
from pyxsim.routing.relation import vc_ranges
from pyxsim.runner.closed_run import run_out
from pyxsim.runner.prepare import prepare
from pyxsim.runner.prepared import Prepared, PreparedTraffic
from pyxsim.runner.run_result import collective_row
from pyxsim.runner.traffic.open_loop import Study, largest_packet, traffic_bound
from pyxsim.settings import Experiment, load_experiment
from pyxsim.units import format_time_ns

SAMPLE = 0.3  # seconds of the run that are simulated to measure its speed
MOST_ROWS = 8  # of collectives
COMPAT = "docs/compat.md"
STEP = 250  # cycles between two looks at the clock meanwhile


@dataclass(frozen=True)
class Routing:
    """The routing relation. `virtual_networks`: VCs of each; `vc_ranges`: of each class, on a link with all of them."""

    name: str
    deterministic: bool
    ways: int
    vc_classes: int
    virtual_networks: list[int]
    vc_ranges: list[list[list[int]]]


@dataclass(frozen=True)
class Buffer:
    """The buffers of a dimension's links, or of another kind of links, against the loop of a credit. `vcs`: those that
    a packet may use, of its class; `share`: of the time in which full packets can keep a link busy, at most."""

    dimension: int
    name: str
    flits_per_vc: int
    vcs: int
    credit_loop: int
    share: float


@dataclass(frozen=True)
class Cost:
    """What a run will take: router visits, and seconds at the speed of its beginning. `ends`: whether that was all of
    it, and it came to an end; None where nobody knows."""

    router_visits: int
    visits_per_s: float
    seconds: float
    ends: bool | None = None


@dataclass(frozen=True)
class Theory:
    """What open traffic may be like: the latency of a packet alone, and the most flits per node and cycle."""

    zero_load: float
    bound: float | None


class _EnoughError(Exception):
    """The sample is large enough."""


@dataclass(frozen=True)
class Report:
    """What is known of an experiment that may be run. `bound_ns`: its time is no shorter.

    `messages` of `nbytes` together will be sent. `engine_bytes`: the engine's memory before anything moves; None where
    there are no packets. Of open traffic, whose cost nobody knows, `theory` tells what it
    may be like.
    """

    prepared: Prepared | PreparedTraffic
    routing: Routing
    pairs: int
    schedules: list[str]
    plans: list[Composition]
    buffers: list[Buffer]
    bound_ns: Fraction
    cost: Cost
    theory: Theory | None = None
    collectives: list[dict[str, Any]] = field(default_factory=list)
    messages: int = 0
    nbytes: int = 0
    engine_bytes: int | None = None

    @property
    def unsafe(self) -> bool:
        """Whether its routes can deadlock, and it may be run all the same."""
        return any("can deadlock" in text for text in self.prepared.warnings)

    def json(self) -> dict[str, Any]:
        theory: dict[str, float | None] = {}
        if self.theory is not None:
            theory = {"zero_load_latency": self.theory.zero_load, "load_bound": self.theory.bound}
        return {
            "ok": True,
            "npus": self.prepared.topology.npus,
            "links": self.prepared.topology.links,
            "pairs": self.pairs,
            "messages": self.messages,
            "bytes": self.nbytes,
            "engine_bytes": self.engine_bytes,
            "collectives": [_asked(row) for row in self.collectives],
            "routing": asdict(self.routing),
            "deadlock_free": not self.unsafe,
            "schedules": self.schedules,
            "plans": [asdict(plan) for plan in self.plans],
            "buffers": [asdict(buffer) for buffer in self.buffers],
            "bound_ns": plain(self.bound_ns),
            **asdict(self.cost),
            **theory,
            "warnings": self.prepared.warnings,
            "version": __version__,
        }


def _asked(row: dict[str, Any]) -> dict[str, Any]:
    """What is known of a collective before its run."""
    return {key: plain(value) for key, value in row.items() if key not in ("end", "ratio")}


def check_experiment(out: CommandOutput, path: str, *, overrides: Iterable[str] = (), **options: Any) -> None:
    """`pyxsim check`. Raises what `pyxsim run` would raise. `options`: backend, libraries, allow_deadlock."""
    overrides, libraries = tuple(overrides), list(options.get("libraries", ()))
    experiment = load_experiment(path, overrides, libraries)
    try:
        report = examine(experiment, Path(path).parent, options)
    except InputError as error:
        raise placed(error, path, overrides) from None
    _show(out, report)
    out.put(report.json())


def examine(experiment: Experiment, folder: Path, options: dict[str, Any]) -> Report:
    """Prove, count and measure. Raises InputError, SimulationError."""
    prepared = prepare(experiment, folder=folder, **options)
    routing, buffers = routing_of(prepared), buffers_of(prepared)
    if isinstance(prepared, PreparedTraffic):
        npus = prepared.topology.npus
        none, size = Cost(0, 0.0, 0.0), prepared.network.engine_bytes()
        theory = _theory(prepared)
        return Report(
            prepared, routing, npus * npus, [], [], buffers, Fraction(0), none, theory=theory, engine_bytes=size
        )
    system, network = prepared.system, prepared.network
    engine_bytes = network.engine_bytes()
    traffic = system.traffic()
    return Report(
        prepared,
        routing,
        pairs=len(np.unique(traffic[:, :3], axis=0)),
        schedules=schedules(system),
        plans=prove_compositions(system),
        buffers=buffers,
        bound_ns=prepared.bound * 10**9 / experiment.network.clock,
        cost=_cost(prepared),
        collectives=[collective_row(each, prepared.bound_of(each.per_group)) for each in prepared.job.collectives],
        messages=int(traffic[:, 4].sum()),
        nbytes=int((traffic[:, 3] * traffic[:, 4]).sum()),
        engine_bytes=engine_bytes,
    )


def _theory(prepared: PreparedTraffic) -> Theory | None:
    """What theory says of traffic with a load."""
    known = Study(prepared).theory
    return None if known is None else Theory(known.zero_load, traffic_bound(prepared))


def routing_of(prepared: Prepared | PreparedTraffic) -> Routing:
    """What routes are like, and which VCs they use."""
    topology, networks = prepared.topology, prepared.experiment.network.router.networks()
    relation = topology.relation
    ranges, first = [], 0
    for vcs in networks:
        low, high = vc_ranges(vcs, relation.classes, relation.fixed_vcs)
        ranges.append((first + np.stack([low, high], axis=1)).tolist())
        first += vcs
    # Collectives that tell a plane have no choice.
    told = isinstance(prepared, Prepared) and all(queue.plane >= 0 for each in topology.queues for queue in each)
    ways = 1 if told else len(relation.ways)
    fixed = told or relation.deterministic
    return Routing(topology.routing, fixed, ways, relation.classes, list(networks), ranges)


def buffers_of(prepared: Prepared | PreparedTraffic) -> list[Buffer]:
    """One for each dimension (or kind) that has links; none where there are no packets."""
    if not prepared.network.capabilities.packets:
        return []
    topology, experiment = prepared.topology, prepared.experiment
    closed = isinstance(prepared, Prepared)
    flits = prepared.network.cut(experiment.network.packet)[1] if closed else largest_packet(experiment)
    found = []
    for kind, each in kind_streams(prepared.network, flits):
        name = topology.link_kinds[kind]
        if name == f"d{kind}" and kind < len(topology.dims):
            name = f"{topology.dims[kind].name} {topology.dims[kind].npus}"
        found.append(Buffer(kind, name, each.slots, each.vcs, each.loop, each.at_most))
    return found


class _Sample:
    """Called by the network after each batch: ends a sample of the run."""

    def __init__(self, until: float) -> None:
        self.until = until

    def __call__(self) -> None:
        if time.process_time() > self.until:
            raise _EnoughError


def _cost(prepared: Prepared) -> Cost:
    """The visits of the whole run, and the speed of its first SAMPLE seconds."""
    total = prepared.router_visits
    network = prepared.network
    network.set_tick_interval(STEP)
    begin = time.process_time()
    network.tick = _Sample(begin + SAMPLE)
    ends = None
    # A deadlock that was allowed is for the run to find. Who waits for ever in so short a time does so in the run, too.
    with contextlib.suppress(_EnoughError, DeadlockError):
        run_out(prepared)
        ends = True
    took = max(time.process_time() - begin, 1e-6)
    rate = network.router_visits / took
    done = network.bytes_delivered / max(1, prepared.bytes_planned)
    # Without packets there are no visits to count; bytes are as good there, where every message costs the same.
    left = total / rate if rate else took / done if done else 0.0
    return Cost(total, rate, left, ends)


def _show(out: CommandOutput, report: Report) -> None:
    from rich.table import Table
    from rich.text import Text

    topology, cost = report.prepared.topology, report.cost
    rows: list[tuple[str, str]] = [("settings", "good")]
    size = " x ".join(map(str, topology.shape))
    parts = [plural(topology.npus, "NPU"), plural(topology.links, "link")]
    rows.append(("network", f"{topology.name} {size}: {', '.join(parts)}"))
    proof = "they CAN deadlock (see below)" if report.unsafe else "proved free of deadlock"
    rows.append(("routing", _routing(report.routing)))
    if not report.prepared.network.capabilities.packets:
        proof = "there are no buffers that could deadlock"
    rows.append(("routes", f"{plural(report.pairs, 'pair')} of NPUs: all reachable; {proof}"))
    rows += [("collective", _collective(row)) for row in report.collectives[:MOST_ROWS]]
    if len(report.collectives) > MOST_ROWS:
        rows.append(("collective", f"and {len(report.collectives) - MOST_ROWS} more"))
    if report.messages:
        rows.append(("messages", f"{report.messages:,} of {rounded(report.nbytes, 'B', 1024)} together"))
    rows += [("schedule", f"proved: {name}") for name in report.schedules]
    for plan in report.plans:
        shape = "x".join(map(str, plan.shape))
        rows.append(("plan", f"proved: {plan.kind} = {', '.join(plan.phases)} (on {shape} with {plan.size} bytes)"))
    for buffer in report.buffers:
        text = f"{plural(buffer.flits_per_vc, 'flit')} x {plural(buffer.vcs, 'VC')}"
        loop = f"the credit loop of {plural(buffer.credit_loop, 'cycle')}"
        text += f" cover {loop}" if buffer.share >= COVERED else f" for {loop}: {percent(buffer.share)} busy at most"
        kind = buffer.name in topology.link_kinds
        what = f"{buffer.name} links" if kind else f"dimension {buffer.dimension} ({buffer.name})"
        rows.append(("buffers", f"{what}: {text}"))
    if report.engine_bytes is not None:
        each = rounded(report.engine_bytes / topology.routers, "B")
        rows.append(
            ("memory", f"{rounded(report.engine_bytes, 'B')} for the engine before anything moves: {each} per router")
        )
    if report.bound_ns:
        rows.append(("bound", f"{format_time_ns(report.bound_ns)}: the least for its bytes on these links"))
    if report.theory is not None:
        rows.append(("latency", f"{report.theory.zero_load:.1f} cycles without any load"))
        if report.theory.bound is not None:
            rows.append(
                ("bound", f"{report.theory.bound:.3f} flits per node and cycle: there the busiest link or lane is full")
            )
    if isinstance(report.prepared, Prepared) and not cost.router_visits:
        rows.append(("cost", f"about {seconds(cost.seconds)}, by what its beginning takes"))
    elif isinstance(report.prepared, Prepared):
        speed = f"{rounded(cost.visits_per_s, '')} router visits/s, measured at its beginning"
        rows.append(("cost", f"{cost.router_visits:,} router visits: about {seconds(cost.seconds)} ({speed})"))
    if cost.ends is None and _may_stand_still(report.prepared):
        rows.append(("end", f"not known: queues may fill with chunks that wait, as in ASTRA-sim 2 ({COMPAT})"))
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    last = ""
    for label, value in rows:
        table.add_row(label if label != last else "", Text(value))
        last = label
    out.say(table, *(f"warning: {text}" for text in report.prepared.warnings))


def _may_stand_still(prepared: Prepared | PreparedTraffic) -> bool:
    """Whether chunks keep their places in queues while they wait for other NPUs, and not all may have one."""
    if isinstance(prepared, PreparedTraffic):
        return False
    chunks = prepared.system.options.chunks * len(prepared.job.collectives) if prepared.job.planned else 0
    return prepared.system.may_stall(chunks)


def _collective(row: dict[str, Any]) -> str:
    """One line: "gradients: all-reduce of 1.00 MiB on 4 NPUs (group left), ring"."""
    name = "" if row["name"] == row["kind"] else f"{row['name']}: "
    size = "" if row["kind"] == "barrier" else f" of {rounded(row['bytes'], 'B', 1024)}"
    group = "" if row["group"] == "all" else f" ({row['group']})"
    root = "" if row["root"] < 0 else f", root NPU {row['root']}"
    at = "" if row["start"] <= 0 else f", from cycle {row['start']:,} on"  # -1: it has not begun
    return f"{name}{row['kind']}{size} on {plural(row['npus'], 'NPU')}{group}{root}, {row['algorithm']}{at}"


def _routing(routing: Routing) -> str:
    """One line: "dimension-order: one route for each pair; 2 VC classes, VCs 0-1, 2-3"."""
    kind = "one route for each pair" if routing.deterministic else "packets choose between routes"
    if routing.ways > 1:
        kind += f" one of {routing.ways} ways"
    text = f"{routing.name}: {kind}"
    if routing.vc_classes > 1 or len(routing.virtual_networks) > 1:
        ranges = [
            ", ".join(f"{low}-{high - 1}" if high - low > 1 else f"{low}" for low, high in each)
            for each in routing.vc_ranges
        ]
        classes = f"{routing.vc_classes} VC class{'es' if routing.vc_classes > 1 else ''}"
        text += f"; {classes}, VCs {' and '.join(ranges)}"
    return text


def seconds(value: float) -> str:
    """An estimate for people: two digits are all that it is worth."""
    for unit, length in (("hours", 3600.0), ("minutes", 60.0)):
        if value >= 2 * length:
            return f"{float(f'{value / length:.2g}'):g} {unit}"
    return f"{float(f'{value:.2g}'):g} seconds" if value >= 0.1 else "0.1 seconds"
