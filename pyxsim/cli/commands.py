"""The commands of pyxsim and their options; each command calls a function of its own module."""

from __future__ import annotations

from typing import Annotated

import typer

from pyxsim import __version__, plugins
from pyxsim.cli.bench_command import bench
from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.counts import count, maybe
from pyxsim.cli.options import (
    AllowDeadlock,
    AllowOom,
    Backend,
    Checkpoint,
    Experiment,
    File,
    Json,
    Libraries,
    NoSkip,
    Plot,
    Quiet,
    Settings,
    Threads,
    overriding,
)
from pyxsim.cli.options import name as _name
from pyxsim.cli.workload_commands import workload

app = typer.Typer(
    add_completion=False,
    # Plain help and errors: quick, and the same on a terminal and in a file.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
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
    1 a bug.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


@app.command()
def run(
    experiment: Experiment,
    file: File = None,
    plot: Plot = None,
    settings: Settings = None,
    backend: Backend = "packet",
    library: Libraries = None,
    allow_deadlock: AllowDeadlock = False,
    allow_oom: AllowOom = False,
    no_skip: NoSkip = False,
    threads: Threads = None,
    checkpoint: Checkpoint = None,
    watch: Annotated[str | None, typer.Option(metavar="PACKET", help="Log one packet: message 17, or 17.2.")] = None,
    carry: Annotated[
        bool, typer.Option("--carry", help="Send real data with the messages and check the result on every NPU.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Simulate an experiment.

    Prints a summary; Ctrl-C ends the run early and keeps the incomplete result.
    """
    with CommandOutput(json=json, quiet=quiet) as out:
        from pyxsim.cli.simulate import run_file
        from pyxsim.reports.files import Outputs

        run_file(
            out,
            experiment,
            Outputs(file, plot),
            overrides=[
                *overriding(settings, no_skip, threads, checkpoint, allow_oom=allow_oom),
                *(["output.carry=true"] if carry else []),
            ],
            backend=backend,
            libraries=library or (),
            allow_deadlock=allow_deadlock,
            watch=watch,
        )


@app.command()
def report(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Results (.h5), load-latency curves, comparisons; folders of sweeps."),
    ],
    file: Annotated[
        str | None,
        typer.Option("-o", metavar="PAGE.html", callback=_name, help="The page; by default beside the only file."),
    ] = None,
    library: Libraries = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write one HTML page of results, plots first.

    The network with a time slider, links, queues, chunks, latencies, settings. Several results are compared. The page
    holds all that it needs, and opens without a network.
    """
    with CommandOutput(json=json, quiet=quiet) as out:
        from pyxsim.cli.report import make_report

        make_report(out, files, file, library or ())


@app.command()
def resume(
    checkpoint: Annotated[
        str, typer.Argument(metavar="FILE", callback=_name, help="A file of --checkpoint: OUT.h5.checkpoint.")
    ],
    file: Annotated[
        str | None,
        typer.Option("-o", metavar="OUT.h5", callback=_name, help="Write the result to another file than planned."),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the checkpoint at the end.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Continue a run from its checkpoint.

    The result equals that of an uninterrupted run. A checkpoint contains code: only your own ones are read.
    """
    with CommandOutput(json=json, quiet=quiet) as out:
        from pyxsim.cli.resume import resume as go_on

        go_on(out, checkpoint, file, keep=keep)


_Workers = Annotated[str | None, typer.Option(metavar="N", help="Worker processes; by default one per processor.")]


@app.command()
def compare(
    experiment: Experiment,
    files: Annotated[
        list[str] | None,
        typer.Option("-o", metavar="OUT.h5", help="Write the comparison: .h5, .json or .md. Repeatable."),
    ] = None,
    plot: Plot = None,
    backends: Annotated[
        list[str] | None,
        typer.Option("--backend", metavar="NAME", help="A network model; by default all. Repeatable."),
    ] = None,
    within: Annotated[
        str | None, typer.Option(metavar="10%", help="Largest difference from the packet backend that counts as good.")
    ] = None,
    point: Annotated[
        str | None,
        typer.Option(metavar="LABEL", help="The point to show; by default that with the largest difference."),
    ] = None,
    settings: Settings = None,
    library: Libraries = None,
    allow_deadlock: AllowDeadlock = False,
    allow_oom: AllowOom = False,
    no_skip: NoSkip = False,
    threads: Threads = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run an experiment on every backend.

    Prints where they differ and why. A file may contain several experiments: its tables [sweep] and [[variant]].
    Ctrl-C keeps the completed runs.
    """
    with CommandOutput(json=json, quiet=quiet) as out:
        from pyxsim.cli.compare import show_comparison

        show_comparison(
            out,
            experiment,
            files=files or (),
            plot=plot,
            within=within,
            point=point,
            overrides=overriding(settings, no_skip, threads, allow_oom=allow_oom),
            backends=backends or (),
            libraries=library or (),
            allow_deadlock=allow_deadlock,
        )


@app.command()
def diff(
    first: Annotated[str, typer.Argument(metavar="A.h5", callback=_name, help="A file of run, compare or curve.")],
    second: Annotated[str, typer.Argument(metavar="B.h5", callback=_name, help="Another such file.")],
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare two results to the bit.

    Every dataset and attribute; how and where it ran is listed separately. Exit code 3 if something differs.
    """
    with CommandOutput(json=json, quiet=quiet) as out:
        from pyxsim.cli.diff import show_diff

        show_diff(out, first, second)


@app.command()
def sweep(
    experiment: Experiment,
    folder: Annotated[
        str, typer.Option("-o", metavar="DIR", callback=_name, help="The folder of the sweep, new or to be continued.")
    ],
    plot: Annotated[
        tuple[str, str, str] | None,
        typer.Option(metavar="X Y HUE", help="Plot number Y over swept key X, one line per HUE (- for none)."),
    ] = None,
    settings: Settings = None,
    backend: Backend = "packet",
    workers: _Workers = None,
    dask: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", callback=_name, help="Run on a Dask cluster: tcp://node:8786, or local."),
    ] = None,
    retry: Annotated[str, typer.Option(metavar="N", help="Retries of a point whose process has died.")] = "1",
    library: Libraries = None,
    allow_deadlock: AllowDeadlock = False,
    allow_oom: AllowOom = False,
    no_skip: NoSkip = False,
    threads: Threads = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run all points of an experiment into a folder.

    Its tables [sweep] and [[variant]] define the points. The same command resumes an interrupted sweep: docs/sweep.md.
    """
    with CommandOutput(json=json, quiet=quiet) as out:
        from pyxsim.cli.sweep import show_sweep

        show_sweep(
            out,
            experiment,
            folder,
            plot=plot,
            overrides=overriding(settings, no_skip, threads, allow_oom=allow_oom),
            backend=backend,
            workers=maybe(workers, "--workers"),
            dask=dask,
            retry=count(retry, "--retry", 0),
            libraries=library or (),
            allow_deadlock=allow_deadlock,
        )


@app.command()
def curve(
    experiment: Experiment,
    loads: Annotated[
        str | None, typer.Option(metavar="0.1,0.2,..", help="Flits per node and cycle; also from:to:step.")
    ] = None,
    auto: Annotated[bool, typer.Option("--auto", help="Choose the loads, more densely near saturation.")] = False,
    file: Annotated[
        str | None,
        typer.Option("-o", metavar="FILE", callback=_name, help="Write the curve: .h5, .json, .csv, or a picture."),
    ] = None,
    plot: Plot = None,
    settings: Settings = None,
    workers: _Workers = None,
    library: Libraries = None,
    allow_deadlock: AllowDeadlock = False,
    threads: Threads = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Simulate open traffic at many loads: the load-latency curve.

    The experiment has a table [traffic]; its load is replaced. Points are simulated in parallel.
    """
    with CommandOutput(json=json, quiet=quiet) as out:
        from pyxsim.cli.curves import show_curve

        show_curve(
            out,
            experiment,
            loads=loads,
            auto=auto,
            file=file,
            plot=plot,
            overrides=overriding(settings, False, threads),
            workers=maybe(workers, "--workers"),
            libraries=library or (),
            allow_deadlock=allow_deadlock,
        )


@app.command()
def saturation(
    experiment: Experiment,
    resolution: Annotated[
        float | None, typer.Option(metavar="X", help="Flits per node and cycle; by default 1 % of the bound.")
    ] = None,
    file: Annotated[
        str | None, typer.Option("-o", metavar="FILE", callback=_name, help="Write the points: .h5, .json or .csv.")
    ] = None,
    settings: Settings = None,
    workers: _Workers = None,
    library: Libraries = None,
    allow_deadlock: AllowDeadlock = False,
    threads: Threads = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the load at which a network saturates, by bisection.

    The experiment has a table [traffic]; its load is replaced.
    """
    with CommandOutput(json=json, quiet=quiet) as out:
        from pyxsim.cli.curves import show_saturation

        show_saturation(
            out,
            experiment,
            resolution=resolution,
            file=file,
            overrides=overriding(settings, False, threads),
            workers=maybe(workers, "--workers"),
            libraries=library or (),
            allow_deadlock=allow_deadlock,
        )


@app.command()
def check(
    experiment: Experiment,
    settings: Settings = None,
    backend: Backend = "packet",
    library: Libraries = None,
    allow_deadlock: AllowDeadlock = False,
    allow_oom: AllowOom = False,
    json: Json = False,
) -> None:
    """Prove an experiment and estimate its cost.

    Settings, routes, the proof that they cannot deadlock, the proof of every collective schedule, buffers.
    """
    with CommandOutput(json=json) as out:
        from pyxsim.cli.check import show_check

        show_check(
            out,
            experiment,
            overrides=overriding(settings, False, None, allow_oom=allow_oom),
            backend=backend,
            libraries=library or (),
            allow_deadlock=allow_deadlock,
        )


@app.command(name="list")
def list_(
    what: Annotated[
        str | None,
        typer.Argument(metavar="[WHAT]", callback=_name, help="A list, such as models or backends; a model, a system."),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(metavar="NAME", callback=_name, help="With a model: the device whose layer times to show."),
    ] = None,
    library: Libraries = None,
    json: Json = False,
) -> None:
    """List the shelves; show a model layer by layer, or a system."""
    with CommandOutput(json=json) as out:
        from pyxsim.cli.shelves import list_shelves

        list_shelves(out, what, library or (), device)


@app.command()
def collective(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", callback=_name, help="An algorithm: ring, direct:4, FILE.py; by default list all."
        ),
    ] = None,
    npus: Annotated[str, typer.Option(metavar="N", help="NPUs in the group.")] = "8",
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
    library: Libraries = None,
    json: Json = False,
) -> None:
    """Show a collective algorithm, step by step.

    Proves it, counts steps and bytes, and shows who sends what to whom.
    """
    with CommandOutput(json=json) as out:
        from pyxsim.cli.collective import show_collective

        show_collective(out, name, npus=npus, kind=kind, size=size, libraries=library or (), plot=plot)


@app.command()
def topology(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME_OR_FILE", callback=_name, help="A topology of the shelf, or an experiment (.toml)."
        ),
    ],
    options: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Options of the topology; routing=NAME.")
    ] = None,
    shape: Annotated[str | None, typer.Option(metavar="4,4,4", help="NPUs per dimension.")] = None,
    settings: Settings = None,
    library: Libraries = None,
    export: Annotated[str | None, typer.Option(metavar="FORMAT", help="Write the graph: graphml, edges.")] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "-o", metavar="FILE", callback=_name, help="Output: .graphml, .edges, or a picture .png, .pdf, .svg."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Show what theory says about a network.

    Size, degree, bisection, hops, channel load, deadlock freedom; its picture, and its graph.
    """
    with CommandOutput(json=json) as out:
        from pyxsim.cli.topology import show_topology

        show_topology(
            out,
            " ".join([name, *(options or ())]),
            shape=shape,
            overrides=settings or (),
            libraries=library or (),
            export=export,
            file=file,
        )


@app.command()
def new(
    folder: Annotated[
        str, typer.Argument(metavar="[FOLDER]", callback=_name, help="The folder to make.")
    ] = "pyxsim-project",
    template: Annotated[
        str, typer.Option(metavar="NAME", callback=_name, help="torus, fat-tree, training or traffic.")
    ] = "torus",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a starting project.

    Experiments, a sweep, a library with a pattern of its own, and a README with the commands that run them.
    """
    with CommandOutput(json=json, quiet=quiet) as out:
        from pyxsim.cli.new_command import write_project

        write_project(out, folder, template)


@app.command()
def doctor(json: Json = False) -> None:
    """Check this installation.

    Versions, build of the engine, shelves, and a run whose result is known.
    """
    with CommandOutput(json=json) as out:
        from pyxsim.cli.doctor import examine

        examine(out)


@app.command()
def timeline(
    result: Annotated[str, typer.Argument(metavar="OUT.h5", callback=_name, help="The result of a run.")],
    file: Annotated[
        str | None,
        typer.Option(
            "-o", metavar="TRACE", callback=_name, help="Output: .json, .json.gz; by default beside the result."
        ),
    ] = None,
    begin: Annotated[str | None, typer.Option("--from", metavar="TIME", help="Omit what ends before.")] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Omit what begins after.")] = None,
    npus: Annotated[str | None, typer.Option(metavar="0-7,12", help="The NPUs to show; by default all.")] = None,
    links: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N|NAME|all",
            help="Links with counters: the N busiest, a name, or 'd0+:*'. Repeatable; by default 32.",
        ),
    ] = None,
    counters: Annotated[
        list[str] | None,
        typer.Option(
            "--counter", metavar="NAME", help="Counter of links: utilization, flits, stall_credit. Repeatable."
        ),
    ] = None,
    most: Annotated[
        str | None,
        typer.Option("--max-events", metavar="N", help="Omit further events, with a note; by default 150000."),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a trace for Perfetto: chunks, tasks, links over time.

    A process for each NPU, a slice for each chunk and phase, arrows to the next phase, counters of the links.
    """
    with CommandOutput(json=json, quiet=quiet) as out:
        from pyxsim.cli.timeline import write_timeline
        from pyxsim.reports.timeline import View

        limit = View.most_events if most is None else count(most, "--max-events", 0)
        view = View(begin, end, npus, links or View.links, counters or View.counters, limit)
        write_timeline(out, result, view, file)


for _each in plugins.commands.entries:
    _each.value(app)


@app.command()
def validate(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Cases, families, or patterns such as 'ring/*'.")
    ] = None,
    list_only: Annotated[bool, typer.Option("--list", help="List the cases; run nothing.")] = False,
    workers: Annotated[str | None, typer.Option(metavar="N", help="Processes; by default one per processor.")] = None,
    folder: Annotated[
        str | None, typer.Option("-o", metavar="DIR", callback=_name, help="Pictures, results.json.")
    ] = None,
    write: Annotated[
        str | None, typer.Option(metavar="PAGE.md", callback=_name, help="Update docs/validation.md.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check the claims of docs/validation.md.

    Each case has a number, a bound and a picture. Exit code 3 if a claim fails.
    """
    with CommandOutput(json=json, quiet=quiet) as out:
        from pyxsim.library import import_from_checkout

        number = maybe(workers, "--workers")
        command = import_from_checkout("validation.command")
        command.validate(out, names or (), workers=number, folder=folder, list_only=list_only, write=write)


app.command()(bench)
app.add_typer(workload, name="workload")
