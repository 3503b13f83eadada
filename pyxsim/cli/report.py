"""`pyxsim report`: one page in HTML of results."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from pyxsim import library
from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.faults import all_or_faults
from pyxsim.reports.files import check_outputs
from pyxsim.reports.html import chapters, check_page, save


def make_report(out: CommandOutput, paths: Sequence[str], file: str | None, libraries: Iterable[str] = ()) -> None:
    """`pyxsim report`. What is drawn of a network, its topology says, which may be in a library of the user."""
    library.load_all(libraries)
    target = file if file is not None else beside(paths)
    *_, found = all_or_faults(lambda: check_outputs([(target, check_page)], paths), lambda: chapters(paths))
    save(found, target)
    size = os.path.getsize(target)
    out.put({"report": target, "bytes": size, "chapters": [each.title for each in found]})
    out.say(f"wrote {target} ({size / 1e6:.1f} MB): open it in a browser")


def beside(paths: Sequence[str]) -> str:
    """Where a page goes if nobody says: beside a single file under its name, else report.html here."""
    if len(paths) > 1:
        return "report.html"
    (path,) = paths
    return os.path.join(path, "report.html") if os.path.isdir(path) else str(Path(path).with_suffix(".html"))
