"""The command `pyxsim cost`."""

from __future__ import annotations

from typing import Annotated

import typer

from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.options import Shared, command
from pyxsim.cli.options import name as _name


def add_to(app: typer.Typer) -> None:
    """Add the command."""

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
