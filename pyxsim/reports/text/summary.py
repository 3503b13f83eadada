"""The text summary of a run: at most 47 lines of 100 columns on a terminal, plus 39 lines for a workload and 31 for
attribution. In a file, lines are as wide as needed."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Any

from pyxsim.reports.text import (
    attribution_tables,
    credit_facts,
    energy_facts,
    fault_facts,
    flow_facts,
    job_tables,
    layer_tables,
    memory_facts,
    serving_facts,
    transaction_facts,
    workload_tables,
)
from pyxsim.reports.text.chunk_tables import tables
from pyxsim.reports.text.facts import (
    Fact,
    Use,
    dimensions,
    equals,
    facts,
    hottest,
    percent,
    plural,
    rounded,
    waiting_titles,
)
from pyxsim.reports.text.text_width import WIDTH, bound, fitted, room, stderr_console
from pyxsim.reports.text.traffic_facts import number, traffic_facts
from pyxsim.results.result import Result
from pyxsim.results.traffic import Traffic

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table

MAX_DIMENSIONS = 5
MAX_CLASSES = 4
MAX_WARNINGS = 3
INCOMPLETE = "interrupted: the summary covers the simulated part"
FAILED = "the simulated system failed: the summary covers the time before the failure"


class Summary:
    """The summary of a result for rich: `console.print(Summary(result))`."""

    def __init__(self, result: Result) -> None:
        self.result = result

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        width = bound(console)
        if width is None and room(console, self.parts(options.ascii_only, None)) > options.max_width:
            width = options.max_width  # narrower than a file would be
        yield from self.parts(options.ascii_only, width)

    def parts(self, plain: bool = False, width: int | None = WIDTH) -> Iterator[RenderableType]:
        """Yield title, facts and tables. `plain`: ASCII only; `width`: as in Sheet."""
        from rich.table import Table
        from rich.text import Text

        result = self.result
        by = f"pyxsim {result.provenance.get('version', '')}, {result.backend}, seed {result.seed}"
        head = Table.grid(expand=True, padding=(0, 2, 0, 0))
        head.add_column(overflow="ellipsis", no_wrap=True, style="bold")
        head.add_column(justify="right", no_wrap=True, style="dim")
        head.add_row(Text(result.title), Text(by))
        yield head
        if not result.complete:
            yield Text(FAILED if result.failure else INCOMPLETE, style="bold yellow")

        key_figures = _facts(result)
        lines = Table.grid(padding=(0, 2))
        # In a narrow terminal notes are cut, numbers never.
        min_widths = (max(len(fact.label) for fact in key_figures), max(len(fact.value) for fact in key_figures), 0)
        for style, align, min_width in zip(
            ("dim", "bold cyan", ""), ("left", "right", "left"), min_widths, strict=True
        ):
            look: Any = {"style": style, "justify": align, "min_width": min_width}
            lines.add_column(no_wrap=True, overflow="ellipsis", **look)
        for fact in key_figures:
            lines.add_row(fact.label, Text(fact.value), Text(fact.note))
        yield lines

        if result.traffic is not None and len(result.traffic.classes.get("name", ())) > 1:
            yield Text()
            yield fitted(class_table(result.traffic), width)
        for table in (
            *job_tables.tables(result, width),
            *(fitted(layer_table, width) for layer_table in layer_tables.tables(result)),
            *workload_tables.tables(result, width),
            *serving_facts.tables(result, width),
        ):
            yield Text()
            yield table
        chunk_tables = [fitted(layer_table, width) for layer_table in tables(result)]
        for table in chunk_tables:
            yield Text()
            yield table
        if result.has_link_counters:
            yield Text()
            title = "kind" if result.link_kinds else "dimension"
            yield fitted(_dimension_table(dimensions(result), title, result.stall_causes), width)
            yield Text()
            # Fewer links where the summary is long.
            count = 3 if chunk_tables else 5
            yield _link_table(hottest(result, count), plain, bool(result.stall_causes), whole=width is None)
            if more := equals(result, count):
                yield Text(f"and {plural(more, 'link')} as busy as the last one", style="dim")
        for table in attribution_tables.tables(result, width):
            yield Text()
            yield table
        if result.warnings:
            yield Text()
        for line in shortened([f"warning: {text}" for text in result.warnings], MAX_WARNINGS, "warnings"):
            yield Text(line, style="yellow")
        for line in result.hints:
            yield Text(f"hint: {line}")


def _facts(result: Result) -> list[Fact]:
    """All key figures; the first is the time, unless the traffic is open; background traffic comes last."""
    of_traffic = traffic_facts(result)
    first, *others = [*facts(result), *of_traffic] if result.is_background else [*of_traffic, *facts(result)]
    of_work = [*workload_tables.facts(result), *serving_facts.facts(result), *memory_facts.facts(result)]
    return [
        first,
        *of_work,
        *flow_facts.facts(result),
        *others,
        *fault_facts.facts(result),
        *credit_facts.facts(result),
        *transaction_facts.facts(result),
        *energy_facts.facts(result),
    ]


def class_table(traffic: Traffic) -> Table:
    """Return the table of traffic classes: load, latency and hops of each."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("class", no_wrap=True)
    for title in ("packets", "accepted load", "latency", "+-", "p99", "network latency", "hops"):
        table.add_column(title, justify="right", no_wrap=True)
    rows = zip(*(traffic.classes[key] for key in ("name", "measured_packets", *_CLASS_KEYS)), strict=True)
    for name, packets, *values in itertools.islice(rows, MAX_CLASSES):
        table.add_row(Text(str(name)), f"{packets:,}", *(number(value) for value in values))
    if len(traffic.classes["name"]) > MAX_CLASSES:
        table.add_row(f"and {len(traffic.classes['name']) - MAX_CLASSES} more")
    return table


_CLASS_KEYS = (
    "accepted_load",
    "packet_latency",
    "packet_latency_interval",
    "packet_latency_p99",
    "network_latency",
    "hops",
)


def _dimension_table(uses: list[Use], title: str, causes: tuple[str, ...]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column(title, no_wrap=True)
    # "(most)" is the busiest link of the row.
    for title in ("links", "bandwidth", "busy", "(most)", *waiting_titles(causes)):
        table.add_column(title, justify="right", no_wrap=True)
    for use in uses[:MAX_DIMENSIONS]:
        numbers = (f"{use.links:,}", rounded(use.bandwidth, "B/s"), percent(use.mean), percent(use.most))
        table.add_row(Text(use.name), *numbers, *map(percent, use.waited(causes)))
    if len(uses) > MAX_DIMENSIONS:
        table.add_row(f"and {len(uses) - MAX_DIMENSIONS} more")
    return table


def _link_table(uses: list[Use], plain: bool, waited: bool, whole: bool) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("busiest links", no_wrap=True, overflow="ellipsis", max_width=None if whole else 36)
    table.add_column("busy", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, style="cyan")
    if waited:
        table.add_column("flits waited most for", no_wrap=True, overflow="ellipsis")
    for use in uses:
        table.add_row(Text(use.name), percent(use.mean), bar(use.mean, 20, plain), *([use.cause] if waited else []))
    return table


def bar(share: float, width: int, plain: bool = False) -> str:
    """Return a share as a bar of at most `width` characters; `plain`: ASCII only."""
    full, eighths = divmod(round(min(max(share, 0.0), 1.0) * width * 8), 8)
    if plain:
        return "#" * (full + (eighths >= 4))
    return "\u2588" * full + _EIGHTHS[eighths]


_EIGHTHS = ("", "\u258f", "\u258e", "\u258d", "\u258c", "\u258b", "\u258a", "\u2589")


def shortened(texts: list[str], most: int, what: str) -> Iterator[str]:
    """Yield at most `most` texts; if there are more, the last line has their number."""
    if len(texts) <= most:
        yield from texts
        return
    yield from itertools.islice(texts, most - 1)
    yield f"and {len(texts) - most + 1} more {what} (the file contains all)"


def print_summary(result: Result, console: Console | None = None) -> None:
    """Print the summary, by default on stderr, because scripts read stdout."""
    if console is None:
        console = stderr_console()
        # Without a width, rich would cut lines in files at 80 columns.
        console.width = room(console, Summary(result).parts(console.options.ascii_only, bound(console)))
    console.print(Summary(result), highlight=False)


def text(result: Result, width: int = WIDTH) -> str:
    """Return the summary as text without colours."""
    from rich.console import Console

    out = io.StringIO()
    console = Console(file=out, highlight=False, color_system=None, force_terminal=False)
    console.width = max(width, room(console, Summary(result).parts(console.options.ascii_only, None)))
    console.print(Summary(result))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _further_names(result: Result) -> str:
    """The names of frames and plots, for the notebook display."""
    plots = ", ".join(f"<code>{name}</code>" for name in dir(result.plot) if name != "result")
    frames = ", ".join(f"<code>{escape(name)}</code>" for name in result.frames)
    return f"<div><small><code>.frames</code>: {frames}<br><code>.plot</code>: {plots}</small></div>"


def html(result: Result) -> str:
    """Return the summary as HTML for a notebook."""
    rows = "".join(
        f"<tr><td>{escape(fact.label)}</td><td style='text-align:right'><b>{escape(fact.value)}</b></td>"
        f"<td style='text-align:left'>{escape(fact.note)}</td></tr>"
        for fact in _facts(result)
    )
    waited = bool(result.stall_causes)
    links = "".join(
        f"<tr><td style='text-align:left'><code>{escape(use.name)}</code></td><td>{percent(use.mean)}</td>"
        + (f"<td style='text-align:left'>{escape(use.cause)}</td></tr>" if waited else "</tr>")
        for use in (hottest(result) if result.has_link_counters else [])
    )
    head = "<tr><th style='text-align:left'>busiest links</th><th>busy</th>"
    head += "<th>flits waited most for</th></tr>" if waited else "</tr>"
    notes = [
        *([] if result.complete else [FAILED if result.failure else INCOMPLETE]),
        *(f"warning: {warning}" for warning in result.warnings),
        *(f"hint: {hint}" for hint in result.hints),
    ]
    return (
        f"<div><b>{escape(result.title)}</b><table>{rows}</table>"
        + (f"<table>{head}{links}</table>" if links else "")
        + attribution_tables.html(result)
        + _further_names(result)
        + "".join(f"<div>{escape(note)}</div>" for note in notes)
        + "</div>"
    )
