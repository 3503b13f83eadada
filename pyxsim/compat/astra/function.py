"""`pyxsim.astra`: the command `pyxsim astra` as a function."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyxsim.cli.functions import ReturnedOutput
from pyxsim.compat.astra.command_run import AstraFiles, Words, run_astra
from pyxsim.reports.files import Outputs
from pyxsim.results.result import Result
from pyxsim.runner.prepare import PathLike
from pyxsim.settings.types import listed


def astra(
    network_configuration: PathLike,
    system_configuration: PathLike | None = None,
    workload_configuration: PathLike | None = None,
    *,
    logical_topology_configuration: PathLike | None = None,
    comm_group_configuration: PathLike | None = None,
    remote_memory_configuration: PathLike | None = None,
    path: PathLike | None = None,
    run_name: str | None = None,
    num_passes: int = 1,
    comm_scale: float | str = 1,
    compute_scale: float | str = 1,
    injection_scale: float | str = 1,
    num_queues_per_dim: int | None = None,
    units_count: Sequence[int] | None = None,
    links_count: Sequence[int] | None = None,
    link_bandwidth: Sequence[float] | None = None,
    link_latency: Sequence[float] | None = None,
    rendezvous_protocol: bool = False,
    backend: str | None = None,
    total_stat_rows: int = 1,
    stat_row: int = 0,
    logging_folder: PathLike | None = None,
    overrides: Iterable[str] = (),
    strict: bool = False,
) -> Result:
    """Simulate the files of ASTRA-sim 1 and 2.

    Parameters
    ----------
    network_configuration
        Network: text for Garnet or ns-3, JSON of version 1, or YAML of version 2.
    system_configuration
        System: text of version 1, or JSON of version 2.
    workload_configuration
        Workload: text of version 1, or the prefix of Chakra traces. Without system and workload: the flows of ns-3's
        FLOW_FILE.
    logical_topology_configuration
        JSON file with the logical dimensions, for ns-3's networks.
    comm_group_configuration, remote_memory_configuration
        JSON files of groups of NPUs and of remote memory.
    path, run_name
        Write the result to PATH/RUN_NAME.h5 and EndToEnd.csv beside it; by default nothing is written.
    num_passes, comm_scale, compute_scale, injection_scale
        Passes of the workload; factors for bytes, compute times and the endpoint delay.
    num_queues_per_dim
        Queues of every dimension.
    units_count, links_count, link_bandwidth, link_latency
        Values for each dimension, in place of those in the network JSON; in GB/s and ns.
    rendezvous_protocol
        Whether receivers request messages (version 2).
    backend
        The backend; by default that of the network file.
    total_stat_rows, stat_row
        Number of rows of each layer in EndToEnd.csv, and the row that this run fills.
    logging_folder
        Folder of log.log, a copy of the command's output.
    overrides
        As for `pyxsim.run`.
    strict
        Refuse routes that can deadlock.

    Raises
    ------
    InputError, SimulationError
        As for `pyxsim.run`.
    """
    dimensions = {
        "units-count": units_count,
        "links-count": links_count,
        "link-bandwidth": link_bandwidth,
        "link-latency": link_latency,
    }
    files = (
        str(network_configuration),
        _text(system_configuration),
        _text(workload_configuration),
        _text(comm_group_configuration),
        _text(remote_memory_configuration),
        _text(logical_topology_configuration),
    )
    words = Words(
        path=_text(path),
        run_name=run_name,
        passes=str(num_passes),
        comm_scale=str(comm_scale),
        compute_scale=str(compute_scale),
        injection_scale=str(injection_scale),
        queues=_text(num_queues_per_dim),
        dimensions={
            key: None if dimension is None else ",".join(map(str, dimension)) for key, dimension in dimensions.items()
        },
        rendezvous="true" if rendezvous_protocol else None,
        backend=backend,
        overrides=tuple(listed(overrides)),
        rows=total_stat_rows,
        row=stat_row,
        log=_text(logging_folder),
        strict=strict,
    )
    result = run_astra(ReturnedOutput(), AstraFiles(*files), Outputs(), words)
    assert result is not None
    return result


def _text(value: object) -> str | None:
    return None if value is None else str(value)
