"""`pyxsim check`: print the proofs and estimates of an experiment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.faults import placed
from pyxsim.errors import InputError, SimulationError
from pyxsim.study.check import CheckReport, check


def show_check(out: CommandOutput, path: str, *, overrides: Iterable[str] = (), **options: Any) -> None:
    """Run `pyxsim check`; `options` as for `pyxsim.check`. Raises the errors of `pyxsim run`."""
    overrides = tuple(overrides)
    try:
        report = check(path, overrides=overrides, **options)
    except InputError as error:
        raise placed(error, path, overrides) from None
    except SimulationError as error:
        if error.report is not None:
            _show(out, error.report)
        raise
    _show(out, report)
    out.put(report.json())


def _show(out: CommandOutput, report: CheckReport) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    last = ""
    for label, text in report.rows:
        table.add_row(label if label != last else "", Text(text))
        last = label
    out.say(table, *(f"warning: {text}" for text in report.warnings), *(f"hint: {text}" for text in report.hints))
