"""Memory transactions: their counts, bytes and latencies, their packets, and the switch (docs/memory_traffic.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyxsim.network.protocol import BackendTable
from pyxsim.results.dataset import Column, Dataset, add, restores
from pyxsim.results.hdf5 import StoredTables
from pyxsim.results.result import Result

WHEN = "with `[network.transactions]`"
NAMES = ("transactions", "transaction_packets", "switch_reduction")


def _present(name: str) -> Callable[[Result], bool]:
    return lambda result: name in result.backend_tables


def _values(name: str) -> Callable[[Result], Mapping[str, Any] | None]:
    return lambda result: result.backend_tables[name].columns if name in result.backend_tables else None


def _attrs(name: str) -> Callable[[Result], Mapping[str, Any]]:
    return lambda result: result.backend_tables[name].attrs


add(
    Dataset(
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
            Column("outstanding_mean", "1", "requests outstanding per NPU, on average over the run", "float64"),
        ),
        _values("transactions"),
        ("kind_of_access",),
        when=WHEN,
        present=_present("transactions"),
        attributes={"outstanding_max": "most requests that an NPU had outstanding", "flit_bytes": "bytes of a flit"},
        attrs=_attrs("transactions"),
        json=True,
    )
)
add(
    Dataset(
        "transaction_packets",
        "Packets of transactions by type: as many arrive as are sent, unless the run ends before.",
        (
            Column("type", "", "request, response; to and from the switch, and between it and members", "text"),
            Column("sent", "1", "packets sent"),
            Column("arrived", "1", "packets that arrived"),
        ),
        _values("transaction_packets"),
        ("packet_type",),
        when=WHEN,
        present=_present("transaction_packets"),
        json=True,
    )
)
add(
    Dataset(
        "switch_reduction",
        "The switch that adds: its reduction buffer and its adders.",
        (
            Column("entries_mean", "1", "entries of the reduction buffer in use, on average over the run", "float64"),
            Column("entries_max", "1", "most entries in use"),
            Column("stalls", "1", "sums that waited for an entry"),
            Column("stall_cycles", "cycles", "their waiting time, together"),
            Column("waiting_max", "1", "most sums that waited"),
            Column("adder_busy", "1", "share of the run in which the adders were busy; 0 without a limit", "float64"),
        ),
        _values("switch_reduction"),
        ("switch",),
        when=f"{WHEN} on a network that is one switch",
        present=_present("switch_reduction"),
        json=True,
    )
)
_INDICES = ("kind_of_access", "packet_type", "switch")


@restores
def restore(tables: StoredTables) -> dict[str, Any]:
    """The tables, as the backend gave them."""
    restored = {}
    for name in {*NAMES} & {*tables}:
        stored = tables[name]
        columns = {column: stored[column] for column in stored if column not in _INDICES}
        attrs = {key: int(stored.attrs[key]) for key in ("outstanding_max", "flit_bytes") if key in stored.attrs}
        restored[name] = BackendTable(columns, attrs)
    return {"backend_tables": restored}
