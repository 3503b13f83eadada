"""What a command prints: JSON on stdout, and nothing else there; text on stderr."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any

import typer

from pyxsim.cli.exit_codes import exit_code, lines, silence, tell, unwrapped, without_terminal
from pyxsim.errors import PyxsimError
from pyxsim.runner.signals import StopSignals

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from pyxsim.network.packet.mpi_world import MpiWorld


class CommandOutput:
    """Write the output of a command and map its errors to an exit code.

    Use it as a context manager: `with CommandOutput(...) as out:` prints every error as lines and exits with its code.

    Parameters
    ----------
    json
        Write one JSON object to stdout, whatever happens, and no text.
    quiet
        Print errors only.

    Attributes
    ----------
    live
        Whether lines can change: text goes to a terminal.
    signals
        The handlers of the signals that end the command.
    world
        The MPI ranks that execute the command together; None: this process alone.
    """

    def __init__(self, *, json: bool = False, quiet: bool = False) -> None:
        self.json = json
        self.silent = quiet or json
        self.live = not self.silent and sys.stderr.isatty()
        self.world: MpiWorld | None = None
        self._has_put = False

    def __enter__(self) -> CommandOutput:
        self.signals = StopSignals.of_command(without_terminal).__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.signals.__exit__()
        if self.world is not None and not isinstance(error, typer.Exit | SystemExit):
            self._end_together(None if error is None else unwrapped(error))
            return
        if error is None or isinstance(error, typer.Exit | SystemExit):
            return
        error = unwrapped(error)
        number = self.signals.number or signal.SIGINT
        code = tell(error, number)
        self._put_error(error, code)
        raise typer.Exit(code) from None

    def _put_error(self, error: BaseException, code: int) -> None:
        if not self._has_put:
            with contextlib.suppress(BrokenPipeError, PyxsimError):  # report one error, not two
                self.put({"exit_code": code, "errors": lines(error)})

    def _end_together(self, error: BaseException | None) -> None:
        from pyxsim.cli.mpi_ranks import end_together

        assert self.world is not None
        if error is not None:
            self._put_error(error, exit_code(error))
        end_together(self.world, error)

    def join(self, world: MpiWorld) -> bool:
        """Execute the command as one of several ranks, and return whether another one prints and writes.

        Signals end a rank at once, and with it the others. One rank alone is a command as any other.
        """
        if self.world is None and world.size > 1:
            self.world = world
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
        if world.rank:
            self.json, self.silent, self.live = False, True, False
        return bool(world.rank)

    @property
    def console(self) -> Console:
        """The console of rich on stderr."""
        return self._console(())

    def _console(self, parts: Iterable[RenderableType]) -> Console:
        """The console, as wide as these parts need: in a file rich would cut them at 80 columns."""
        from pyxsim.reports.text.text_width import room, stderr_console

        console = stderr_console()
        console.width = room(console, parts)
        return console

    def say(self, *parts: RenderableType) -> None:
        """Print text, or tables of rich."""
        if not self.silent:
            for part in parts:
                self._console([part]).print(part, markup=False, highlight=False, soft_wrap=isinstance(part, str))

    def put(self, data: dict[str, Any]) -> None:
        """Print the JSON object of the command, with --json."""
        self._has_put = True
        if self.json:
            self.write(json.dumps(data, indent=1) + "\n")

    def write(self, text: str) -> None:
        """Write text to stdout. Raises PyxsimError if that fails, BrokenPipeError without a reader."""
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except BrokenPipeError:
            silence()
            raise
        except OSError as error:
            silence()
            raise PyxsimError(f"stdout cannot be written: {os.strerror(error.errno or 0)}") from error
