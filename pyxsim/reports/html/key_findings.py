"""Sentences about what limited a run, from the same figures as the tables."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from pyxsim.analysis.bound import ignored_limit
from pyxsim.reports.text import verdict_tables
from pyxsim.reports.text.facts import STALL_WORDS, dimensions, percent
from pyxsim.reports.text.traffic_facts import number
from pyxsim.results.comparison import PACKET, Compared, Entry
from pyxsim.results.result import STALLS, Result

FULL = 0.85  # utilization from which links are full
NEAR = 1.1  # ratio to the bound that counts as good
LITTLE = 0.02  # share of the time that is not mentioned
HELP = {
    "stall_credit": "larger buffers would help",
    "stall_vc": "more virtual channels would help",
    "stall_arbitration": "packets competed in routers, so other routes or smaller messages would help",
}
"""Remedies by cause of waiting; a busy link needs none."""


def sentences(result: Result) -> list[str]:
    """Yield the main findings, most important first; for a failed run only the failure."""
    if result.failure:
        return []
    return [*_bound(result), *_traffic(result), *_work(result), *_links(result), *_waiting(result)]


def _bound(result: Result) -> Iterator[str]:
    if result.ratio is None or result.lower_bound_ns is None or not result.complete:
        return
    bound = result.lower_bound_ns * float(result.clock_hz) / 1e9
    took = f"The run took {result.ratio:.3f} times the lower bound of its plan on these links"
    if result.time_cycles < int(bound + 1e-6):  # backends count whole cycles
        yield f"{took}: this backend ignores {ignored_limit(result.backend)}, so its time is below the bound."
    elif result.ratio < NEAR:
        yield f"{took}, so bandwidth and latency of the links limit it."
    else:
        yield f"{took}; {percent(1 - 1 / result.ratio)} of its time has other causes."
    if (share := result.of_optimum) is not None and share <= 1:
        yield f"It reached {percent(share)} of what is possible at all with any algorithm ({result.optimum_limit})."


def _traffic(result: Result) -> Iterator[str]:
    if result.traffic is None:
        return
    summary = result.traffic.summary
    if summary.get("saturated"):
        yield (
            f"The network is saturated: of an offered load of {number(summary['offered_load'])} flits per node and "
            "cycle "
            f"it accepted {number(summary['accepted_load'])}."
        )
    elif summary.get("packet_latency") is not None and summary.get("zero_load_latency"):
        times = summary["packet_latency"] / summary["zero_load_latency"]
        yield f"The network sustains this load; the mean latency is {times:.2f} times that of an empty network."


def _work(result: Result) -> Iterator[str]:
    if result.work is None:
        return
    end = max(1, result.time_cycles)
    compute, exposed, idle = (result.work.extremes(name)["mean"] / end for name in ("compute", "exposed", "idle"))
    yield (
        f"On average an NPU computed {percent(compute)} of the time, waited {percent(exposed)} of it for "
        "communication that "
        f"no computation overlapped{f', and was idle {percent(idle)} of it' if idle >= LITTLE else ''}."
    )
    if result.work.by_kind:
        kind, cycles = next(iter(result.work.by_kind.items()))
        yield f"The largest part of the critical path is {kind}, with {percent(cycles / end)} of the run."


def _links(result: Result) -> Iterator[str]:
    uses = dimensions(result)
    if not uses or not result.busy_total.any():
        return
    kind = "" if result.link_kinds else "dimension "
    most, single = max(uses, key=lambda use: use.mean), max(uses, key=lambda use: use.most)
    what = "The links" if len(uses) == 1 else f"The busiest links are those of {kind}{most.name}; they"
    sentence = f"{what} were busy {percent(most.mean)} of the time on average, and the busiest one {percent(most.most)}"
    if single.most > 1:
        yield f"{sentence}: this backend ignores the capacity of links."
    elif most.mean >= FULL:
        yield f"{sentence}: their bandwidth limits the run."
    elif most.most >= FULL:
        yield f"{sentence}: a few links are overloaded, and the others wait for them."
    else:
        yield f"{sentence}."
        if single.most >= FULL:
            yield (
                f"But a link of {kind}{single.name} was busy {percent(single.most)} of the time, and the links of its "
                "kind "
                f"{percent(single.mean)} on average: a few links are overloaded, and the others wait for them."
            )
    # Busy links are no loss: take the most frequent other cause.
    worst = max(uses, key=lambda use: max(use.stalls[i] for i, name in enumerate(STALLS) if name in HELP))
    waited = {name: worst.stalls[i] for i, name in enumerate(STALLS) if name in HELP}
    cause = max(waited, key=lambda name: waited[name])
    if waited[cause] >= LITTLE:
        detail = "" if len(uses) == 1 else f" before links of {kind}{worst.name}"
        yield f"Flits waited{detail} for {STALL_WORDS[cause]} in {percent(waited[cause])} of the time; {HELP[cause]}."


def _waiting(result: Result) -> Iterator[str]:
    links = result.hot_links(1)
    if links:
        point = as_point(result)
        yield f"Packets waited longest at {verdict_tables.sentence(point, links[0])}"


def as_point(result: Result) -> Compared:
    """Return a result as the single point of a comparison, which explains waiting."""
    entry = Entry(PACKET, result)
    return Compared("", result.title, result.clock_hz, Fraction(0), [entry])
