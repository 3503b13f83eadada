"""The tables of a result about transactions: counts, bytes and latencies by kind, packets by type, and the switch."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.network.packet.transactions.transaction_engine import TransactionEngine
from pyxsim.network.protocol import BackendTable

KINDS = ("store", "load", "atomic", "load of a sum", "store to all", "operand")
TYPES = ("request", "response", "to switch", "to member", "from member", "from switch")
SHARES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
_COUNTED = (
    "transactions",
    "data_bytes",
    "carried_bytes",
    "request_flits",
    "response_flits",
    "request_bytes",
    "response_bytes",
)
_EXACT = 64
BINS = _EXACT * 58


def bin_edges(bins: int) -> IntArray:
    """Return int64[bins]: the largest latency of each bin of the histogram (TransactionEngine.kinds)."""
    bin_ = np.arange(bins)
    shift = np.maximum(bin_ // _EXACT - 1, 0)
    lowest = (bin_ - _EXACT * shift) << shift
    edges: IntArray = lowest + (1 << shift) - 1
    return edges


def percentile(counts: IntArray, share: float) -> int:
    """Return the upper edge of the bin that holds this share of the latencies; -1 without any."""
    total = int(counts.sum())
    if not total:
        return -1
    at = int(np.searchsorted(np.cumsum(counts), share * total))
    return int(bin_edges(len(counts))[at])


def transaction_tables(engine: TransactionEngine, end: int, *, reduces: bool) -> dict[str, BackendTable]:
    """Return the tables `transactions`, `transaction_packets` and, with a switch that reduces, `switch_reduction`."""
    statistics, histogram = engine.kinds()
    used = [kind for kind, row in enumerate(statistics) if row["transactions"]]
    rows = [statistics[kind] for kind in used]
    columns: dict[str, Any] = {"kind": np.array([KINDS[kind] for kind in used], dtype=object)}
    columns |= {name: np.array([row[name] for row in rows], np.int64) for name in _COUNTED}
    ended = histogram[used].sum(axis=1)
    sums = np.array([row["latency_sum"] for row in rows], np.int64)
    columns["latency_mean"] = sums / np.maximum(ended, 1)
    columns["latency_min"] = np.array([row["latency_min"] for row in rows], np.int64)
    columns["latency_max"] = np.array([row["latency_max"] for row in rows], np.int64)
    for name, share in SHARES:
        found = [percentile(histogram[kind], share) for kind in used]
        columns[f"latency_{name}"] = np.minimum(np.array(found, np.int64), columns["latency_max"])
    columns["ended"] = ended
    columns["outstanding_mean"] = sums / max(1, end * engine.npus)
    sent, arrived = engine.packet_counts()
    attrs = {"outstanding_max": int(engine.outstanding_most().max(initial=0)), "flit_bytes": engine.flit}
    tables = {
        "transactions": BackendTable(columns, attrs),
        "transaction_packets": BackendTable({"type": np.array(TYPES, dtype=object), "sent": sent, "arrived": arrived}),
    }
    if reduces:
        counters = engine.switch(end)
        whole = {name: np.array([counters[name]], np.int64) for name in _OF_SWITCH}
        whole["entries_mean"] = np.array([counters["entry_cycles"] / max(1, end)])
        whole["adder_busy"] = np.array([counters["adder_busy"] / max(1, end)])
        tables["switch_reduction"] = BackendTable(whole)
    return tables


_OF_SWITCH = ("entries_max", "stalls", "stall_cycles", "waiting_max")
