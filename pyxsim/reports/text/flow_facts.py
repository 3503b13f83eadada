"""Key figures of the flows and ports of the Ethernet backend."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from pyxsim.reports.text.facts import Fact, plural
from pyxsim.results.result import Result
from pyxsim.units import format_time_ns


def facts(result: Result) -> list[Fact]:
    """Return flow completion times and, where there are any, losses, marks and pauses."""
    if "flows" not in result.backend_tables:
        return []
    lines, times = [], result.flows["fct"]
    ended = times >= 0
    if ended.any():
        middle, late, last = (time_text(int(time)) for time in _ranks(times[ended]))
        slow = "/".join(f"{value:,.3g}" for value in _ranks(result.flows["slowdown"][ended]))
        whole = len(np.unique(result.flows["message"])) == len(times)  # otherwise flows of several queue pairs
        lines.append(
            Fact(
                "message time" if whole else "flow time", middle, f"median, p99 {late}, longest {last}; slowdown {slow}"
            )
        )
    names = ("dropped", "errored", "trimmed", "resent", "marked")
    count = {name: int(result.counts.get(f"packets_{name}", 0)) for name in names}
    if any(count[name] for name in names[:-1]):
        errors = f", {count['errored']:,} lost on links" if count["errored"] else ""
        note = f"packets{errors}, {count['trimmed']:,} trimmed, {count['resent']:,} sent again"
        lines.append(Fact("dropped", f"{count['dropped']:,}", note))
    if count["marked"]:
        lines.append(Fact("marked", f"{count['marked']:,}", "packets, by switches (ECN)"))
    pauses, paused = result.ports["pauses"], result.ports["paused"]
    if pauses.any():
        most = int(paused.argmax())
        links = plural(int(np.count_nonzero(pauses)), "link")
        note = f"of {links} (PFC); longest {time_text(int(paused[most]))} in all: {result.links.name[most]}"
        lines.append(Fact("pauses", f"{int(pauses.sum()):,}", note))
        root = int(result.ports["caused"].argmax())
        share = result.ports["caused"][root] / max(1, int(result.ports["caused"].sum()))
        lines.append(Fact("pause root", f"{share:.0%}", f"of the paused time is due to {result.links.name[root]}"))
        delayed = np.flatnonzero(result.flows["victim_time"] > 0)
        if len(delayed):
            longest = time_text(int(result.flows["victim_time"].max()))
            note = f"messages waited behind pauses whose cause they do not use; longest {longest}"
            lines.append(Fact("victims", f"{len(delayed):,}", note))
    return lines


def time_text(picoseconds: int) -> str:
    """Return a time in picoseconds as text with its unit."""
    return format_time_ns(Fraction(picoseconds, 1000))


def _ranks(values: np.ndarray) -> list[float]:
    """The median, the 99th percentile and the largest value; each is one of the values."""
    ordered = np.sort(values)
    return [ordered[min(len(ordered) - 1, -(-len(ordered) * percent // 100) - 1)].item() for percent in (50, 99, 100)]
