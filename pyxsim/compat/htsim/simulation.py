"""A run of htsim: its flows on the Ultra Ethernet engine, its triggers, its lines of output."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from pyxsim.compat.htsim.connection_matrix import Connection, ConnectionMatrix
from pyxsim.compat.htsim.fabric import uec_config
from pyxsim.compat.htsim.fat_tree import FatTree
from pyxsim.compat.htsim.htsim_options import HtsimOptions
from pyxsim.compat.htsim.rules import DerivedRules, base_rtt, derive, engine_rules
from pyxsim.errors import SimulationError
from pyxsim.network.ethernet.uec.uec_engine import UecEngine

FIRST_ID = 1_000_000_001
SLICE = 100_000_000  # ps between two looks at signals
_TOTALS = {
    "New": "sent",
    "Rtx": "resent",
    "RTS": "rts",
    "ACKs": "acks",
    "NACKs": "nacks",
    "Pulls": "pulls",
    "sleek_pkts": "recovered",
}


def us(time: int) -> str:
    """Return a time in microseconds as C++ prints it: 6 digits."""
    return f"{time / 1e6:.6g}"


@dataclass
class HtsimFlow:
    """A flow of the connection matrix; with -conn_reuse the messages of an id. Times in picoseconds."""

    number: int
    src: int
    dst: int
    id: int
    messages: list[Connection]
    start: int | None = None
    finish: int | None = None
    end_row: dict[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of payload."""
        return sum(line.size for line in self.messages)

    @property
    def name(self) -> str:
        """The first words of its lines of output."""
        return f"Flow Uec_{self.src}_{self.dst} flowId {self.id} uecSrc {self.number}"


class Trigger:
    """A trigger of the connection matrix."""

    def __init__(self, number: int, kind: str, count: int) -> None:
        self.number, self.kind, self.left = number, kind, count
        self.targets: list[HtsimFlow] = []
        self.fired = 0

    def activate(self) -> tuple[list[HtsimFlow], str]:
        """Return the flows to start, and htsim's line. Raises SimulationError where htsim aborts."""
        if self.kind == "multishot":
            if self.fired == len(self.targets):
                return [], "Noone left to activate"
            self.fired += 1
            line = f"Multishot Trigger {self.number} fired, {len(self.targets)} targets"
            return [self.targets[self.fired - 1]], line
        if self.fired:
            raise SimulationError(f"trigger {self.number} ({self.kind}) is activated again after it has fired")
        self.left -= 1
        if self.kind == "barrier" and self.left > 0:
            return [], f"Trigger {self.number} activated, activations remaining: {self.left}"
        self.fired = 1
        return self.targets, f"Trigger {self.number} fired, {len(self.targets)} targets"


def _random(seed: int) -> np.random.MT19937:
    """Return htsim's generator, which is seeded as numpy's old one."""
    random = np.random.MT19937()
    random.state = cast(Any, np.random.RandomState(seed & 0xFFFFFFFF).get_state(legacy=False))
    return random


class HtsimRun:
    """One run; `lines` simulates it.

    Attributes
    ----------
    flows
        In the order of the file.
    """

    def __init__(self, options: HtsimOptions, matrix: ConnectionMatrix, tree: FatTree) -> None:
        self.options, self.tree = options, tree
        self.rules: DerivedRules = derive(options, tree)
        random = _random(options.seed)
        self.config = uec_config(
            tree,
            self.rules,
            engine_rules(options, self.rules, tree),
            random,
            mark_last=not options.receiver_cc,
            failed=options.failed,
        )
        self.engine = UecEngine(self.config, random)
        self.triggers = {
            number: Trigger(number, line.kind, line.count) for number, line in sorted(matrix.triggers.items())
        }
        self.flows: list[HtsimFlow] = []
        self.finished: list[HtsimFlow] = []  # as printed; with -conn_reuse a flow can finish several times
        self._connect(matrix)

    def _connect(self, matrix: ConnectionMatrix) -> None:
        """Make the flows."""
        by_id: dict[int, HtsimFlow] = {}
        for line in matrix.connections:
            if self.options.reuse and line.id in by_id:
                assert line.start is not None
                flow = by_id[line.id]
                flow.messages.append(line)
                self.engine.add_message(flow.number, line.size, line.start)
                continue
            automatic = FIRST_ID + 2 * len(self.flows)
            ids = (line.id, line.id) if line.id else (automatic, automatic + 1)
            rtt = base_rtt(self.options, self.rules, self.tree, line.src, line.dst)
            start = -1 if line.start is None else line.start
            number = self.engine.connect(line.src, line.dst, line.size, *ids, rtt, start, connection=self.options.reuse)
            flow = HtsimFlow(number, line.src, line.dst, ids[0], [line])
            self.flows.append(flow)
            by_id[line.id] = flow
            if line.trigger:
                self.triggers[line.trigger].targets.append(flow)

    def lines(self) -> Iterator[str]:
        """Simulate, and yield htsim's lines about flows and triggers."""
        starts = self._starts()
        upcoming = next(starts, None)
        while (time := self.engine.next_time) >= 0:
            numbers, times = self.engine.run(time + SLICE)
            until = int(times[0]) if len(times) else time + SLICE
            while upcoming is not None and upcoming[0] <= until:
                yield self._started(upcoming[1], upcoming[0])
                upcoming = next(starts, None)
            for number in numbers:
                yield from self._finished(self.flows[number])

    def _starts(self) -> Iterator[tuple[int, HtsimFlow]]:
        """Yield the starts of flows before the end, in the order of time and file."""
        known = [
            (min(line.start for line in flow.messages if line.start is not None), flow)
            for flow in self.flows
            if flow.messages[0].start is not None
        ]
        for start, flow in sorted(known, key=lambda each: each[0]):
            if not self.options.end or start < self.options.end:
                yield start, flow

    def _started(self, flow: HtsimFlow, time: int) -> str:
        flow.start = time
        return f"{flow.name} starting at {us(time)}"

    def _finished(self, flow: HtsimFlow) -> Iterator[str]:
        """Yield the lines of a flow that has ended, and of what it triggers."""
        number = flow.number
        row = {name: int(column[0]) for name, column in self.engine.flow_table(number + 1, number).items()}
        flow.finish, flow.end_row = row["end"], row
        self.finished.append(flow)
        messages = sum(line.start is None or line.start <= row["end"] for line in flow.messages)
        nbytes = (row["cumulative"] - row["rts"]) * (self.options.mtu - 64)
        yield (
            f"{flow.name} finished at {us(row['end'])} total messages {messages} total packets {row['cumulative']} "
            f"RTS {row['rts']} total bytes {nbytes} in_flight now {row['in_flight']} "
            f"fair_inc {row['increased_fair']} prop_inc {row['increased_proportional']} "
            f"fast_inc {row['increased_fast']} eta_inc {row['increased_eta']} multi_dec -{row['decreased_window']} "
            f"quick_dec -{row['decreased_quick']} nack_dec -{row['decreased_nack']}"
        )
        done = flow.messages[0].send_done
        if done:
            targets, line = self.triggers[done].activate()
            yield line
            for target in reversed(targets):  # htsim keeps pending flows on a stack
                yield f"Uec_{target.src}_{target.dst} activate"
                yield self._started(target, row["end"])
            self.engine.start_now([target.number for target in reversed(targets)])

    def totals(self) -> dict[str, int]:
        """Return the packet counts of htsim's last line."""
        table = self.engine.flow_table()
        totals = {name: int(table[column].sum()) for name, column in _TOTALS.items()}
        names = list(totals)
        return {name: totals.get(name, 0) for name in (*names[:3], "Bounced", *names[3:])}

    def json(self) -> dict[str, Any]:
        """Return the results for --json."""
        table = self.engine.flow_table()
        flows = []
        for flow in self.flows:
            row = flow.end_row or {name: int(column[flow.number]) for name, column in table.items()}
            flows.append(
                {
                    "src": flow.src,
                    "dst": flow.dst,
                    "id": flow.id,
                    "bytes": flow.size,
                    "messages": len(flow.messages),
                    "start_us": _us(flow.start),
                    "finish_us": _us(flow.finish),
                    "packets": row["cumulative"] if flow.end_row else row["packets"],
                    **{name: int(table[name][flow.number]) for name in ("sent", "resent", "rts", "acks", "nacks")},
                    **{name: int(table[name][flow.number]) for name in ("pulls", "marked", "trimmed", "dropped")},
                }
            )
        last = [flow.finish for flow in self.finished if flow.finish is not None]
        return {
            "flows": flows,
            **{name.lower(): value for name, value in self.totals().items()},
            "finished": sum(flow.finish is not None for flow in self.flows),
            "first_us": _us(last[0] if last else None),
            "tail_us": _us(last[-1] if last else None),
            "counts": dict(self.engine.counts),
        }


def _us(time: int | None) -> float | None:
    return None if time is None else time / 1e6
