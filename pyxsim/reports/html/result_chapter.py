"""The chapter of one result: key figures, and the sections of all registered panels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyxsim.errors import InputError
from pyxsim.library import file_of, used
from pyxsim.registry import Entry
from pyxsim.reports.html import (
    key_findings,
    panels,  # noqa: F401  registers the shipped panels
)
from pyxsim.reports.html.elements import (
    LAST_SECTIONS,
    SECTIONS,
    Chapter,
    Detail,
    Panel,
    PanelFunction,
    Section,
    cut,
    html_panels,
)
from pyxsim.reports.text.facts import Fact, facts, percent, rounded
from pyxsim.reports.text.summary import FAILED, INCOMPLETE
from pyxsim.reports.text.traffic_facts import number, traffic_facts
from pyxsim.results.result import Result
from pyxsim.settings.types import shown

MOST_CARDS = 5
LONGEST = 1000  # letters of a warning


def chapter(result: Result, name: str) -> Chapter:
    """Return the chapter of a result."""
    alarms = []
    if not result.complete:
        alarms.append(FAILED if result.failure else INCOMPLETE)
    if result.failure:
        alarms.append(cut(result.failure, LONGEST))
    return Chapter(
        result.title or name,
        f"pyxsim {result.provenance.get('version', '')}, {result.backend}, seed {result.seed}",
        cards(result),
        lambda detail: sections(result, detail),
        lead=[*key_findings.sentences(result), *(f"Hint: {hint}" for hint in result.hints)],
        alarms=alarms,
        files=[name],
    )


def cards(result: Result) -> list[Fact]:
    """Return the key figures at the top, most important first."""
    facts_shown = []
    time, *_ = facts(result)
    if result.is_background:
        facts_shown.append(time)
    if result.traffic is not None:
        facts_shown += traffic_facts(result)[:1]
        summary = result.traffic.summary
        state = "saturated" if summary.get("saturated") else "sustained"
        note = f"of {number(summary['offered_load'])}: {state}"
        facts_shown.append(Fact("accepted load", number(summary["accepted_load"]), note))
    if not result.is_background:
        facts_shown.append(time)
    if result.lower_bound_ns and result.ratio is not None and result.complete:
        bound = next(fact for fact in facts(result) if fact.label == "lower bound")
        facts_shown.append(Fact("of the lower bound", f"{result.ratio:.3f} x", f"the lower bound is {bound.value}"))
    if rates := result.rates:
        facts_shown.append(
            Fact("bus bandwidth", rounded(rates.bus, "B/s"), f"algorithm {rounded(rates.algorithm, 'B/s')}")
        )
    if result.work is not None:
        end = max(1, result.time_cycles)
        shares = {name: result.work.extremes(name)["mean"] / end for name in ("compute", "exposed")}
        facts_shown.append(Fact("computing", percent(shares["compute"]), "of the time, mean over the NPUs"))
        facts_shown.append(Fact("exposed", percent(shares["exposed"]), "exposed communication"))
    if result.has_link_counters:
        use = result.link_utilization
        facts_shown.append(Fact("links busy", percent(float(use.mean())), f"busiest link {percent(float(use.max()))}"))
    return facts_shown[:MOST_CARDS]


def sections(result: Result, detail: Detail) -> Iterator[Section]:
    """Make the sections of the page of a result; those without panels are left out."""
    shipped_first = sorted(html_panels.entries, key=lambda entry: not entry.module.startswith("pyxsim."))
    entries = [entry for entry in shipped_first if used(entry) and entry.info["applies"](result)]
    new = dict.fromkeys(section for entry in entries if (section := entry.info["section"]) not in SECTIONS)
    for key in (*(key for key in SECTIONS if key not in LAST_SECTIONS), *new, *LAST_SECTIONS):
        made_panels: list[Panel] = []
        for entry in entries:
            if entry.info["section"] == key:
                made_panels += _panels(entry, result, detail)
        if made_panels:
            yield Section("-".join(key.lower().split()), SECTIONS.get(key, key), made_panels)


def _panels(entry: Entry[PanelFunction], result: Result, detail: Detail) -> list[Panel]:
    """The panels of a function. Raises InputError for anything else."""
    made = entry.value(result, detail)
    made_panels: list[Any] = [made] if isinstance(made, str) or not isinstance(made, Iterable) else list(made)
    if (file := file_of(entry.value)) is None:
        return made_panels
    for panel in made_panels:
        if not isinstance(panel, Panel):
            problem = f"the panel '{entry.name}' returned {type(panel).__name__}"
            raise InputError(problem, file=file, allowed="a Panel, or several")
        for field, allowed in panel.wrong_fields().items():
            problem = f"the panel '{entry.name}' has {field} = {shown(getattr(panel, field))}"
            raise InputError(problem, file=file, allowed=allowed)
    return made_panels
