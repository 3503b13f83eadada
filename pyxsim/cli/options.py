"""The options that several commands share, and the decorator of commands."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from pyxsim.cli.command_output import CommandOutput
from pyxsim.errors import InputError


def count(text: str, option: str, least: int = 1, most: int = 10**9 - 1) -> int:
    """Return the number of an option. Raises InputError."""
    allowed = f"a whole number from {least} to {most}"
    if not text.isascii() or not text.isdigit():
        raise InputError(f"'{text}' is not a number", key=option, allowed=allowed)
    if len(text) > len(str(most)) or not least <= int(text) <= most:
        raise InputError(f"{text} is out of range", key=option, allowed=allowed)
    return int(text)


def maybe(text: str | None, option: str, least: int = 1, most: int = 10**9 - 1) -> int | None:
    """Return the number of an optional option."""
    return None if text is None else count(text, option, least, most)


def name(value: str | None) -> str | None:
    """Return a file name; refuse an empty one, which an unset shell variable leaves."""
    if value == "":
        raise typer.BadParameter("the name is empty")
    return value


Experiment = Annotated[
    str, typer.Argument(metavar="EXPERIMENT.toml", callback=name, help="The experiment: docs/settings.md.")
]
File = Annotated[
    str | None, typer.Option("-o", metavar="OUT.h5", callback=name, help="Write all results to this HDF5 file.")
]
Plot = Annotated[
    str | None, typer.Option(metavar="OUT.png", callback=name, help="Draw the result as .png, .pdf or .svg.")
]


@dataclass(frozen=True)
class Shared:
    """Values of the shared options; those that a command lacks have their defaults."""

    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Override a setting, such as network.router.vcs=8. Repeatable."
        ),
    ] = None
    backend: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="The network model, such as packet, analytical or flow; see `pyxsim list backends`."
        ),
    ] = "packet"
    workers: Annotated[
        str | None, typer.Option(metavar="N", help="Worker processes; by default one per processor.")
    ] = None
    library: Annotated[
        list[str] | None,
        typer.Option("--library", metavar="DIR", help="A folder with shelves of your own. Repeatable."),
    ] = None
    allow_deadlock: Annotated[
        bool, typer.Option("--allow-deadlock", help="Run routes that can deadlock; the run ends when they do.")
    ] = False
    allow_oom: Annotated[
        bool, typer.Option("--allow-oom", help="Run a model that needs more memory than an NPU has, with a warning.")
    ] = False
    no_skip: Annotated[
        bool, typer.Option("--no-skip", help="Simulate every cycle, even of periodic traffic; the result is the same.")
    ] = False
    threads: Annotated[
        str | None,
        typer.Option("--threads", metavar="N|auto", help="Threads that simulate one network, with the same result."),
    ] = None
    mpi: Annotated[
        bool,
        typer.Option("--mpi", help="Let the ranks of `mpiexec` simulate one network together, with the same result."),
    ] = False
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help='Write OUT.h5.checkpoint at this interval, such as "60 s"; `pyxsim resume` continues from it.',
        ),
    ] = None
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False

    @property
    def libraries(self) -> Sequence[str]:
        """The folders of `--library`."""
        return self.library or ()

    @property
    def worker_count(self) -> int | None:
        """The number of `--workers`, or None. Raises InputError."""
        return maybe(self.workers, "--workers")

    @property
    def overrides(self) -> list[str]:
        """The overrides of --set, --no-skip, --allow-oom, --threads, --mpi and --checkpoint. Raises InputError."""
        if self.threads is not None and self.threads != "auto":
            from pyxsim.settings.run import MOST_THREADS

            if not (self.threads.isascii() and self.threads.isdecimal() and 1 <= int(self.threads) <= MOST_THREADS):
                allowed = f"auto, or a whole number from 1 to {MOST_THREADS}"
                raise InputError(f"'{self.threads}' is not a number of threads", key="--threads", allowed=allowed)
        if self.checkpoint is not None:
            from pyxsim.settings.run import interval

            try:
                interval(self.checkpoint)
            except InputError as error:
                raise error.at(key="--checkpoint") from None
        flags = {"run.skip=false": self.no_skip, "run.allow_oom=true": self.allow_oom, "run.mpi=true": self.mpi}
        values = {"run.threads": self.threads, "run.checkpoint": self.checkpoint}
        return [
            *(self.settings or ()),
            *(override for override, is_set in flags.items() if is_set),
            *(f"{key}={value}" for key, value in values.items() if value is not None),
        ]

    @property
    def simulation(self) -> dict[str, Any]:
        """The arguments of the functions that simulate."""
        return {"overrides": self.overrides, "libraries": self.libraries, "allow_deadlock": self.allow_deadlock}


class Command:
    """A command for typer: the options of a function, then shared ones, whose values come as a `Shared`."""

    def __init__(self, function: Callable[..., None], shared: str) -> None:
        self.function, self.shared = function, shared.split()
        self.__name__, self.__doc__, self.__annotations__ = function.__name__, function.__doc__, {}

    @property
    def __signature__(self) -> inspect.Signature:
        """Evaluated when typer builds this command, and not for every command."""
        own = list(inspect.signature(self.function, eval_str=True).parameters.values())[2:]
        shared = inspect.signature(Shared, eval_str=True).parameters
        return inspect.Signature([*own, *(shared[name] for name in self.shared)])

    def __call__(self, **values: Any) -> None:
        shared = Shared(**{name: values.pop(name) for name in self.shared})
        with CommandOutput(json=shared.json, quiet=shared.quiet) as out:
            self.function(out, shared, **values)


def command(app: typer.Typer, shared: str, **options: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function `(out, shared, ...)` as a command with these shared options; `options` as of typer."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        app.command(**options)(Command(function, shared))
        return function

    return register
