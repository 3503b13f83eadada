"""Background traffic: open traffic beside collectives, messages or a workload, until these end (docs/traffic.md)."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from pyxsim.analysis.theory import zero_load
from pyxsim.network.engine_config import EngineConfig
from pyxsim.results.traffic import Traffic
from pyxsim.runner.traffic.feed import MAX_SPAN, PACKETS
from pyxsim.runner.traffic.observe import Observer
from pyxsim.runner.traffic.record import record
from pyxsim.runner.traffic.steady import ACCEPTED, Outcome, Rules, accepted, created
from pyxsim.settings import Experiment
from pyxsim.topology import Topology
from pyxsim.traffic import PatternContext, Source

MOST_BATCHES = 1 << 12  # then pairs of batches become one: the length of the run is not known


class Background:
    """Creates the packets of background traffic and observes their arrivals.

    `warnings`: lines for the user.
    """

    def __init__(self, experiment: Experiment, topology: Topology, folder: Path, config: EngineConfig) -> None:
        settings = experiment.background
        assert settings is not None
        self.settings = settings
        self.topology = topology
        context = PatternContext(topology.npus, tuple(topology.shape), folder, experiment.output.seed)
        self.source = Source(settings.resolved, context)
        load = settings.offered or 0.0
        packets = sum((class_.load or 0.0) / class_.mean_flits for class_ in settings.resolved) * topology.npus
        patterns = [packet.pattern for packet in self.source.packets]
        self.zero_load = zero_load(topology, config, settings.resolved, patterns).zero_load
        rules = Rules(warmup=None if settings.warmup == "auto" else int(settings.warmup))
        grid = rules.grid(packets, self.zero_load)
        self.observer = Observer(grid, topology.npus, len(settings.message_classes()))
        self._created_until = 0
        self._span = int(max(1, min(MAX_SPAN, PACKETS / max(load * topology.npus, 1e-9))))

    @property
    def names(self) -> list[str]:
        """The names of the classes, for attribution."""
        classes = self.settings.message_classes()
        return ["background"] if len(classes) == 1 else [f"background {class_.name}" for class_ in classes]

    @cached_property
    def warnings(self) -> list[str]:
        """A line for each class with a load that nodes cannot create."""
        return [
            f"traffic.load: {class_.load:g} flits per node and cycle are more than a packet of "
            f"{class_.mean_flits:g} flits in every cycle"
            for class_ in self.settings.resolved
            if (class_.load or 0.0) > class_.mean_flits
        ]

    def create(self, network: Any) -> int:
        """Inject the next packets; return the cycle up to which all are created (see BackgroundSource)."""
        self.observer.take(network.background_deliveries())
        self._created_until += self._span
        new = self.source.until(self._created_until)
        if len(new):
            self.observer.create(new.klass, new.cycle, new.flits)
            network.inject_background(new.cycle, new.src, new.dst, new.flits, new.klass)
        while self.observer.grid.whole(self._created_until) > MOST_BATCHES:
            self.observer.coarsen()
        return self._created_until

    def record(self, network: Any, end: int) -> Traffic:
        """Return the measurement of a run that ended in cycle `end`."""
        observer = self.observer
        observer.take(network.background_deliveries())
        batches = observer.grid.whole(end)
        done = observer.complete(batches) if batches else 0
        reason = ""
        if batches > 1:
            rate, offered = accepted(observer, 0, batches), created(observer, 0, batches)
            if rate.high < ACCEPTED * offered:
                reason = (
                    f"of the background traffic, it accepts {rate.mean:.4g} of {offered:.4g} flits per node and cycle"
                )
        outcome = Outcome("beside", 0, done, 0, batches, not reason, bool(reason), reason)
        facts = {"zero_load_latency": self.zero_load}
        measured = record(
            observer, outcome, self.settings.message_classes(), offered=self.settings.offered, facts=facts
        )
        if not done:
            cycles = f"{observer.grid.start(1):,}"
            measured.notes.append(f"the run ended before {cycles} cycles of background traffic were measured")
        return measured
