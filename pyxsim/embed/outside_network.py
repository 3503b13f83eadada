"""The network of an experiment for messages that another simulator sends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pyxsim import library
from pyxsim.analysis.packet_spacing import starved
from pyxsim.errors import InputError, raise_all
from pyxsim.garbage import without_collection
from pyxsim.network.backends import backend_class, make_backend
from pyxsim.network.clock import with_clock
from pyxsim.network.protocol import Backend
from pyxsim.runner.fault_checks import check_faults
from pyxsim.runner.proofs import check_lengths, deadlock_warnings
from pyxsim.runner.resolved import resolved
from pyxsim.settings import Experiment
from pyxsim.settings.semantics import refuse_messages
from pyxsim.system import Options, resolve
from pyxsim.topology import Topology
from pyxsim.topology.build import network_of
from pyxsim.units import to_cycles

USED = ("compat", "endpoint_delay", "queues", "start_skew", "stragglers")  # of [system], for single messages


@dataclass(frozen=True)
class OutsideNetwork:
    """A network without work.

    Attributes
    ----------
    options
        Of the system layer: what its endpoints add to a message.
    warnings
        Lines for the user.
    """

    experiment: Experiment
    topology: Topology
    network: Backend
    options: Options
    warnings: list[str]

    @property
    def planes(self) -> list[int]:
        """The plane of a message by the first dimension in which its NPUs differ, as `SystemLayer.plane_between`."""
        return [queues[0].plane for queues in self.options.queues]


@without_collection
def outside_network(
    experiment: Experiment, folder: Path, libraries: Iterable[str | Path], backend: str, *, allow_deadlock: bool
) -> OutsideNetwork:
    """Build and prove the network of an experiment without work.

    Raises
    ------
    InputError
        For settings that are wrong, or have no effect without a system layer.
    DeadlockError, UnreachableError
        When the routes between all pairs of NPUs are not proved.
    """
    library.load_all(tuple(libraries))
    capabilities = backend_class(backend).capabilities
    raise_all(_without_effect(experiment))
    check_faults(experiment, backend)
    experiment, notes = resolved(experiment, folder)
    topology = network_of(experiment.network, folder)
    check_lengths(experiment, topology)
    if topology.confined:
        problem = "the rings of this topology are not connected, so that most NPUs cannot send to each other"
        raise InputError(problem, key="network.topology", allowed="a network that connects all pairs")
    settings, clock_notes = with_clock(experiment.network, topology)
    experiment = experiment.model_copy(update={"network": settings})
    window = max(1, to_cycles(experiment.output.window, settings.clock)[0])
    network = make_backend(backend, experiment, topology, window)
    network.traffic_names = ["message"]
    options = resolve(experiment.system, topology, settings.clock, seed=experiment.output.seed)
    warnings = [*notes, *clock_notes, *network.warnings]
    if capabilities.packets:
        longest = network.cut(settings.packet)[1]
        warnings += [*experiment.warnings(), *starved(network, longest)]
        warnings += deadlock_warnings(topology, settings, None, longest, allow_deadlock)
    elif capabilities.pauses:
        text, cycle = network.prove_pauses(None)
        warnings += [f"{text}; the run ends with an error if a deadlock occurs"] if cycle else []
    return OutsideNetwork(experiment, topology, network, options, warnings)


def _without_effect(experiment: Experiment) -> list[InputError]:
    """Errors for settings that need a system layer, or a run of its own."""
    given = sorted(experiment.system.model_fields_set - set(USED))
    allowed = ", ".join(f"system.{key}" for key in USED)
    problem = "has no effect: the simulator that uses this network is the system layer"
    faults = [InputError(problem, key=f"system.{key}", allowed=allowed) for key in given]
    faults += refuse_messages(experiment.system.compat)
    if experiment.run.mpi:
        faults.append(InputError("excludes use from another simulator", key="run.mpi", allowed="false"))
    if experiment.run.checkpoint is not None:
        problem = "excludes use from another simulator, whose state is not known"
        faults.append(InputError(problem, key="run.checkpoint", allowed="no checkpoints"))
    return faults
