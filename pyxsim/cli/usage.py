"""Faults of the command line, reported as all others: one line, the allowed values, the closest match."""

from __future__ import annotations

import copy
import functools
import re
import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.models import TyperInfo

from pyxsim.errors import InputError, closest

# Versions of typer export it under different names; it is the base of BadParameter.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]
NUMBER = re.compile("number|float|integer")  # in messages of typer about numbers
RESULTS = "for results, `pyxsim diff A.h5 B.h5` (to the bit) or `pyxsim report A.h5 B.h5` (side by side)"


def command_line(app: typer.Typer, words: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code. Raises InputError for an invalid one.

    Only the command that the words begin with is built, if they do: building all of them takes typer 50 ms.
    """
    line = sys.argv[1:] if words is None else words
    first = next(iter(line), "")
    command = _made(app, first if first in map(_name_of, app.registered_commands) else None)
    try:
        code = command.main(args=words, prog_name="pyxsim", standalone_mode=False)
    except UsageError as error:
        raise usage_fault(error, command, line) from None
    except typer.Abort:  # Ctrl-C before a command took over, as some versions of typer say it
        raise KeyboardInterrupt from None
    return code if isinstance(code, int) else 0


@functools.cache
def _made(app: typer.Typer, name: str | None) -> Any:
    if name is None:
        return typer.main.get_command(app)
    alone = copy.copy(app)
    alone.registered_commands = [info for info in app.registered_commands if _name_of(info) == name]
    alone.registered_groups = []
    alone.registered_callback = TyperInfo()  # a group all the same, without the options of `pyxsim` itself
    return typer.main.get_command(alone)


def _name_of(info: Any) -> str:
    return str(info.name or info.callback.__name__)


def usage_fault(error: Any, command: Any, words: Sequence[str]) -> InputError:
    """Return a usage error of typer as an InputError that names the command of these words."""
    place, command = _meant(command, words)
    key, kind = place or None, type(error).__name__
    unknown = re.match(r"No such command '(.*?)'", str(error.message))
    if unknown is not None and unknown[1].endswith(".toml") and "run" in command.commands:
        return InputError(
            f"unknown command '{unknown[1]}'", allowed=f"pyxsim COMMAND; to run a file: pyxsim run {unknown[1]}"
        )
    if unknown is not None:
        return InputError(f"unknown command '{unknown[1]}'", allowed=list(command.commands), given=unknown[1])
    option = getattr(error, "option_name", None)
    if kind == "NoSuchOption":
        known = [name for parameter in command.params for name in parameter.opts if name.startswith("-")]
        return InputError(f"unknown option '{option}'", key=key, allowed=[*known, "--help"], given=option)
    if kind == "MissingParameter" and error.param is not None:
        return InputError(f"{_written(error.param)} is missing", key=key, allowed=synopsis(place, command))
    if kind == "BadOptionUsage":
        return _option_fault(error, key, command, str(option))
    if kind == "BadParameter" and error.param is not None:
        return _value_fault(error, key)
    extra = re.search(r"extra arguments?(?:\(s\))? \((.*)\)$", str(error.message))
    if extra is not None:
        return _extra_fault((extra[1].split() or [extra[1]])[0], place, command)
    text = " ".join(error.format_message().split()).rstrip(".")
    return InputError(f"{text[:1].lower()}{text[1:]}", key=key, allowed=synopsis(place, command))


def synopsis(place: str, command: Any) -> str:
    """Return the synopsis of a command: "pyxsim sweep X.toml -o DIR [...]"."""
    parts = ["pyxsim", *([place] if place else [])]
    for parameter in sorted(command.params, key=lambda each: not _is_argument(each)):
        text = _written(parameter)
        if parameter.required:
            parts.append(text)
        elif _is_argument(parameter):
            parts.append(text if text.startswith("[") else f"[{text}]")
    tail = ["COMMAND"] if hasattr(command, "commands") else []
    return f"`{' '.join([*parts, *tail, '[OPTIONS]'])}`; `{' '.join(parts[: 2 if place else 1])} --help` lists them"


def _meant(command: Any, words: Sequence[str]) -> tuple[str, Any]:
    """The innermost command that these words select."""
    place = []
    for word in words:
        inner = getattr(command, "commands", {})
        if word in inner:
            place.append(word)
            command = inner[word]
    return " ".join(place), command


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _written(parameter: Any) -> str:
    """A parameter as in the help: "EXPERIMENT.toml", "-o DIR"."""
    metavar = parameter.metavar or ""
    return metavar if _is_argument(parameter) else f"{parameter.opts[0]} {metavar}".strip()


def _option_fault(error: Any, key: str | None, command: Any, option: str) -> InputError:
    """The fault of an option with a missing or superfluous value."""
    known = next((param for param in command.params if option in (*param.opts, *param.secondary_opts)), None)
    written = option if known is None else _written(known)
    if "take a value" in str(error.message):
        return InputError("the option takes no value", key=" ".join(filter(None, (key, option))), allowed=option)
    what = "values are missing" if re.search(r"requires [2-9]", str(error.message)) else "the value is missing"
    return InputError(what, key=" ".join(filter(None, (key, option))), allowed=written)


def _value_fault(error: Any, key: str | None) -> InputError:
    """The fault of an invalid value: the message of its check, or that it is not a number."""
    problem = " ".join(str(error.message).split()).rstrip(".")
    number = NUMBER.search(problem) is not None
    name = error.param.metavar if _is_argument(error.param) else error.param.opts[0]
    place = " ".join(filter(None, (key, name)))
    return InputError("is not a number", key=place, allowed="a number") if number else InputError(problem, key=place)


def _extra_fault(word: str, place: str, command: Any) -> InputError:
    """The fault of a superfluous argument, which may be an option without dashes or a setting."""
    options = [name for parameter in command.params for name in parameter.opts if name.startswith("--")]
    allowed = synopsis(place, command)
    if "=" in word and "--set" in options:
        allowed += f"; did you mean '--set {word}'?"
    elif place == "compare" and word.endswith(".h5"):
        allowed += f"; {RESULTS}"
    else:
        allowed += closest(word, options)
    return InputError(f"unexpected argument '{word}'", key=place or None, allowed=allowed)
