"""`pyxsim bench`: its arguments and options."""

from __future__ import annotations

from typing import Annotated

import typer

from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.counts import count
from pyxsim.cli.options import Json, NoSkip, Quiet


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Cases; by default a few, with a table of expected times."),
    ] = None,
    repeat: Annotated[str, typer.Option(metavar="N", help="Runs of each case; the median counts.")] = "3",
    list_only: Annotated[bool, typer.Option("--list", help="List the cases.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Print the experiment (TOML) of a case; run nothing.")] = False,
    no_skip: NoSkip = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure how fast this machine simulates.

    Runs fixed cases, and estimates how long experiments will take.
    """
    with CommandOutput(json=json, quiet=quiet) as out:
        from pyxsim.library import import_from_checkout

        command = import_from_checkout("benchmarks.command")
        if show:
            command.show_case(out, names or ())
            return
        number = count(repeat, "--repeat", most=command.MOST_REPEAT)
        command.bench(out, names or (), repeat=number, list_only=list_only, skip=not no_skip)
