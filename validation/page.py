"""docs/validation.md: prose by hand, and between marks the tables of the last full run (docs/validation.json)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyxsim import __version__
from pyxsim.errors import InputError
from validation.case import Outcome
from validation.catalogue import FAMILIES, Family
from validation.draw import number

BEGIN, END = "<!-- cases: {} -->", "<!-- end -->"
_MARKED = re.compile(r"<!-- cases: ([\w-]+) -->\n.*?<!-- end -->", re.DOTALL)


def to_json(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The stored form of a run."""
    return {
        "version": __version__,
        "holds": all(outcome.holds for outcome in outcomes),
        "cases": [outcome.json() for outcome in outcomes],
    }


def read_outcomes(path: Path) -> list[Outcome]:
    """Read the outcomes of a file."""
    return [Outcome.from_json(case) for case in json.loads(path.read_text(encoding="utf-8"))["cases"]]


def write(page: Path, outcomes: Sequence[Outcome]) -> None:
    """Update the page and the JSON next to it. Raises InputError for a page without marks."""
    text = render(page.read_text(encoding="utf-8"), outcomes)
    data = json.dumps(to_json(outcomes), indent=1, ensure_ascii=False)
    page.with_suffix(".json").write_text(data + "\n", encoding="utf-8")
    page.write_text(text, encoding="utf-8")


def render(text: str, outcomes: Sequence[Outcome]) -> str:
    """The page with the tables of these outcomes between its marks."""
    names = {family.name: family for family in FAMILIES}
    marked = _MARKED.findall(text)
    missing = [name for name in names if name not in marked]
    unknown = [name for name in marked if name not in names and name != "all"]
    if missing or unknown:
        raise InputError(
            f"the page has no place for {', '.join(missing) or 'nothing'}, and one for unknown {', '.join(unknown)}",
            allowed=f"{BEGIN.format('FAMILY')} .. {END} once for each family",
        )

    def table(match: re.Match[str]) -> str:
        mine = [outcome for outcome in outcomes if match[1] in ("all", outcome.family)]
        lines = summary(mine) if match[1] == "all" else family_table(names[match[1]], mine)
        return "\n".join([BEGIN.format(match[1]), *lines, END])

    return _MARKED.sub(table, text)


def summary(outcomes: Sequence[Outcome]) -> list[str]:
    """Count the cases that hold, by family."""
    lines = ["| family | what | cases | hold | seconds |", "|---|---|---|---|---|"]
    for family in FAMILIES:
        mine = [outcome for outcome in outcomes if outcome.family == family.name]
        seconds = sum(outcome.seconds for outcome in mine)
        good = sum(outcome.holds for outcome in mine)
        lines.append(f"| `{family.name}` | {family.title} | {len(mine)} | {good} | {seconds:.0f} |")
    return lines


def family_table(family: Family, outcomes: Sequence[Outcome]) -> list[str]:
    """One row for each case; claims that several share stand above the table, once."""
    claims: dict[tuple[str, str], list[str]] = {}
    for outcome in outcomes:
        claims.setdefault((outcome.claim, outcome.source), []).append(outcome.name)
    lines = []
    for (claim, source), names in claims.items():
        which = "" if len(claims) == 1 else f" ({_several(names)})"
        lines.append(f"- {claim}{which}. Source: {source}.")
    head = ["case", *family.columns, "measured", "bound", "verdict"]
    lines += ["", _row(head), "|" + "---|" * len(head)]
    for outcome in outcomes:
        measured = outcome.error or f"{number(outcome.measured)} {outcome.unit}"
        cells = [outcome.cells.get(column, "") for column in family.columns]
        verdict = f"{outcome.verdict}; {outcome.note}" if outcome.note else outcome.verdict
        lines.append(_row([f"`{_short(outcome)}`", *cells, measured, number(outcome.bound), verdict]))
    return lines


def _several(names: Sequence[str]) -> str:
    short = [f"`{name.partition('/')[2]}`" for name in names]
    return ", ".join(short) if len(short) <= 4 else f"{short[0]} and {len(short) - 1} more"


def _short(outcome: Outcome) -> str:
    return outcome.name.partition("/")[2]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"
