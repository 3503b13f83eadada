"""Mistakes in the command line itself, told like every other fault of an input: one line, with the closest match."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from pyxsim.errors import InputError

# Not exported under one name by all versions of typer; the base of BadParameter in each of them.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


class Commands(TyperGroup):
    """The group of all commands; an unknown one is our own kind of fault."""

    def resolve_command(self, ctx: Any, args: Sequence[str]) -> Any:
        name = args[0]
        if not name.startswith("-") and name not in self.commands:
            raise InputError(f"unknown command '{name}'", allowed=list(self.commands), given=name)
        return super().resolve_command(ctx, list(args))


def usage_fault(error: Any) -> InputError:
    """A usage error of typer as an InputError that names the command."""
    context = getattr(error, "ctx", None)
    place = context.command_path.removeprefix("pyxsim").strip() if context is not None else ""
    option = getattr(error, "option_name", None)
    if type(error).__name__ == "NoSuchOption" and context is not None:
        words = [name for parameter in context.command.params for name in parameter.opts if name.startswith("-")]
        return InputError(f"unknown option '{option}'", key=place or None, allowed=[*words, "--help"], given=option)
    text = " ".join(error.format_message().split()).rstrip(".")
    help_of = " ".join(["pyxsim", place, "--help"]).replace("  ", " ")
    return InputError(f"{text[:1].lower()}{text[1:]}; '{help_of}' tells more", key=place or None)
