"""`pyxsim diff`: compare two files to the bit."""

from __future__ import annotations

from typing import Any

import typer

from pyxsim.cli.command_output import CommandOutput
from pyxsim.reports.text.facts import plural
from pyxsim.reports.text.text_table import Sheet
from pyxsim.reports.text.text_width import bound
from pyxsim.results.diff import Diff, Difference, diff

DIFFERENT = 3
"""The exit code of files that differ."""
MOST_ROWS = 20  # on a terminal; --json has all
LONGEST = 25  # characters of a value


def show_diff(out: CommandOutput, first: str, second: str) -> None:
    """Run `pyxsim diff`; exit with DIFFERENT if the files differ in more than how they were computed."""
    result = diff(first, second)
    out.put(result.json())
    width = bound(out.console)
    most = MOST_ROWS if width is not None else None
    out.say(verdict(result))
    if result.differences:
        out.say("", _differences(result).rich(most, width))
    if result.apart:
        out.say("", _apart(result).rich(most, width))
    if not result.equal:
        raise typer.Exit(DIFFERENT)


def verdict(result: Diff) -> str:
    """Return the verdict in one line."""
    compared = f"{plural(result.datasets, 'dataset')} and {plural(result.attributes, 'attribute')}"
    first, second = result.names
    if result.equal:
        return f"{first} and {second} are equal to the bit: {compared}"
    return f"{first} and {second} differ: {plural(len(result.differences), 'difference')} in {compared}"


def _differences(result: Diff) -> Sheet:
    head = ("differs", "in", "shape", "places", "first at", "first", "second", "largest difference")
    return Sheet(head, [_row(difference) for difference in result.differences])


def _row(each: Difference) -> tuple[str, ...]:
    shape, at = " x ".join(map(str, each.shape)) or "-", ", ".join(map(str, each.at)) or "-"
    largest = "-" if each.largest is None else f"{each.largest:.6g}"
    return (each.name, each.what, shape, f"{each.places:,}", at, _short(each.first), _short(each.second), largest)


def _apart(result: Diff) -> Sheet:
    """The table of values that describe how the files were computed."""
    head = ("how the result was computed", "first", "second")
    return Sheet(head, [(name, _short(one), _short(other)) for name, one, other in result.apart])


def _short(value: Any) -> str:
    text = "-" if value is None else str(value).lower() if isinstance(value, bool) else " ".join(str(value).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
