"""Key figures of faults, retry and rerouting: flits lost and retransmitted, and routing tables."""

from __future__ import annotations

from collections.abc import Iterator

from pyxsim.reports.text.facts import Fact, percent, plural
from pyxsim.results.result import Result


def facts(result: Result) -> Iterator[Fact]:
    """Yield the routing tables in use, and the flits lost and retransmitted if there may be any."""
    yield from _of_routes(result)
    table = result.backend_tables.get("link_faults")
    if table is None:
        return
    columns = table.columns
    if lost := int(result.counts.get("packets_lost", 0)):
        yield Fact(
            "lost", f"{lost:,}", f"packets of {plural(int(result.counts['flits_lost']), 'flit')}, dropped at NPUs"
        )
    resent, sent = int(columns["resent"].sum()), int(result.totals["flits"].sum())
    if resent or columns["replay_max"].any():
        errors = plural(int(columns["errors"].sum()), "bit error")
        share = percent(resent / sent) if sent else "0 %"
        yield Fact("sent again", f"{resent:,}", f"flits, {share} of those sent; {errors}")


def _of_routes(result: Result) -> Iterator[Fact]:
    table = result.backend_tables.get("route_epochs")
    if table is None:
        return
    columns = table.columns
    moved, apart = int(columns["packets_rerouted"].sum()), int(columns["unreachable_pairs"].max())
    text = f"sets of routing tables used in succession; {plural(moved, 'packet')} rerouted"
    without = f"; up to {plural(apart, 'pair')} of NPUs without a route" if apart else ""
    yield Fact("routes", f"{int((columns['used'] >= 0).sum()):,}", text + without)


def epoch_rows(result: Result, most: int) -> list[list[str]]:
    """Return a row for each of the first epochs of the tables of routes."""
    table = result.backend_tables["route_epochs"].columns
    counts = ("packets_rerouted", "packets_lost", "unreachable_pairs")
    names = ("changed", "used", "links_down", "routing", "transition", *counts)
    rows = zip(*(table[name][:most].tolist() for name in names), strict=True)
    return [[_cell(value) for value in row] for row in rows]


def _cell(value: str | int) -> str:
    return value if isinstance(value, str) else "not used" if value < 0 else f"{value:,}"


def worst_links(result: Result, most: int) -> list[int]:
    """Return the links with most errors, losses and retransmissions, worst first; ties by stall time."""
    columns = result.backend_tables["link_faults"].columns
    bad, stalled = columns["errors"] + columns["flits_lost"] + columns["resent"], columns["stall_replay"]
    order = sorted(range(len(bad)), key=lambda link: (-int(bad[link]), -int(stalled[link]), link))
    return [link for link in order[:most] if bad[link] or stalled[link]]
