"""`pyxsim booksim`: its options."""

from __future__ import annotations

from typing import Annotated

import typer

from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.options import File, Plot, Shared, command
from pyxsim.cli.options import name as _name


def booksim(
    out: CommandOutput,
    shared: Shared,
    configuration: Annotated[
        str, typer.Argument(metavar="FILE", callback=_name, help="A configuration of BookSim2; - reads stdin.")
    ],
    assignments: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Assignments, applied after the file.")
    ] = None,
    file: File = None,
    plot: Plot = None,
    show: Annotated[bool, typer.Option("--show", help="Print the experiment (TOML); run nothing.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse settings that differ from BookSim2, and routes that can deadlock.")
    ] = False,
) -> None:
    """Simulate a configuration of BookSim2.

    Every key is honored, or refused or remarked upon in one line: docs/booksim.md.
    """
    from pyxsim.compat.booksim.command_run import run_booksim
    from pyxsim.reports.files import Outputs

    run_booksim(
        out,
        configuration,
        assignments or (),
        Outputs(file, plot),
        overrides=shared.overrides,
        show_only=show,
        strict=strict,
    )


def add_to(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "settings json quiet")(booksim)
