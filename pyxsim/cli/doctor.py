"""`pyxsim doctor`: check this installation."""

from __future__ import annotations

import typer

from pyxsim import __version__
from pyxsim.cli.command_output import CommandOutput
from pyxsim.study.installation import Diagnosis, doctor

_MARKS = {True: ("good", "green"), False: ("BROKEN", "bold red"), None: ("-", "dim")}


def examine(out: CommandOutput) -> None:
    """Run `pyxsim doctor`; exit with code 1 if something is broken."""
    findings = doctor()
    works = all(finding.ok is not False for finding in findings)
    _show(out, findings, works)
    out.put({"ok": works, "version": __version__, "findings": [finding._asdict() for finding in findings]})
    if not works:
        raise typer.Exit(1)


def _show(out: CommandOutput, findings: list[Diagnosis], works: bool) -> None:
    if out.silent:
        return
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        mark, style = _MARKS[finding.ok]
        table.add_row(Text(mark, style=style), finding.name, Text(finding.text))
    out.say(table, "", "all good" if works else "some checks failed; see above")
