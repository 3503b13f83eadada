"""The options of all commands as Markdown, from the commands themselves: the page says what `--help` says.

docs/commands.md holds them between marks; `python -m pyxsim.cli.page docs/commands.md` brings the page up to date.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import typer

from pyxsim.cli.commands import app
from pyxsim.settings.page import linked

# Options that at least so many commands share, with the same help, are listed once.
COMMON = 3
EVERYWHERE = "all"
TABLE = re.compile(r"<!-- options of ([\w ]+): written by pyxsim\.cli\.page -->\n.*?<!-- end -->", re.DOTALL)


@cache
def commands() -> dict[str, Any]:
    """Every command by its words, in the order of the help."""
    return dict(_within("", typer.main.get_command(app)))


def _within(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    for name, inner in getattr(command, "commands", {}).items():
        words = f"{path} {name}".strip()
        if hasattr(inner, "commands"):
            yield from _within(words, inner)
        else:
            yield words, inner


def row(parameter: Any) -> tuple[str, str]:
    """How a parameter is written, and what it says."""
    metavar = parameter.metavar or ("" if getattr(parameter, "is_flag", False) else parameter.type.name.upper())
    written = ", ".join(_code(f"{name} {metavar}".strip()) for name in names(parameter) or [""])
    given = parameter.default if isinstance(parameter.default, str | int | float) else None
    default = "" if given in (None, False, "") else f" Default: `{given}`."
    said = linked(f"{parameter.help or ''}{default}")
    return written, said.replace("|", "&#124;")


def _code(text: str) -> str:
    """As code in a cell, where Markdowns differ on what a bar is."""
    return f"<code>{text.replace('|', '&#124;')}</code>" if "|" in text else f"`{text}`"


def names(parameter: Any) -> list[str]:
    """The names of an option, the long one last; none of an argument, which is known by its place."""
    return sorted(parameter.opts, key=len) if parameter.param_type_name == "option" else []


def table(name: str) -> str:
    """The options of one command as Markdown, or with `all` those that many have."""
    options = [p for command in commands().values() for p in command.params if names(p)]
    often = Counter(row(parameter) for parameter in options)
    common = [each for each, count in often.items() if count >= COMMON]
    if name == EVERYWHERE:
        return _markdown(common)
    mine = commands()[name].params
    also = ", ".join(f"`{names(p)[-1]}`" for p in mine if row(p) in common)
    text = _markdown([row(p) for p in mine if row(p) not in common])
    return "\n\n".join(part for part in (text, also and f"[Options of many](#options-of-many): {also}.") if part)


def _markdown(rows: Sequence[tuple[str, str]]) -> str:
    lines = [f"| {written} | {said} |" for written, said in rows]
    return "\n".join(["| option | |", "|---|---|", *lines]) if lines else ""


def renewed(page: str) -> str:
    """A page with all its tables as they are now."""

    def renew(match: re.Match[str]) -> str:
        first, _, _ = match[0].partition("\n")
        return f"{first}\n\n{table(match[1])}\n\n<!-- end -->"

    return TABLE.sub(renew, page)


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(renewed(file.read_text(encoding="utf-8")), encoding="utf-8")
