"""`pyxsim validate`: run the cases of docs/validation.md and update that page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyxsim.cli.command_output import CommandOutput
from pyxsim.errors import InputError, SimulationError
from pyxsim.paths import make_folder

if TYPE_CHECKING:
    from validation import Case, Outcome

PICTURES = "results/validation"
RESULT = "results.json"
MOST_WORKERS = 1024


def validate(
    out: CommandOutput,
    names: Sequence[str],
    *,
    workers: int | None = None,
    folder: str | None = None,
    list_only: bool = False,
    write: str | None = None,
) -> None:
    """Run cases; raise SimulationError unless all of them hold."""
    from validation import find, run_cases
    from validation.page import to_json
    from validation.page import write as write_page
    from validation.runner import most_workers

    cases = find(names)
    if list_only:
        _list(out, cases)
        return
    if write is not None and names:
        raise InputError("the page is about all cases", key="--write", allowed="no names with --write")
    if write is not None and not Path(write).is_file():
        raise InputError("no such page", file=write, key="--write", allowed="docs/validation.md of the source tree")
    if workers is not None and not 1 <= workers <= MOST_WORKERS:
        raise InputError(f"{workers} processes", key="--workers", allowed=f"from 1 to {MOST_WORKERS}")
    target = _folder(folder or PICTURES)
    seen: list[Outcome] = []

    def tick(outcome: Outcome) -> None:
        seen.append(outcome)
        out.say(_line(outcome, f"{len(seen)}/{len(cases)}"))

    outcomes = run_cases(cases, workers=workers or most_workers(), pictures=target, tick=tick)
    data = to_json(outcomes)
    (target / RESULT).write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if write is not None:
        write_page(Path(write), outcomes)
    bad = [outcome for outcome in outcomes if not outcome.holds]
    out.put({**data, "pictures": str(target)})
    out.say(f"{len(outcomes) - len(bad)} of {len(outcomes)} cases hold; pictures and numbers: {target}")
    if bad:
        raise SimulationError(f"{len(bad)} cases do not hold: {', '.join(outcome.name for outcome in bad)}")


def _folder(name: str) -> Path:
    path = Path(name)
    try:
        if name == PICTURES:
            make_folder(path.parent)  # the default folder
        make_folder(path)
    except InputError as error:
        raise error.at(key="-o") from None
    return path


def _line(outcome: Outcome, place: str) -> str:
    from validation.draw import number

    found = outcome.error or f"{number(outcome.measured)} {outcome.unit} (at most {number(outcome.bound)})"
    return f"{place:>9}  {outcome.verdict:5}  {outcome.name}: {found}"


def _list(out: CommandOutput, cases: Sequence[Case]) -> None:
    def told(case: Case) -> dict[str, Any]:
        return {key: getattr(case, key) for key in ("name", "claim", "source", "bound", "unit")}

    out.put({"cases": [told(case) for case in cases]})
    before = ""
    for case in cases:
        if case.claim != before:
            out.say(f"{case.claim} ({case.source})")
            before = case.claim
        out.say(f"  {case.name}")
