"""What requests experienced: times to tokens, throughput, goodput; and what iterations did."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from pyxsim.settings.serving import Serving
from pyxsim.units import to_cycles
from pyxsim.workload.serving.requests import Request
from pyxsim.workload.serving_record import ServingRecord

PERCENTILES = (50, 90, 99)
TIMES = ("ttft", "tpot", "end_to_end", "queueing", "kv_transfer")
MOST_NAMED = 8


class Iteration(NamedTuple):
    """An iteration of an instance: cycles of its begin and end, requests, tokens of prompts, requests with an output
    in progress, most blocks of KV cache held by a rank at its end, requests that wait then."""

    instance: int
    begin: int
    end: int
    requests: int
    prompt_tokens: int
    outputs: int
    kv_blocks: int
    waiting: int


def record_of(
    requests: Sequence[Request],
    iterations: Sequence[Iteration],
    serving: Serving,
    clock: Fraction,
    end: int,
    notes: Sequence[str],
) -> ServingRecord:
    """Return the record of a run that ended in cycle `end`."""
    rows = [_row(request, serving, clock) for request in requests]
    columns = {name: [row[name] for row in rows] for name in rows[0]} if rows else {}
    steps = {name: [getattr(step, name) for step in iterations] for name in Iteration._fields}
    steps["kv_tokens"] = [step.kv_blocks * serving.kv_block for step in iterations]
    del steps["kv_blocks"]
    unfinished = [request for request in requests if not request.done]
    lines = list(notes)
    if unfinished:
        named = ", ".join(str(request.number) for request in unfinished[:MOST_NAMED])
        more = f" and {len(unfinished) - MOST_NAMED} more" if len(unfinished) > MOST_NAMED else ""
        lines.append(f"{len(unfinished)} of {len(requests)} requests have not ended: {named}{more}")
    for request in [request for request in requests if request.rejected][:MOST_NAMED]:
        lines.append(f"request {request.number} was rejected: {request.rejected}")
    return ServingRecord(columns, steps, _summary(rows, requests, serving, clock, end), lines)


def _row(request: Request, serving: Serving, clock: Fraction) -> dict[str, Any]:
    """A request: what it asked for, its cycles, and its times in seconds, NaN where unknown."""
    times = {
        "ttft": _seconds(request.arrival, request.first, clock),
        "tpot": _seconds(request.first, request.last, clock) / (request.output - 1) if request.output > 1 else np.nan,
        "end_to_end": _seconds(request.arrival, request.last, clock),
        "queueing": _seconds(request.arrival, request.scheduled, clock),
        "kv_transfer": _seconds(request.sent, request.received, clock),
    }
    gaps = np.diff(request.token_times)
    return {
        "arrival": request.arrival,
        "scheduled": request.scheduled,
        "first_token": request.first,
        "last_token": request.last,
        "prompt": request.prompt,
        "output": request.output,
        "generated": request.generated,
        "instance": request.instance,
        "decoder": request.decoder,
        "kv_sent": request.sent,
        "kv_received": request.received,
        "preemptions": request.preemptions,
        **times,
        "longest_gap": float(Fraction(int(gaps.max())) / clock) if len(gaps) else np.nan,
        "good": int(_is_good(request, serving, clock)),
        "state": "finished" if request.done else "rejected" if request.rejected else "unfinished",
    }


def _seconds(begin: int, end: int, clock: Fraction) -> float:
    return float(Fraction(end - begin) / clock) if begin >= 0 and end >= 0 else np.nan


def _is_good(request: Request, serving: Serving, clock: Fraction) -> bool:
    """Whether a request has ended and kept the objective, exactly in cycles."""
    if not request.done:
        return False
    slo = serving.slo
    if slo is None:
        return True
    if slo.ttft is not None and request.first - request.arrival > to_cycles(slo.ttft, clock)[0]:
        return False
    if slo.tpot is None or request.output == 1:
        return True
    return request.last - request.first <= to_cycles(slo.tpot, clock)[0] * (request.output - 1)


def _summary(
    rows: Sequence[dict[str, Any]], requests: Sequence[Request], serving: Serving, clock: Fraction, end: int
) -> dict[str, Any]:
    """Counts, rates over the time from the first arrival to the end, and percentiles of the times of requests."""
    begin = min((request.arrival for request in requests), default=0)
    seconds = float(Fraction(max(end - begin, 0)) / clock)
    finished = sum(request.done for request in requests)
    generated = sum(request.generated for request in requests)
    good = sum(row["good"] for row in rows)
    rates = {
        "requests_per_s": finished,
        "tokens_per_s": generated,
        "prompt_tokens_per_s": sum(request.prompt for request in requests if request.first >= 0),
        "goodput": good,
    }
    return {
        "requests": len(requests),
        "finished": finished,
        "rejected": sum(bool(request.rejected) for request in requests),
        "good": good,
        "generated": generated,
        "preemptions": sum(request.preemptions for request in requests),
        "seconds": seconds,
        **{name: count / seconds if seconds else np.nan for name, count in rates.items()},
        **{f"{name}_{word}": value for name in TIMES for word, value in _statistics([row[name] for row in rows])},
    }


def _statistics(values: Sequence[float]) -> list[tuple[str, float]]:
    """Mean and percentiles; the q-th percentile is the least value that q % of the values do not exceed."""
    known = np.sort(np.array([value for value in values if not np.isnan(value)]))
    if not len(known):
        return [("mean", np.nan), *((f"p{q}", np.nan) for q in PERCENTILES)]
    places = [max(-(-q * len(known) // 100), 1) - 1 for q in PERCENTILES]
    named = [(f"p{q}", float(known[place])) for q, place in zip(PERCENTILES, places, strict=True)]
    return [("mean", float(known.mean())), *named]
