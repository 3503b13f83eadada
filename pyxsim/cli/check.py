"""`pyxsim check`: everything that can be known of an experiment before it is run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from pyxsim import __version__
from pyxsim.cli.faults import placed
from pyxsim.cli.proof import Composition, prove_compositions, schedules
from pyxsim.cli.talk import Talk
from pyxsim.errors import InputError, SimulationError
from pyxsim.network.windows import WindowRecorder
from pyxsim.output.result import plain
from pyxsim.report.facts import percent, plural, rounded
from pyxsim.settings import load_experiment
from pyxsim.study import Prepared, prepare
from pyxsim.study.bound import bound_cycles
from pyxsim.units import format_time_ns

SAMPLE = 0.3  # seconds of the run that are simulated to measure its speed
STEP = 64  # cycles between two looks at the clock meanwhile


@dataclass(frozen=True)
class Buffer:
    """The buffers of a dimension's links, against the loop of a credit."""

    dimension: int
    name: str
    flits_per_vc: int
    vcs: int
    credit_loop: int
    share: float  # of the time in which a link can be busy


@dataclass(frozen=True)
class Cost:
    """What a run will take: router visits, and seconds at the speed of its beginning."""

    router_visits: int
    visits_per_s: float
    seconds: float
    prepare_s: float


class _EnoughError(Exception):
    """The sample is large enough."""


def check_experiment(
    talk: Talk,
    path: str,
    *,
    overrides: Iterable[str] = (),
    backend: str = "packet",
    libraries: Iterable[str] = (),
    allow_deadlock: bool = False,
) -> None:
    """`pyxsim check`. Raises what `pyxsim run` would raise before it begins."""
    overrides = tuple(overrides)
    experiment = load_experiment(path, overrides)
    tick = _Tick(talk)
    begin = time.process_time()
    try:
        prepared = prepare(
            experiment,
            folder=Path(path).parent,
            libraries=libraries,
            backend=backend,
            allow_deadlock=allow_deadlock,
            tick=tick,
        )
        compositions = prove_compositions(prepared.system)
    except InputError as error:
        raise placed(error, path, overrides) from None
    preparing = time.process_time() - begin
    bounds = [bound_cycles(each, prepared.system, prepared.network) for each in prepared.system.collectives]
    bound = max(bounds, default=Fraction(0)) * 10**9 / experiment.network.clock
    pairs = len(prepared.system.pairs())
    buffers = buffers_of(prepared)
    cost = _cost(prepared, tick, preparing)
    names = schedules(prepared.system)
    _show(talk, prepared, pairs, names, compositions, buffers, bound, cost)
    talk.put(
        {
            "ok": True,
            "npus": prepared.topology.npus,
            "links": prepared.topology.links,
            "pairs": pairs,
            "deadlock_free": not any("can deadlock" in text for text in prepared.warnings),
            "schedules": names,
            "plans": [vars(plan) for plan in compositions],
            "buffers": [vars(buffer) for buffer in buffers],
            "bound_ns": plain(bound),
            "router_visits": cost.router_visits,
            "visits_per_s": cost.visits_per_s,
            "seconds": cost.seconds,
            "warnings": prepared.warnings,
            "version": __version__,
        }
    )


def buffers_of(prepared: Prepared) -> list[Buffer]:
    """One for each dimension that has links."""
    topology, machine = prepared.topology, prepared.network.machine
    vcs = prepared.experiment.network.router.vcs
    found = []
    for dim, (block, wire) in enumerate(zip(topology.dims, machine.wires, strict=True)):
        mine = topology.link_dim == dim
        if mine.any():
            depth = int(machine.links.depth[: topology.links][mine].min())
            usable = vcs // int(topology.relation.link_classes[mine].max())  # of one class
            share = min(1.0, float(depth * usable * wire.s / wire.loop))
            found.append(Buffer(dim, f"{block.name} {block.npus}", depth, vcs, wire.loop, share))
    return found


class _Tick:
    """Called by the network: ends a sample, and the command when a signal has come."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.until = float("inf")

    def __call__(self) -> None:
        self.talk.stop.obey()
        if time.process_time() > self.until:
            raise _EnoughError


def _cost(prepared: Prepared, tick: _Tick, preparing: float) -> Cost:
    """The visits of the whole run, and the speed of its first SAMPLE seconds."""
    total = prepared.router_visits
    network = prepared.network
    network.windows = WindowRecorder(STEP, prepared.topology.links)  # the engine comes back after each window
    begin = time.process_time()
    tick.until = begin + SAMPLE
    with contextlib.suppress(_EnoughError, SimulationError):  # a deadlock is for the run to find
        prepared.system.run()
    took = max(time.process_time() - begin, 1e-6)
    done = network.engine.router_visits
    rate = done / took
    return Cost(total, rate, total / rate if rate else 0.0, preparing)


def _show(
    talk: Talk,
    prepared: Prepared,
    pairs: int,
    names: list[str],
    compositions: list[Composition],
    buffers: list[Buffer],
    bound: Fraction,
    cost: Cost,
) -> None:
    from rich.table import Table
    from rich.text import Text

    topology = prepared.topology
    rows: list[tuple[str, str]] = [("settings", "good")]
    size = " x ".join(map(str, topology.shape))
    parts = [plural(topology.npus, "NPU"), plural(topology.links, "link")]
    rows.append(("network", f"{topology.name} {size}: {', '.join(parts)}"))
    unsafe = [text for text in prepared.warnings if "can deadlock" in text]
    proof = "they CAN deadlock (see below)" if unsafe else "proved free of deadlock"
    rows.append(("routes", f"{plural(pairs, 'pair')} of NPUs: all reachable; {proof}"))
    rows += [("schedule", f"proved: {name}") for name in names]
    for plan in compositions:
        shape = "x".join(map(str, plan.shape))
        rows.append(("plan", f"proved: {plan.kind} = {', '.join(plan.phases)} (on {shape} with {plan.size} bytes)"))
    for buffer in buffers:
        text = f"{plural(buffer.flits_per_vc, 'flit')} x {plural(buffer.vcs, 'VC')}"
        text += f"; the credit loop is {plural(buffer.credit_loop, 'cycle')}"
        share = "" if buffer.share >= 0.995 else f": links at most {percent(buffer.share)} busy"
        rows.append(("buffers", f"dimension {buffer.dimension} ({buffer.name}): {text}{share}"))
    if bound:
        rows.append(("bound", f"{format_time_ns(bound)}: no network with these links is faster"))
    speed = f"{rounded(cost.visits_per_s, '')} router visits/s, measured at its beginning"
    rows.append(("cost", f"{cost.router_visits:,} router visits: about {seconds(cost.seconds)} ({speed})"))
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    last = ""
    for label, value in rows:
        table.add_row(label if label != last else "", Text(value))
        last = label
    talk.say(table, *(f"warning: {text}" for text in prepared.warnings))


def seconds(value: float) -> str:
    """An estimate for people: two digits are all that it is worth."""
    for unit, length in (("hours", 3600.0), ("minutes", 60.0)):
        if value >= 2 * length:
            return f"{value / length:.2g} {unit}"
    return f"{value:.2g} seconds" if value >= 0.1 else "0.1 seconds"
