"""The chain of dependent messages that determined the time of a packet run, and the time without parts of their
latency.

A message is sent when another one arrives: its *trigger*, the last message that its sender received before. Messages
that are issued at a given time have no trigger. The chain of triggers that ends with the last arrival accounts for the
time of the run, to the cycle: the latencies of its messages, and the gaps between an arrival and the next sending.

If each message takes less time, each chain of triggers becomes shorter; the longest of them is a lower bound of the
time of the same messages. So the measured run bounds the error of a model that ignores waiting.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import IntArray
from pyxsim.results.attribution import PARTS
from pyxsim.results.comparison import GAPS, KNOWN, PACKETS, Chain
from pyxsim.results.result import Result
from pyxsim.runner.prepared import Prepared
from pyxsim.study.compare.alone import delays

ALONE = ("serialisation", "hops")
"""The latency parts of an uncontended message."""


@dataclass(frozen=True)
class Messages:
    """The K messages of a run in the order of sending, int64[K] each.

    `trigger`: the message whose arrival each one followed, -1 for none. `alone`: cycles without waiting. `known`: the
    latency on the backend without congestion. `order`: their rows.
    """

    sent: IntArray
    arrived: IntArray
    trigger: IntArray
    alone: IntArray
    known: IntArray
    order: IntArray

    @classmethod
    def of(cls, prepared: Prepared, table: dict[str, IntArray], alone: IntArray) -> Messages:
        """Make the messages from a table: sent, arrived (cycles), src, dst, bytes, traffic; a row each."""
        order = np.argsort(table["sent"], kind="stable")
        rows, alone = {name: values[order] for name, values in table.items()}, alone[order]
        pauses = np.array(prepared.system.options.endpoint_delays(prepared.network.npus), np.int64)
        issued = {group_work.start for collective in prepared.job.collectives for group_work in collective.per_group}
        issued |= {message.start for message in prepared.system.messages}
        issued |= {start + pause for start in issued for pause in np.unique(pauses).tolist()}
        return cls(
            rows["sent"],
            rows["arrived"],
            _triggers(
                rows, pauses, np.array(sorted(issued), np.int64), rows["traffic"] < len(prepared.job.collectives)
            ),
            alone,
            _known(prepared, rows, alone),
            order,
        )

    def over(self, spent: IntArray) -> int:
        """Return the end of the longest chain of triggers if each message takes `spent` cycles."""
        ends: list[int] = []
        for time, trigger, gap in zip(spent.tolist(), self.trigger.tolist(), self._gaps.tolist(), strict=True):
            ends.append((ends[trigger] if trigger >= 0 else 0) + gap + time)
        return max(ends, default=0)

    @property
    def _gaps(self) -> IntArray:
        """Cycles from the arrival of the trigger (or from cycle 0) to the sending."""
        return self.sent - np.where(self.trigger >= 0, self.arrived[self.trigger], 0)

    @property
    def last(self) -> IntArray:
        """The chain that ends with the last arrival, in order of time."""
        chain: list[int] = []
        message = int(np.argmax(self.arrived)) if len(self.arrived) else -1
        while message >= 0:
            chain.append(message)
            message = int(self.trigger[message])
        return np.array(chain[::-1], np.int64)


def chain_of(prepared: Prepared, result: Result) -> Chain | None:
    """Return the chain of a packet run; None unless all messages were recorded."""
    records = result.attribution
    if records is None or records.left_out.get("latency") or not len(records.latency["sent"]):
        return None
    if not (prepared.system.pays_endpoint_delays and prepared.system.sends_planned_bytes):
        return None
    rows = records.latency
    messages = Messages.of(prepared, rows, np.sum([rows[part] for part in ALONE], axis=0))
    last = messages.order[messages.last]
    waits = {part: int(rows[part][last].sum()) for part in PARTS if part not in ALONE}
    return spent_on(messages, result, PACKETS, waits)


def spent_on(messages: Messages, result: Result, overhead: str, waits: dict[str, int]) -> Chain:
    """Return the chain with what its time was spent on. `overhead`: the name of what packets add without waiting."""
    last = messages.last
    # Flits that wait one by one overlap with serialisation: only the remainder counts as known.
    known = int(np.minimum(messages.alone, messages.known)[last].sum())
    transit = int((messages.arrived - messages.sent)[last].sum())
    spent = {
        GAPS: result.time_cycles - transit,
        KNOWN: known,
        overhead: int(messages.alone[last].sum()) - known,
        **waits,
    }
    after = result.time_cycles - int(messages.arrived.max())  # the last endpoint
    return Chain(len(last), spent, messages.over(messages.known) + after)


def _triggers(rows: dict[str, IntArray], pauses: IntArray, issued: IntArray, collective: NDArray[np.bool_]) -> IntArray:
    """Return the trigger of each message; -1 for messages sent when their collective is issued.

    A trigger arrived exactly one pause earlier (its endpoint delay) or two (the next phase begins), at the same NPU, or
    sent by it; or it ended a phase elsewhere and so released a queue slot. Otherwise it is the last event of the same
    NPU at least one pause earlier. `collective`: which messages belong to collectives.
    """
    triggers = np.full(len(rows["sent"]), -1, np.int64)
    anywhere = _Events.of(rows, collective)
    for npu in np.unique(rows["src"]).tolist():
        mine = np.flatnonzero(rows["src"] == npu)
        mine = mine[collective[mine] & ~np.isin(rows["sent"][mine], issued)]
        pause, sent = int(pauses[npu]), rows["sent"][mine]
        came, sent_by = (_Events.of(rows, collective & (rows[end] == npu)) for end in ("dst", "src"))
        chosen = np.full(len(mine), -1, np.int64)
        for events, count in ((came, 1), (came, 2), (sent_by, 2), (sent_by, 1), (anywhere, 2)):
            chosen = np.where(chosen < 0, events.at(sent - count * pause), chosen)
        last = np.stack([events.until(sent - pause) for events in (came, sent_by)])
        times = np.where(last >= 0, rows["arrived"][last], -1)
        triggers[mine] = np.where(chosen < 0, last[times.argmax(axis=0), np.arange(len(mine))], chosen)
    return triggers


@dataclass(frozen=True)
class _Events:
    """Arrivals in order of time: cycles and messages."""

    cycles: IntArray
    messages: IntArray

    @classmethod
    def of(cls, rows: dict[str, IntArray], which: NDArray[np.bool_]) -> _Events:
        messages = np.flatnonzero(which)
        messages = messages[np.argsort(rows["arrived"][messages], kind="stable")]
        return cls(rows["arrived"][messages], messages)

    def until(self, cycles: IntArray) -> IntArray:
        """Return the last message up to each cycle; -1 for none."""
        place = np.searchsorted(self.cycles, cycles, side="right") - 1
        return np.where(place >= 0, self.messages[place], -1) if len(self.messages) else np.full(len(cycles), -1)

    def at(self, cycles: IntArray) -> IntArray:
        """Return the last message that arrived exactly in each cycle; -1 for none."""
        place = np.searchsorted(self.cycles, cycles, side="right") - 1
        known = (place >= 0) & (self.cycles[place] == cycles) if len(self.messages) else np.zeros(len(cycles), bool)
        return np.where(known, self.messages[place], -1) if known.any() else np.full(len(cycles), -1)


def _known(prepared: Prepared, rows: dict[str, IntArray], alone: IntArray) -> IntArray:
    """The cycles of each message on the backend without congestion.

    If messages of a pair have several routes: the longest latency that does not exceed the measured one.
    """
    traffic = np.unique(prepared.system.traffic()[:, :4], axis=0)
    delays_of: dict[tuple[int, int, int], list[int]] = {}
    for (src, dst, _, size), delay in zip(traffic.tolist(), delays(prepared, traffic).tolist(), strict=True):
        delays_of.setdefault((src, dst, size), []).append(delay)
    keys = zip(rows["src"].tolist(), rows["dst"].tolist(), rows["bytes"].tolist(), strict=True)
    known = [
        max((delay for delay in delays_of[key] if delay <= most), default=min(delays_of[key]))
        for key, most in zip(keys, alone.tolist(), strict=True)
    ]
    return np.array(known, np.int64)
