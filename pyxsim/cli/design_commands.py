"""The commands of co-design: search, synthesize, cost, jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.options import Experiment, File, Shared, command, maybe
from pyxsim.cli.options import name as _name


def add_to(app: typer.Typer) -> None:
    """Add the commands."""

    @command(app, "settings workers library allow_deadlock allow_oom json quiet")
    def search(
        out: CommandOutput,
        shared: Shared,
        experiment: Experiment,
        folder: Annotated[
            str,
            typer.Option(
                "-o", metavar="DIR", callback=_name, help="Folder of the search: a new one, or one to continue."
            ),
        ],
        dask: Annotated[
            str | None,
            typer.Option(metavar="ADDRESS", callback=_name, help="Run on a Dask cluster: tcp://node:8786 or local."),
        ] = None,
    ) -> None:
        """Look for the best design in a space.

        The table [search] of an experiment has the axes, the constraints and the objective. Points that cannot run are
        cut, a cheap model screens the others, and packets decide among the best. The same command resumes:
        docs/search.md.
        """
        from pyxsim.cli.search import show_search

        show_search(out, experiment, folder, **shared.simulation, workers=shared.worker_count, dask=dask)

    @command(app, "settings library json quiet")
    def synthesize(
        out: CommandOutput,
        shared: Shared,
        network: Annotated[
            str,
            typer.Argument(
                metavar="NETWORK", callback=_name, help="A topology or system of the shelf, or an experiment (.toml)."
            ),
        ],
        options: Annotated[
            list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Options of the topology, and routing=NAME.")
        ] = None,
        kind: Annotated[
            str,
            typer.Option("--collective", metavar="KIND", help="all-reduce, all-gather, reduce-scatter or all-to-all."),
        ] = "all-reduce",
        size: Annotated[str, typer.Option(metavar="SIZE", help="Size of the collective.")] = "256 MiB",
        shape: Annotated[str | None, typer.Option(metavar="4,4,4", help="NPUs per dimension.")] = None,
        method: Annotated[
            str, typer.Option(metavar="NAME", help="auto, paths (of an all-to-all), trees, matching or exact.")
        ] = "auto",
        rank: Annotated[
            str,
            typer.Option(metavar="HOW", help="Simulate the candidates: by flits (packet), as flows (flow), or none."),
        ] = "packet",
        file: Annotated[
            str | None,
            typer.Option(
                "--output", "-o", metavar="FILE", callback=_name, help="Write the best: .py, .xml, .json or .csv."
            ),
        ] = None,
        format: Annotated[  # noqa: A002
            str | None,
            typer.Option("--format", metavar="FORMAT", help="python, msccl, forestcoll, mscclpp or tacos."),
        ] = None,
        in_switch: Annotated[bool, typer.Option("--in-switch", help="Let switches reduce and multicast.")] = False,
        slices: Annotated[
            str | None, typer.Option(metavar="N", help="Parts of each unit of a tree; by default several are tried.")
        ] = None,
        seconds: Annotated[str, typer.Option(metavar="S", help="CPU time of each method.")] = "60",
    ) -> None:
        """Synthesize a collective for a network.

        The bound of its links, schedules that reach it or come close, their proof, and their simulated times beside
        those of the shelf. Ctrl-C keeps the best so far.
        """
        from pyxsim.cli.synthesize import seconds_of, show_synthesis

        show_synthesis(
            out,
            " ".join([network, *(options or ())]),
            kind=kind,
            size=size,
            file=file,
            form=format,
            method=method,
            rank=rank,
            shape=shape,
            in_switch=in_switch,
            slices=maybe(slices, "--slices", most=4096),
            seconds=seconds_of(seconds),
            overrides=shared.overrides,
            libraries=shared.libraries,
        )

    @command(app, "settings library json quiet")
    def cost(
        out: CommandOutput,
        shared: Shared,
        file: Annotated[
            str,
            typer.Argument(metavar="FILE", callback=_name, help="An experiment (.toml), or the result of a run (.h5)."),
        ],
    ) -> None:
        """Show price, power and energy.

        Of an experiment: what its system costs and draws, part by part. Of a result: also the energy of the run, and
        its cost per token. The figures are those of [cost] and of the catalogue, with their uncertainty.
        """
        from pyxsim.cli.cost import show_cost

        show_cost(out, file, shared.overrides, shared.libraries)

    @command(app, "settings backend library allow_deadlock allow_oom no_skip threads json quiet")
    def jobs(out: CommandOutput, shared: Shared, experiment: Experiment, file: File = None) -> None:
        """Run several jobs together, and each alone.

        The slowdown of each job of [[job]] against running alone on the same NPUs and, with output.attribution, which
        job waited for which.
        """
        from pyxsim.cli.jobs import show_jobs

        show_jobs(out, experiment, file, **shared.simulation, backend=shared.backend)
