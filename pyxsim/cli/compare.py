"""`pyxsim compare`: run the experiments of a file on every backend, and print the differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from h5py import is_hdf5

from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.simulate import progress_of
from pyxsim.cli.usage import RESULTS
from pyxsim.errors import InputError, SimulationError, all_or_faults
from pyxsim.reports.files import check_outputs, check_plot
from pyxsim.reports.text import verdict_tables
from pyxsim.reports.text.comparison_tables import comparison_json, details, overview, said, times, warnings
from pyxsim.reports.text.text_width import bound
from pyxsim.results.comparison import PACKET, Compared, Comparison
from pyxsim.results.comparison_file import check_comparison, save
from pyxsim.runner.hooks import ProgressHooks
from pyxsim.study.compare import WITHIN, Plan, Step, compare, plan_of, read_share

MOST_ROWS = 40  # points on a terminal
MOST_SENTENCES = 3  # links that are described; files have ten


def show_comparison(
    out: CommandOutput,
    path: str,
    *,
    files: Sequence[str] = (),
    plot: str | None = None,
    within: str | None = None,
    point: str | None = None,
    **options: Any,
) -> None:
    """Run `pyxsim compare`. `options`: overrides, backends, libraries, allow_deadlock of `plan_of`."""
    if is_hdf5(path):  # `diff` and `report` compare results
        raise InputError("is an HDF5 result, not an experiment", file=path, allowed=f"a TOML file; {RESULTS}")
    outputs: list[tuple[str, Callable[[str], Path]]] = [(name, check_comparison) for name in files]
    outputs += [] if plot is None else [(plot, check_plot)]
    share, plan, _ = all_or_faults(
        lambda: WITHIN if within is None else read_share(within, "--within"),
        lambda: plan_of(path, **options),
        lambda: check_outputs(outputs, [path]),
    )
    if point is not None and point not in (labels := [planned.label for planned in plan.points]):
        raise InputError("no point has this label", key="--point", allowed=labels, given=point)
    comparison = _run(out, plan, share)
    with out.signals.deferred():  # write the files even if a signal arrives
        _ended(out, comparison, files, plot, point)


def _ended(
    out: CommandOutput, comparison: Comparison, files: Sequence[str], plot: str | None, point: str | None
) -> None:
    shown = (
        point if point in [planned.label for planned in comparison.points] else None
    )  # an interrupted run may lack it
    written = _written(comparison, [*files, *([plot] if plot is not None else [])], plot, shown)
    out.put(comparison_json(comparison))
    out.say(*_tables(comparison, bound(out.console), shown))
    if not comparison.complete:
        raise KeyboardInterrupt(f"the completed points are in {written}" if written else "nothing was written")
    out.say(*(["", f"wrote {written}"] if written else []))
    if failed := [point for point in comparison.points if all(entry.cycles is None for entry in point.entries)]:
        raise SimulationError(f"{len(failed)} of {len(comparison.points)} points failed on every backend")


def _run(out: CommandOutput, plan: Plan, within: float) -> Comparison:
    def hooks(step: Step) -> ProgressHooks:
        label = f"{step.number + 1}/{step.count} {step.point.label}, {step.backend}: "
        return ProgressHooks(progress_of(out, label), signals=out.signals)

    def tell(point: Compared) -> None:
        if out.live and len(plan.points) > 1:
            out.say(_line(point))

    return compare(plan, within=within, hooks=hooks, tell=tell)


def _line(point: Compared) -> str:
    """The line of a completed point."""
    cycles = point.cycles(PACKET)
    parts = [f"{entry.backend} {entry.cycles:,}" for entry in point.entries if entry.cycles is not None]
    return f"{point.label}: {', '.join(parts)} cycles" if cycles is None or parts else point.label


def _written(comparison: Comparison, names: Sequence[str], plot: str | None, label: str | None) -> str:
    for name in names:
        if name == plot:
            from pyxsim.reports.plots.backend_ratios import save as draw

            draw(comparison, name, label)
        else:
            save(comparison, name)
    return " and ".join(names)


def _tables(comparison: Comparison, width: int | None, label: str | None) -> Iterator[Any]:
    from rich.text import Text

    yield Text(comparison.title, style="bold")
    if len(comparison.points) > 1:
        yield ""
        yield overview(comparison, short=True).rich(MOST_ROWS, width)
    worst = comparison.worst if label is None else comparison.point(label)
    if worst is None:
        return
    if len(comparison.points) > 1:
        yield ""
        yield Text(worst.label + ("" if label else ": the point with the largest difference"), style="bold")
    yield ""
    yield times(worst, comparison.within).rich(width=width)
    yield ""
    yield from map(Text, said(worst, comparison.within))
    for sheet in details(worst):
        yield ""
        yield sheet.rich(width=width)
    links = verdict_tables.hottest(worst)[:MOST_SENTENCES]
    if links:
        yield ""
        yield from (Text(verdict_tables.sentence(worst, link)) for link in links)
    if texts := warnings(worst):
        yield ""
        yield from map(Text, texts)
