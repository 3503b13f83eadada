"""The chapter of one result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyxsim.reports.html import key_findings
from pyxsim.reports.html.elements import Chapter, Detail, Panel, Section, cut
from pyxsim.reports.html.panels import attribution, chunks, latency, links, network, settings_table, workload
from pyxsim.reports.text import memory_facts, workload_tables
from pyxsim.reports.text.facts import Fact, facts, percent, rounded
from pyxsim.reports.text.summary import FAILED, INCOMPLETE
from pyxsim.reports.text.text_table import Sheet
from pyxsim.reports.text.traffic_facts import number, traffic_facts
from pyxsim.results.result import Result

MOST_CARDS = 5
MOST_WARNINGS = 30
LONGEST = 1000  # letters of a warning


def chapter(result: Result, name: str) -> Chapter:
    """All that a file tells."""
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
        lead=key_findings.sentences(result),
        alarms=alarms,
        files=[name],
    )


def cards(result: Result) -> list[Fact]:
    """The great numbers, the most important first."""
    found = []
    time, *_ = facts(result)
    if result.traffic is not None:
        found += traffic_facts(result)[:1]
        told = result.traffic.summary
        state = "saturated" if told.get("saturated") else "the network takes it"
        note = f"of {number(told['offered_load'])}: {state}"
        found.append(Fact("accepted load", number(told["accepted_load"]), note))
    found.append(time)
    if result.bound_ns and result.ratio is not None and result.complete:
        least = next(fact for fact in facts(result) if fact.label == "bound")
        found.append(Fact("of the bound", f"{result.ratio:.3f} x", f"the least for this plan is {least.value}"))
    if rates := result.rates:
        found.append(Fact("bus bandwidth", rounded(rates.bus, "B/s"), f"algorithm {rounded(rates.algorithm, 'B/s')}"))
    if result.work is not None:
        end = max(1, result.time_cycles)
        shares = {name: result.work.extremes(name)["mean"] / end for name in ("compute", "exposed")}
        found.append(Fact("computing", percent(shares["compute"]), "of the time of the NPUs, on average"))
        found.append(Fact("exposed", percent(shares["exposed"]), "communication that nothing hides"))
    if len(result.links):
        use = result.link_utilization
        found.append(Fact("links busy", percent(float(use.mean())), f"{percent(float(use.max()))} the busiest one"))
    return found[:MOST_CARDS]


def sections(result: Result, detail: Detail) -> Iterator[Section]:
    """What the result has data for, and nothing else."""
    made: Sequence[tuple[str, str, list[Panel]]] = (
        ("network", "Network", network.panels(result, detail)),
        ("links", "Links over time", links.over_time(result, detail)),
        ("chunks", "Chunks", chunks.panels(result, detail)),
        ("workload", "Workload", workload.panels(result, detail)),
        ("latency", "Latency", latency.panels(result, detail)),
        ("attribution", "Where the time went", attribution.panels(result)),
        ("waiting", "Waiting", links.waiting(result)),
        ("hot", "Hot links", links.hot(result)),
        ("numbers", "In numbers", _numbers(result)),
        ("settings", "Settings", settings_table.panels(result)),
    )
    for key, title, panels in made:
        if panels:
            yield Section(key, title, panels)


def _numbers(result: Result) -> list[Panel]:
    told = [*traffic_facts(result), *workload_tables.facts(result), *memory_facts.facts(result), *facts(result)]
    rows = [[fact.label, fact.value, fact.note] for fact in told]
    found = [Panel("Summary", sheet=Sheet(("", "value", "note"), rows, ("note",)))]
    if result.warnings:
        found.append(_warnings(result.warnings))
    return found


def _warnings(texts: Sequence[str]) -> Panel:
    rows = [[cut(text, LONGEST)] for text in texts[:MOST_WARNINGS]]
    more = len(texts) - MOST_WARNINGS
    notes = [f"Bounded: {more} more are in the file."] if more > 0 else []
    return Panel("Warnings", sheet=Sheet(("warning",), rows), notes=notes)
