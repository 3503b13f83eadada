"""Memory transactions: their counts, bytes and latencies, their packets, and the switch (docs/memory_traffic.md)."""

from __future__ import annotations

from pyxsim.results.backend_dataset import add_backend_table
from pyxsim.results.dataset import Column

WHEN = "with `[network.transactions]`"

add_backend_table(
    "transactions",
    "Memory transactions by kind: the requests of NPUs, with all packets that they cause.",
    (
        Column("kind", "", "store, load, atomic, load of a sum, store to all, operand (of a sum)", "text"),
        Column("transactions", "1", "requests issued"),
        Column("ended", "1", "requests that have their response, or whose data have arrived without one"),
        Column("data_bytes", "bytes", "data that the requests ask for or have"),
        Column("carried_bytes", "bytes", "data in all packets of these requests and responses"),
        Column("request_bytes", "bytes", "headers and data of requests, with those that the switch sends"),
        Column("response_bytes", "bytes", "headers and data of responses, with those to the switch"),
        Column("request_flits", "flits", "flits of these requests"),
        Column("response_flits", "flits", "flits of these responses"),
        Column("latency_mean", "cycles", "time from a request to its response, on average", "float64"),
        Column("latency_min", "cycles", "the shortest one"),
        Column("latency_p50", "cycles", "half are at most that long, up to 1.6 % more"),
        Column("latency_p95", "cycles", "95 % are at most that long, up to 1.6 % more"),
        Column("latency_p99", "cycles", "99 % are at most that long, up to 1.6 % more"),
        Column("latency_max", "cycles", "the longest one"),
        Column("outstanding_mean", "1", "requests outstanding per NPU, on average until the last one ends", "float64"),
    ),
    ("kind_of_access",),
    when=WHEN,
    attributes={"outstanding_max": "most requests that an NPU had outstanding", "flit_bytes": "bytes of a flit"},
    json=True,
)
add_backend_table(
    "transaction_packets",
    "Packets of transactions by type: as many arrive as are sent, unless the run ends before.",
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
    "The switch that adds: its reduction buffer and its adders.",
    (
        Column(
            "entries_mean",
            "1",
            "entries of the reduction buffer in use, on average until the last transaction ends",
            "float64",
        ),
        Column("entries_max", "1", "most entries in use"),
        Column("stalls", "1", "sums that waited for an entry"),
        Column("stall_cycles", "cycles", "their waiting time, together"),
        Column("waiting_max", "1", "most sums that waited"),
        Column("adder_busy", "1", "share of this time in which the adders were busy; 0 without a limit", "float64"),
    ),
    ("switch",),
    when=f"{WHEN} on a network that is one switch",
    json=True,
)
