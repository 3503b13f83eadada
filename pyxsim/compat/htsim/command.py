"""`pyxsim htsim`: htsim_uec's command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.options import Shared, command

OWN = ("--json", "--quiet", "--help")


class HtsimCommand(TyperCommand):
    """Leaves htsim's options, long ones with one dash, to the command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse pyxsim's own options; everything else is htsim's."""
        return super().parse_args(ctx, divided(args))


def divided(words: Sequence[str]) -> list[str]:
    """Return pyxsim's own options, `--`, and htsim's words in their order."""
    own = [word for word in words if word in OWN]
    return [*own, "--", *(word for word in words if word not in OWN)]


def htsim(
    out: CommandOutput,
    shared: Shared,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGS", help="Options of htsim_uec, such as -tm FILE -topo FILE -sender_cc_only."),
    ] = None,
) -> None:
    """Simulate Ultra Ethernet with the command line of htsim_uec.

    Prints htsim's lines: flows, Done, packet counts. -o OUT.h5 writes the flows; docs/from_htsim.md has every option.
    """
    from pyxsim.compat.htsim.command_run import run_htsim

    run_htsim(out, words or ())


def add_to(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "json quiet", cls=HtsimCommand)(htsim)
