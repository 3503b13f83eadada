"""Flows and ports of the Ethernet backend (docs/ethernet.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.network.protocol import BackendTable
from pyxsim.results.dataset import Column, Dataset, add, restores
from pyxsim.results.datasets.links import COORDINATES, LINK, LINK_SPECS, WINDOW
from pyxsim.results.hdf5 import StoredTables
from pyxsim.results.links import LINK_COLUMNS
from pyxsim.results.result import Result

WHEN = "with `--backend ethernet`"
LINK_TEXT = LINK_SPECS[:7]  # without the flit time
PLACES = COORDINATES[:6]


def _present(name: str) -> Callable[[Result], bool]:
    return lambda result: name in result.backend_tables


def _attrs(name: str) -> Callable[[Result], Mapping[str, Any]]:
    return lambda result: result.backend_tables[name].attrs


def fct(columns: Mapping[str, NDArray[Any]]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return flow completion times (ps, -1: did not end) and slowdowns (NaN) of the columns of `flows`."""
    ended = columns["end"] >= 0
    time = np.where(ended, columns["end"] - columns["start"], -1)
    return time, np.where(ended, time / np.maximum(columns["ideal"], 1), np.nan)


def _flows(result: Result) -> dict[str, Any] | None:
    table = result.backend_tables.get("flows")
    if table is None:
        return None
    time, slowdown = fct(table.columns)
    return {**table.columns, "fct": time, "slowdown": slowdown}


def _with_links(name: str) -> Callable[[Result], dict[str, Any] | None]:
    def values(result: Result) -> dict[str, Any] | None:
        table = result.backend_tables.get(name)
        if table is None:
            return None
        links = result.links
        places = {column: getattr(links, column) for column in LINK_COLUMNS if column in PLACES}
        return {"link": np.arange(len(links)), "name": links.name, **places, **table.columns}

    return values


add(
    Dataset(
        "flows",
        "One row per message of the Ethernet backend; with `queue_pairs` above 1, one per flow of a message.",
        (
            Column("message", "1", "number of the message"),
            Column("src", "1", "sending NPU"),
            Column("dst", "1", "receiving NPU"),
            Column("bytes", "bytes", "size of the message, or of its part"),
            Column("packets", "1", "data packets of the message"),
            Column("start", "ps", "time at which the message is sent"),
            Column("end", "ps", "time at which it has arrived; -1: did not happen in this run"),
            Column("fct", "ps", "flow completion time: end minus start; -1: did not end in this run", derived=True),
            Column("ideal", "ps", "flow completion time on an idle network, with all packets on one path"),
            Column("slowdown", "1", "fct over ideal", "float64", derived=True),
            Column("sent", "1", "data packets sent, with those sent again"),
            Column("resent", "1", "data packets sent again"),
            Column("delivered", "1", "whole data packets that arrived at the receiver, with those that it discards"),
            Column("marked", "1", "marks of data packets by switches (ECN)"),
            Column("trimmed", "1", "data packets whose payload a switch cut off"),
            Column("dropped", "1", "whole data packets that a switch dropped"),
            Column("errors", "1", "whole data packets lost on links, by errors or because a link is down"),
            Column("out_of_order", "1", "data packets that arrived before an earlier one"),
            Column("duplicates", "1", "data packets that the receiver had already"),
            Column("timeouts", "1", "retransmission timeouts"),
            Column("traffic_class", "1", "class of its packets (`network.ethernet.classes`)"),
            Column(
                "victim_of",
                "1",
                "number of the link whose queue caused pauses on the path of the message, which does not use it; with "
                "ECMP; -1: none",
            ),
            Column("victim_time", "ps", "time in which its path was paused because of that link"),
        ),
        _flows,
        ("flow",),
        when=WHEN,
        present=_present("flows"),
        attributes={"left_out": "number of flows beyond the first 2^20"},
        attrs=_attrs("flows"),
    )
)
add(
    Dataset(
        "ports",
        "Counters of each link of the Ethernet backend over the whole run; a link is an output port.",
        (
            *LINK_TEXT,
            Column("bytes", "bytes", "bytes sent, with headers and pause frames", dims=LINK),
            Column("packets", "1", "packets sent, with acknowledgments and pause frames", dims=LINK),
            Column("marked", "1", "data packets marked in the queue of the port", dims=LINK),
            Column("dropped", "1", "packets dropped instead of entering the queue", dims=LINK),
            Column("trimmed", "1", "data packets trimmed before they entered the queue", dims=LINK),
            Column("errors", "1", "packets lost on the link, by errors or because it is down", dims=LINK),
            Column("pauses", "1", "pauses of a class that the receiver of the link requested (PFC)", dims=LINK),
            Column("paused", "ps", "time in which at least one class was paused", dims=LINK),
            Column("depth", "bytes", "most bytes in the queue of one class of the port", dims=LINK),
            Column("cause", "1", "number of the link whose queue its last pause is due to; -1: none", dims=LINK),
            Column("root", "1", "number of the link at the end of the chain of causes; -1: never paused", dims=LINK),
            Column("caused", "ps", "time of the pauses of other links whose root is this link", dims=LINK),
        ),
        _with_links("ports"),
        LINK,
        when=WHEN,
        present=_present("ports"),
        coordinates=PLACES,
        attrs=_attrs("ports"),
    )
)
add(
    Dataset(
        "port_windows",
        "Queue, marks and pauses of each link of the Ethernet backend in each time window.",
        (
            Column("time", "cycles", "start of the time window", dims=("time",)),
            *LINK_TEXT,
            Column("depth", "bytes", "most bytes in the queue of one class of the port", "uint", WINDOW),
            Column("marked", "1", "data packets marked", "uint", WINDOW),
            Column("dropped", "1", "packets dropped", "uint", WINDOW),
            Column("trimmed", "1", "data packets trimmed", "uint", WINDOW),
            Column("errors", "1", "packets lost on the link", "uint", WINDOW),
            Column("pauses", "1", "pauses that the receiver of the link requested", "uint", WINDOW),
            Column("paused", "ps", "time in which at least one class was paused", "uint", WINDOW),
        ),
        _with_links("port_windows"),
        WINDOW,
        when=WHEN,
        present=_present("port_windows"),
        coordinates=PLACES,
        attributes={"window_cycles": "length of a window"},
        attrs=_attrs("port_windows"),
    )
)

add(
    Dataset(
        "pfc_frames",
        "One row per PFC frame of the Ethernet backend, in order of arrival.",
        (
            Column("time", "ps", "time at which the frame has arrived"),
            Column("link", "1", "number of the link that it stops or starts, at whose source it arrives"),
            Column("pause", "1", "1: pause, 0: resume"),
        ),
        lambda result: result.backend_tables["pfc_frames"].columns if _present("pfc_frames")(result) else None,
        ("frame",),
        when="with `network.ethernet.pfc.log = true`",
        present=_present("pfc_frames"),
    )
)


def _flow_times(result: Result) -> dict[str, Any] | None:
    table = result.backend_tables.get("flow_times")
    flows = _flows(result)
    if table is None or flows is None:
        return None
    spent = sum(table.columns[name] for name in FLOW_TIMES)
    return {**table.columns, "network": np.where(flows["fct"] < 0, -1, flows["fct"] - spent)}


FLOW_TIMES = ("sending", "resending", "port", "pause", "window", "rate")

add(
    Dataset(
        "flow_times",
        "Where the time of each message of the Ethernet backend went, one row per row of `flows`; the columns add up "
        "to `fct`. What the next packet waits for at its sender counts until it is sent.",
        (
            Column("sending", "ps", "transmission of its packets by the NIC"),
            Column("resending", "ps", "transmission of packets that are sent again"),
            Column("port", "ps", "the port of the NIC sends packets of others"),
            Column("pause", "ps", "the port of the NIC is paused (PFC)"),
            Column("window", "ps", "the window is full, or the receiver has given no credit"),
            Column("rate", "ps", "the pause between packets at the rate of the transport"),
            Column(
                "network",
                "ps",
                "nothing is left to send: latency and queues of the last packets, and timeouts; -1: did not end",
                derived=True,
            ),
        ),
        _flow_times,
        ("flow",),
        when="with `--backend ethernet` and `output.attribution`; not with Ultra Ethernet",
        present=_present("flow_times"),
    )
)
add(
    Dataset(
        "flow_windows",
        "One row per flow of the Ethernet backend and window of time at whose end it is active: from its start until "
        "its last acknowledgment. Bytes are payload; with `nscc` and `rccc` they include headers.",
        (
            Column("time", "cycles", "end of the window"),
            Column("flow", "1", "number of the flow, its row in `flows`"),
            Column("rate", "bits/second", "rate that the transport has set", "float64"),
            Column("window", "bytes", "window that the transport has set; 0: no limit"),
            Column("flight", "bytes", "bytes sent and not acknowledged"),
            Column("rtt", "ps", "round-trip time of the packet that was acknowledged last; 0: none yet"),
        ),
        lambda result: result.backend_tables["flow_windows"].columns if _present("flow_windows")(result) else None,
        ("row",),
        when="with `network.ethernet.sampled_flows` above 0",
        present=_present("flow_windows"),
        attributes={"window_cycles": "length of a window"},
        attrs=_attrs("flow_windows"),
    )
)


@restores
def restore(tables: StoredTables) -> dict[str, Any]:
    """The tables of the Ethernet backend."""
    places = {column.name for column in LINK_TEXT}
    computed = {
        "flows": {"flow", "fct", "slowdown"},
        "ports": places,
        "port_windows": places,
        "pfc_frames": {"frame"},
        "flow_windows": {"row"},
        "flow_times": {"flow", "network"},
    }
    restored = {}
    for name in computed.keys() & set(tables):
        stored = tables[name]
        columns = {column: stored[column] for column in stored if column not in computed[name]}
        attrs = {key: int(stored.attrs[key]) for key in ("left_out", "window_cycles") if key in stored.attrs}
        restored[name] = BackendTable(columns, attrs)
    return {"backend_tables": restored}
