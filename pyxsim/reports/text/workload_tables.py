"""Tables of a workload: how NPUs spent their time, and the critical path."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from pyxsim.reports.text.facts import Fact, percent, plural, rounded
from pyxsim.reports.text.text_table import Sheet
from pyxsim.reports.text.text_width import WIDTH
from pyxsim.results.result import Result
from pyxsim.results.work import REASONS, Work, alike
from pyxsim.units import format_time_ns

if TYPE_CHECKING:
    from rich.console import RenderableType

MAX_TOTALS = 5
MAX_KINDS = 3
MAX_STEPS = 10
MAX_TERMS = 3
_NPUS = {
    "compute": "computing",
    "memory": "memory",
    "communication": "communicating",
    "exposed": "exposed communication",
    "idle": "idle",
}
_REASON_TEXT = {
    "begin": "",
    "dependency": "",
    "resource": "resource",
    "message": "message",
    "members": "others",
}


def tables(result: Result, width: int | None = WIDTH) -> Iterator[RenderableType]:
    """Yield the time of the NPUs, the parts of the critical path and its longest steps. `width`: as in Sheet."""
    work = result.work
    if work is None:
        return
    yield _npus(result, work).rich(width=width)
    if work.totals:
        yield _path(result, work).rich(MAX_TOTALS, width)
        yield _steps(result, work).rich(width=width)


def facts(result: Result) -> list[Fact]:
    """Return throughput and memory of a model's training, and the parts of the critical path as one line."""
    lines = [*_throughput(result), *_footprint(result)]
    if result.work is None or not result.work.by_kind:
        return lines
    (first, cycles), *others = list(result.work.by_kind.items())[: MAX_KINDS + 1]
    end = max(1, result.time_cycles)
    rest = ", ".join(f"{kind} {percent(time / end)}" for kind, time in others)
    note = f"{first}{'; ' if rest else ''}{rest}"
    return [*lines, Fact("critical path", percent(cycles / end), note)]


def _throughput(result: Result) -> Iterator[Fact]:
    """Model FLOPs utilization, and tokens or samples per second."""
    for row in result.training:
        step = format_time_ns(Fraction(row["step"]) * 10**9)
        note = (
            f"{rounded(row['model_flops'], 'FLOP')} of the model in {step}, peak {rounded(row['peak_flops'], 'FLOP/s')}"
        )
        yield Fact("MFU", percent(row["mfu"]), f"{note} per NPU")
        if row["tokens"]:
            note = f"{rounded(row['tokens_per_s_npu'], 'tokens/s')} per NPU"
            yield Fact("throughput", rounded(row["tokens_per_s"], "tokens/s"), note)
        else:
            yield Fact("throughput", rounded(row["samples_per_s"], "samples/s"))


def _footprint(result: Result) -> Iterator[Fact]:
    """Memory of an NPU of the fullest stage, and its largest terms."""
    sizes: dict[int, list[tuple[int, str]]] = {}
    for row in result.footprint:
        sizes.setdefault(row["stage"], []).append((row["bytes"], row["term"]))
    if not sizes:
        return
    stage = max(sizes, key=lambda number: sum(size for size, _ in sizes[number]))
    capacity = next((row["capacity"] for row in result.training if row["capacity"] > 0), None)
    terms = ", ".join(f"{term} {rounded(size, 'B')}" for size, term in sorted(sizes[stage], reverse=True)[:MAX_TERMS])
    of = "" if capacity is None else f"of {rounded(capacity, 'B')}; "
    stage_name = f"stage {stage}: " if len(sizes) > 1 else ""
    yield Fact("NPU memory", rounded(sum(size for size, _ in sizes[stage]), "B"), f"{of}{stage_name}{terms}")


def _npus(result: Result, work: Work) -> Sheet:
    """Mean time per activity, with minimum and maximum unless all NPUs are alike."""
    rows, alike = [], True
    for name, title in _NPUS.items():
        extremes = work.extremes(name)
        if name == "memory" and not extremes["max"]:
            continue
        row = [title, percent(extremes["mean"] / max(1, result.time_cycles)), _time(result, extremes["mean"])]
        differ = extremes["min"] != extremes["max"]
        alike = alike and not differ
        for key in ("min", "max"):
            row += [_time(result, extremes[key]), f"NPU {extremes[f'{key}_npu']}"] if differ else ["", ""]
        rows.append(row)
    head = ["time of NPUs", "share", "mean", *([] if alike else ["least", "of", "most", "of"])]
    return Sheet(head, [row[: len(head)] for row in rows], words=("of",))


def _path(result: Result, work: Work) -> Sheet:
    rows = []
    for row in work.totals:
        name = ", ".join(text for text in (row["name"], row["part"]) if text)
        what = row["kind"] if name in ("", row["kind"]) else f"{row['kind']}: {name}"
        share = percent(row["cycles"] / max(1, result.time_cycles))
        rows.append([what, share, _time(result, row["cycles"]), f"{row['steps']:,}"])
    return Sheet([f"critical path ({plural(work.steps, 'step')})", "share", "time", "steps"], rows)


def _steps(result: Result, work: Work) -> Sheet:
    """The longest steps; those whose names differ by numbers only are merged."""
    path = work.path
    what = [alike(name) for name in work.names]
    common = {name: number for number, name in enumerate(dict.fromkeys(what))}
    label = np.array([*(common[name] for name in what), len(common)])[
        path["name"]
    ]  # the last entry is for steps without a name
    group = np.unique(np.stack([path["kind"], label]), axis=1, return_inverse=True)[1].ravel()
    count = np.bincount(group)
    rows: list[list[str]] = []
    seen = set()
    for row in work.longest(len(group)).tolist():
        kind, begin, end = work.kinds[path["kind"][row]], int(path["begin"][row]), int(path["end"][row])
        if end == begin or len(rows) == MAX_STEPS:
            break
        if group[row] in seen:
            continue
        seen.add(group[row])
        name = work.names[path["name"][row]] if path["name"][row] >= 0 else ""
        text = kind if name in ("", kind) else f"{kind}: {name}"
        why, more = _REASON_TEXT[REASONS[path["why"][row]]], count[group[row]] - 1
        times = (_time(result, begin), _time(result, end - begin))
        rows.append([text, str(path["npu"][row]), *times, f"{more:,}" if more else "", why])
    return Sheet(["its longest steps", "NPU", "from", "time", "more alike", "waited"], rows, words=("waited",))


def _time(result: Result, cycles: float) -> str:
    return format_time_ns(Fraction(cycles) * 10**9 / result.clock_hz)
