"""Synthesize a collective for a network: bound, methods, proof, ranking, and the file of the best."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from pyxsim.collective.checker import prove
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.custom.forest import FOREST_KINDS, Forest
from pyxsim.collective.custom.paths import Paths
from pyxsim.collective.lookup import get_schedule
from pyxsim.errors import InputError, PyxsimError
from pyxsim.results.table import Facts
from pyxsim.settings import Network
from pyxsim.synthesis.bounds import Bounds, bounds_of
from pyxsim.synthesis.candidates import METHODS, Attempts, attempt, slice_counts
from pyxsim.synthesis.files import Described, check_format, file_text, python_text, used_as
from pyxsim.synthesis.link_graph import LinkGraph, graph_of
from pyxsim.synthesis.ranking import Setting, shelf_names, simulate, simulate_text
from pyxsim.topology import Topology
from pyxsim.units import format_bytes, parse_bytes

RANKS = ("packet", "flow", "none")
MOST_MESSAGES = 200_000  # of a schedule that is simulated
MOST_PROVED = (
    30_000  # messages of a schedule that is compiled and proved, if no simulation does, and when it is written
)
MOST_SHELF = 256  # NPUs of networks on which the algorithms of the shelf are simulated
FINALISTS = 2  # of the synthesized schedules, and as many of the shelf, that are simulated by flits
MOST_SIMULATED = 6  # synthesized schedules
PROVED = "correct for every order of arrival"
CLOSE = 1.15  # of the best estimate: what is worth simulating


@dataclass
class Ranked:
    """A schedule and what is known about it.

    Attributes
    ----------
    source
        "synthesized" or "shelf".
    estimate_s
        Of a synthesized one, seconds of its busiest link.
    simulated_s, backend
        Seconds on the simulated network; None where it was not simulated.
    of_bound
        The time, simulated if it is, over the bound.
    note
        What its method says, or why it cannot be simulated.
    """

    name: str
    source: str
    slices: int = 1
    estimate_s: float | None = None
    simulated_s: float | None = None
    backend: str = ""
    of_bound: float | None = None
    note: str = ""
    cpu_s: float = 0.0
    forest: Forest | Paths | None = field(default=None, repr=False)
    algorithm: str | list[str] = ""


@dataclass(repr=False)
class Synthesis(Facts):
    """What `synthesize` found: `ranked`, best first, `best` among the synthesized ones, and its file.

    Attributes
    ----------
    bandwidth
        Bytes per second of the slowest and of the fastest link between nodes.
    size
        Bytes, as in the settings of the collective.
    bound_s
        Seconds below which no algorithm gets on this network: the optimum of `pyxsim check`.
    bound_kind
        What limits it, in words.
    proof
        What is proved of the schedule that is written.
    """

    network: str
    npus: int
    bandwidth: tuple[int, int]
    kind: str
    size: int
    bound_s: float
    bound_kind: str
    proof: str
    file: str | None
    format: str | None
    use: str | None
    complete: bool
    cpu_s: float
    best: Ranked
    ranked: list[Ranked]
    without: dict[str, str]

    def json(self) -> dict[str, Any]:
        """Return all of it as one JSON object."""
        hidden = ("forest", "algorithm")
        rows = [{name: value for name, value in vars(each).items() if name not in hidden} for each in self.ranked]
        best = self.ranked.index(self.best)
        return {**{name: value for name, value in vars(self).items() if name != "best"}, "ranked": rows, "best": best}


@dataclass(frozen=True)
class Task:
    """A network and the collective to synthesize for it."""

    setting: Setting
    topology: Topology
    network: Network
    kind: str
    size: int
    method: str = "auto"
    rank: str = "packet"
    in_switch: bool = False
    slices: int | None = None
    seconds: float = 60.0


def task_of(
    setting: Setting,
    topology: Topology,
    network: Network,
    *,
    kind: str = "all-reduce",
    size: str | int = "256 MiB",
    method: str = "auto",
    rank: str = "packet",
    in_switch: bool = False,
    slices: int | None = None,
    seconds: float = 60.0,
) -> Task:
    """Return the task of such options. Raises InputError for one that is not allowed."""
    for value, allowed, key in (
        (kind, FOREST_KINDS, "--collective"),
        (method, METHODS, "--method"),
        (rank, RANKS, "--rank"),
    ):
        if value not in allowed:
            raise InputError(f"unknown value '{value}'", key=key, allowed=list(allowed), given=value)
    try:
        nbytes = parse_bytes(size)
    except InputError as error:
        raise error.at(key="--size") from None
    if nbytes < 1:
        raise InputError(f"{size!r} is zero", key="--size", allowed="at least 1 B")
    if not 0 < seconds <= 86400:
        raise InputError(f"{seconds:g} is out of range", key="--seconds", allowed="more than 0, up to 86400")
    if in_switch and (kind != "all-reduce" or not any("switch" in dim.name for dim in topology.dims)):
        problem = f"{kind} on {' x '.join(dim.name for dim in topology.dims)} cannot be reduced in a switch"
        raise InputError(
            problem, key="--in-switch", allowed="all-reduce on a network with a dimension that is one switch"
        )
    return Task(setting, topology, network, kind, nbytes, method, rank, in_switch, slices, seconds)


def run_task(
    task: Task, file: str | None = None, form: str | None = None, progress: Callable[[str], None] = lambda _: None
) -> Synthesis:
    """Synthesize, prove, rank, and write the best. Ctrl-C ends the search and keeps the best so far.

    Raises InputError for a network that does not connect its NPUs, and if no method finds a schedule.
    """
    begin = time.process_time()
    form = None if file is None else check_format(file, form, task.kind)
    graph = graph_of(task.topology, task.network)
    endpoint = task.setting.endpoint_cycles(task.kind, task.size, task.network.clock)
    bounds = bounds_of(
        task.topology, task.network, graph, task.kind, task.size, in_switch=task.in_switch, endpoint=endpoint
    )
    bound = bounds.seconds
    progress(f"at least {bound * 1e6:.6g} us: {bounds.limit}; trying {task.method}")
    attempts = attempt(graph, task.kind, task.size, bounds, task.method, task.seconds)
    ranked = _candidates(task, graph, attempts, bounds)
    if not ranked:
        reasons = "; ".join(f"{name}: {why}" for name, why in attempts.without.items()) or "interrupted"
        raise InputError(f"no schedule was found: {reasons}", key="--method", allowed="auto, or more --seconds")
    complete = not attempts.interrupted
    took = time.process_time() - begin
    for each in ranked:
        each.of_bound = (each.estimate_s or 0.0) / bound
    if complete and task.rank != "none":
        complete = _rank(task, ranked, bound, progress)
    ranked.sort(key=lambda each: (each.simulated_s is None, _order(each, task.rank)))
    best = next(each for each in ranked if each.source == "synthesized")
    described = _described(task, best)
    proof, proved = _proof(task, best, described)
    if file is not None and form is not None:
        text = file_text(form, described, graph)
        try:
            Path(file).write_text(text)
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror}", file=file) from None
        proof = _file_proof(task, file, form, best, proof, proved)
    return Synthesis(
        network=task.topology.name,
        npus=task.topology.npus,
        bandwidth=_bandwidths(graph),
        kind=task.kind,
        size=task.size,
        bound_s=bound,
        bound_kind=bounds.limit,
        proof=proof,
        file=file,
        format=form,
        use=None if file is None or form is None else _use(task, used_as(form, file, best.slices)),
        complete=complete,
        cpu_s=took,
        best=best,
        ranked=ranked,
        without=attempts.without,
    )


def _candidates(task: Task, graph: LinkGraph, attempts: Attempts, bounds: Bounds) -> list[Ranked]:
    each = task.size if task.kind in ("all-gather", "all-to-all") else task.size / graph.npus
    found: list[Ranked] = []
    for one in attempts.found:
        estimate = float(one.time) * each / graph.unit
        counts = [task.slices] if task.slices is not None else slice_counts(one.forest, task.kind, task.size)
        found += [
            Ranked(one.method, "synthesized", slices, estimate, note=one.note, cpu_s=one.cpu_s, forest=one.forest)
            for slices in counts
        ]
    if task.in_switch and len(task.topology.shape) == 1:
        note = "the switch adds and multicasts"
        found.append(Ranked("in-switch", "synthesized", task.slices or 4, bounds.seconds, note=note))
    return found


def _order(each: Ranked, rank: str) -> tuple[bool, float]:
    """Runs by flits first, each by time; what was not simulated by its estimate."""
    time = each.simulated_s if each.simulated_s is not None else each.estimate_s
    return each.backend != rank, float("inf") if time is None else time


def _rank(task: Task, ranked: list[Ranked], bound: float, progress: Callable[[str], None]) -> bool:
    """Simulate the candidates; first as flows, then the best of each source as asked. False if interrupted."""
    best = min(each.estimate_s for each in ranked if each.estimate_s is not None)
    work = [each for each in ranked if each.estimate_s is not None and each.estimate_s <= CLOSE * best]
    work = sorted(work, key=lambda each: each.estimate_s or 0.0)[:MOST_SIMULATED]
    for each in work:
        if (count := _messages(task, each)) > MOST_MESSAGES:
            each.note = f"{each.note}; not simulated: {count} messages"
    work = [each for each in work if _messages(task, each) <= MOST_MESSAGES]
    shelf = [
        Ranked(name if isinstance(name, str) else " ".join(name), "shelf", algorithm=name)
        for name in shelf_names(task.kind, task.topology, in_switch=task.in_switch)
        if task.topology.npus <= MOST_SHELF
    ]
    try:
        for each in work + shelf:
            progress(f"flow: {each.name}, slices {each.slices}")
            _simulate(task, each, bound, "flow")
            if each.source == "shelf" and each.simulated_s is not None:
                ranked.append(each)
        if task.rank == "packet":
            for source in ("synthesized", "shelf"):
                timed = [each for each in ranked if each.source == source and each.simulated_s is not None]
                timed.sort(key=lambda each: each.simulated_s or 0.0)
                for each in timed[:FINALISTS]:
                    progress(f"packet: {each.name}, slices {each.slices}")
                    _simulate(task, each, bound, "packet")
    except KeyboardInterrupt:
        return False
    return True


def _simulate(task: Task, each: Ranked, bound: float, backend: str) -> None:
    if each.source == "shelf":
        result = simulate(task.setting, task.kind, task.size, each.algorithm, backend)
    else:
        text = python_text(_described(task, each))
        over_all = len(task.topology.shape) > 1
        result = simulate_text(task.setting, task.kind, task.size, text, backend, over_all=over_all)
    if isinstance(result, str):
        each.note = result
        return
    each.simulated_s, each.backend, each.of_bound = result, backend, result / bound


def _described(task: Task, each: Ranked) -> Described:
    shape = "x".join(map(str, task.topology.shape))
    # Names and titles become a part of a Python file, in which they must stay text.
    network = re.sub(r"[^A-Za-z0-9.+-]+", "-", task.topology.name)
    name = f"synthesized-{task.kind}-{network}-{shape}"
    title = f"{task.kind} of {format_bytes(task.size)} for {network} {shape}: {each.name}, {each.note}."
    return Described(each.forest, task.kind, task.size, each.slices, name, title)


def _proof(task: Task, best: Ranked, described: Described) -> tuple[str, CompiledSchedule | None]:
    """Prove the schedule, and return what is proved and the schedule, if it was compiled here.

    Raises ScheduleError, which would be a bug.
    """
    if best.forest is None:
        return "one reduction in the switch", None
    best.forest.check()
    if best.simulated_s is not None:  # every run proves its schedules first
        return PROVED, None
    messages = _messages(task, best)
    if messages > MOST_PROVED:
        return f"{best.forest.noun} that carry every unit once; {messages} messages are not compiled here", None
    schedule = best.forest.schedule(task.kind, best.slices, described.name)
    prove(schedule)
    return PROVED, schedule


def _messages(task: Task, each: Ranked) -> int:
    """The messages of a synthesized schedule."""
    if each.forest is None:
        return task.topology.npus * each.slices
    return each.forest.messages(task.kind, each.slices)


def _file_proof(task: Task, file: str, form: str, best: Ranked, proof: str, proved: CompiledSchedule | None) -> str:
    """Read the file back, and prove what it says unless that is what is `proved` already."""
    if _messages(task, best) > MOST_PROVED:
        return proof
    name = used_as(form, str(Path(file).absolute()), best.slices)
    try:
        schedule = get_schedule(task.kind, name, task.topology.npus)
        if proved is None or not _same(schedule, proved):
            prove(schedule)
    except PyxsimError as error:
        raise InputError(f"does not hold what was written: {error}", file=file) from None
    return f"{proof}, as read back from the file"


def _same(one: CompiledSchedule, other: CompiledSchedule) -> bool:
    """Whether two schedules are equal but for the origins of their messages."""
    names = [each.name for each in fields(one) if each.init and each.name not in ("algorithm", "written")]
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def _bandwidths(graph: LinkGraph) -> tuple[int, int]:
    """Of the links between nodes, without those that join NPUs with the routers that they share."""
    rates = graph.rate if graph.own < 0 else graph.rate[: graph.own]
    return int(rates.min()) * graph.unit, int(rates.max()) * graph.unit


def _use(task: Task, name: str) -> str:
    """The setting that runs the file."""
    one = "one-" if len(task.topology.shape) > 1 else ""
    return f'{task.kind.replace("-", "_")} = "{one}{name}"'
