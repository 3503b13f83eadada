"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from pyxsim.errors import InputError


def overriding(
    settings: list[str] | None,
    no_skip: bool,
    threads: str | None,
    checkpoint: str | None = None,
    *,
    allow_oom: bool = False,
) -> list[str]:
    """Return the overrides of --set, --no-skip, --threads, --checkpoint and --allow-oom. Raises InputError."""
    if threads is not None and threads != "auto":
        from pyxsim.settings.run import MOST_THREADS

        if not (threads.isascii() and threads.isdecimal() and 1 <= int(threads) <= MOST_THREADS):
            allowed = f"auto, or a whole number from 1 to {MOST_THREADS}"
            raise InputError(f"'{threads}' is not a number of threads", key="--threads", allowed=allowed)
    if checkpoint is not None:
        from pyxsim.settings.run import interval

        try:
            interval(checkpoint)
        except InputError as error:
            raise error.at(key="--checkpoint") from None
    flags = [*(["run.skip=false"] if no_skip else []), *(["run.allow_oom=true"] if allow_oom else [])]
    options = {"run.threads": threads, "run.checkpoint": checkpoint}
    return [*(settings or ()), *flags, *(f"{key}={value}" for key, value in options.items() if value is not None)]


def name(value: str | None) -> str | None:
    """Return a file name; refuse an empty one, which an unset shell variable leaves."""
    if value == "":
        raise typer.BadParameter("the name is empty")
    return value


Experiment = Annotated[
    str, typer.Argument(metavar="EXPERIMENT.toml", callback=name, help="The experiment: docs/settings.md.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, and no text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a setting: network.router.vcs=8. Repeatable."),
]
Libraries = Annotated[
    list[str] | None,
    typer.Option("--library", metavar="DIR", help="A folder with shelves of your own. Repeatable."),
]
File = Annotated[
    str | None, typer.Option("-o", metavar="OUT.h5", callback=name, help="Write everything into this HDF5 file.")
]
Plot = Annotated[
    str | None, typer.Option(metavar="OUT.png", callback=name, help="Draw the result; .png, .pdf or .svg.")
]
Backend = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="The network model, such as packet, analytical or flow; see `pyxsim list backends`."
    ),
]
NoSkip = Annotated[
    bool, typer.Option("--no-skip", help="Simulate every cycle, also of periodic traffic: the same result.")
]
Threads = Annotated[
    str | None,
    typer.Option("--threads", metavar="N|auto", help="Threads for one network: the same result."),
]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help='Write OUT.h5.checkpoint at this interval, "60 s"; `pyxsim resume` continues from it.'
    ),
]
AllowDeadlock = Annotated[bool, typer.Option("--allow-deadlock", help="Run routes that can deadlock, until they do.")]
AllowOom = Annotated[
    bool, typer.Option("--allow-oom", help="Run a model that needs more memory than an NPU has, with a warning.")
]
