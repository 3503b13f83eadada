"""Key figures of memory transactions: their number, overhead and latency, and the reduction buffer."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from pyxsim.reports.text.facts import Fact, percent, plural
from pyxsim.results.result import Result


def facts(result: Result) -> Iterator[Fact]:
    """Yield the transactions of a run that has any."""
    table = result.backend_tables.get("transactions")
    if table is None or not len(table.columns["kind"]):
        return
    columns = table.columns
    count, data = int(columns["transactions"].sum()), int(columns["data_bytes"].sum())
    kinds = ", ".join(str(kind) for kind in columns["kind"])
    yield Fact("transactions", f"{count:,}", f"{kinds}; {data / count:,.0f} B of data each")
    weights = columns["ended"] / max(1, int(columns["ended"].sum()))
    mean = float(result.to_ns(Fraction(float((columns["latency_mean"] * weights).sum()))))
    outstanding = float(columns["outstanding_mean"].sum())
    most = int(table.attrs["outstanding_max"])
    about = f"after its request; {outstanding:,.0f} outstanding per NPU, {most:,} at most"
    yield Fact("a response", f"{mean:,.0f} ns", about)
    switch = result.backend_tables.get("switch_reduction")
    if switch is not None and (entries := int(switch.columns["entries_max"][0])):
        stalls = int(switch.columns["stalls"][0])
        waited = (
            f"{plural(stalls, 'sum')} waited for one ({percent(stalls / count)})" if stalls else "no sum waited for one"
        )
        yield Fact("sums at once", f"{entries:,}", f"maximum number of entries in use in the switch; {waited}")
