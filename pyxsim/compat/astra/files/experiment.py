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
from pyxsim.compat.astra.files.ns3_config import Ns3Config, is_ns3_config, near, ns3_tables, read_ns3_config
from pyxsim.compat.astra.files.ns3_flows import flow_messages
from pyxsim.compat.astra.files.system import read_system
from pyxsim.compat.astra.files.system_json import of_workload
from pyxsim.compat.astra.files.system_text import REDUCTION
from pyxsim.errors import InputError
from pyxsim.file_entries import PathLike
from pyxsim.paths import missing
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
_NS3 = _Form(ns3_tables, "ethernet", "astra-sim-2")
_FORMS = {
    ".json": _Form(hierarchical_tables, "analytical", "astra-sim-1", given=True),
    ".yml": _Form(yaml_tables, "analytical", "astra-sim-2"),
    ".yaml": _Form(yaml_tables, "analytical", "astra-sim-2"),
}


def form_of(network: PathLike) -> _Form:
    """Return the format of a network file by its suffix; other files by their content: for Garnet, or for ns-3."""
    name = str(network).lower()
    by_suffix = next((form for end, form in _FORMS.items() if name.endswith(end)), None)
    return by_suffix or (_NS3 if is_ns3_config(located(network, NETWORKS)) else _GARNET)


def read_network(path: PathLike) -> dict[str, Any]:
    """Return the table [network] of a network file. Raises InputError."""
    tables, _ = form_of(path).read(path)
    return tables


@dataclass(frozen=True)
class AstraRun:
    """An experiment, the backend of its network file, and warnings of the readers. `cost`: of the network in dollars,
    where ASTRA-sim computes it; `ns3`: the configuration of the ns-3 front end."""

    experiment: Experiment
    backend: str
    warnings: list[str] = field(default_factory=list)
    cost: float | None = None
    ns3: Ns3Config | None = None


def read_astra(
    network: PathLike,
    system: PathLike | None,
    workload: PathLike | None,
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
    logical: PathLike | None = None,
) -> AstraRun:
    """Read ASTRA-sim's files as an experiment. Raises InputError.

    Parameters
    ----------
    system, workload
        None: the messages are those of the flow file that a configuration of ns-3 names.
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
    logical
        File of the logical dimensions, for a configuration of ns-3.
    """
    library.load_all()
    form = form_of(network)
    form = form if backend is None else replace(form, backend=backend)
    ns3 = _ns3(form, located(network, NETWORKS), dimensions, logical)
    if system is None or workload is None:
        missing = "--system-configuration" if system is None else "--workload-configuration"
        if ns3 is None or ns3.flows is None or system is not workload:
            allowed = "a file; without both, a configuration of ns-3 with FLOW_FILE"
            raise InputError("is missing", key=missing, allowed=allowed)
        return _flows(form, located(network), ns3, overrides)
    tables, dims = (ns3.tables, ns3.dims) if ns3 else _network(form, located(network, NETWORKS), dimensions)
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
    if memory is not None and (remote := memory_table(memory, len(ns3.hosts) if ns3 else _npus(tables))) is not None:
        table["remote_memory"] = remote
    warnings += [*(ns3.warnings if ns3 else ()), *unused, *_costs(table, form, injection_scale)]
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
    return AstraRun(load_experiment(data, overrides), form.backend, warnings, cost, ns3)


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


def _ns3(form: _Form, file: PathLike, dimensions: Mapping[str, str], logical: PathLike | None) -> Ns3Config | None:
    """The configuration of ns-3; None for another network file."""
    if form.read is ns3_tables and not dimensions:
        return read_ns3_config(file, logical)
    if logical is not None and form.read is not ns3_tables:
        if not Path(file).is_file():
            raise missing(file)
        problem = "gives the dimensions of a configuration of ns-3"
        raise InputError(problem, key="--logical-topology-configuration", allowed="with such a network")
    return None


def _flows(form: _Form, network: PathLike, ns3: Ns3Config, overrides: tuple[str, ...]) -> AstraRun:
    """The messages of a flow file."""
    messages, notes = flow_messages(near(network, str(ns3.flows)), ns3.hosts)
    experiment = load_experiment({"network": ns3.tables, "message": messages}, overrides)
    return AstraRun(experiment, form.backend, [*ns3.warnings, *notes], None, ns3)


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
