"""Generate the options of all commands as Markdown, from their definitions.

docs/commands.md has them between marks; `python -m pyxsim.cli.page docs/commands.md` updates the page.
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

# Options that at least this many commands share, with the same help, are listed once.
COMMON = 3
EVERYWHERE = "all"
TABLE = re.compile(r"<!-- options of ([\w ]+): written by pyxsim\.cli\.page -->\n.*?<!-- end -->", re.DOTALL)


@cache
def commands() -> dict[str, Any]:
    """Return all commands by name ("workload show"), in the order of the help."""
    return dict(_within("", typer.main.get_command(app)))


def _within(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    for name, inner in getattr(command, "commands", {}).items():
        name_path = f"{path} {name}".strip()
        if hasattr(inner, "commands"):
            yield from _within(name_path, inner)
        else:
            yield name_path, inner


def row(parameter: Any) -> tuple[str, str]:
    """Return the syntax of a parameter, and its help with the default."""
    metavar = parameter.metavar or ("" if getattr(parameter, "is_flag", False) else parameter.type.name.upper())
    written = ", ".join(_code(f"{name} {metavar}".strip()) for name in names(parameter) or [""])
    given = parameter.default if isinstance(parameter.default, str | int | float) else None
    default = "" if given in (None, False, "") else f" Default: `{given}`."
    text = linked(f"{parameter.help or ''}{default}")
    return written, text.replace("|", "&#124;")


def _code(text: str) -> str:
    """Code in a cell of a table; Markdown dialects differ in how they escape a bar."""
    return f"<code>{text.replace('|', '&#124;')}</code>" if "|" in text else f"`{text}`"


def names(parameter: Any) -> list[str]:
    """Return the names of an option, the long one last; an argument has none."""
    return sorted(parameter.opts, key=len) if parameter.param_type_name == "option" else []


def table(name: str) -> str:
    """Return the options of one command as Markdown, or with `all` the shared ones."""
    options = [p for command in commands().values() for p in command.params if names(p)]
    counts = Counter(row(parameter) for parameter in options)
    common = [option for option, uses in counts.items() if uses >= COMMON]
    if name == EVERYWHERE:
        return _markdown(common)
    params = commands()[name].params
    also = ", ".join(f"`{names(p)[-1]}`" for p in params if row(p) in common)
    text = _markdown([row(p) for p in params if row(p) not in common])
    return "\n\n".join(part for part in (text, also and f"[Shared options](#shared-options): {also}.") if part)


def _markdown(rows: Sequence[tuple[str, str]]) -> str:
    lines = [f"| {written} | {help_text} |" for written, help_text in rows]
    return "\n".join(["| option | |", "|---|---|", *lines]) if lines else ""


def updated(page: str) -> str:
    """Return a page with updated tables."""

    def update(match: re.Match[str]) -> str:
        first, _, _ = match[0].partition("\n")
        return f"{first}\n\n{table(match[1])}\n\n<!-- end -->"

    return TABLE.sub(update, page)


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(updated(file.read_text(encoding="utf-8")), encoding="utf-8")
