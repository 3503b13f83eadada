"""The tables of a comparison of backends: all points, and where the backends differ at one point."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from pyxsim.analysis.verdict import (
    BEFORE,
    NOT_SAFE,
    SPENT,
    UNAWARE,
    UNKNOWN,
    Verdict,
    beforehand,
    by_waiting,
    unmodelled,
    verdicts,
)
from pyxsim.reports.text import verdict_tables
from pyxsim.reports.text.facts import percent, plural
from pyxsim.reports.text.summary import MAX_WARNINGS, shortened
from pyxsim.reports.text.text_table import Sheet
from pyxsim.results.comparison import (
    BUSIEST,
    ETHERNET,
    FABRICS,
    LINKS,
    PACKET,
    Compared,
    Comparison,
    Entry,
    by_traffic,
    ends,
)
from pyxsim.results.result import Result
from pyxsim.units import format_time_ns

NOTHING = "-"


def backends_of(comparison: Comparison) -> list[str]:
    """Return the backends; packets first, as the reference."""
    return sorted(comparison.backends, key=lambda name: name != PACKET)


def overview(comparison: Comparison, *, short: bool = False) -> Sheet:
    """Return a row per point: the times and their ratios to packets; with `short`, only ratios."""
    names = [name for name in backends_of(comparison) if name != PACKET]
    has_packet = PACKET in comparison.backends
    head = ["point", *([PACKET] if has_packet else [])]
    for name in [*names, LINKS]:
        head += [_brief(name)] if short or not has_packet else [name, f"{name} / {PACKET}"]
    head.append(title := f"within {comparison.within:.0%}" + ("" if has_packet else " (?: cannot tell)"))
    rows: list[list[str]] = []
    marked = set()
    for point in comparison.points:
        row = [point.label, *([_time(point, point.cycles(PACKET))] if has_packet else [])]
        for name in [*names, LINKS]:
            cycles = point.lower_bound if name == LINKS else point.cycles(name)
            time, part = _time(point, cycles), _part(cycles, point.cycles(PACKET))
            row += ([part] if short else [time, part]) if has_packet else [time]
            error = point.error(name)
            if error is not None and abs(error) > comparison.within:
                marked.add((len(rows), len(row) - 1))
        good_ones = _good(point, comparison.within)
        rows.append([*row, _brief(good_ones) if short else good_ones])
        rows += _by_traffic(point, names, has_packet, short)
    return Sheet(head, rows, (title,), frozenset(marked))


def _by_traffic(point: Compared, names: list[str], has_packet: bool, short: bool) -> Iterator[list[str]]:
    """The rows of an overview per traffic: from its first start to its last end."""
    took = by_traffic(point)
    for traffic, times in took.items() if len(took) > 1 else ():
        cells = [f"{point.label}: {traffic}", *([_ns(times.get(PACKET))] if has_packet else [])]
        for name in names:
            time, part = _ns(times.get(name)), _share(times.get(name), times.get(PACKET))
            cells += ([part] if short else [time, part]) if has_packet else [time]
        yield [*cells, *[""] * (2 if not short and has_packet else 1), ""]


def _ns(time: float | None) -> str:
    return NOTHING if time is None or np.isnan(time) else format_time_ns(Fraction(time))


def _share(time: float | None, whole: float | None) -> str:
    return f"{time / whole:.3f}" if time is not None and whole and not np.isnan(time) else NOTHING


def _brief(names: str) -> str:
    return names.replace("analytical-congestion", "congestion")


def _good(point: Compared, within: float) -> str:
    """The backends that are accurate enough; a question mark where that is unknown."""
    judged = verdicts(point, within)
    names = [verdict.backend + "?" * (verdict.says == UNKNOWN) for verdict in judged if verdict.says != NOT_SAFE]
    all_of_them = len(names) == len(judged) > 1 and not any("?" in name for name in names)
    return "all" if all_of_them else ", ".join(names) or "none"


def times(point: Compared, within: float) -> Sheet:
    """Return a row per backend with the time of the experiment, plus the bounds of all links and of the busiest one."""
    rows, marked = [], set()
    packet = point.cycles(PACKET)
    for number, entry in enumerate(sorted(point.entries, key=lambda each: each.backend != PACKET)):
        busy = cpu = NOTHING
        if entry.result is not None:
            use = entry.result.link_utilization
            busy = percent(float(use.max())) if use.any() else NOTHING
            cpu = f"{entry.result.sim_cpu_s:.2f} s"
        rows.append([entry.backend, *_of(point, entry.cycles, packet), busy, cpu, _note(entry)])
        error = point.error(entry.backend)
        if error is not None and abs(error) > within:
            marked.add((number, 2))
    rows.append([LINKS, *_of(point, point.lower_bound, packet), NOTHING, NOTHING, "bytes over capacity"])
    if point.busiest is not None:
        cells = _of(point, point.busiest.cycles, packet)
        rows.append([BUSIEST, *cells, NOTHING, NOTHING, point.busiest.link])
    head = ("", "time", f"/ {PACKET}", f"/ {LINKS}", "most busy", "simulated in", "note")
    return Sheet(head, rows, ("note",), frozenset(marked))


def _note(entry: Entry) -> str:
    if entry.reason:
        return entry.reason
    if entry.result is not None and not entry.result.complete:
        return "interrupted"
    return ""


def _of(point: Compared, cycles: int | Fraction | None, packet: int | None) -> tuple[str, str, str]:
    return _time(point, cycles), _part(cycles, packet), _part(cycles, point.lower_bound)


def _time(point: Compared, cycles: int | Fraction | None) -> str:
    return NOTHING if cycles is None else format_time_ns(Fraction(cycles) * 10**9 / point.clock_hz)


def _part(cycles: int | Fraction | None, whole: int | Fraction | None) -> str:
    return f"{float(cycles / whole):.3f}" if cycles is not None and whole else NOTHING


def said(point: Compared, within: float) -> list[str]:
    """Return a line per backend: why it cannot run the point, or whether it is accurate enough."""
    lines = [f"{entry.backend}: failed: {entry.reason}" for entry in point.entries if entry.reason]
    lines += [_said(verdict, within) for verdict in verdicts(point, within)]
    if point.cycles(ETHERNET) is not None:
        lines.append(_ethernet(point))
    waited = by_waiting(point, within)
    if waited is not None and UNAWARE in point.others:
        lines.append(f"judged by the waiting of packets alone: {UNAWARE} is {waited.says}, {_off(waited.error)}")
    return lines


def _ethernet(point: Compared) -> str:
    """How the time on Ethernet, another fabric, differs from that of packets with credits, and what it was spent on."""
    error, spent = point.error(ETHERNET), unmodelled(point, ETHERNET)
    text = f"{ETHERNET}: another fabric"
    if error is not None:
        text += f", {1 + error:.4g} times as long as {PACKET}"
    return f"{text} ({spent})" if spent else text


def _said(each: Verdict, within: float) -> str:
    text = f"{each.backend}: {each.says} within {within:.0%}"
    if each.error is not None:
        text += f", {_off(each.error, least=each.by == BEFORE)}"
    return f"{text} ({each.why})" if each.why else text


def _off(error: float | None, *, least: bool = False) -> str:
    if error is None:
        return ""
    return f"{'at least ' if least else ''}{abs(error):.1%} too {'short' if error < 0 else 'long'}"


def spent(point: Compared) -> Sheet:
    """Return what the time of packets was spent on, along the chain of messages that ended last, by fabric."""
    chains = {name: point.chains[name] for name in FABRICS if name in point.chains and point.cycles(name)}
    rows = []
    for part in SPENT:
        cells = []
        for name, chain in chains.items():
            cycles = chain.spent.get(part, 0)
            cells += [_time(point, cycles), percent(cycles / (point.cycles(name) or 1))] if cycles else [NOTHING] * 2
        if any(cell != NOTHING for cell in cells):
            rows.append([SPENT[part], *cells])
    if len(chains) == 1:
        (chain,) = chains.values()
        return Sheet((f"the chain of {plural(chain.messages, 'message')} that ended last", "time", "share"), rows)
    head = ["the chain that ended last"]
    for name, chain in chains.items():
        head += [f"{name}, {plural(chain.messages, 'message')}", "share"]
    return Sheet(head, rows)


def collectives(point: Compared) -> Sheet:
    """Return a row per collective and message with its time on each backend."""
    names = _names(point)
    rows = []
    for row in ends(point):
        took = {name: end - row["start_ns"] for name, end in row["end_ns"].items() if end is not None}
        times = (format_time_ns(Fraction(took[name])) if name in took else NOTHING for name in names)
        rows.append([row["name"], format_time_ns(Fraction(row["start_ns"])), *times])
    return Sheet(("traffic", "start", *names), rows)


def _working(result: Result, collective: int, phase: int, dimension: int) -> float:
    """The mean time of the NPUs that work in a phase."""
    rows = result.chunks
    mine = (rows["collective"] == collective) & (rows["phase"] == phase) & (rows["dimension"] == dimension)
    times = (rows["end"] - rows["start"])[mine & (rows["end"] > rows["start"])]
    return float(times.mean()) if len(times) else float("nan")


def phases(point: Compared) -> Sheet:
    """Return a row per phase and dimension with the mean time per chunk of an NPU that works in it."""
    rows = [[phase, dimension, *_means(point, means)] for phase, dimension, means in phase_means(point)]
    return Sheet(("phase", "dimension", *_names(point)), rows, ("dimension",))


def phase_means(point: Compared) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Yield (phase, dimension, cycles by backend); NPUs without work, such as senders of a gather, are left out."""
    means_by_phase: dict[tuple[Any, ...], dict[str, float]] = {}
    for name, result in _results(point):
        table = result.phases
        for i in range(len(table.get("time", ()))):
            key = tuple(table[column][i] for column in ("collective", "phase", "kind", "dimension"))
            means_by_phase.setdefault(key, {})[name] = _working(result, key[0], key[1], key[3])
    several = len({key[0] for key in means_by_phase}) > 1
    for key, means in means_by_phase.items():
        collective, phase, kind, dim = key
        of = f"{_collective(point, int(collective))}, " if several else ""
        yield f"{of}{phase}: {kind}", _dimension(point, int(dim)), means


def dimensions(point: Compared) -> Sheet:
    """Return a row per dimension with the mean time of a message in the network."""
    rows = [[_dimension(point, dim), *_means(point, means)] for dim, means in dimension_means(point)]
    return Sheet(("a message in", *_names(point)), rows)


def dimension_means(point: Compared) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield (dimension, cycles by backend) of the dimensions with messages."""
    means_by_dim: dict[int, dict[str, float]] = {}
    for name, result in _results(point):
        for dim, mean in zip(*(result.dimensions.get(key, ()) for key in ("dimension", "network")), strict=True):
            means_by_dim.setdefault(int(dim), {})[name] = float(mean)
    yield from (
        (dim, means) for dim, means in means_by_dim.items() if not all(np.isnan(mean) for mean in means.values())
    )


def _means(point: Compared, means: Mapping[str, float]) -> Iterator[str]:
    for name in _names(point):
        mean = means.get(name, float("nan"))
        yield NOTHING if np.isnan(mean) else format_time_ns(Fraction(mean) * 10**9 / point.clock_hz)


def _names(point: Compared) -> list[str]:
    names = [name for name, _ in _results(point)]
    return sorted(names, key=lambda name: name != PACKET)


def _results(point: Compared) -> Iterator[tuple[str, Result]]:
    for entry in point.entries:
        if entry.result is not None:
            yield entry.backend, entry.result


def _dimension(point: Compared, dim: int) -> str:
    result = next(result for _, result in _results(point))
    return f"{dim}: {result.dimension_names[dim]}" if 0 <= dim < len(result.dimension_names) else "several"


def _collective(point: Compared, number: int) -> str:
    result = next(result for _, result in _results(point))
    return str(result.collectives[number].get("name", number))


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison with verdicts and tables as JSON."""
    whole = comparison.json()
    for point, row in zip(comparison.points, whole["points"], strict=True):
        row.update(_point_json(point, comparison.within))
    return whole


def _point_json(point: Compared, within: float) -> dict[str, Any]:
    waited = by_waiting(point, within)
    others = [name for name in point.others if point.cycles(name) is not None]
    chains = {
        name: {
            "messages": chain.messages,
            "spent_ns": {part: point.ns(cycles) for part, cycles in chain.spent.items()},
            "analytical_ns": point.ns(chain.unaware),
        }
        for name, chain in point.chains.items()
    }
    return {
        "verdicts": [vars(verdict) for verdict in verdicts(point, within)],
        "from_waiting": None if waited is None else vars(waited),
        "beforehand": [vars(beforehand(point, name, within)) for name in others],
        "chain": chains.get(PACKET),
        "ethernet_chain": chains.get(ETHERNET),
        "phases": [
            {"phase": phase, "dimension": dimension, "mean_ns": _means_ns(point, means)}
            for phase, dimension, means in phase_means(point)
        ],
        "dimensions": [
            {"dimension": _dimension(point, dim), "message_ns": _means_ns(point, means)}
            for dim, means in dimension_means(point)
        ],
        "warnings": point.warnings,
        "links": [verdict_tables.link_json(point, link) for link in verdict_tables.hottest(point)],
    }


def _means_ns(point: Compared, means: Mapping[str, float]) -> dict[str, float]:
    return {name: point.ns(Fraction(mean)) for name, mean in means.items() if not np.isnan(mean)}


def page(comparison: Comparison) -> str:
    """Return the comparison as Markdown."""
    parts = [f"# {comparison.title}\n"]
    if not comparison.complete:
        parts.append("Interrupted: only the points compared so far are shown.\n")
    if len(comparison.points) > 1:
        parts.append(overview(comparison).markdown())
    for point in comparison.points:
        if len(comparison.points) > 1:
            parts.append(f"## {point.label}\n")
        parts.append(times(point, comparison.within).markdown())
        parts.append(_items(said(point, comparison.within)))
        parts += [sheet.markdown() for sheet in details(point)]
        parts.append(_items([verdict_tables.sentence(point, link) for link in verdict_tables.hottest(point)]))
        parts.append(_items(warnings(point)))
    return "\n".join(part for part in parts if part)


def warnings(point: Compared) -> list[str]:
    """Return a line per warning of the results of a point."""
    return list(shortened([f"warning: {text}" for text in point.warnings], MAX_WARNINGS, "warnings"))


def details(point: Compared) -> list[Sheet]:
    """Return the tables of a point that have rows."""
    several = collectives(point)
    sheets = [*([several] if len(several.rows) > 1 else []), phases(point), dimensions(point), spent(point)]
    return [sheet for sheet in [*sheets, verdict_tables.sheet(point)] if sheet.rows]


def json_file(comparison: Comparison) -> bytes:
    """Return the content of a .json file."""
    return (json.dumps({**comparison_json(comparison), **comparison.provenance}, indent=1) + "\n").encode()


def markdown_file(comparison: Comparison) -> bytes:
    """Return the content of a .md file."""
    return page(comparison).encode()


def _items(lines: list[str]) -> str:
    return "".join(f"- {line}\n" for line in lines)
