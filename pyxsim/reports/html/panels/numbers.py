"""All facts of a result as a table, and its warnings."""

from __future__ import annotations

from collections.abc import Sequence

from pyxsim.reports.html.elements import Detail, Panel, cut, html_panel
from pyxsim.reports.text import flow_facts, memory_facts, serving_facts, workload_tables
from pyxsim.reports.text.facts import facts
from pyxsim.reports.text.text_table import Sheet
from pyxsim.reports.text.traffic_facts import traffic_facts
from pyxsim.results.result import Result

MOST_WARNINGS = 30
LONGEST = 1000  # characters of a warning


@html_panel("numbers", section="numbers")
def numbers(result: Result, detail: Detail) -> list[Panel]:
    """The facts of the summary, and warnings."""
    of_work = [*workload_tables.facts(result), *serving_facts.facts(result), *memory_facts.facts(result)]
    lines = [*traffic_facts(result), *of_work, *flow_facts.facts(result), *facts(result)]
    rows = [[fact.label, fact.value, fact.note] for fact in lines]
    panels = [Panel("Summary", sheet=Sheet(("", "value", "note"), rows, ("note",)))]
    if result.warnings:
        panels.append(_warnings(result.warnings))
    return panels


def _warnings(texts: Sequence[str]) -> Panel:
    rows = [[cut(text, LONGEST)] for text in texts[:MOST_WARNINGS]]
    more = len(texts) - MOST_WARNINGS
    notes = [f"Shortened: {more} more are in the file."] if more > 0 else []
    return Panel("Warnings", sheet=Sheet(("warning",), rows), notes=notes)
