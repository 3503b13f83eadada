"""Counters over time, of the whole network and of links."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import IntArray
from pyxsim.reports.text.facts import link_title
from pyxsim.reports.timeline.clock import Clock
from pyxsim.reports.timeline.trace_model import Counter
from pyxsim.reports.timeline.view import COUNTERS, PORT_COUNTERS
from pyxsim.results.result import STALLS, Result

UTILIZATION = "utilization"


def network_counters(result: Result, clock: Clock, pid: int) -> Iterator[Counter]:
    """Yield the counters of the network: utilization, also per dimension or kind, flits, stalls."""
    rows = _rows(result, clock)
    if not result.has_link_counters or not len(rows):
        return
    share = 100 * result.utilization[rows]
    yield _counter(result, clock, rows, pid, "all links", UTILIZATION, share.mean(axis=1))
    dims = np.unique(result.links.dim).tolist()
    for dim in dims if len(dims) > 1 else ():
        mine = share[:, result.links.dim == dim].mean(axis=1)
        yield _counter(result, clock, rows, pid, link_title(result, dim), UTILIZATION, mine)
    for name in ("flits", *STALLS):
        counts = result.windows.counts[name][rows].sum(axis=1, dtype=np.int64)
        if counts.any():
            yield _counter(result, clock, rows, pid, "all links", name, counts)
    for name in PORT_COUNTERS if "port_windows" in result.backend_tables else ():
        table = result.port_windows[name][rows].astype(np.int64)
        if table.any():
            values = table.max(axis=1) if name == "depth" else table.sum(axis=1)
            yield _counter(result, clock, rows, pid, "deepest queue" if name == "depth" else "all links", name, values)


def link_counters(result: Result, clock: Clock, pid: int, link: int, names: Sequence[str]) -> Iterator[Counter]:
    """Yield the counters of a link."""
    rows = _rows(result, clock)
    for name in names:
        if name == UTILIZATION:
            values: NDArray[Any] = 100 * result.utilization[rows, link]
        elif name == "busy":
            values = result.busy[rows, link]
        elif name in PORT_COUNTERS:
            values = result.port_windows[name][rows, link].astype(np.int64)
        else:
            values = result.windows.counts[name][rows, link].astype(np.int64)
        yield _counter(result, clock, rows, pid, result.links.name[link], name, values)


FLOW_COUNTERS = {"rate": "bits/second", "window": "bytes", "flight": "bytes", "rtt": "ps"}


def flow_counters(result: Result, clock: Clock, pid: int) -> Iterator[Counter]:
    """Yield rate, window, bytes in flight and round-trip time of the sampled flows, at the ends of windows."""
    table = result.backend_tables["flow_windows"].columns
    src, dst = result.flows["src"], result.flows["dst"]
    inside = (table["time"] > clock.first) & (table["time"] <= clock.last)
    for flow in np.unique(table["flow"][inside]).tolist():
        mine = inside & (table["flow"] == flow)
        time = clock.ns(table["time"][mine])
        for name, unit in FLOW_COUNTERS.items():
            if (values := table[name][mine]).any():
                yield Counter(pid, f"flow {flow}, NPU {src[flow]} to {dst[flow]}", name, unit, time, values)


def _rows(result: Result, clock: Clock) -> IntArray:
    """The windows in the range."""
    start = result.windows.start
    return clock.shown(start, start + result.window_cycles) if len(start) else np.zeros(0, np.int64)


def _counter(
    result: Result, clock: Clock, rows: IntArray, pid: int, of: str, name: str, values: NDArray[Any]
) -> Counter:
    """A counter; only changes are stored, and the last value is zero."""
    new = np.ones(len(rows), bool)
    new[1:] = values[1:] != values[:-1]
    start = result.windows.start[rows]
    end = int(start[-1] + result.window_cycles[rows[-1]]) if len(rows) else 0
    time = clock.ns(np.append(start[new], end))
    return Counter(pid, of, name, COUNTERS[name], time, np.append(values[new], np.zeros(1, values.dtype)))
