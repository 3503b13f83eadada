"""Checks of an experiment that need its topology."""

from __future__ import annotations

from typing import Any

from pyxsim.errors import InputError, raise_all
from pyxsim.settings import Experiment
from pyxsim.settings.algorithms import ALGORITHM_KEYS, ROOTED
from pyxsim.settings.experiment import list_faults
from pyxsim.topology import Topology
from pyxsim.units import to_cycles


def check_lengths(experiment: Experiment, topology: Topology) -> None:
    """Raise InputError unless lists per dimension, or per kind of links, have as many entries as the topology has."""
    dims, kinds = len(topology.dims), len(topology.link_kinds)
    network, system = experiment.network, experiment.system
    of_links = f"{kinds} dimensions"
    if topology.link_kinds != tuple(f"d{dim}" for dim in range(dims)):
        of_links = f"{kinds} kinds of links ({', '.join(topology.link_kinds)})"
    on_links = [(f"network.{key}", getattr(network, key)) for key in ("bandwidth", "latency")]
    on_links.append(("network.router.serdes_credit", network.router.serdes_credit))
    by_dimension: list[tuple[str, Any]] = [("system.queues", system.queues)]
    by_dimension += [(f"system.{key}", getattr(system, key)) for key in ALGORITHM_KEYS]
    for number, group in enumerate(system.groups):
        by_dimension += [(f"system.groups[{number}].{key}", getattr(group, key)) for key in ALGORITHM_KEYS]
    by_dimension += [(f"{key}.algorithm", each.algorithm) for key, each in experiment.collectives]
    raise_all([*list_faults(on_links, kinds, of_links), *list_faults(by_dimension, dims, f"{dims} dimensions")])


def check_boost(experiment: Experiment) -> None:
    """Raise InputError if `system.boost` is set although the NPUs differ: it simulates NPU 0 for all."""
    if not experiment.system.boost:
        return
    faults = [(f"{key}.kind", "has a root") for key, each in experiment.collectives if each.kind in ROOTED]
    for key, each in experiment.collectives:
        concerned = ("group", "npus", "dims")
        faults += [(f"{key}.{name}", "concerns some NPUs") for name in concerned if getattr(each, name) is not None]
    faults += [("message", "concerns two NPUs")] if experiment.message else []
    faults += [("system.stragglers", "concerns some NPUs")] if experiment.system.stragglers else []
    if to_cycles(experiment.system.start_skew, experiment.network.clock)[0]:
        faults.append(("system.start_skew", "makes NPUs different"))
    faults += [("output.carry", "wants the data of all NPUs")] if experiment.output.carry else []
    allowed = "to leave it out, or system.boost = false"
    problem = "it {}, and system.boost takes all NPUs for alike"
    raise_all([InputError(problem.format(why), key=key, allowed=allowed) for key, why in faults])
