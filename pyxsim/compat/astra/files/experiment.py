"""The experiment of ASTRA-sim's files: a network, a system, a workload, in the forms of either version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any

from pyxsim import library
from pyxsim.chakra.files import are_traces
from pyxsim.compat.astra.files.dimensions import yaml_tables
from pyxsim.compat.astra.files.garnet import network_tables
from pyxsim.compat.astra.files.hierarchical import hierarchical_tables
from pyxsim.compat.astra.files.memory_json import memory_table
from pyxsim.compat.astra.files.network_cost import network_cost
from pyxsim.compat.astra.files.system import read_system
from pyxsim.compat.astra.files.system_json import of_workload
from pyxsim.compat.astra.files.system_text import REDUCTION
from pyxsim.errors import InputError
from pyxsim.file_entries import PathLike
from pyxsim.settings import Experiment, load_experiment
from pyxsim.settings.types import exact
from pyxsim.workload import read_text_workload

NETWORKS = "network_inputs"  # the folder in which gem5 looks for networks
NO_GROUPS = "empty"  # the name that version 2 has for no file of groups
MEMORY = "500000 GB/s"  # of ASTRA-sim 1 over its analytical backend: reductions cost next to nothing


_NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True)
class _Form:
    """A form of network files: how it is read, what it is for, and whose semantics come with it.

    `given`: whether options of the command line can stand in for its keys.
    """

    read: Callable[..., tuple[dict[str, Any], int]]
    backend: str
    compat: str
    given: bool = False


_GARNET = _Form(network_tables, "packet", "astra-sim-1")
_FORMS = {
    ".json": _Form(hierarchical_tables, "analytical", "astra-sim-1", given=True),
    ".yml": _Form(yaml_tables, "analytical", "astra-sim-2"),
    ".yaml": _Form(yaml_tables, "analytical", "astra-sim-2"),
}


def form_of(network: PathLike) -> _Form:
    """By the end of its name; a file with another one is a text of the Garnet backend."""
    name = str(network).lower()
    return next((form for end, form in _FORMS.items() if name.endswith(end)), _GARNET)


def read_network(path: PathLike) -> dict[str, Any]:
    """The table [network] of a network file. Raises InputError."""
    tables, _ = form_of(path).read(path)
    return tables


@dataclass(frozen=True)
class AstraRun:
    """An experiment, the backend that its network file is for, and warnings of the readers. `cost`: of the network, in
    dollars, where the original tells one."""

    experiment: Experiment
    backend: str
    warnings: list[str] = field(default_factory=list)
    cost: float | None = None


def read_astra(
    network: PathLike,
    system: PathLike,
    workload: PathLike,
    *,
    passes: int = 1,
    comm_scale: str | float = 1,
    compute_scale: str | float = 1,
    injection_scale: str | float = 1,
    queues: int | None = None,
    backend: str | None = None,
    overrides: tuple[str, ...] = (),
    groups: PathLike | None = None,
    memory: PathLike | None = None,
    rendezvous: bool = False,
    dimensions: Mapping[str, str] = _NOTHING,
) -> AstraRun:
    """What the files of ASTRA-sim say. Raises InputError.

    `injection_scale`: factor of the endpoint delay; `queues`: of every dimension (default: one, but over Garnet one for
    each ring); `backend`: another one than the network file is for. `groups`, `memory`: the files of groups of NPUs and
    of the remote memory. `rendezvous`: messages are asked for first. `dimensions`: lists of numbers in place of those
    of the network JSON of version 1.
    """
    library.load_all()
    form = form_of(network)
    form = form if backend is None else replace(form, backend=backend)
    tables, dims = _network(form, located(network, NETWORKS), dimensions)
    traces = are_traces(str(workload))
    workload = workload if traces else located(workload)
    kinds = () if traces else read_text_workload(workload).kinds
    table, warnings = read_system(located(system), dims, kinds)
    table["compat"] = form.compat
    if not traces and table.pop("npu", None) is not None:
        warnings.append(f"{system}: roofline-enabled: the nodes of traces compute so; a text has its own times")
    if memory is not None and (remote := memory_table(memory, _npus(tables))) is not None:
        table["remote_memory"] = remote
    warnings += _costs(table, form, injection_scale)
    if queues is not None:
        table["queues"] = queues
    if rendezvous:
        table["rendezvous"] = True
    data: dict[str, Any] = {
        "network": tables,
        "system": table,
        "workload": {
            "file": str(workload),
            "passes": passes,
            "comm_scale": str(comm_scale),
            "compute_scale": str(compute_scale),
        },
    }
    if traces and form.compat == "astra-sim-2":
        data["workload"] |= of_workload(located(system))
    if groups is not None and str(groups) != NO_GROUPS:
        data["workload"]["groups"] = str(groups)
    cost = network_cost(located(network), dimensions) if form.given else None
    return AstraRun(load_experiment(data, overrides), form.backend, warnings, cost)


def located(name: PathLike, folder: str = ".") -> PathLike:
    """The file that a name means: scripts of version 1 leave the end .txt out, and gem5 has a folder for networks."""
    places = (Path(name), Path(f"{name}.txt"), Path(folder, f"{name}.txt"))
    return next((place for place in places if place.is_file()), name)


def _npus(tables: Mapping[str, Any]) -> int:
    """The NPUs of a table [network]."""
    dims = tables.get("dims")
    return prod(dim["npus"] for dim in dims) if dims is not None else prod(tables["shape"])


def _network(form: _Form, file: PathLike, dimensions: Mapping[str, str]) -> tuple[dict[str, Any], int]:
    if not dimensions:
        return form.read(file)
    if not form.given:
        option = f"--{next(iter(dimensions))}"
        raise InputError("stands in for a key of a network JSON of version 1", key=option, allowed="with such a file")
    return form.read(file, dimensions)


def astra_experiment(network: PathLike, system: PathLike, workload: PathLike, **options: Any) -> Experiment:
    """The experiment alone; `options` as those of `read_astra`."""
    return read_astra(network, system, workload, **options).experiment


def _costs(table: dict[str, Any], form: _Form, injection_scale: str | float) -> list[str]:
    """What reductions and endpoints take: partly a matter of the backend, and of the command line. Warnings."""
    if form.compat == "astra-sim-2" or form.backend != "packet":
        table.pop("reduction_delay", None)
    if form.compat == "astra-sim-1" and not table.keys() & {"shared_bus", "local_memory_bandwidth"}:
        if form.backend != "packet":
            table["local_memory_bandwidth"] = MEMORY
        else:
            table["reduction_delay"] = f"{REDUCTION} ns"
    scale = exact(injection_scale)
    if scale is None or not 0 <= scale <= 10**9:
        raise InputError(
            f"'{injection_scale}' is no scale", key="--injection-scale", allowed="a number from 0 to 1e9, such as 0.5"
        )
    if "endpoint_delay" in table:
        # Cut off to whole ns, as there.
        table["endpoint_delay"] = f"{int(Fraction(table['endpoint_delay'].removesuffix(' ns')) * scale)} ns"
    elif scale != 1:
        return ["--injection-scale: there is no endpoint delay to scale, as a shared bus stands for it"]
    return []
