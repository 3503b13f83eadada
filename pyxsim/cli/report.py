"""`pyxsim report`: write an HTML page of results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyxsim.cli.command_output import CommandOutput
from pyxsim.reports.html.write_report import report


def make_report(out: CommandOutput, paths: Sequence[str], file: str | None, libraries: Iterable[str] = ()) -> None:
    """Run `pyxsim report`."""
    written = report(paths, file, libraries=libraries)
    out.put({"report": written.file, "bytes": written.bytes, "chapters": written.chapters})
    out.say(f"wrote {written.file} ({written.bytes / 1e6:.1f} MB): open it in a browser")
