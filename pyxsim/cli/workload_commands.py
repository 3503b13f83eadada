"""`pyxsim workload`: its commands and their options."""

from __future__ import annotations

from typing import Annotated

import typer

from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.options import Plot, Shared, command, count, maybe
from pyxsim.cli.options import name as _name

workload = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Show, check, convert and make workloads.",
)

Source = Annotated[
    str,
    typer.Argument(
        metavar="WORKLOAD",
        callback=_name,
        help="Traces (PREFIX.*.et or PREFIX), one trace (.et, .json, .jsonl), a text of ASTRA-sim 1 or SimAI, or GOAL.",
    ),
]
Shape = Annotated[str | None, typer.Option(metavar="4,4,4", help="For a text: NPUs per dimension.")]
Npus = Annotated[str | None, typer.Option(metavar="N", help="For a text: number of NPUs, in one dimension.")]
OfNetwork = Annotated[
    str | None,
    typer.Option(
        "--network", metavar="FILE", callback=_name, help="For a text: an experiment, or a network file of ASTRA-sim."
    ),
]
Passes = Annotated[str, typer.Option(metavar="N", help="For a text: number of passes.")]
FromDevice = Annotated[
    str | None,
    typer.Option("--from-device", metavar="DEVICE", callback=_name, help="The device on which traces were recorded."),
]
ToDevice = Annotated[
    str | None,
    typer.Option(
        "--to-device", metavar="DEVICE", callback=_name, help="The device to whose times computations are scaled."
    ),
]
Precision = Annotated[
    str | None,
    typer.Option(metavar="NAME", callback=_name, help="Of computations on both devices, such as bf16 or fp32."),
]
CommScale = Annotated[str, typer.Option(metavar="X", help="For a text: factor for all bytes.")]
ComputeScale = Annotated[
    str | None,
    typer.Option(
        metavar="X",
        help="Factor for compute times; with devices, for those of which a trace has no operations and bytes.",
    ),
]
First = Annotated[str, typer.Option("--scheduling", metavar="LIFO|FIFO", help="For a text: order of its collectives.")]
Target = Annotated[
    str,
    typer.Option("-o", metavar="TARGET", callback=_name, help="Output: PREFIX.*.et, .json or .jsonl; .gz for each."),
]


@workload.callback(invoke_without_command=True)
def workloads(context: typer.Context) -> None:
    """Show, check, convert and make workloads."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


@command(workload, "json", name="show")
def show_workloads(
    out: CommandOutput,
    shared: Shared,
    workload: Source,
    plot: Plot = None,
    rank: Annotated[
        str | None, typer.Option(metavar="N", help="The rank whose graph is drawn; by default the first.")
    ] = None,
) -> None:
    """Count nodes, bytes and times; draw a graph. For a text, list its layers."""
    from pyxsim.cli.workload_traces import show_workload

    show_workload(out, workload, plot=plot, rank=maybe(rank, "--rank", 0))


@command(workload, "json", name="check")
def check_workloads(
    out: CommandOutput,
    shared: Shared,
    workload: Source,
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.json",
            callback=_name,
            help='JSON file with groups of ranks: {"1": [0, 1], "2": [2, 3]}. By default PREFIX.groups.json.',
        ),
    ] = None,
    shape: Shape = None,
    npus: Npus = None,
    network: OfNetwork = None,
) -> None:
    """List all faults of traces or a text.

    In each of the traces, and between ranks: messages, collectives, cycles. Of a text, also whether its model fits a
    network.
    """
    from pyxsim.cli.texts import Loop
    from pyxsim.cli.workload_traces import check_workload
    from pyxsim.settings.network import MAX_NPUS

    check_workload(out, workload, Loop(shape, maybe(npus, "--npus", most=MAX_NPUS), network), groups=groups)


@command(workload, "json", name="convert")
def convert_workloads(
    out: CommandOutput,
    shared: Shared,
    workload: Source,
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            callback=_name,
            help="Output: PREFIX.*.json or one file; .et, .json, .jsonl, each also with .gz; GOAL: .goal or .bin.",
        ),
    ],
    shape: Shape = None,
    npus: Npus = None,
    network: OfNetwork = None,
    passes: Passes = "1",
    comm_scale: CommScale = "1",
    compute_scale: ComputeScale = None,
    scheduling: First = "LIFO",
    from_device: FromDevice = None,
    to_device: ToDevice = None,
    precision: Precision = None,
) -> None:
    """Write traces or a GOAL schedule in another form, or the training loop of a text as traces.

    The name of the target tells the form. Read back they are the same graph. A text needs a network: --shape, --npus
    or --network. Times of Chakra traces can be scaled to another device.
    """
    from pyxsim.cli.texts import Loop
    from pyxsim.cli.workload_making import Devices
    from pyxsim.cli.workload_traces import convert_workload
    from pyxsim.settings.network import MAX_NPUS

    of = maybe(npus, "--npus", most=MAX_NPUS)
    loop = Loop(shape, of, network, count(passes, "--passes", 0), comm_scale, "1", scheduling)
    devices = Devices(from_device, to_device, precision, compute_scale)
    convert_workload(out, workload, target, loop, devices)


@command(workload, "settings json", name="generate")
def generate_workloads(
    out: CommandOutput,
    shared: Shared,
    experiment: Annotated[
        str | None,
        typer.Argument(metavar="EXPERIMENT.toml", callback=_name, help="An experiment with [workload] model."),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "-o",
            metavar="TARGET",
            callback=_name,
            help="Output: PREFIX.*.et, .json or .jsonl, each also with .gz; or a .txt.",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", callback=_name, help="Without an experiment file: the model.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(metavar="NAME", callback=_name, help="Without an experiment file: the device.")
    ] = None,
    shape: Annotated[
        str | None, typer.Option(metavar="4,4,4", help="Without an experiment file: NPUs per dimension.")
    ] = None,
) -> None:
    """Train a model: as traces or a text, and in numbers.

    A step as Chakra traces, with the JSON of its groups, or as a text of ASTRA-sim 1 where its words suffice. Without a
    target only what it amounts to: tasks, bytes, operations, memory.
    """
    from pyxsim.cli.generate import generate_workload

    generate_workload(out, experiment, file, model=model, device=device, shape=shape, overrides=shared.overrides)


@command(workload, "json quiet", name="expand")
def expand_workloads(
    out: CommandOutput,
    shared: Shared,
    workload: Annotated[
        str,
        typer.Argument(
            metavar="TRACE",
            callback=_name,
            help="A trace of one rank (.et, .json, .jsonl, .kineto.json), or traces of several (PREFIX.*.et), or GOAL.",
        ),
    ],
    target: Target,
    npus: Annotated[str, typer.Option(metavar="N", help="Number of ranks to write.")],
    tensor: Annotated[
        str | None,
        typer.Option(metavar="N", help="Ranks of the innermost groups (tensor parallelism); by default as recorded."),
    ] = None,
    ranks: Annotated[
        str | None,
        typer.Option(metavar="0,8,16", help="The ranks to expand: one of each pipeline stage. By default the first."),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(metavar="FILE.json", callback=_name, help="Groups of ranks; by default PREFIX.groups.json."),
    ] = None,
    from_device: FromDevice = None,
    to_device: ToDevice = None,
    precision: Precision = None,
    compute_scale: ComputeScale = None,
) -> None:
    """Expand the trace of one rank to many ranks that do the same.

    Groups of data parallelism grow, inner groups stay or take the size of --tensor; the buffer of each rank keeps its
    bytes. What is not symmetric is refused.
    """
    from pyxsim.cli.workload_making import Devices, expand_workload, rank_list
    from pyxsim.settings.network import MAX_NPUS

    expand_workload(
        out,
        workload,
        target,
        npus=count(npus, "--npus", most=MAX_NPUS),
        tensor=maybe(tensor, "--tensor", most=MAX_NPUS),
        ranks=rank_list(ranks),
        groups=groups,
        devices=Devices(from_device, to_device, precision, compute_scale),
    )


@command(workload, "json quiet", name="learn")
def learn_workloads(
    out: CommandOutput,
    shared: Shared,
    workloads: Annotated[
        list[str],
        typer.Argument(
            metavar="TRACES",
            help="Traces of all ranks of a job, PREFIX.*.et or PREFIX.*.kineto.json, a GOAL schedule or .sqlite.",
        ),
    ],
    target: Annotated[str, typer.Option("-o", metavar="MODEL.json", callback=_name, help="Output: the model.")],
    order: Annotated[
        str, typer.Option(metavar="N", help="Preceding tasks on which the next one depends, from 0 to 8.")
    ] = "4",
) -> None:
    """Learn the statistics of a class of traces.

    The model has the mix of operators, sizes and times, dependencies, groups and their order, and no name. `pyxsim
    workload synthesize` draws traces from it.
    """
    from pyxsim.cli.workload_making import learn_workload
    from pyxsim.workload.making.model import MOST_ORDER

    learn_workload(out, workloads, target, order=count(order, "--order", 0, MOST_ORDER))


@command(workload, "json quiet", name="synthesize")
def synthesize_workloads(
    out: CommandOutput,
    shared: Shared,
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL.json", callback=_name, help="What `pyxsim workload learn` has written."),
    ],
    target: Target,
    npus: Annotated[
        str | None, typer.Option(metavar="N", help="Number of ranks; by default that of one of the learned jobs.")
    ] = None,
    seed: Annotated[str, typer.Option(metavar="N", help="The same seed writes the same files.")] = "1",
) -> None:
    """Draw new traces with the statistics of a model."""
    from pyxsim.cli.workload_making import synthesize_workload
    from pyxsim.settings.network import MAX_NPUS

    synthesize_workload(out, model, target, npus=maybe(npus, "--npus", most=MAX_NPUS), seed=count(seed, "--seed", 0))


@command(workload, "json", name="collect")
def collect_workloads(out: CommandOutput, shared: Shared) -> None:
    """Print the Python that records a training step with the PyTorch profiler.

    Paste it into the training script and call record(step) on all ranks. [workload] file = "step.*.kineto.json" then
    simulates the step.
    """
    from pyxsim.workload.pytorch.recipe import RECIPE

    if shared.json:
        out.put({"python": RECIPE})
    else:
        out.write(RECIPE)
