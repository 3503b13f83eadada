"""Panels of the resolved settings and of the provenance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyxsim.plugins import backends
from pyxsim.reports.html.elements import Detail, Panel, html_panel
from pyxsim.reports.text.facts import plural
from pyxsim.reports.text.text_table import Sheet
from pyxsim.results.provenance import settings_sha256
from pyxsim.results.result import Result

MOST_LETTERS = 120_000  # of settings


@html_panel("settings", section="settings")
def settings_and_provenance(result: Result, detail: Detail) -> list[Panel]:
    """The settings with all defaults, and the provenance of a result."""
    return [settings(result.experiment_toml), provenance(result)]


def settings(toml: str) -> Panel:
    """Return the resolved settings, folded."""
    text, notes = toml, []
    if len(toml) > MOST_LETTERS:
        text = toml[:MOST_LETTERS]
        notes.append(
            f"Shortened to the first {MOST_LETTERS:,} of {plural(len(toml), 'character')}; the file has all of them."
        )
    what = "The resolved experiment with all settings, including defaults, as an experiment file."
    if not toml:
        what = "The file has no settings."
    return Panel("Settings", what, preformatted=text, notes=notes, folded=bool(toml))


def provenance(result: Result) -> Panel:
    """Return which pyxsim computed the result, and how to reproduce it."""
    rows = [
        ["again", command(result)],
        ["sha256 of the settings", settings_sha256(result.experiment_toml)],
        ["seed", str(result.seed)],
        ["backend", result.backend],
        *known(result.provenance),
    ]
    text = "The settings above, saved as settings.toml, give the same result with the same version."
    if not _ships(result.backend):
        text += f" The backend '{result.backend}' does not ship with pyxsim: DIR is the library folder that has it."
    return Panel("Provenance", text, sheet=Sheet(("", "value"), rows, ("value",)))


def command(result: Result) -> str:
    """Return the command that reproduces a result."""
    backend = "" if result.backend == "packet" else f" --backend {result.backend}"
    library = "" if _ships(result.backend) else " --library DIR"
    return f"pyxsim run settings.toml{backend}{library} -o out.h5"


def _ships(backend: str) -> bool:
    return backend in backends and backends.entry(backend).module.startswith("pyxsim.")


def known(record: Mapping[str, Any]) -> list[list[str]]:
    """Return the rows of a provenance; `source` repeats `version`."""
    return [[name, str(value)] for name, value in record.items() if name != "source"]
