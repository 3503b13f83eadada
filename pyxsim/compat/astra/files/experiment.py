"""An experiment from ASTRA-sim's files: a network, a system and a workload of either version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any

from pyxsim import library
from pyxsim.compat.astra.files.dimensions import yaml_tables
from pyxsim.compat.astra.files.garnet import network_tables
from pyxsim.compat.astra.files.garnet_limits import check_order, crowded
from pyxsim.compat.astra.files.hierarchical import hierarchical_tables
from pyxsim.compat.astra.files.memory_json import memory_table
from pyxsim.compat.astra.files.network_cost import network_cost
from pyxsim.compat.astra.files.system import read_system
from pyxsim.compat.astra.files.system_json import of_workload
from pyxsim.compat.astra.files.system_text import REDUCTION
from pyxsim.errors import InputError
from pyxsim.file_entries import PathLike
from pyxsim.rank_files import are_traces
from pyxsim.settings import Experiment, load_experiment
from pyxsim.settings.types import exact
from pyxsim.workload import read_text_workload

NETWORKS = "network_inputs"  # the folder in which gem5 looks for networks
NO_GROUPS = "empty"  # the name that version 2 has for no file of groups
MEMORY = "500000 GB/s"  # of ASTRA-sim 1 over its analytical backend: reductions are almost free


_NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True)
class _Form:
    """A format of network files: its reader, its backend and its version.

    `given`: whether command-line options can replace its keys.
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
    """Return the format of a network file by its suffix; any other suffix is a text of the Garnet backend."""
    name = str(network).lower()
    return next((form for end, form in _FORMS.items() if name.endswith(end)), _GARNET)


def read_network(path: PathLike) -> dict[str, Any]:
    """Return the table [network] of a network file. Raises InputError."""
    tables, _ = form_of(path).read(path)
    return tables


@dataclass(frozen=True)
class AstraRun:
    """An experiment, the backend of its network file, and warnings of the readers. `cost`: of the network in dollars,
    where ASTRA-sim computes it."""

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
    """Read ASTRA-sim's files as an experiment. Raises InputError.

    Parameters
    ----------
    injection_scale
        Factor of the endpoint delay.
    queues
        Of every dimension; by default one, over Garnet one per ring.
    backend
        Replaces the backend of the network file.
    groups, memory
        Files of the groups of NPUs and of the remote memory.
    rendezvous
        Receivers request messages.
    dimensions
        Lists of numbers that replace those of the network JSON of version 1.
    """
    library.load_all()
    form = form_of(network)
    form = form if backend is None else replace(form, backend=backend)
    tables, dims = _network(form, located(network, NETWORKS), dimensions)
    traces = are_traces(str(workload))
    workload = workload if traces else located(workload)
    unused: list[str] = []
    if traces and form.compat == "astra-sim-2":
        comm_scale, unused = _unused("--comm-scale", "comm_scale", comm_scale)
        compute_scale, more = _unused("--compute-scale", "compute_scale", compute_scale)
        unused += more
    text = None if traces else read_text_workload(workload)
    table, warnings = read_system(located(system), dims, () if text is None else text.kinds)
    table["compat"] = form.compat
    if form.read is network_tables and form.backend == "packet" and text is not None:
        check_order(table, located(system))
        warnings += crowded(tables, table, text.largest)
    if not traces and table.pop("npu", None) is not None:
        warnings.append(f"{system}: roofline-enabled: for the nodes of traces only; a text has its own times")
    if memory is not None and (remote := memory_table(memory, _npus(tables))) is not None:
        table["remote_memory"] = remote
    warnings += [*unused, *_costs(table, form, injection_scale)]
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
    """Return the file that a name refers to: version 1 allows names without .txt, and gem5 has a folder for
    networks."""
    places = (Path(name), Path(f"{name}.txt"), Path(folder, f"{name}.txt"))
    return next((place for place in places if place.is_file()), name)


def _npus(tables: Mapping[str, Any]) -> int:
    """Number of NPUs of a table [network]."""
    dims = tables.get("dims")
    return prod(dim["npus"] for dim in dims) if dims is not None else prod(tables["shape"])


def _network(form: _Form, file: PathLike, dimensions: Mapping[str, str]) -> tuple[dict[str, Any], int]:
    if not dimensions:
        return form.read(file)
    if not form.given:
        option = f"--{next(iter(dimensions))}"
        raise InputError("replaces a key of a network JSON of version 1", key=option, allowed="with such a file")
    return form.read(file, dimensions)


def astra_experiment(network: PathLike, system: PathLike, workload: PathLike, **options: Any) -> Experiment:
    """Return the experiment alone; `options` as those of `read_astra`."""
    return read_astra(network, system, workload, **options).experiment


def _unused(option: str, setting: str, scale: str | float) -> tuple[str | float, list[str]]:
    """Scale 1, with a warning of another one: ASTRA-sim 2 reads it and never uses it for traces."""
    value = exact(scale)
    if value is None or value in (0, 1):
        return scale, []
    problem = f"{option}: no effect, as in ASTRA-sim 2, which reads it and never uses it"
    return 1, [f"{problem}; --set workload.{setting}={scale} applies it"]


def _costs(table: dict[str, Any], form: _Form, injection_scale: str | float) -> list[str]:
    """Set the times of reductions and endpoints, which depend on the backend and the command line. Returns warnings."""
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
            f"'{injection_scale}' is not a scale",
            key="--injection-scale",
            allowed="a number from 0 to 1e9, such as 0.5",
        )
    if "endpoint_delay" in table:
        # Truncated to whole ns, as in ASTRA-sim.
        table["endpoint_delay"] = f"{int(Fraction(table['endpoint_delay'].removesuffix(' ns')) * scale)} ns"
    elif scale != 1:
        return ["--injection-scale: no effect, as a shared bus replaces the endpoint delay"]
    return []
