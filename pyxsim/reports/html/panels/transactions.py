"""Panels of memory transactions: bytes by kind, latencies, packets and the switch (docs/memory_traffic.md)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from pyxsim.reports.html.elements import Detail, Panel, html_panel
from pyxsim.reports.html.plotly_style import figure
from pyxsim.reports.text.facts import percent
from pyxsim.reports.text.text_table import Sheet
from pyxsim.results.result import Result

_HEAD = ["kind", "transactions", "data", "headers", "padding", "mean", "p50", "p95", "p99", "outstanding per NPU"]
_PACKETS = ["packets", "sent", "arrived"]
_SWITCH = {
    "entries_mean": "entries in use, mean",
    "entries_max": "entries in use, maximum",
    "stalls": "sums that waited",
    "stall_cycles": "cycles that they waited",
    "waiting_max": "waiting sums, maximum",
    "adder_busy": "adders busy, share",
}


@html_panel("transactions", section="network", applies=lambda result: "transactions" in result.backend_tables)
def transactions(result: Result, detail: Detail) -> list[Panel]:
    """Latencies by kind as a chart; counts, shares of bytes and the switch as tables."""
    table = result.backend_tables["transactions"]
    columns, flit = table.columns, int(table.attrs["flit_bytes"])
    kinds = [str(kind) for kind in columns["kind"]]
    if not kinds:
        return []
    shares = ("p50", "p95", "p99")
    traces: list[dict[str, Any]] = [
        {"type": "bar", "name": share, "x": kinds, "y": [_ns(result, v) for v in columns[f"latency_{share}"]]}
        for share in shares
    ]
    layout = {"barmode": "group", "yaxis": {"title": {"text": "ns"}, "rangemode": "tozero"}}
    text = "Time from a request to its response, by kind."
    panels = [Panel("Latency of transactions", text, figure(traces, layout), height=260)]
    rows = []
    for row, kind in enumerate(kinds):
        flits = int(columns["request_flits"][row] + columns["response_flits"][row]) * flit
        sent = int(columns["request_bytes"][row] + columns["response_bytes"][row])
        data = int(columns["carried_bytes"][row])
        times = [f"{_ns(result, columns[f'latency_{name}'][row]):,.0f} ns" for name in ("mean", *shares)]
        parts = [percent(part / flits) for part in (data, sent - data, flits - sent)] if flits else ["-"] * 3
        issued, outstanding = f"{int(columns['transactions'][row]):,}", f"{columns['outstanding_mean'][row]:,.1f}"
        rows.append([kind, issued, *parts, *times, outstanding])
    about = "Shares of data, headers and padding are of the flits of all requests and responses."
    panels.append(Panel("Transactions in numbers", about, sheet=Sheet(_HEAD, rows, ["kind"])))
    packets = result.backend_tables["transaction_packets"].columns
    counts = zip(packets["type"], packets["sent"], packets["arrived"], strict=True)
    lines = [[str(name), f"{int(sent):,}", f"{int(arrived):,}"] for name, sent, arrived in counts]
    panels.append(Panel("Packets of transactions", "By type.", sheet=Sheet(_PACKETS, lines, ["packets"])))
    if "switch_reduction" in result.backend_tables:
        switch = result.backend_tables["switch_reduction"].columns
        values = [[label, f"{float(switch[name][0]):,.3g}"] for name, label in _SWITCH.items()]
        sheet = Sheet(["switch", "value"], values, ["switch"])
        panels.append(Panel("Reduction in the switch", "Over the run.", sheet=sheet))
    return panels


def _ns(result: Result, cycles: Any) -> float:
    return float(result.to_ns(Fraction(float(cycles))))
