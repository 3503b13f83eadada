"""Flows and ports of the Ethernet backend (docs/ethernet.md)."""

from __future__ import annotations

import numpy as np

from pyxsim.results.backend_dataset import Columns, add_backend_table
from pyxsim.results.dataset import Column
from pyxsim.results.datasets.links import LINK, LINK_SPECS, WINDOW
from pyxsim.results.result import Result

WHEN = "with `--backend ethernet`"
LINKS = LINK_SPECS[:7]  # without the flit time
FLOW_TIMES = ("sending", "resending", "port", "pause", "window", "rate")


def _completion(result: Result, flows: Columns) -> Columns:
    """Flow completion times (ps, -1: did not end) and slowdowns (NaN) of the columns of `flows`."""
    ended = flows["end"] >= 0
    time = np.where(ended, flows["end"] - flows["start"], -1)
    return {"fct": time, "slowdown": np.where(ended, time / np.maximum(flows["ideal"], 1), np.nan)}


def _network_time(result: Result, times: Columns) -> Columns | None:
    """What remains of the flow completion times."""
    if "flows" not in result.backend_tables:
        return None
    time = _completion(result, result.backend_tables["flows"].columns)["fct"]
    return {"network": np.where(time < 0, -1, time - sum(times[name] for name in FLOW_TIMES))}


add_backend_table(
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
    ("flow",),
    when=WHEN,
    derive=_completion,
    attributes={"left_out": "number of flows beyond the first 2^20"},
)
add_backend_table(
    "ports",
    "Counters of each link of the Ethernet backend over the whole run; a link is an output port.",
    (
        Column("bytes", "bytes", "bytes sent, with headers and pause frames"),
        Column("packets", "1", "packets sent, with acknowledgments and pause frames"),
        Column("marked", "1", "data packets marked in the queue of the port"),
        Column("dropped", "1", "packets dropped instead of entering the queue"),
        Column("trimmed", "1", "data packets trimmed before they entered the queue"),
        Column("errors", "1", "packets lost on the link, by errors or because it is down"),
        Column("pauses", "1", "pauses of a class that the receiver of the link requested (PFC)"),
        Column("paused", "ps", "time in which at least one class was paused"),
        Column("depth", "bytes", "most bytes in the queue of one class of the port"),
        Column("cause", "1", "number of the link whose queue its last pause is due to; -1: none"),
        Column("root", "1", "number of the link at the end of the chain of causes; -1: never paused"),
        Column("caused", "ps", "time of the pauses of other links whose root is this link"),
    ),
    LINK,
    when=WHEN,
    links=LINKS,
)
add_backend_table(
    "port_windows",
    "Queue, marks and pauses of each link of the Ethernet backend in each time window.",
    (
        Column("depth", "bytes", "most bytes in the queue of one class of the port", "uint"),
        Column("marked", "1", "data packets marked", "uint"),
        Column("dropped", "1", "packets dropped", "uint"),
        Column("trimmed", "1", "data packets trimmed", "uint"),
        Column("errors", "1", "packets lost on the link", "uint"),
        Column("pauses", "1", "pauses that the receiver of the link requested", "uint"),
        Column("paused", "ps", "time in which at least one class was paused", "uint"),
    ),
    WINDOW,
    when=WHEN,
    links=LINKS,
)

add_backend_table(
    "pfc_frames",
    "One row per PFC frame of the Ethernet backend, in order of arrival.",
    (
        Column("time", "ps", "time at which the frame has arrived"),
        Column("link", "1", "number of the link that it stops or starts, at whose source it arrives"),
        Column("pause", "1", "1: pause, 0: resume"),
    ),
    ("frame",),
    when="with `network.ethernet.pfc.log = true`",
)
add_backend_table(
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
    ("flow",),
    derive=_network_time,
    when="with `--backend ethernet` and `output.attribution`; not with Ultra Ethernet",
)
add_backend_table(
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
    when="with `network.ethernet.sampled_flows` above 0",
    attributes={"window_cycles": "length of a window"},
)
