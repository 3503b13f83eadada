"""The tables of a comparison: all points, and where the models of one point differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from pyxsim.output.comparison import BUSIEST, LINKS, PACKET, Compared, Comparison, Entry, ends
from pyxsim.output.result import Result
from pyxsim.report.facts import percent
from pyxsim.report.sheets import Sheet
from pyxsim.units import format_time_ns

NOTHING = "-"
MEANS = ("time", "queueing", "network")  # of a phase


def backends_of(comparison: Comparison) -> list[str]:
    """Packets first: the others are held against them."""
    return sorted(comparison.backends, key=lambda name: name != PACKET)


def overview(comparison: Comparison, *, short: bool = False) -> Sheet:
    """A row for each point: its times, and what part of those of packets they are. `short`: of the others only that."""
    names = [name for name in backends_of(comparison) if name != PACKET]
    has_packet = PACKET in comparison.backends
    head = ["point", *([PACKET] if has_packet else [])]
    for name in [*names, LINKS]:
        head += [name] if short or not has_packet else [name, f"{name} / {PACKET}"]
    rows, marked = [], set()
    for number, point in enumerate(comparison.points):
        row = [point.label, *([_time(point, point.cycles(PACKET))] if has_packet else [])]
        for name in [*names, LINKS]:
            cycles = point.physical if name == LINKS else point.cycles(name)
            time, part = _time(point, cycles), _part(cycles, point.cycles(PACKET))
            row += ([part] if short else [time, part]) if has_packet else [time]
            error = point.error(name)
            if error is not None and abs(error) > comparison.within:
                marked.add((number, len(row) - 1))
        rows.append(row)
    return Sheet(head, rows, marked=frozenset(marked))


def times(point: Compared, within: float) -> Sheet:
    """A row for each backend, the bound of the links, and the busiest of them: the time of the experiment."""
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
    rows.append([LINKS, *_of(point, point.physical, packet), NOTHING, NOTHING, "the least on these links"])
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
    return _time(point, cycles), _part(cycles, packet), _part(cycles, point.physical)


def _time(point: Compared, cycles: int | Fraction | None) -> str:
    return NOTHING if cycles is None else format_time_ns(Fraction(cycles) * 10**9 / point.clock_hz)


def _part(cycles: int | Fraction | None, whole: int | Fraction | None) -> str:
    return f"{float(cycles / whole):.3f}" if cycles is not None and whole else NOTHING


def collectives(point: Compared) -> Sheet:
    """A row for each collective and message: how long it took on each backend."""
    names = _names(point)
    rows = []
    for row in ends(point):
        took = {name: end - row["start_ns"] for name, end in row["end_ns"].items() if end is not None}
        times = (format_time_ns(Fraction(took[name])) if name in took else NOTHING for name in names)
        rows.append([row["name"], format_time_ns(Fraction(row["start_ns"])), *times])
    return Sheet(("traffic", "start", *names), rows)


def phases(point: Compared) -> Sheet:
    """A row for each phase in a dimension: what an NPU takes from its start to its end with a chunk, on average."""
    rows = [[phase, dimension, *_means(point, means)] for phase, dimension, means in phase_means(point)]
    return Sheet(("phase", "dimension", *_names(point)), rows, ("dimension",))


def phase_means(point: Compared) -> Iterator[tuple[str, str, dict[str, float]]]:
    """(phase, dimension, backend -> cycles)."""
    found: dict[tuple[Any, ...], dict[str, float]] = {}
    for name, result in _results(point):
        table = result.phases
        for i, mean in enumerate(table.get("time", ())):
            key = tuple(table[column][i] for column in ("collective", "phase", "kind", "dimension"))
            found.setdefault(key, {})[name] = float(mean)
    several = len({key[0] for key in found}) > 1
    for key, means in found.items():
        collective, phase, kind, dim = key
        of = f"{_collective(point, int(collective))}, " if several else ""
        yield f"{of}{phase}: {kind}", _dimension(point, int(dim)), means


def dimensions(point: Compared) -> Sheet:
    """A row for each dimension: what a message takes in the network there, on average."""
    found: dict[int, dict[str, float]] = {}
    for name, result in _results(point):
        for dim, mean in zip(*(result.by_dimension.get(key, ()) for key in ("dimension", "network")), strict=True):
            found.setdefault(int(dim), {})[name] = float(mean)
    rows = [[_dimension(point, dim), *_means(point, means)] for dim, means in found.items() if _any(means)]
    return Sheet(("a message in", *_names(point)), rows)


def _any(means: Mapping[str, float]) -> bool:
    return any(not np.isnan(mean) for mean in means.values())


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
    return f"{dim}: {result.dimensions[dim]}" if 0 <= dim < len(result.dimensions) else "several"


def _collective(point: Compared, number: int) -> str:
    result = next(result for _, result in _results(point))
    return str(result.collectives[number].get("name", number))


def page(comparison: Comparison) -> str:
    """All of it as Markdown."""
    parts = [f"# {comparison.title}\n"]
    if not comparison.complete:
        parts.append("Interrupted: this is what was compared so far.\n")
    if len(comparison.points) > 1:
        parts.append(overview(comparison).markdown())
    for point in comparison.points:
        if len(comparison.points) > 1:
            parts.append(f"## {point.label}\n")
        several = collectives(point)
        sheets = [times(point, comparison.within), *([several] if len(several.rows) > 1 else [])]
        parts += [sheet.markdown() for sheet in [*sheets, phases(point), dimensions(point)] if sheet.rows]
    return "\n".join(parts)
