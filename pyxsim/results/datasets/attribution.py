"""Attribution of latencies to causes, and of delays to traffic."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.results.attribution import BLAME, LATENCY, PARTS, STAYS, Attribution
from pyxsim.results.dataset import Column, Dataset, add, has_rows, restores
from pyxsim.results.hdf5 import StoredTable, StoredTables
from pyxsim.results.result import Result

WITH_LINKS = 'with `[output] attribution = "links"` or `"messages"`'
DIMS = ("link", "victim", "cause")
PART_TEXT = {
    "source": "waiting in the source queue behind other messages",
    "serialisation": "transmission of the earlier flits of the same message",
    "hops": "latency of links and router pipelines without contention",
    "vc": "waiting for a free virtual channel",
    "credit": "waiting for a credit, because the downstream buffer was full",
    "link": "waiting while the link transmitted flits of other messages",
    "arbitration": "waiting after losing arbitration",
    "queue": "waiting in a buffer behind packets of other messages",
    "fault": "waiting for a link that was down, slowed or retransmitting, and retransmissions of the packet itself",
}
PART_COLUMNS = tuple(Column(name, "cycles", text, optional=name == "fault") for name, text in PART_TEXT.items())
MESSAGE = Column("message", "1", "number of the message, in order of sending")


def _congestion(result: Result) -> dict[str, Any] | None:
    attribution = result.attribution
    return (
        None
        if attribution is None
        else {
            "link": np.arange(len(attribution.link_names)),
            "name": attribution.link_names,
            "victim": attribution.traffic_names,
            "cause": PARTS,
            "cycles": attribution.congestion(),
            "packets": attribution.congestion("packets"),
            "messages": attribution.messages,
            "parts": attribution.parts,
        }
    )


def _blame(result: Result) -> dict[str, Any] | None:
    attribution = result.attribution
    return (
        None
        if attribution is None
        else {
            **attribution.blame,
            "traffic_name": attribution.culprits,
            "cause_name": PARTS,
            "link_name": attribution.link_names,
        }
    )


def _left_out(name: str) -> Any:
    return lambda result: {"left_out": result.attribution.left_out.get(name, 0)}


add(
    Dataset(
        "congestion",
        "Cycles that packets spent at each link or lane, by traffic and part of the latency, summed over all culprits.",
        (
            Column("link", "1", "number of the link", "int32", ("link",)),
            Column("name", "", "name of the link or lane", "text", ("link",)),
            Column("victim", "", "traffic of the packets", "text", ("victim",)),
            Column("cause", "", "part of the latency", "text", ("cause",)),
            Column("cycles", "cycles", "cycles that the packets spent at this link or lane", "uint"),
            Column("packets", "1", "number of stays that contribute to these cycles", "uint"),
            Column("messages", "1", "delivered messages (open traffic: measured packets)", dims=("victim",)),
            Column("parts", "cycles", "sum of each part of their latency", dims=("victim", "cause")),
        ),
        _congestion,
        DIMS,
        when=WITH_LINKS,
        present=lambda result: result.attribution,
        coordinates=("name",),
        attributes={"left_out": "numbers of rows missing in latency and stays, as JSON"},
        attrs=lambda result: {"left_out": json.dumps(result.attribution.left_out)},
    )
)
add(
    Dataset(
        "blame",
        "How long each traffic waited for each other traffic: one row per link or lane, victim, culprit and part.",
        (
            Column("link", "1", "number of the link or lane", labels="link_name"),
            Column("victim", "1", "number of the traffic that waited", labels="traffic_name"),
            Column(
                "culprit",
                "1",
                "number of the traffic that caused the wait; -1: none, -2: faults",
                labels="traffic_name",
            ),
            Column("cause", "1", "number of the part of the latency", labels="cause_name"),
            Column("cycles", "cycles", "sum over all packets"),
            Column("packets", "1", "number of stays that contribute to these cycles"),
        ),
        _blame,
        when=WITH_LINKS,
        present=lambda result: result.attribution,
    )
)
add(
    Dataset(
        "latency",
        "One row per delivered message.",
        (
            MESSAGE,
            Column("src", "1", "sending NPU"),
            Column("dst", "1", "receiving NPU"),
            Column("bytes", "bytes", "size of the message"),
            Column("traffic", "1", "number of its traffic"),
            Column("sent", "cycles", "cycle in which the message is handed to the network"),
            Column("arrived", "cycles", "cycle in which the last flit of the message arrives"),
            *PART_COLUMNS,
        ),
        lambda result: result.attribution and result.attribution.latency,
        when=f"{WITH_LINKS}, without open traffic",
        present=lambda result: result.attribution and has_rows(result.attribution.latency),
        attributes={"left_out": "number of messages beyond the first 2^20"},
        attrs=_left_out("latency"),
    )
)
add(
    Dataset(
        "stays",
        "One row per stay of a packet, at its source and in each buffer.",
        (
            MESSAGE,
            Column("packet", "1", "number of the packet in its message"),
            Column("place", "1", "number of the link or lane on which it leaves, as in /congestion"),
            *PART_COLUMNS,
        ),
        lambda result: result.attribution and result.attribution.stays,
        when='with `[output] attribution = "messages"`',
        present=lambda result: result.attribution and has_rows(result.attribution.stays),
        attributes={"left_out": "number of rows beyond the first 2^20"},
        attrs=_left_out("stays"),
    )
)


def _with_all_parts(table: StoredTable, columns: tuple[str, ...]) -> dict[str, IntArray]:
    """The columns of a table; files of earlier versions lack the last part, which is then 0."""
    rows = len(table[columns[0]])
    return {name: table[name] if name in table or name != "fault" else np.zeros(rows, np.int64) for name in columns}


@restores
def restore(tables: StoredTables) -> dict[str, Any]:
    """The attribution of the latencies."""
    if "congestion" not in tables:
        return {}
    table = tables["congestion"]
    rows = {
        name: _with_all_parts(tables[name], columns)
        for name, columns in (("latency", LATENCY), ("stays", STAYS))
        if name in tables
    }
    parts = table["parts"]
    attribution = Attribution(
        table["victim"].tolist(),
        table["name"].tolist(),
        table["messages"],
        np.pad(parts, ((0, 0), (0, len(PARTS) - parts.shape[1]))),
        tables["blame"].columns(BLAME),
        **rows,
        left_out=json.loads(table.attrs["left_out"]),
    )
    return {"attribution": attribution}
