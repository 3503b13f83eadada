"""Commands as functions of `import pyxsim`: what `--json` prints is the returned object, and faults are raised."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyxsim.cli.command_output import CommandOutput
from pyxsim.library import import_from_checkout
from pyxsim.runner.prepare import PathLike
from pyxsim.runner.signals import StopSignals
from pyxsim.settings.types import listed


class ReturnedOutput(CommandOutput):
    """The output of a command that a function returns: nothing is printed, and signals are those of a library."""

    def __init__(self) -> None:
        super().__init__(json=True, quiet=True)
        self.signals = StopSignals.of_library()
        self.data: dict[str, Any] = {}

    def put(self, data: dict[str, Any]) -> None:
        """Keep the JSON object."""
        self.data = data

    def write(self, text: str) -> None:
        """Drop text for stdout."""


def list_(what: str | None = None, *, device: str | None = None, libraries: Iterable[PathLike] = ()) -> dict[str, Any]:
    """List the shelves, the layers of a model, or the numbers of a system.

    Parameters
    ----------
    what
        A shelf such as "topologies" or "backends"; a model or a system; by default all shelves.
    device
        With a model: the device whose layer times to compute.
    libraries
        Folders with shelves of your own.

    Returns
    -------
    dict
        By shelf, a list with `name`, `help`, `options` and more of each entry.

    Raises
    ------
    InputError
        If the name is unknown.
    """
    from pyxsim.cli.shelves import list_shelves

    out = ReturnedOutput()
    list_shelves(out, what, [str(library) for library in listed(libraries)], device)
    return out.data


def synthesize(
    network: PathLike,
    options: Iterable[str] = (),
    *,
    kind: str = "all-reduce",
    size: str | int = "256 MiB",
    file: PathLike | None = None,
    format: str | None = None,  # noqa: A002
    method: str = "auto",
    rank: str = "packet",
    shape: Sequence[int] | None = None,
    in_switch: bool = False,
    slices: int | None = None,
    seconds: float = 60.0,
    overrides: Iterable[str] = (),
    libraries: Iterable[PathLike] = (),
) -> dict[str, Any]:
    """Synthesize a collective for a network: its bound, schedules near it, their proof and their simulated times.

    Parameters
    ----------
    network
        A topology or system of the shelf, or an experiment, whose collective is replaced.
    options
        Options of the topology, such as "k=4", and "routing=NAME".
    kind, size
        The collective: all-reduce, all-gather, reduce-scatter or all-to-all, and its size.
    file, format
        Where to write the best schedule: .py, .xml, .json or .csv; python, msccl, forestcoll, mscclpp or tacos.
    method
        auto, paths (of an all-to-all), trees, matching or exact.
    rank
        How candidates are simulated: packet, flow or none.
    shape
        NPUs per dimension.
    in_switch
        Let switches reduce and multicast.
    slices
        Equal parts of each unit of a tree, which follow each other; by default several numbers are tried.
    seconds
        CPU time of each method.
    overrides, libraries
        As for `run`.

    Returns
    -------
    dict
        `bound_s`, `ranked` (best first), the index of the `best` synthesized one, `proof`, `file` and `use`, the
        setting that runs the file.

    Raises
    ------
    InputError
        For an invalid input, and for a network that does not connect its NPUs.
    """
    from pyxsim.cli.synthesize import show_synthesis

    out = ReturnedOutput()
    show_synthesis(
        out,
        " ".join([str(network), *listed(options)]),
        kind=kind,
        size=str(size),
        file=_text(file),
        form=format,
        method=method,
        rank=rank,
        shape=_shape(shape),
        in_switch=in_switch,
        slices=slices,
        seconds=seconds,
        overrides=overrides,
        libraries=[str(library) for library in listed(libraries)],
    )
    return out.data


def validate(
    names: Iterable[str] = (),
    *,
    list_only: bool = False,
    workers: int | None = None,
    folder: PathLike | None = None,
    write: PathLike | None = None,
) -> dict[str, Any]:
    """Check the claims of docs/validation.md; it needs an editable install of the source tree.

    Parameters
    ----------
    names
        Cases, families, or patterns such as "ring/*"; by default all.
    list_only
        List the cases and do not run them.
    workers
        Processes; by default one per processor.
    folder
        For pictures and results.json; by default results/validation.
    write
        The page to update: docs/validation.md.

    Raises
    ------
    InputError
        If a case is unknown.
    SimulationError
        If a claim does not hold; results.json has the numbers.
    """
    out = ReturnedOutput()
    import_from_checkout("validation.command").validate(
        out, listed(names), workers=workers, folder=_text(folder), list_only=list_only, write=_text(write)
    )
    return out.data


def bench(
    names: Iterable[str] = (), *, repeat: int = 3, list_only: bool = False, no_skip: bool = False
) -> dict[str, Any]:
    """Measure how fast this machine simulates; it needs an editable install of the source tree.

    Parameters
    ----------
    names
        Cases; by default a few, with `expected` times of experiments.
    repeat
        Runs of each case; the median counts.
    list_only
        List the cases and do not run them.
    no_skip
        Simulate every cycle, also of periodic traffic.

    Raises
    ------
    InputError
        If a case is unknown.
    """
    out = ReturnedOutput()
    command = import_from_checkout("benchmarks.command")
    command.bench(out, listed(names), repeat=repeat, list_only=list_only, skip=not no_skip)
    return out.data


def show_workload(workload: PathLike, *, plot: PathLike | None = None, rank: int | None = None) -> dict[str, Any]:
    """Count nodes, bytes and times of traces; of a text of ASTRA-sim 1, its layers.

    Parameters
    ----------
    workload
        Traces ("PREFIX.*.et", their prefix, or one file), or a text.
    plot
        A picture of the graph of one rank.
    rank
        The rank whose graph to draw; by default the first.

    Raises
    ------
    InputError
        For a file that cannot be read.
    """
    from pyxsim.cli.workload_traces import show_workload as show

    out = ReturnedOutput()
    show(out, str(workload), plot=_text(plot), rank=rank)
    return out.data


def check_workload(
    workload: PathLike,
    *,
    groups: PathLike | None = None,
    shape: Sequence[int] | None = None,
    npus: int | None = None,
    network: PathLike | None = None,
) -> dict[str, Any]:
    """Check traces, each and between ranks; of a text of ASTRA-sim 1, also whether it fits a network.

    Parameters
    ----------
    workload
        As for `show_workload`.
    groups
        A JSON file with the ranks of each group of the traces.
    shape, npus, network
        Of a text, one of: NPUs per dimension; NPUs in one dimension; an experiment or a network of ASTRA-sim.

    Raises
    ------
    InputErrors
        With all faults.
    """
    from pyxsim.cli.texts import Loop
    from pyxsim.cli.workload_traces import check_workload as check

    out = ReturnedOutput()
    check(out, str(workload), Loop(_shape(shape), npus, _text(network)), groups=_text(groups))
    return out.data


def convert_workload(
    workload: PathLike,
    target: PathLike,
    *,
    shape: Sequence[int] | None = None,
    npus: int | None = None,
    network: PathLike | None = None,
    passes: int = 1,
    comm_scale: float | str = 1,
    compute_scale: float | str | None = None,
    scheduling: str = "LIFO",
    from_device: str | None = None,
    to_device: str | None = None,
    precision: str | None = None,
) -> dict[str, Any]:
    """Write traces in another form or for another device, or the training loop of a text of ASTRA-sim 1 as traces.

    Parameters
    ----------
    workload
        As for `show_workload`.
    target
        "PREFIX.*.json" or a file; its ending (.et, .json, .jsonl, .gz) tells the form.
    shape, npus, network
        As for `check_workload`; a text needs one of them.
    passes, comm_scale, scheduling
        Of a text: repetitions, the factor for bytes, and the order of its collectives, LIFO or FIFO.
    compute_scale
        Factor for compute times; with devices, for those of which a trace has no operations and bytes.
    from_device, to_device, precision
        Of Chakra traces: the device on which they were recorded, the one to whose times they are scaled, and the
        precision of computations.

    Raises
    ------
    InputError
        If a file cannot be read or written.
    """
    from pyxsim.cli.texts import Loop
    from pyxsim.cli.workload_making import Devices
    from pyxsim.cli.workload_traces import convert_workload as convert

    out = ReturnedOutput()
    loop = Loop(_shape(shape), npus, _text(network), passes, str(comm_scale), "1", scheduling)
    devices = Devices(from_device, to_device, precision, _text(compute_scale))
    convert(out, str(workload), str(target), loop, devices)
    return out.data


def expand_workload(
    workload: PathLike,
    target: PathLike,
    *,
    npus: int,
    tensor: int | None = None,
    ranks: Iterable[int] | None = None,
    groups: PathLike | None = None,
    from_device: str | None = None,
    to_device: str | None = None,
    precision: str | None = None,
    compute_scale: float | str | None = None,
) -> dict[str, Any]:
    """Expand the trace of one rank to many ranks that do the same.

    Parameters
    ----------
    workload
        A trace of one rank, or traces of several ("PREFIX.*.et"), or a GOAL schedule.
    target
        "PREFIX.*.et", or with .json or .jsonl.
    npus
        The number of ranks to write.
    tensor
        The size of the innermost groups; by default as recorded.
    ranks
        The ranks to expand, one of each pipeline stage; by default the first.
    groups
        A JSON file with the ranks of each group; by default PREFIX.groups.json.
    from_device, to_device, precision, compute_scale
        As for `convert_workload`.

    Raises
    ------
    InputError
        If a trace is not symmetric, or a file cannot be read or written.
    """
    from pyxsim.cli.workload_making import Devices
    from pyxsim.cli.workload_making import expand_workload as expand

    out = ReturnedOutput()
    devices = Devices(from_device, to_device, precision, _text(compute_scale))
    chosen = None if ranks is None else list(ranks)
    expand(
        out,
        str(workload),
        str(target),
        npus=npus,
        tensor=tensor,
        ranks=chosen,
        groups=_text(groups),
        devices=devices,
    )
    return out.data


def learn_workload(workloads: PathLike | Iterable[PathLike], target: PathLike, *, order: int = 4) -> dict[str, Any]:
    """Learn the statistics of a class of traces.

    Parameters
    ----------
    workloads
        Traces of all ranks of one or more jobs: "PREFIX.*.et" each.
    target
        The model, a JSON file.
    order
        How many preceding tasks decide about the next one, from 0 to 8.

    Raises
    ------
    InputError
        If a trace has no regular groups, or a file cannot be read or written.
    """
    from pyxsim.cli.workload_making import learn_workload as learn

    out = ReturnedOutput()
    learn(out, [str(workload) for workload in listed(workloads)], str(target), order=order)
    return out.data


def synthesize_workload(model: PathLike, target: PathLike, *, npus: int | None = None, seed: int = 1) -> dict[str, Any]:
    """Draw new traces with the statistics of a model.

    Parameters
    ----------
    model
        What `learn_workload` has written.
    target
        "PREFIX.*.et", or with .json or .jsonl.
    npus
        The number of ranks; by default that of one of the learned jobs.
    seed
        The same seed writes the same files.

    Raises
    ------
    InputError
        If the model is damaged, or its layouts do not divide the number of ranks.
    """
    from pyxsim.cli.workload_making import synthesize_workload as synthesize

    out = ReturnedOutput()
    synthesize(out, str(model), str(target), npus=npus, seed=seed)
    return out.data


def collect_workload() -> dict[str, Any]:
    """Return the Python that records a training step with the PyTorch profiler, as `python`."""
    from pyxsim.workload.pytorch.recipe import RECIPE

    return {"python": RECIPE}


def _text(value: PathLike | float | None) -> str | None:
    return None if value is None else str(value)


def _shape(shape: Sequence[int] | None) -> str | None:
    return None if shape is None else ",".join(map(str, shape))
