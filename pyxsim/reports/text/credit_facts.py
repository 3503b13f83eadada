"""Key figures of credits as messages: their number, bandwidth and losses."""

from __future__ import annotations

from collections.abc import Iterator

from pyxsim.reports.text.facts import Fact, percent, plural
from pyxsim.results.result import Result


def facts(result: Result) -> Iterator[Fact]:
    """Yield the messages with credits, where credits return by messages, and lost credits."""
    table = result.backend_tables.get("link_credits")
    if table is None:
        return
    columns = table.columns
    messages, riding = int(columns["messages"].sum()), int(columns["riding"].sum())
    most = percent(float(columns["share"].max(initial=0.0)))
    text = f"messages with credits, up to {most} of a link"
    yield Fact("credits", f"{messages:,}", f"{text}; {plural(riding, 'flit')} carried credits" if riding else text)
    if lost := int(columns["lost"].sum()):
        restored = int(columns["restored"].sum())
        yield Fact("credits lost", f"{lost:,}", f"on their way back, {restored:,} sent again")


def busiest_links(result: Result, most: int) -> list[int]:
    """Return the links of which messages with credits take the largest share, largest first, without unused ones."""
    columns = result.backend_tables["link_credits"].columns
    keys = list(zip(columns["share"].tolist(), columns["lost"].tolist(), columns["messages"].tolist(), strict=True))
    order = sorted(range(len(keys)), key=lambda link: (*(-value for value in keys[link]), link))
    return [link for link in order[:most] if any(keys[link])]
