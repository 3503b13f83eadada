"""The commands of pyxsim and their options; each command calls a function of its own module."""

from __future__ import annotations

from typing import Annotated

import typer

from pyxsim import __version__, plugins
from pyxsim.cli import design_commands
from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.options import Experiment, File, Plot, Shared, command, count, maybe
from pyxsim.cli.options import name as _name
from pyxsim.cli.workload_commands import workload

app = typer.Typer(
    add_completion=False,
    # Plain help and errors: quick, and the same on a terminal and in a file.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"pyxsim {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def pyxsim(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A flit-level simulator of collective communication on accelerator networks.

    Exit codes: 0 done, 2 the input is wrong, 3 the simulated system failed or a check does not hold, 130 interrupted,
    1 no memory, or a bug.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


@command(app, "settings backend library allow_deadlock allow_oom no_skip threads mpi checkpoint json quiet")
def run(
    out: CommandOutput,
    shared: Shared,
    experiment: Experiment,
    file: File = None,
    plot: Plot = None,
    watch: Annotated[
        str | None, typer.Option(metavar="PACKET", help="Log one packet: 17 for message 17, 17.2 for its packet 2.")
    ] = None,
    carry: Annotated[
        bool, typer.Option("--carry", help="Send real data with the messages and check the result on every NPU.")
    ] = False,
) -> None:
    """Simulate an experiment.

    Prints a summary; Ctrl-C ends the run early and keeps the incomplete result.
    """
    from pyxsim.cli.simulate import run_file
    from pyxsim.reports.files import Outputs

    options = shared.simulation
    options["overrides"] += ["output.carry=true"] if carry else []
    run_file(out, experiment, Outputs(file, plot), backend=shared.backend, watch=watch, **options)


@command(app, "library json quiet")
def report(
    out: CommandOutput,
    shared: Shared,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Results, load-latency curves and comparisons (.h5), or folders of sweeps or searches.",
        ),
    ],
    file: Annotated[
        str | None,
        typer.Option("-o", metavar="PAGE.html", callback=_name, help="The page; by default beside the input file."),
    ] = None,
) -> None:
    """Write one HTML page of results, plots first.

    The network with a time slider, links, queues, chunks, latencies, settings. Several results are compared. The page
    holds all that it needs, and opens without a network.
    """
    from pyxsim.reports.html.write_report import report

    written = report(files, file, libraries=shared.libraries)
    out.put({"report": written.file, "bytes": written.bytes, "chapters": written.chapters})
    out.say(f"wrote {written.file} ({written.bytes / 1e6:.1f} MB): open it in a browser")


@command(app, "json quiet")
def resume(
    out: CommandOutput,
    shared: Shared,
    checkpoint: Annotated[
        str, typer.Argument(metavar="FILE", callback=_name, help="A file written by --checkpoint: OUT.h5.checkpoint.")
    ],
    file: Annotated[
        str | None,
        typer.Option(
            "-o", metavar="OUT.h5", callback=_name, help="Write the result to this file instead of the original one."
        ),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the checkpoint when the run ends.")] = False,
) -> None:
    """Continue a run from its checkpoint.

    The result equals that of an uninterrupted run. A checkpoint contains code: only your own ones are read.
    """
    from pyxsim.cli.simulate import resume as go_on

    go_on(out, checkpoint, file, keep=keep)


@command(app, "settings library allow_deadlock allow_oom no_skip threads json quiet")
def compare(
    out: CommandOutput,
    shared: Shared,
    experiment: Experiment,
    files: Annotated[
        list[str] | None,
        typer.Option("-o", metavar="OUT.h5", help="Write the comparison as .h5, .json or .md. Repeatable."),
    ] = None,
    plot: Plot = None,
    backends: Annotated[
        list[str] | None,
        typer.Option("--backend", metavar="NAME", help="A network model; by default all of them. Repeatable."),
    ] = None,
    within: Annotated[
        str | None, typer.Option(metavar="10%", help="Largest accepted difference from the packet backend.")
    ] = None,
    point: Annotated[
        str | None,
        typer.Option(metavar="LABEL", help="The point to show; by default the one with the largest difference."),
    ] = None,
) -> None:
    """Run an experiment on every backend.

    Prints where they differ and why. A file may contain several experiments: its tables [sweep] and [[variant]].
    Ctrl-C keeps the completed runs.
    """
    from pyxsim.cli.compare import show_comparison

    show_comparison(
        out,
        experiment,
        files=files or (),
        plot=plot,
        within=within,
        point=point,
        **shared.simulation,
        backends=backends or (),
    )


@command(app, "json quiet")
def diff(
    out: CommandOutput,
    shared: Shared,
    first: Annotated[
        str, typer.Argument(metavar="A.h5", callback=_name, help="A file written by run, compare or curve.")
    ],
    second: Annotated[str, typer.Argument(metavar="B.h5", callback=_name, help="A second file of the same kind.")],
) -> None:
    """Compare two results to the bit.

    Every dataset and attribute; how and where it ran is listed separately. Exit code 3 if something differs.
    """
    from pyxsim.cli.diff import show_diff

    show_diff(out, first, second)


@command(app, "settings backend workers library allow_deadlock allow_oom no_skip threads json quiet")
def sweep(
    out: CommandOutput,
    shared: Shared,
    experiment: Experiment,
    folder: Annotated[
        str,
        typer.Option("-o", metavar="DIR", callback=_name, help="Folder of the sweep: a new one, or one to continue."),
    ],
    plot: Annotated[
        tuple[str, str, str] | None,
        typer.Option(metavar="X Y HUE", help="Plot number Y against swept key X, one line per HUE (-: none)."),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", callback=_name, help="Run on a Dask cluster: tcp://node:8786 or local."),
    ] = None,
    retry: Annotated[str, typer.Option(metavar="N", help="Retries of a point whose process died.")] = "1",
) -> None:
    """Run all points of an experiment into a folder.

    Its tables [sweep] and [[variant]] define the points. The same command resumes an interrupted sweep: docs/sweep.md.
    """
    from pyxsim.cli.sweep import show_sweep

    show_sweep(
        out,
        experiment,
        folder,
        plot=plot,
        **shared.simulation,
        backend=shared.backend,
        workers=shared.worker_count,
        dask=dask,
        retry=count(retry, "--retry", 0),
    )


@command(app, "settings workers library allow_deadlock threads json quiet")
def curve(
    out: CommandOutput,
    shared: Shared,
    experiment: Experiment,
    loads: Annotated[
        str | None,
        typer.Option(metavar="0.1,0.2,..", help="Loads in flits per node and cycle: 0.1,0.2 or from:to:step."),
    ] = None,
    auto: Annotated[
        bool, typer.Option("--auto", help="Choose the loads automatically, more densely near saturation.")
    ] = False,
    file: Annotated[
        str | None,
        typer.Option("-o", metavar="FILE", callback=_name, help="Write the curve as .h5, .json, .csv or a picture."),
    ] = None,
    plot: Plot = None,
) -> None:
    """Simulate open traffic at many loads: the load-latency curve.

    The experiment has a table [traffic]; its load is replaced. Points are simulated in parallel.
    """
    from pyxsim.cli.curves import show_curve

    show_curve(
        out,
        experiment,
        loads=loads,
        auto=auto,
        file=file,
        plot=plot,
        **shared.simulation,
        workers=shared.worker_count,
    )


@command(app, "settings workers library allow_deadlock threads json quiet")
def saturation(
    out: CommandOutput,
    shared: Shared,
    experiment: Experiment,
    resolution: Annotated[
        float | None,
        typer.Option(
            metavar="X", help="Resolution in flits per node and cycle; by default 1 % of the throughput bound."
        ),
    ] = None,
    file: Annotated[
        str | None, typer.Option("-o", metavar="FILE", callback=_name, help="Write the points as .h5, .json or .csv.")
    ] = None,
) -> None:
    """Find the load at which a network saturates, by bisection.

    The experiment has a table [traffic]; its load is replaced.
    """
    from pyxsim.cli.curves import show_saturation

    show_saturation(
        out,
        experiment,
        resolution=resolution,
        file=file,
        **shared.simulation,
        workers=shared.worker_count,
    )


@command(app, "settings backend library allow_deadlock allow_oom json")
def check(
    out: CommandOutput,
    shared: Shared,
    experiment: Experiment,
) -> None:
    """Prove an experiment and estimate its cost.

    Settings, routes, the proof that they cannot deadlock, the proof of every collective schedule, buffers.
    """
    from pyxsim.cli.check import show_check

    show_check(
        out,
        experiment,
        **shared.simulation,
        backend=shared.backend,
    )


@command(app, "library json", name="list")
def list_(
    out: CommandOutput,
    shared: Shared,
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[WHAT]", callback=_name, help="A list such as models or backends, a model, or a system."
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(metavar="NAME", callback=_name, help="With a model: show its layer times on this device."),
    ] = None,
) -> None:
    """List the shelves; show a model layer by layer, or a system."""
    from pyxsim.cli.shelves import list_shelves

    list_shelves(out, what, shared.libraries, device)


@command(app, "library json")
def collective(
    out: CommandOutput,
    shared: Shared,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", callback=_name, help="An algorithm: ring, direct:4, FILE.py; without one, all are listed."
        ),
    ] = None,
    npus: Annotated[
        str | None, typer.Option(metavar="N", help="Number of NPUs in the group; 8 by default, or those of --on.")
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(
            metavar="NETWORK",
            callback=_name,
            help="Simulate it on a network, and compare with what is possible at all: a topology or named system of "
            "the shelf, or an experiment file.",
        ),
    ] = None,
    shape: Annotated[str | None, typer.Option(metavar="4,4,4", help="NPUs per dimension of the network.")] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="KIND", help="The collective; by default all-reduce, or the first that the algorithm supports."
        ),
    ] = None,
    size: Annotated[str, typer.Option(metavar="SIZE", help="Size of the collective.")] = "1 MiB",
    plot: Annotated[
        str | None,
        typer.Option(metavar="OUT.png", callback=_name, help="Plot the messages of every step; .png, .pdf, .svg."),
    ] = None,
) -> None:
    """Show a collective algorithm, step by step.

    Proves it, counts steps and bytes, and shows who sends what to whom.
    """
    from pyxsim.cli.collective import show_collective

    show_collective(
        out, name, npus=npus, on=on, shape=shape, kind=kind, size=size, libraries=shared.libraries, plot=plot
    )


@command(app, "settings library json")
def topology(
    out: CommandOutput,
    shared: Shared,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME_OR_FILE", callback=_name, help="A topology of the shelf, or an experiment (.toml)."
        ),
    ],
    options: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Options of the topology, and routing=NAME.")
    ] = None,
    shape: Annotated[str | None, typer.Option(metavar="4,4,4", help="NPUs per dimension.")] = None,
    export: Annotated[
        str | None,
        typer.Option(metavar="FORMAT", help="Write the network as graphml, edges, hpcc, nccl or infragraph."),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "-o",
            metavar="FILE",
            callback=_name,
            help="Output: .graphml, .edges, .yaml, .xml, .txt, or a picture .png, .pdf, .svg.",
        ),
    ] = None,
) -> None:
    """Show what theory says about a network.

    Size, degree, bisection, hops, channel load, deadlock freedom; its picture, and its graph.
    """
    from pyxsim.cli.topology import show_topology

    show_topology(
        out,
        " ".join([name, *(options or ())]),
        shape=shape,
        overrides=shared.overrides,
        libraries=shared.libraries,
        export=export,
        file=file,
    )


@command(app, "json quiet")
def new(
    out: CommandOutput,
    shared: Shared,
    folder: Annotated[
        str, typer.Argument(metavar="[FOLDER]", callback=_name, help="The folder to create.")
    ] = "pyxsim-project",
    template: Annotated[
        str, typer.Option(metavar="NAME", callback=_name, help="Template: torus, fat-tree, training or traffic.")
    ] = "torus",
) -> None:
    """Write a starting project.

    Experiments, a sweep, a library with a pattern of its own, and a README with the commands that run them.
    """
    from pyxsim.study.new_project import new

    project = new(folder, template=template)
    out.put(project.json())
    out.say(f"wrote {', '.join(f'{folder}/{name}' for name in project.files)}", f"next: {folder}/README.md")


@command(app, "json quiet")
def library(
    out: CommandOutput,
    shared: Shared,
    folder: Annotated[
        str,
        typer.Option("-o", metavar="DIR", callback=_name, help="Folder of its lib/ and include/."),
    ] = "pyxsim-library",
    compiler: Annotated[
        str | None,
        typer.Option(metavar="CC", callback=_name, help="The C compiler; by default CC, or the one that built Python."),
    ] = None,
) -> None:
    """Compile libpyxsim, the C library for other simulators.

    With its header, and files for pkg-config and CMake.
    """
    from pyxsim.embed.build_library import build_library

    built = build_library(folder, compiler=compiler)
    out.put(built.json())
    out.say(f"wrote {', '.join(f'{folder}/{name}' for name in built.files)}", f"it runs {built.python}")


design_commands.add_to(app)


@command(app, "json")
def doctor(
    out: CommandOutput,
    shared: Shared,
) -> None:
    """Check this installation.

    Versions, build of the engine, shelves, and a run whose result is known.
    """
    from pyxsim.cli.doctor import examine

    examine(out)


@command(app, "json quiet")
def timeline(
    out: CommandOutput,
    shared: Shared,
    result: Annotated[str, typer.Argument(metavar="OUT.h5", callback=_name, help="The result of a run.")],
    file: Annotated[
        str | None,
        typer.Option(
            "-o", metavar="TRACE", callback=_name, help="Output file: .json or .json.gz; by default beside the result."
        ),
    ] = None,
    begin: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Omit events that end before this time.")
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Omit events that begin after this time.")
    ] = None,
    npus: Annotated[str | None, typer.Option(metavar="0-7,12", help="The NPUs to show; by default all.")] = None,
    links: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N|NAME|all",
            help="Links whose counters are shown: the N busiest, a name, or a pattern such as 'd0+:*'. Repeatable; by "
            "default 32.",
        ),
    ] = None,
    counters: Annotated[
        list[str] | None,
        typer.Option(
            "--counter",
            metavar="NAME",
            help="Counter of the links, such as utilization, flits or stall_credit. Repeatable.",
        ),
    ] = None,
    most: Annotated[
        str | None,
        typer.Option(
            "--max-events",
            metavar="N",
            help="Maximum number of events; further ones are omitted with a note. By default 150000.",
        ),
    ] = None,
) -> None:
    """Write a trace for Perfetto: chunks, tasks, links over time.

    A process for each NPU, a slice for each chunk and phase, arrows to the next phase, counters of the links.
    """
    from pyxsim.cli.timeline import write_timeline
    from pyxsim.reports.timeline import View

    limit = View.most_events if most is None else count(most, "--max-events", 0)
    view = View(begin, end, npus, links or View.links, counters or View.counters, limit)
    write_timeline(out, result, view, file)


for _each in plugins.commands.entries:
    _each.value(app)


@command(app, "json quiet")
def validate(
    out: CommandOutput,
    shared: Shared,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Cases, families, or patterns such as 'ring/*'.")
    ] = None,
    list_only: Annotated[bool, typer.Option("--list", help="List the cases; run nothing.")] = False,
    workers: Annotated[
        str | None, typer.Option(metavar="N", help="Worker processes; by default one per processor.")
    ] = None,
    folder: Annotated[
        str | None, typer.Option("-o", metavar="DIR", callback=_name, help="Folder of the figures and results.json.")
    ] = None,
    write: Annotated[
        str | None, typer.Option(metavar="PAGE.md", callback=_name, help="Update docs/validation.md.")
    ] = None,
) -> None:
    """Check the claims of docs/validation.md.

    Each case has a number, a bound and a picture. Exit code 3 if a claim fails.
    """
    from pyxsim.library import import_from_checkout

    number = maybe(workers, "--workers")
    claims = import_from_checkout("validation.command")
    claims.validate(out, names or (), workers=number, folder=folder, list_only=list_only, write=write)


@command(app, "no_skip json quiet")
def bench(
    out: CommandOutput,
    shared: Shared,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Cases; by default a few of them, with a table of expected times."),
    ] = None,
    repeat: Annotated[str, typer.Option(metavar="N", help="Runs of each case; the median counts.")] = "3",
    list_only: Annotated[bool, typer.Option("--list", help="List the cases.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Print the experiment (TOML) of a case; run nothing.")] = False,
) -> None:
    """Measure how fast this machine simulates.

    Runs fixed cases, and estimates how long experiments will take.
    """
    from pyxsim.library import import_from_checkout

    cases = import_from_checkout("benchmarks.command")
    if show:
        cases.show_case(out, names or ())
        return
    number = count(repeat, "--repeat", most=cases.MOST_REPEAT)
    cases.bench(out, names or (), repeat=number, list_only=list_only, skip=not shared.no_skip)


app.add_typer(workload, name="workload")
