"""The key figures of a result, which summary, notebooks and plots share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from pyxsim import units
from pyxsim.arrays import IntArray
from pyxsim.results.result import STALLS, Result
from pyxsim.units import format_time_ns

percent, plural, rounded = units.percent, units.plural, units.rounded

STALL_WORDS = {
    "stall_credit": "a credit",
    "stall_vc": "a free VC",
    "stall_arbitration": "arbitration",
    "stall_serial": "the link",
}
"""Causes of stalls, by counter."""


@dataclass(frozen=True)
class Fact:
    """One line of the summary: a label, a value and a note."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Use:
    """Utilization of a group of links, as shares of the run; `stalls` in the order of result.STALLS."""

    name: str
    links: int
    bandwidth: float
    mean: float
    most: float
    stalls: tuple[float, ...]

    def waited(self, causes: Iterable[str]) -> list[float]:
        """Return the shares of some causes, such as those of `Result.stall_causes`."""
        return [self.stalls[STALLS.index(cause)] for cause in causes]

    @property
    def cause(self) -> str:
        """The main cause of stalls, and its share of the cycles."""
        most = int(np.argmax(self.stalls))
        if not self.stalls[most]:
            return "nothing"
        return f"{STALL_WORDS[STALLS[most]]} ({percent(self.stalls[most])} of the time)"


def facts(result: Result) -> list[Fact]:
    """Return the key figures of a run, most important first."""
    clock = rounded(float(result.clock_hz), "Hz")
    lines = [
        Fact(
            "time",
            format_time_ns(Fraction(result.time_cycles) * 10**9 / result.clock_hz),
            f"{plural(result.time_cycles, 'cycle')} at {clock}",
        )
    ]
    if result.lower_bound_ns and result.ratio is not None:
        took = f"; the run took {result.ratio:.3f} times as long"
        note = "for its bytes on these links" + (took if result.complete else "")
        lines.append(Fact("lower bound", format_time_ns(Fraction(result.lower_bound_ns)), note))
    if result.optimum_ns:
        lines.append(Fact("optimum", format_time_ns(Fraction(result.optimum_ns)), _possible(result)))
    if rates := result.rates:
        note = f"algorithm bandwidth; bus bandwidth {rounded(rates.bus, 'B/s')} (as nccl-tests)"
        lines.append(Fact("bandwidth", rounded(rates.algorithm, "B/s"), note))
    if result.carried is not None:
        lines.append(Fact("data", plural(result.carried, "NPU"), "have the correct result, byte by byte"))
    count = {name: int(result.counts.get(name, 0)) for name in _COUNTS}
    on_ethernet = "packet_hops" in result.counts
    words = ("message", "packet") if on_ethernet else ("message", "packet", "flit")
    sent = [plural(count[f"{word}s"], word) for word in words if count[f"{word}s"]]
    lines.append(Fact("delivered", rounded(count["bytes_delivered"], "B", 1024), ", ".join(sent)))
    passed = plural(count["packet_hops"], "packet hop") if on_ethernet else plural(count["flit_hops"], "flit hop")
    hops = f", {passed}" if result.has_link_counters else ""
    note = f"{plural(len(result.links), 'link')}{hops}"
    lines.append(Fact("network", plural(count["npus"], "NPU"), note))
    if result.has_link_counters:
        use = result.link_utilization
        note = f"on average; busiest link {percent(float(use.max()))}"
        lines.append(Fact("links busy", percent(float(use.mean())), note))
    return [*lines, *_skipped(result), *_folded(result), *_threads(result), _speed(result)]


# From these on, the summary explains the number of threads: threads become profitable (docs/threads.md), or a run long.
EXPECT_ROUTERS, EXPECT_SECONDS = 256, 10
_COUNTS = ("messages", "packets", "packet_hops", "flits", "flit_hops", "npus", "bytes_delivered")


def waiting_titles(causes: Iterable[str]) -> list[str]:
    """Return the titles of the columns of stalls: "waited: credit", "VC", ..."""
    titles = [STALL_WORDS[cause].split()[-1] for cause in causes]
    return [f"waited: {titles[0]}", *titles[1:]] if titles else []


def dimensions(result: Result) -> list[Use]:
    """Return the utilization of the links of each network dimension or kind."""
    names = link_names(result)
    dims = np.unique(result.links.dim).tolist()
    return [_use(result, names.get(dim, str(dim)), np.flatnonzero(result.links.dim == dim)) for dim in dims]


def hottest(result: Result, count: int = 5) -> list[Use]:
    """Return the busiest links; ties go to the link with more stalls, then to the first."""
    waited = sum(result.totals[name] for name in STALLS)
    order = np.lexsort((-np.asarray(waited), -result.busy_total))[:count]
    return [_use(result, result.links.name[link], np.array([link])) for link in order]


def equals(result: Result, count: int = 5) -> int:
    """Return how many further links are exactly as busy as the last of the `count` busiest ones."""
    busy = np.sort(result.busy_total)[::-1]
    return int(np.count_nonzero(busy[count:] == busy[count - 1])) if len(busy) > count else 0


def dimension_names(result: Result) -> dict[int, str]:
    """Return the names of dimensions: 0 -> "0: ring 4"."""
    return {i: f"{i}: {text}" for i, text in enumerate(result.dimension_names)}


def link_names(result: Result) -> dict[int, str]:
    """Return the name of each value of `links.dim`: "0: ring 4" for a dimension, else the kind of links: "local"."""
    return {**dimension_names(result), **_kinds(result)}


def link_name(result: Result, dim: int) -> str:
    """Return a short name: "dim 0", or "local"."""
    return _kinds(result).get(dim, f"dim {dim}")


def link_title(result: Result, dim: int) -> str:
    """Return a label: "dim 0: ring 4", or "local"."""
    name = link_names(result).get(dim, str(dim))
    return name if dim in _kinds(result) else f"dim {name}"


def _kinds(result: Result) -> dict[int, str]:
    return {i: name for i, name in enumerate(result.link_kinds) if name != f"d{i}"}


def _use(result: Result, name: str, links: IntArray) -> Use:
    cycles = max(1, result.time_cycles)
    share = result.link_utilization[links]
    stalls = tuple(float(result.totals[stall][links].mean()) / cycles for stall in STALLS)
    bandwidth = float(result.links.bandwidth[links].mean())
    return Use(name, len(links), bandwidth, float(share.mean()), float(share.max()), stalls)


def _possible(result: Result) -> str:
    """How much of the optimum a run reached, and what limits it."""
    share = result.of_optimum
    if not result.complete or share is None:
        return f"with any algorithm: {result.optimum_limit}"
    if share > 1:
        return f"the backend ignores limits and took less: {result.optimum_limit}"
    return f"{percent(share)} of what is possible at all: {result.optimum_limit}"


def _skipped(result: Result) -> Iterator[Fact]:
    """The share of cycles that fast-forward skipped, or why it skipped none."""
    skipped = int(result.counts.get("skipped_cycles", 0))
    if skipped:
        note = f"of the cycles, because they repeat others; {result.time_cycles - skipped:,} were simulated"
        yield Fact("skipped", percent(skipped / result.time_cycles), note)
    elif why := result.counts.get("not_skipped"):
        yield Fact("skipped", "nothing", why)


def _folded(result: Result) -> Iterator[Fact]:
    """How many of the congruent groups of messages were simulated, and how many episodes were replayed."""
    if groups := int(result.counts.get("groups", 0)):
        classes = int(result.counts["classes"])
        note = f"independent groups of messages, of which {classes:,} were simulated"
        if episodes := int(result.counts.get("episodes", 0)):
            note += f"; {plural(episodes, 'episode')} replayed"
        if cached := int(result.counts.get("cached_episodes", 0)):
            note += f", {cached:,} of them from the cache"
        yield Fact("folded", f"{groups:,}", note)


def _threads(result: Result) -> Iterator[Fact]:
    """The number of threads and the reason; where several were used, requested, or to be expected."""
    threads, why = int(result.counts.get("threads", 1)), str(result.counts.get("threads_why", ""))
    requested = int(result.counts.get("threads_asked", 0))
    routers = int(max(result.links.src.max(), result.links.dst.max())) + 1 if len(result.links) else 0
    long = result.sim_cpu_s >= EXPECT_SECONDS or routers >= EXPECT_ROUTERS
    if why and (threads > 1 or requested > 1 or (requested != 1 and long)):
        yield Fact("threads", f"{threads}", why)
    if (ranks := int(result.counts.get("ranks", 1))) > 1:
        yield Fact("MPI ranks", f"{ranks}", "each with a partition of the network")


def _speed(result: Result) -> Fact:
    """Simulation speed; router visits of skipped cycles are listed separately."""
    parts = []
    visits = int(result.counts.get("router_visits", 0))
    skipped = int(result.counts.get("skipped_visits", 0))
    if visits and result.sim_cpu_s > 0:
        rate, with_skipped = (rounded(count / result.sim_cpu_s, "") for count in (visits - skipped, visits))
        parts.append(f"{rate} router visits/s" + (f" ({with_skipped} with those skipped)" if skipped else ""))
    if times := result.counts.get("resumed", 0):
        parts.append(f"resumed {'once' if times == 1 else plural(times, 'time')}")
    parts.append(f"{result.total_cpu_s:.2f} s in all")
    parts.append(f"peak memory {result.peak_rss_mb:.0f} MB")
    return Fact("simulated in", f"{result.sim_cpu_s:.2f} s CPU", ", ".join(parts))
