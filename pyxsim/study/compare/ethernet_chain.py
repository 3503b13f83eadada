"""The chain of messages that determined the time of a run on Ethernet, and what it was spent on (docs/compare.md)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from pyxsim.arrays import FloatArray, IntArray
from pyxsim.results.comparison import FRAMES, Chain
from pyxsim.results.datasets.ethernet import FLOW_TIMES
from pyxsim.results.result import Result
from pyxsim.runner.prepared import Prepared
from pyxsim.study.compare.chains import Messages, spent_on

WAITS = {"port": "source", "pause": "pause", "window": "window", "rate": "rate", "resending": "resent"}
"""Names in a chain of what a message waits for at its sender, by the column of `flow_times`."""
QUEUES, HELD = "queues", "held"


def ethernet_chain(prepared: Prepared, result: Result) -> Chain | None:
    """Return the chain of a run on Ethernet; None unless all its messages are recorded, and of collectives."""
    flows = result.backend_tables["flows"]
    if flows.attrs["left_out"] or not len(flows.columns["src"]) or prepared.system.messages:
        return None
    if not (prepared.system.pays_endpoint_delays and prepared.system.sends_planned_bytes):
        return None
    times = result.backend_tables.get("flow_times")
    columns = dict(flows.columns)
    columns |= dict(times.columns) if times is not None else {}
    rows = _messages(columns)
    if (rows["end"] < 0).any():
        return None
    cycle = 10**12 / prepared.experiment.network.clock  # ps
    table = {name: rows[name] for name in ("src", "dst", "bytes")}
    table["sent"] = np.rint(rows["start"] / float(cycle)).astype(np.int64)
    table["arrived"] = _ended(rows["end"], cycle)
    table["traffic"] = np.zeros(len(rows["src"]), np.int64)
    transit = table["arrived"] - table["sent"]
    alone = np.minimum(_ended(rows["ideal"], cycle), transit)
    waits = _waits(rows, (transit - alone).astype(float), float(cycle))
    messages = Messages.of(prepared, table, alone)
    last = messages.order[messages.last]
    whole = int((transit - alone)[last].sum())
    return spent_on(
        messages, result, FRAMES, _rounded({name: column[last].sum() for name, column in waits.items()}, whole)
    )


def _ended(times: IntArray, cycle: Fraction) -> IntArray:
    """The cycles in which picoseconds end: a message has arrived when its cycle is over."""
    return -(-times * cycle.denominator // cycle.numerator)


def _messages(columns: dict[str, Any]) -> dict[str, IntArray]:
    """A row per message: of its flows (`queue_pairs`) the one that ended last, with the bytes of all."""
    order = np.lexsort((columns["end"], columns["message"]))
    message = columns["message"][order]
    last = order[np.flatnonzero(np.diff(message, append=message[-1] + 1))]
    rows = {name: np.asarray(column)[last] for name, column in columns.items()}
    rows["bytes"] = np.bincount(columns["message"], columns["bytes"]).astype(np.int64)[rows["message"]]
    return rows


def _waits(rows: dict[str, IntArray], excess: FloatArray, cycle: float) -> dict[str, FloatArray]:
    """Cycles of waiting of each message by what it waited for: together `excess`, those beyond an idle network.

    What it waits for at its sender may overlap with transmissions on slower links behind, and then counts in part. The
    rest are queues in the network, and timeouts.
    """
    if not all(name in rows for name in FLOW_TIMES):
        return {HELD: excess}
    waits = {WAITS[name]: rows[name] / cycle for name in FLOW_TIMES if name in WAITS}
    whole = np.sum(list(waits.values()), axis=0)
    part = np.where(whole > excess, excess / np.maximum(whole, 1), 1.0)
    waits = {name: column * part for name, column in waits.items()}
    return {**waits, QUEUES: excess - np.sum(list(waits.values()), axis=0)}


def _rounded(waits: dict[str, float], whole: int) -> dict[str, int]:
    """Whole cycles with this sum."""
    ends = np.rint(np.cumsum(list(waits.values()))).astype(np.int64)
    ends[-1] = whole
    return dict(zip(waits, np.diff(ends, prepend=0).tolist(), strict=True))
