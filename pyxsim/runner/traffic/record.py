"""Convert the observed counts of open traffic to the tables and numbers of a result."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pyxsim.analysis.statistics import Interval, percentile
from pyxsim.core.engine_options import CAUSES
from pyxsim.results.traffic import PERCENTILES, Traffic
from pyxsim.runner.traffic.observe import Observer
from pyxsim.runner.traffic.steady import Outcome, accepted, created, latency, network_latency
from pyxsim.settings.traffic import MessageClass


def record(
    observer: Observer,
    outcome: Outcome,
    classes: Sequence[MessageClass],
    *,
    offered: float | None,
    facts: dict[str, Any] | None = None,
) -> Traffic:
    """Return the measured traffic. `facts`: further keys of the summary."""
    first, end, grid = outcome.first, outcome.end, observer.grid
    rate, generated = accepted(observer, outcome.from_, outcome.to), created(observer, outcome.from_, outcome.to)
    values, counts = observer.tally.of(first, end, observer.rows)
    packets = counts[: observer.classes]
    summary: dict[str, Any] = {
        "offered_load": generated if offered is None else offered,
        "generated_load": generated,
        "accepted_load": rate.mean,
        "accepted_load_interval": rate.half,
        **_nodes(observer, outcome),
        **_latencies(observer, first, end, slice(observer.classes)),
        **_split(observer, first, end, slice(observer.classes)),
        **_percentiles(values, packets.sum(axis=0)),
        "saturated": outcome.saturated,
        "steady": outcome.steady,
        "stopped": outcome.why,
        "warmup_cycles": grid.start(first),
        "measured_cycles": grid.start(end) - grid.start(first),
        "measured_packets": int(observer.packets.upto(end)[: observer.classes, first:].sum()),
        **_round_trip(observer, first, end, slice(observer.classes, observer.rows)),
        **(facts or {}),
    }
    rows = [_class(observer, k, class_, outcome, values, counts[k]) for k, class_ in enumerate(classes)]
    if len(rows) > 1:
        summary["classes"] = [{key: _plain(value) for key, value in row.items()} for row in rows]
    return Traffic(
        summary={key: _plain(value) for key, value in summary.items()},
        classes={key: [row[key] for row in rows] for key in rows[0]},
        batches=_batches(observer, outcome.to),
        accepted=_per_node(observer, outcome),
        latency=values[packets.any(axis=0)],
        packets=packets[:, packets.any(axis=0)],
        notes=list(_notes(outcome, observer)),
    )


def _plain(value: Any) -> Any:
    """A value for JSON, which has neither infinity nor NaN."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _mean_and_interval(name: str, interval: Interval) -> dict[str, float]:
    return {name: interval.mean, f"{name}_interval": interval.half}


def _latencies(observer: Observer, first: int, end: int, rows: slice | int) -> dict[str, float]:
    packets = int(observer.packets.upto(end)[rows, first:].sum())
    hops = int(observer.hops.upto(end)[rows, first:].sum())
    return {
        **_mean_and_interval("packet_latency", latency(observer, first, end, rows)),
        **_mean_and_interval("network_latency", network_latency(observer, first, end, rows)),
        "hops": hops / packets if packets else math.nan,
    }


def _split(observer: Observer, first: int, end: int, rows: slice) -> dict[str, float]:
    """The mean latency parts; empty without attribution."""
    messages, parts = observer.split(first, end)
    if not parts.any():
        return {}
    count = int(messages[rows].sum())
    sums = parts[rows].sum(axis=0).tolist()
    return {f"latency_{part}": cycles / count if count else math.nan for part, cycles in zip(CAUSES, sums, strict=True)}


def _percentiles(values: Any, counts: Any) -> dict[str, float]:
    tail = {f"packet_latency_{name}": percentile(values, counts, share) for name, share in PERCENTILES.items()}
    return {**tail, "packet_latency_max": percentile(values, counts, 1)}


def _round_trip(observer: Observer, first: int, end: int, rows: slice) -> dict[str, float]:
    if rows.start == rows.stop:
        return {}
    return _mean_and_interval("round_trip", latency(observer, first, end, rows))


def _per_node(observer: Observer, outcome: Outcome) -> Any:
    cycles = observer.grid.start(outcome.to) - observer.grid.start(outcome.from_)
    return observer.nodes(outcome.from_, outcome.to) / max(1, cycles)


def _nodes(observer: Observer, outcome: Outcome) -> dict[str, float]:
    rates = _per_node(observer, outcome)
    return {"accepted_load_min": float(rates.min()), "accepted_load_max": float(rates.max())}


def _class(
    observer: Observer, number: int, message_class: MessageClass, outcome: Outcome, values: Any, counts: Any
) -> dict[str, Any]:
    """The row of a message class."""
    first, end = outcome.first, outcome.end
    cycles = observer.grid.start(outcome.to) - observer.grid.start(outcome.from_)
    per_cycle = 1 / max(1, cycles) / observer.npus
    part = (number, slice(outcome.from_, None))
    return {
        "name": message_class.name,
        "virtual_network": message_class.virtual_network,
        "priority": message_class.priority,
        "measured_packets": int(observer.packets.upto(end)[number, first:].sum()),
        "generated_load": int(observer.created_flits.upto(outcome.to)[part].sum()) * per_cycle,
        "accepted_load": int(observer.accepted_flits.upto(outcome.to)[part].sum()) * per_cycle,
        **_latencies(observer, first, end, number),
        **_split(observer, first, end, slice(number, number + 1)),
        **_percentiles(values, counts),
    }


def _batches(observer: Observer, batches: int) -> dict[str, Any]:
    """The columns of the batches."""
    grid, real = observer.grid, slice(observer.classes)
    start = np.array([grid.start(batch) for batch in range(batches + 1)], dtype=np.int64)
    cycles = np.diff(start).astype(float) * observer.npus
    arrived = observer.arrived.upto(batches)[real].sum(axis=0)
    total = observer.latency.upto(batches)[real].sum(axis=0)
    return {
        "start": start[:-1],
        "generated": observer.created_flits.upto(batches)[real].sum(axis=0) / cycles,
        "accepted": observer.accepted_flits.upto(batches)[real].sum(axis=0) / cycles,
        "packets": arrived,
        "latency": np.where(arrived > 0, total / np.maximum(arrived, 1), np.nan),
        "backlog": observer.backlog(batches)[1],
    }


def _notes(outcome: Outcome, observer: Observer) -> Iterator[str]:
    if outcome.saturated:
        yield f"the network is saturated: {outcome.reason}"
    if outcome.steady:
        return
    cycles = f"{observer.grid.start(outcome.to):,} cycles"
    why = {
        "saturated": "the latency has no steady value; the value given is that of the packets so far and grows with "
        "time",
        "limit": f"stopped after {cycles} (traffic.max_cycles), before the latency was as precise as required",
        "interrupted": "interrupted; the latency is that of the packets so far",
        "failed": "the simulated system failed; the latency is that of the packets so far",
    }
    if outcome.why in why:
        yield why[outcome.why]
