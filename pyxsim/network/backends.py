"""Make the backend of an experiment from its registered name."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

from pyxsim.errors import InputError
from pyxsim.library import file_of
from pyxsim.network.engine_config import MessageClass
from pyxsim.network.protocol import Backend, Capabilities, OpenBackend
from pyxsim.plugins import backends
from pyxsim.settings import Experiment
from pyxsim.settings.types import shown
from pyxsim.topology.topology import Topology


def backend_class(name: str) -> type[Backend]:
    """Return the class that is registered under `name`. Raises InputError."""
    if name not in backends:
        raise backends.unknown(name, key="--backend")
    registered: type[Backend] = backends.get(name)
    if file := file_of(registered):
        _check_users_class(name, registered, file)
    return registered


def _check_users_class(name: str, registered: Any, file: str) -> None:
    """Raise InputError unless a user's backend is a Backend with all members."""
    if not (inspect.isclass(registered) and issubclass(registered, Backend)):
        raise InputError(f"backend '{name}' is not a class", file=file, allowed="a subclass of Backend")
    if not isinstance(registered.capabilities, Capabilities):
        problem = f"backend '{name}' has capabilities = {shown(registered.capabilities)}"
        raise InputError(problem, file=file, allowed="Capabilities(...)")
    if registered.capabilities.open_traffic and not _is_open(open_class(name)):
        problem = f"backend '{name}' has the capability open_traffic and registers no class for it"
        raise InputError(problem, file=file, allowed='@backends.register("NAME", open_traffic=CLASS), an OpenBackend')
    if missing := sorted(registered.__abstractmethods__):
        problem = f"backend '{name}' has no {', '.join(missing)}"
        raise InputError(problem, file=file, allowed="a class with all abstract members of Backend")


def open_class(name: str) -> Any:
    """Return what is registered as `open_traffic` of a backend; None if nothing is."""
    return backends.entry(name).info.get("open_traffic")


def _is_open(registered: object) -> bool:
    return inspect.isclass(registered) and issubclass(registered, OpenBackend)


def by_cost(names: Iterable[str] = ()) -> list[str]:
    """Sort backends by their registered cost, cheapest first; default: those that `compare` runs.

    Raises InputError for an unknown name.
    """
    names = list(dict.fromkeys(names)) or [entry.name for entry in backends.entries if entry.info.get("compared", True)]
    for name in names:
        backend_class(name)
    return sorted(names, key=lambda name: (backends.entry(name).info.get("cost", 0), name))


def make_backend(name: str, experiment: Experiment, topology: Topology, window: int) -> Backend:
    """Return the backend of an experiment without open traffic. Raises InputError."""
    check_transactions(name, experiment)
    chosen: type[Backend] = backend_class(name)
    if experiment.network.transactions is not None:
        chosen = backends.entry(name).info["transactions"]
    return chosen.for_experiment(experiment, topology, window=window)


def make_open_backend(
    name: str,
    experiment: Experiment,
    topology: Topology,
    window: int,
    classes: Sequence[MessageClass],
    packet: int,
) -> OpenBackend:
    """Return the backend of an experiment with open traffic.

    `classes`: of the messages. `packet`: flits of the longest packet. Raises InputError.
    """
    check_open_traffic(name)
    made: type[OpenBackend] = open_class(name)
    return made.for_open_traffic(experiment, topology, window=window, classes=classes, packet=packet)


def check_transactions(name: str, experiment: Experiment) -> None:
    """Raise InputError for [network.transactions] with [traffic], or a backend that registers no class for them."""
    if experiment.network.transactions is None:
        return
    if experiment.traffic is not None:
        problem = "[traffic] has packets of its own, not transactions"
        raise InputError(problem, key="network.transactions", allowed="without [traffic]")
    if "transactions" not in backends.entry(name).info:
        others = " or ".join(f"--backend {each.name}" for each in backends.entries if "transactions" in each.info)
        problem = f"backend '{name}' has no memory transactions"
        raise InputError(problem, key="network.transactions", allowed=f"with {others}")


def check_background(name: str) -> None:
    """Raise InputError for a backend that does not carry background traffic."""
    if not backend_class(name).capabilities.background:
        carriers = [entry.name for entry in backends.entries if entry.value.capabilities.background]
        problem = f"backend '{name}' does not support [traffic] beside collectives or a workload"
        raise InputError(problem, key="--backend", allowed=carriers)


def check_open_traffic(name: str) -> None:
    """Raise InputError for a backend that does not support open traffic."""
    if not backend_class(name).capabilities.open_traffic:
        carriers = [entry.name for entry in backends.entries if entry.value.capabilities.open_traffic]
        raise InputError(f"backend '{name}' does not support open traffic", key="--backend", allowed=carriers)
