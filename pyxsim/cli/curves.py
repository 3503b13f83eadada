"""`pyxsim curve` and `pyxsim saturation`: simulate the same traffic at many loads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.faults import placed
from pyxsim.errors import InputError, SimulationError, all_or_faults
from pyxsim.paths import ending
from pyxsim.reports.files import check_plot
from pyxsim.reports.text.summary import MAX_WARNINGS, shortened
from pyxsim.reports.text.traffic_facts import number
from pyxsim.results.curve import KINDS, Curve, check_curve
from pyxsim.study.curve.load_curve import Point, Points, Saturation, curve, points_of, saturation


def read_loads(text: str) -> list[float]:
    """Parse loads: "0.1,0.2,0.3", or "0.1:0.5:0.1" (from, to, step). Raises InputError."""
    allowed = "numbers above zero such as 0.1,0.2,0.3, or from:to:step such as 0.1:0.5:0.1"
    try:
        if ":" in text:
            begin, end, step = (float(word) for word in text.split(":"))
            count = int((end - begin) / step + 1e-6) + 1 if step > 0 else 0
            loads = [float(f"{begin + step * k:.6g}") for k in range(min(count, 10_000))]
        else:
            loads = [float(word) for word in text.split(",")]
    except (ValueError, OverflowError):
        raise InputError(f"'{text}' is not a list of loads", key="--loads", allowed=allowed) from None
    if not loads or not all(0 < load < 1e6 for load in loads):
        raise InputError(f"'{text}' is not a list of loads", key="--loads", allowed=allowed)
    return loads


def show_curve(
    out: CommandOutput,
    path: str,
    *,
    loads: str | None = None,
    auto: bool = False,
    file: str | None = None,
    plot: str | None = None,
    **options: Any,
) -> None:
    """Run `pyxsim curve`. `options`: as of `points_of`."""
    if (loads is None) == (not auto):
        which = "both --loads and --auto are" if auto else "neither --loads nor --auto is"
        raise InputError(f"{which} given", key="curve", allowed="one of them")
    if file is not None and plot is None and Path(file).suffix.lower() not in KINDS:
        check_plot(file, KINDS)
        file, plot = None, file  # -o also takes a picture
    elif file is not None:
        ending(file, KINDS, "a curve")
    requested = None if loads is None else read_loads(loads)
    points = _points(out, path, options, (file, plot))
    result = _placed(lambda: curve(points, requested), path, options)
    with out.signals.deferred():  # write the files even if a signal arrives
        written = _written(result, file, plot)
        out.put({**result.json(), **_faults(result)})
        out.say(*_table(result))
    _ended(out, result, written)
    if failed := [point for point in result.points if "error" in point]:
        raise SimulationError(f"{len(failed)} of {len(result.points)} loads failed")


def _ended(out: CommandOutput, curve: Curve, written: str) -> None:
    """Print the names of the files. Raises KeyboardInterrupt for an interrupted curve."""
    if not curve.complete:
        kept = f"the completed points are in {written}" if written else "nothing was written, because -o is missing"
        raise KeyboardInterrupt(kept)
    out.say(*(["", f"wrote {written}"] if written else []))


def show_saturation(
    out: CommandOutput, path: str, *, resolution: float | None = None, file: str | None = None, **options: Any
) -> None:
    """Run `pyxsim saturation`."""
    if resolution is not None and not 0 < resolution < 1e6:
        raise InputError(f"{resolution:g} is not a valid resolution", key="--resolution", allowed="a number above zero")
    points = _points(out, path, options, (file, None))
    result = _placed(lambda: saturation(points, resolution), path, options)
    with out.signals.deferred():
        written = _written(result.curve, file, None)
        out.put(result.json())
        out.say(*_table(result.curve), "", _verdict(result))
    _ended(out, result.curve, written)


def _points(out: CommandOutput, path: str, options: dict[str, Any], outputs: tuple[str | None, str | None]) -> Points:
    overrides = tuple(options.get("overrides") or ())
    checkers: tuple[Callable[[str], Path], ...] = (check_curve, check_plot)
    checks = [
        partial(_check_output, check, name, path)
        for name, check in zip(outputs, checkers, strict=True)
        if name is not None
    ]

    def load() -> Points:
        more = {**options, "overrides": overrides}
        points: Points = _placed(
            lambda: points_of(path, **more, tell=lambda point: _print_point(out, point)), path, options
        )
        return points

    (points, *_) = all_or_faults(load, *checks)
    checked: Points = points
    return checked


def _check_output(check: Callable[[str], Path], name: str, path: str) -> None:
    """Raise InputError unless a file can be written, and is not the experiment."""
    if os.path.realpath(check(name)) == os.path.realpath(path):
        raise InputError("cannot be written, because it is an input of this run", file=name, allowed="another name")


def _placed(work: Callable[[], Any], path: str, options: dict[str, Any]) -> Any:
    try:
        return work()
    except InputError as error:
        raise placed(error, path, tuple(options.get("overrides") or ())) from None


def _faults(curve: Curve) -> dict[str, Any]:
    """The keys `exit_code` and `errors` of the JSON object, if loads failed."""
    errors = [f"load {point['offered_load']:g}: {point['error']}" for point in curve.points if "error" in point]
    return {"exit_code": SimulationError.exit_code, "errors": errors} if errors else {}


def _written(curve: Curve, file: str | None, plot: str | None) -> str:
    if file is not None:
        curve.save(file)
    if plot is not None:
        from pyxsim.reports.plots.load_latency import save

        save(curve, plot)
    return " and ".join(name for name in (file, plot) if name is not None)


def _print_point(out: CommandOutput, point: Point) -> None:
    """Print a completed point if stderr is a terminal."""
    if out.live:
        out.say(f"load {point['offered_load']:g}: {_point_text(point)}")


def _point_text(point: Point) -> str:
    if "error" in point:
        return str(point["error"])
    if point["saturated"]:
        return f"saturated, accepted {number(point['accepted_load'])}"
    return f"{number(point['packet_latency'])} cycles, accepted {number(point['accepted_load'])}"


def _table(curve: Curve) -> Iterable[Any]:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for title in ("load", "accepted", "+-", "latency", "+-", "p99", "network", "hops"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, overflow="ellipsis")
    keys = ("accepted_load_interval", "packet_latency", "packet_latency_interval", "packet_latency_p99")
    failed: dict[str, list[str]] = {}  # loads by fault
    for point in curve.points:
        if "error" in point:
            table.add_row(f"{point['offered_load']:g}", *("-" for _ in range(7)), "failed")
            failed.setdefault(str(point["error"]), []).append(f"{point['offered_load']:g}")
            continue
        # The latency of a saturated network grows with the simulated time.
        has_latency = point["steady"] or not point["saturated"]
        shown = [point[key] if has_latency or "latency" not in key else None for key in (*keys, "network_latency")]
        note = "saturated" if point["saturated"] else "" if point["steady"] else "not precise"
        accepted = f"{point['accepted_load']:.4f}"
        numbers = (accepted, *(number(value) for value in shown), number(point["hops"]))
        table.add_row(f"{point['offered_load']:g}", *numbers, note)
    yield Text(curve.title, style="bold")
    yield table
    yield from (Text(f"load {', '.join(loads)}: {fault}", overflow="fold") for fault, loads in failed.items())
    yield from map(Text, shortened([f"warning: {text}" for text in curve.warnings], MAX_WARNINGS, "warnings"))
    if curve.throughput_bound is not None:
        load = number(curve.throughput_bound)
        yield f"throughput bound: at a load of {load} flits per node and cycle the busiest link or lane saturates"


def _verdict(saturation: Saturation) -> str:
    if not saturation.curve.complete and saturation.high is None:
        return "interrupted before the saturation was found"
    if saturation.high is None:
        return f"not saturated at {number(saturation.low)} flits per node and cycle, the highest load tried"
    return f"saturates between {number(saturation.low)} and {number(saturation.high)} flits per node and cycle"
