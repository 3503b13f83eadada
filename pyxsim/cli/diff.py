"""`pyxsim diff`: whether two files hold the same to the bit."""

from __future__ import annotations

from typing import Any

import typer

from pyxsim.cli.command_output import CommandOutput
from pyxsim.reports.text.facts import plural
from pyxsim.reports.text.text_table import Sheet
from pyxsim.reports.text.text_width import bound
from pyxsim.results.diff import Diff, Difference, diff

DIFFERENT = 3
"""The exit code where something differs: a claim that does not hold, as in `validate`."""
MOST_ROWS = 20  # on a terminal; files and --json have all of them
LONGEST = 25  # letters of a value


def show_diff(out: CommandOutput, first: str, second: str) -> None:
    """`pyxsim diff`. Ends with DIFFERENT where something differs that is no matter of how it ran."""
    found = diff(first, second)
    out.put(found.json())
    width = bound(out.console)
    most = MOST_ROWS if width is not None else None
    out.say(said(found))
    if found.differences:
        out.say("", _differences(found).rich(most, width))
    if found.apart:
        out.say("", _apart(found).rich(most, width))
    if not found.equal:
        raise typer.Exit(DIFFERENT)


def said(found: Diff) -> str:
    """What was found in a line."""
    seen = f"{plural(found.datasets, 'dataset')} and {plural(found.attributes, 'attribute')}"
    first, second = found.names
    if found.equal:
        return f"equal to the bit: {first} and {second}, {seen}"
    return f"{first} and {second} differ: {plural(len(found.differences), 'difference')} in {seen}"


def _differences(found: Diff) -> Sheet:
    head = ("differs", "in", "shape", "places", "first at", "first", "second", "largest difference")
    return Sheet(head, [_row(each) for each in found.differences])


def _row(each: Difference) -> tuple[str, ...]:
    shape, at = " x ".join(map(str, each.shape)) or "-", ", ".join(map(str, each.at)) or "-"
    largest = "-" if each.largest is None else f"{each.largest:.6g}"
    return (each.name, each.what, shape, f"{each.places:,}", at, _short(each.first), _short(each.second), largest)


def _apart(found: Diff) -> Sheet:
    """What is bound to differ, so that it is seen what was compared."""
    head = ("only how it ran", "first", "second")
    return Sheet(head, [(name, _short(one), _short(other)) for name, one, other in found.apart])


def _short(value: Any) -> str:
    text = "-" if value is None else str(value).lower() if isinstance(value, bool) else " ".join(str(value).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
