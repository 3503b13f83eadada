"""A command on several MPI ranks: rank 0 prints and writes, and all ranks end together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from pyxsim.cli.exit_codes import complain, exit_code, lines, tell

if TYPE_CHECKING:
    from pyxsim.network.packet.mpi_world import MpiWorld

PATIENCE = 5.0  # seconds after which ranks are ended that have not failed like this one


def check_all_ready(world: MpiWorld) -> None:
    """Wait until every rank gets here. End the command if one has failed instead."""
    _end_with(world.agree(0))


def end_together(world: MpiWorld, error: BaseException | None) -> None:
    """End the command of a rank, and print its error unless rank 0 prints one of its kind. Raises typer.Exit."""
    code = 0 if error is None else exit_code(error)
    codes = world.agree(code, PATIENCE if code else None)
    if error is not None and world.rank == 0:
        tell(error)
    elif error is not None and (codes is None or codes[0] != code):
        for line in lines(error):
            complain(f"rank {world.rank}: {line}")
    if codes is None:
        world.abort(code)
    _end_with(codes)


def _end_with(codes: list[int] | None) -> None:
    if codes and max(codes):
        raise typer.Exit(max(codes)) from None
