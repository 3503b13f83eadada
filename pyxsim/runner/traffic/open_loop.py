"""Open traffic: measure latency and accepted load of a prepared experiment (docs/traffic.md)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from pyxsim.analysis.theory import Theory, bound, zero_load
from pyxsim.errors import InputError, SimulationError
from pyxsim.network.engine_config import MessageClass
from pyxsim.peak_memory import peak_mb
from pyxsim.results.attribution import Attribution
from pyxsim.results.result import Result
from pyxsim.results.traffic import Traffic
from pyxsim.runner.attribution_tables import notes, of_open_traffic
from pyxsim.runner.prepared import PreparedTraffic
from pyxsim.runner.run_result import RunEnd, common_fields
from pyxsim.runner.traffic.feed import Feed
from pyxsim.runner.traffic.finite import BatchRun, TraceRun
from pyxsim.runner.traffic.observe import Grid, Observer
from pyxsim.runner.traffic.record import record
from pyxsim.runner.traffic.steady import MIN_PACKETS, Method, Outcome, Rules
from pyxsim.settings import Experiment
from pyxsim.settings.traffic import Traffic as Settings
from pyxsim.traffic import Pattern, PatternContext, Source
from pyxsim.traffic.trace import read_trace

LIMIT = 15  # mean latency over zero-load latency above which the network counts as saturated
# Bernoulli trials (node x cycle) of a measurement; for on-off processes, which draw each trial, a quarter of an
# hour.
MOST_TRIALS = 10**11


def settings_of(experiment: Experiment) -> Settings:
    """Return the table [traffic]. Raises InputError without one."""
    if experiment.traffic is None:
        allowed = "[traffic] with a pattern and a load; `pyxsim run` and `pyxsim sweep` take collectives and workloads"
        raise InputError("the table [traffic] is missing", key="traffic", allowed=allowed)
    return experiment.traffic


def message_classes(experiment: Experiment) -> list[MessageClass]:
    """Return the message classes of the network."""
    classes = settings_of(experiment).message_classes()
    return [MessageClass(class_.virtual_network, class_.priority) for class_ in classes]


def largest_packet(experiment: Experiment) -> int:
    """Return the flits of the longest packet."""
    settings, network = settings_of(experiment), experiment.network
    if settings.trace is not None:
        return -(-(network.packet + network.header) // network.flit)
    sizes: list[int] = []
    for class_ in settings.resolved:
        if class_.replies is None:
            sizes += class_.sizes
        else:
            sizes += [getattr(class_.replies, name) for name in _REPLIES]
    return max(sizes)


_REPLIES = ("read_request", "read_reply", "write_request", "write_reply")


def check_traffic(prepared: PreparedTraffic) -> None:
    """Raise InputError for traffic that does not fit the network; warn about a load that nodes cannot create."""
    study = Study(prepared)
    study.source  # noqa: B018  builds and checks every pattern
    offered, settings = study.settings.offered, study.settings
    if offered is None:
        return
    _check_rare(settings)
    for class_ in settings.resolved:
        if (class_.load or 0.0) > class_.mean_flits:
            most = f"a packet of {class_.mean_flits:g} flits in every cycle"
            prepared.warnings.append(f"traffic.load: {class_.load:g} flits per node and cycle are more than {most}")


def _check_rare(settings: Settings) -> None:
    """Raise InputError if packets are so rare that a measurement would take hours."""
    rate = sum((class_.load or 0.0) / class_.mean_flits for class_ in settings.resolved)  # packets of a node in a cycle
    if settings.measure != "auto" or settings.max_cycles != "auto" or rate * MOST_TRIALS >= MIN_PACKETS:
        return
    offered = settings.offered or 0.0
    problem = f"{offered:g} is too low for an automatic measurement"
    lowest_load = offered / rate * MIN_PACKETS / MOST_TRIALS
    raise InputError(problem, key="traffic.load", allowed=f"from {lowest_load:.1e}, or set traffic.max_cycles")


class Study:
    """One measurement. If an exception ends `run`, `record` returns what was measured so far."""

    def __init__(self, prepared: PreparedTraffic) -> None:
        self.prepared = prepared
        self.network = prepared.network
        self.settings = settings_of(prepared.experiment)
        self._run: Method | BatchRun | TraceRun | None = None
        self._outcome: Outcome | None = None

    @cached_property
    def context(self) -> PatternContext:
        """The network as traffic patterns see it."""
        topology = self.prepared.topology
        seed = self.prepared.experiment.output.seed
        return PatternContext(topology.npus, tuple(topology.shape), self.prepared.folder, seed)

    @cached_property
    def source(self) -> Any:
        """The generator of packets: a `Source`, or a `Trace`."""
        if self.settings.trace is not None:
            try:
                return read_trace(self.prepared.folder / self.settings.trace, self.context.npus)
            except InputError as error:
                raise error.named_by("traffic.trace") from None
        return Source(self.settings.resolved, self.context)

    @property
    def patterns(self) -> list[Pattern]:
        """The traffic pattern of each class."""
        return [packets.pattern for packets in self.source.packets]

    @cached_property
    def theory(self) -> Theory | None:
        """Zero-load latency and hops; None for traffic without a load."""
        if self.settings.offered is None:
            return None
        topology, config = self.prepared.topology, self.network.config
        return zero_load(topology, config, self.settings.resolved, self.patterns)

    @property
    def rules(self) -> Rules:
        """The rules that determine the length of the measurement."""
        settings, known = self.settings, self.theory
        limit = settings.latency_limit
        return Rules(
            warmup=None if settings.warmup == "auto" else int(settings.warmup),
            measure=None if settings.measure == "auto" else int(settings.measure),
            precision=settings.precision,
            max_cycles=None if settings.max_cycles == "auto" else int(settings.max_cycles),
            latency_limit=float(limit) if limit != "auto" else LIMIT * known.zero_load if known else None,
            flight=known.zero_load if known else 0.0,
        )

    def run(self) -> None:
        """Simulate to the end. Raises SimulationError."""
        run = self.start()
        if isinstance(run, Method):
            self._outcome = run.run()
        else:
            run.run()
            self._outcome = Outcome("finished", 0, 1, 0, 1, True, False)

    def start(self) -> Method | BatchRun | TraceRun:
        """Build the run; `record` works from here on. Raises InputError."""
        if self._run is not None:
            return self._run
        settings, classes = self.settings, self.settings.resolved
        if settings.trace is not None:
            self._run = TraceRun(self.network, self.source)
        elif settings.batch is not None:
            self._run = BatchRun(self.network, classes[0], settings.batch, self.context)
        else:
            load = settings.offered or 0.0
            packets = sum((class_.load or 0.0) / class_.mean_flits for class_ in classes) * self.context.npus
            messages = len(settings.message_classes())
            grid = self.rules.grid(packets, self.theory.zero_load if self.theory else None)
            observer = Observer(grid, self.context.npus, messages, messages - len(classes))
            self._run = Method(Feed(self.network, self.source, classes, observer, load), self.rules)
        return self._run

    @property
    def end(self) -> int:
        """The last cycle of the run; for finite traffic, that of the last arrival."""
        return self.network.now if self._run is None or isinstance(self._run, Method) else self._run.cycle

    def record(self, why: str = "interrupted") -> Traffic:
        """Return the measurement so far; `why` says why it ended."""
        run, settings = self._run, self.settings
        if run is None:
            raise ValueError("nothing was run")
        facts: dict[str, Any] = {}
        if isinstance(run, Method):
            self._outcome = self._outcome or run.so_far(why)
            facts = {"zero_load_latency": self.theory.zero_load if self.theory else None}
            facts["latency_limit"] = self.rules.latency_limit
        else:
            run.observer.grid = Grid(0, max(1, run.cycle))
            self._outcome = self._outcome or Outcome(why, 0, 1, 0, 1, False, False)
        if isinstance(run, BatchRun):
            facts["batch_cycles"] = run.times
        return record(run.observer, self._outcome, settings.message_classes(), offered=settings.offered, facts=facts)

    def attribution(self) -> Attribution | None:
        """Return the attribution of the measured packets; None without `output.attribution`."""
        if self._run is None or self._outcome is None:
            raise ValueError("nothing was recorded")
        classes = [message_class.name for message_class in self.settings.message_classes()]
        measured = self._run.observer.split(self._outcome.first, self._outcome.end)
        return of_open_traffic(self.network, classes, *measured)


def traffic_bound(prepared: PreparedTraffic) -> float | None:
    """Return the largest load, in flits per node and cycle, that links and lanes can carry; None if unbounded."""
    study = Study(prepared)
    classes = study.settings.resolved
    return bound(prepared.topology, prepared.network.config, classes, study.patterns)


class TrafficRun:
    """A run of open traffic, which ends when the measurement is complete."""

    def __init__(self, prepared: PreparedTraffic) -> None:
        self.prepared = prepared
        self.study: Study = prepared.study or Study(prepared)
        prepared.study = self.study
        self.study.start()

    def run(self) -> None:
        """Simulate to the end. Raises SimulationError."""
        self.study.run()

    def end(self, complete: bool, failure: SimulationError | None) -> int:
        """Return the cycle in which the run ended, and finish its network."""
        end = self.study.end if complete else self.prepared.network.now
        self.prepared.network.finish(end)
        return end

    def result(self, end: RunEnd, failure: SimulationError | None) -> Result:
        """Return the Result."""
        prepared = self.prepared
        traffic = self.study.record("interrupted" if failure is None else "failed")
        attribution = self.study.attribution()
        return Result(
            **common_fields(prepared, end, peak_mb()),
            traffic=traffic,
            attribution=attribution,
            warnings=[*prepared.warnings, *traffic.notes, *notes(attribution)],
            failure="" if failure is None else str(failure),
        )
