"""`pyxsim search`: look for the best design in a space, and show it."""

from __future__ import annotations

import time
from typing import Any

from pyxsim.cli.command_output import CommandOutput
from pyxsim.reports.text.search_text import point_sheet, sensitivity_sheet, summary_lines
from pyxsim.reports.text.text_width import bound
from pyxsim.results.search import CSV, HDF5, SEARCH
from pyxsim.study.search import SearchStanding, search

MOST_ROWS = 12  # points on a terminal
SILENCE = 10.0  # seconds between two lines of progress


def show_search(out: CommandOutput, path: str, folder: str, **options: Any) -> None:
    """Run `pyxsim search`. `options`: as for `pyxsim.search`."""
    last = time.monotonic()

    def watch(standing: SearchStanding) -> None:
        nonlocal last
        if not out.silent and time.monotonic() - last >= SILENCE:
            last = time.monotonic()
            out.say(standing.line)

    try:
        found = search(path, folder, **options, progress=watch)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"{folder} contains the evaluations so far; the same command resumes the search"
        ) from None
    out.put(found.json())
    width = bound(out.console)
    out.say(found.title, *summary_lines(found), "", point_sheet(found).rich(MOST_ROWS, width))
    if found.sensitivities:
        out.say("", sensitivity_sheet(found).rich(MOST_ROWS, width))
    out.say("", f"wrote {', '.join(f'{folder}/{name}' for name in (CSV, HDF5, SEARCH))}")
