"""Memory transactions: their counts, bytes and latencies, their packets, and the switch (docs/memory_traffic.md)."""

from __future__ import annotations

from pyxsim.results.backend_dataset import add_backend_table
from pyxsim.results.dataset import Column

WHEN = "with `[network.transactions]`"

add_backend_table(
    "transactions",
    "Memory transactions by kind: the requests of NPUs, and all packets that they cause.",
    (
        Column("kind", "", "store, load, atomic, load of a sum, store to all, operand (of a sum)", "text"),
        Column("transactions", "1", "requests issued"),
        Column("ended", "1", "requests that were answered, or whose data have arrived if they need no response"),
        Column("data_bytes", "bytes", "data that the requests read or write"),
        Column("carried_bytes", "bytes", "data in all packets of these requests and responses"),
        Column("request_bytes", "bytes", "headers and data of requests, including those from the switch"),
        Column("response_bytes", "bytes", "headers and data of responses, including those to the switch"),
        Column("request_flits", "flits", "flits of these requests"),
        Column("response_flits", "flits", "flits of these responses"),
        Column("latency_mean", "cycles", "mean time from a request to its response", "float64"),
        Column("latency_min", "cycles", "minimum"),
        Column("latency_p50", "cycles", "median, at most 1.6 % too long"),
        Column("latency_p95", "cycles", "95th percentile, at most 1.6 % too long"),
        Column("latency_p99", "cycles", "99th percentile, at most 1.6 % too long"),
        Column("latency_max", "cycles", "maximum"),
        Column(
            "outstanding_mean", "1", "mean number of outstanding requests per NPU until the last one ends", "float64"
        ),
    ),
    ("kind_of_access",),
    when=WHEN,
    attributes={"outstanding_max": "maximum number of outstanding requests of an NPU", "flit_bytes": "bytes of a flit"},
    json=True,
)
add_backend_table(
    "transaction_packets",
    "Packets of transactions by type. All that are sent arrive, unless the run ends early.",
    (
        Column("type", "", "request, response; to and from the switch, and between it and members", "text"),
        Column("sent", "1", "packets sent"),
        Column("arrived", "1", "packets that arrived"),
    ),
    ("packet_type",),
    when=WHEN,
    json=True,
)
add_backend_table(
    "switch_reduction",
    "The reduction buffer and the adders of the switch.",
    (
        Column("entries_mean", "1", "mean number of entries in use until the last transaction ends", "float64"),
        Column("entries_max", "1", "maximum number of entries in use"),
        Column("stalls", "1", "sums that waited for an entry"),
        Column("stall_cycles", "cycles", "total waiting time of these sums"),
        Column("waiting_max", "1", "maximum number of waiting sums"),
        Column("adder_busy", "1", "share of this time in which the adders were busy; 0 without a limit", "float64"),
    ),
    ("switch",),
    when=f"{WHEN} on a network that is one switch",
    json=True,
)
