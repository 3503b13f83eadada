"""Counters of the network links: per time window, and over the whole run."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyxsim.network.windows import Windows
from pyxsim.results.dataset import Column, Dataset, add, restores
from pyxsim.results.hdf5 import StoredTable, StoredTables
from pyxsim.results.links import LINK_COLUMNS, LinkTable
from pyxsim.results.result import COUNTERS, OPTIONAL_COUNTERS, Result

LINK = ("link",)
WINDOW = ("time", "link")
COORDINATES = ("name", "src", "dst", "dim", "bandwidth", "latency", "cycles_per_flit")

LINK_SPECS = (
    Column("link", "1", "number of the link", "int32", LINK),
    Column("name", "", "name of the link", "text", LINK),
    Column(
        "src",
        "1",
        "router at the start of the link; NPU i attaches to router i; -1: an NPU, for a host link",
        "int32",
        LINK,
    ),
    Column("dst", "1", "router at the end of the link; -1: an NPU, for a host link", "int32", LINK),
    Column("dim", "1", "network dimension or kind of the link", "int32", LINK),
    Column("bandwidth", "bytes/second", "bandwidth", "float64", LINK),
    Column("latency", "cycles", "latency", "int64", LINK),
    Column("cycles_per_flit", "cycles", "flit time: time that the link takes for one flit", "float64", LINK),
)
COUNTER_TEXT = {
    "flits": "flits sent over the link",
    "busy": "cycles in which the link transmitted",
    "stall_credit": "cycles in which a flit waited for a credit, because the downstream buffer was full",
    "stall_vc": "cycles in which a packet waited for a free virtual channel",
    "stall_arbitration": "cycles in which a flit lost switch arbitration",
    "stall_serial": "cycles in which a flit waited because the link transmitted another flit",
}
BUFFER_MAX = Column("buffer_max", "flits", "maximum number of flits that a VC buffer of the link held", "int32", LINK)


def _counters(dtype: str, dims: tuple[str, ...]) -> list[Column]:
    return [
        Column(name, "flits" if name == "flits" else "cycles", text, dtype, dims) for name, text in COUNTER_TEXT.items()
    ]


def _slowed(dtype: str, dims: tuple[str, ...]) -> Column:
    text = "the part of `busy` that is due to faults, which limited the bandwidth"
    return Column("slowed", "cycles", text, dtype, dims, optional=True)


def _stored(table: StoredTable) -> tuple[str, ...]:
    """The counters of a stored table."""
    return (*COUNTERS, *(name for name in OPTIONAL_COUNTERS if name in table))


def _link_values(result: Result) -> dict[str, Any]:
    links = result.links
    return {
        "link": np.arange(len(links)),
        "name": links.name,
        **{name: getattr(links, name) for name in LINK_COLUMNS if name in COORDINATES},
        "cycles_per_flit": links.s_num / np.maximum(links.s_den, 1),
        "buffer_max": result.buffer_max,
    }


def _windows(result: Result) -> dict[str, Any]:
    counts = dict(result.windows.counts)
    return {"time": result.windows.start, **_link_values(result), **counts, "busy": result.busy}


def _totals(result: Result) -> dict[str, Any]:
    exact = {"s_num": result.links.s_num, "s_den": result.links.s_den}
    counts = dict(result.totals)
    busy = {"busy": result.busy_total, "utilization": result.link_utilization}
    return {**_link_values(result), **exact, **counts, **busy}


add(
    Dataset(
        "links",
        "Counters of each link in each time window.",
        (
            Column("time", "cycles", "start of the time window", dims=("time",)),
            *LINK_SPECS,
            *_counters("uint", WINDOW),
            _slowed("uint", WINDOW),
            BUFFER_MAX,
        ),
        _windows,
        WINDOW,
        coordinates=COORDINATES,
        attributes={"window_cycles": "length of a window"},
        attrs=lambda result: {"window_cycles": result.windows.length},
    )
)
add(
    Dataset(
        "links_total",
        "Counters of each link over the whole run.",
        (
            *LINK_SPECS,
            Column("s_num", "1", "cycles_per_flit as an exact fraction: numerator", dims=LINK),
            Column("s_den", "1", "cycles_per_flit as an exact fraction: denominator", dims=LINK),
            *_counters("int64", LINK)[:2],
            Column("utilization", "1", "share of the run in which the link transmitted", "float64", LINK),
            *_counters("int64", LINK)[2:],
            _slowed("int64", LINK),
            BUFFER_MAX,
        ),
        _totals,
        LINK,
        coordinates=(*COORDINATES, "s_num", "s_den"),
        attributes={"cycles": "length of the run"},
        attrs=lambda result: {"cycles": result.time_cycles},
    )
)


@restores
def restore(tables: StoredTables) -> dict[str, Any]:
    """The links and their counters."""
    windows, total = tables["links"], tables["links_total"]
    return {
        "links": LinkTable(total["name"].tolist(), **{name: total[name] for name in LINK_COLUMNS}),
        "windows": Windows(
            windows["time"],
            int(windows.attrs["window_cycles"]),
            {name: windows[name].astype(np.uint64) for name in _stored(windows)},
        ),
        "totals": {name: total[name] for name in _stored(total)},
        "buffer_max": total["buffer_max"],
    }
