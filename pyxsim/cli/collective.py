"""`pyxsim collective`: list the algorithms of the shelf, or print the steps of one."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from pyxsim import library
from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.options import maybe
from pyxsim.cli.topology import find_topology
from pyxsim.collective.arrays import I64
from pyxsim.collective.bounds import waves
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.kinds import KINDS
from pyxsim.errors import InputError
from pyxsim.registry import Entry, collectives
from pyxsim.reports.files import check_plot, save_picture
from pyxsim.reports.plots.spacetime import runs, spacetime
from pyxsim.reports.text.facts import plural
from pyxsim.settings import Collective, Experiment
from pyxsim.study.describe.collective_facts import CollectiveFacts, OnNetwork, describe_collective
from pyxsim.units import format_bytes, format_time_ns, percent

MAX_STEPS = 40  # rows of the table
MAX_MESSAGES = 12  # messages of a step


def show_collective(
    out: CommandOutput,
    name: str | None,
    *,
    npus: str | None = None,
    on: str | None = None,
    shape: str | None = None,
    kind: str | None = None,
    size: str = "1 MiB",
    libraries: Iterable[str] = (),
    plot: str | None = None,
) -> None:
    """Run `pyxsim collective`. Raises InputError; ScheduleError for an algorithm that is wrong."""
    library.load_all(list(libraries))
    if name is None:
        if plot is not None:
            raise InputError("needs the name of an algorithm", key="--plot", allowed=collectives.names())
        _list(out)
        return
    path = None if plot is None else check_plot(plot)
    members = maybe(npus, "--npus")
    if on is None and shape is not None:
        raise InputError("needs a network", key="--shape", allowed="with --on NETWORK")
    carrier: Experiment | None = None
    if on is not None:
        network = find_topology(on, shape, (), list(libraries))[1]
        carrier = Experiment(network=network, collective=Collective(kind="barrier")).placed(Path(on).parent)
    facts = describe_collective(name, members, kind=kind, size=size, libraries=libraries, on=carrier)
    if path is not None:
        save_picture(spacetime(facts.schedule), path)
    _show(out, facts)
    if plot is not None:
        out.say("", f"wrote {plot}")
    out.put({**facts.json(), "file": plot})


def _show(out: CommandOutput, facts: CollectiveFacts) -> None:
    s, carried = facts.schedule, facts.message_bytes
    if out.silent:
        return
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for label, value in _summary(facts):
        grid.add_row(label, Text(value))
    out.say(grid, "")
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("step", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("from>to: blocks" if s.given_bytes is None else "from>to: bytes")
    for number, sent in enumerate(waves(s)):
        if number == MAX_STEPS:
            break
        adds = s.adds[sent]
        for word, which in (("added", sent[adds]), ("stored", sent[~adds])):
            if len(which):
                table.add_row(str(number), word, Text(_messages(s, which.tolist(), carried)))
    out.say(table)
    if facts.steps > MAX_STEPS:
        out.say(f"  and {plural(facts.steps - MAX_STEPS, 'more step')}; --json has all of them")


def _summary(facts: CollectiveFacts) -> list[tuple[str, str]]:
    busiest = max(*facts.sent, *facts.received)
    of = "" if facts.kind == "barrier" or facts.size is None else f", of {format_bytes(facts.size)}"
    minimum = facts.least or 0
    over = f", {busiest / minimum:.4g} times the minimum" if busiest > minimum > 0 else ""
    return [
        ("algorithm", f"{facts.name}: {facts.kind} on {plural(facts.npus, 'NPU')}{of}"),
        ("proof", facts.unproved or "correct for every order of arrival"),
        ("steps", f"{plural(facts.steps, 'message')} in sequence"),
        (
            "messages",
            f"{facts.messages:,}; the data are divided into {plural(facts.blocks, 'block')}"
            + (f", at most {facts.window} of a rank in flight" if facts.window else ""),
        ),
        ("sent", f"{_span(facts.sent)} by each rank"),
        ("received", f"{_span(facts.received)} by each rank{over}"),
        *_on_network(facts.on),
    ]


def _on_network(on: OnNetwork | None) -> Iterator[tuple[str, str]]:
    if on is None:
        return
    yield "network", on.network
    if on.flow_ns is not None:
        of = "" if on.share is None else f", {percent(on.share)} of what is possible at all"
        yield "time", f"{format_time_ns(Fraction(on.flow_ns))} with the flow backend{of}"
    if on.optimum_ns is not None:
        yield "optimum", f"{format_time_ns(Fraction(on.optimum_ns))} with any algorithm: {on.limit}"


def _span(numbers: list[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{high:,} bytes" if low == high else f"{low:,} to {high:,} bytes"


def _messages(s: CompiledSchedule, messages: list[int], carried: I64) -> str:
    def message_text(m: int) -> str:
        blocks = s.content[s.block_ptr[m] : s.block_ptr[m + 1]].tolist()
        return f"{s.src[m]}>{s.dst[m]}: {runs(blocks) if blocks else format_bytes(int(carried[m]))}"

    more = len(messages) - MAX_MESSAGES
    return "   ".join(message_text(m) for m in messages[:MAX_MESSAGES]) + (f"   and {more} more" if more > 0 else "")


def _list(out: CommandOutput) -> None:
    items = [_item(entry) for entry in collectives.entries]
    if not out.silent:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column("algorithm", style="bold", no_wrap=True)
        table.add_column("kinds")
        for item in items:
            number = f":{item['parameter'].upper()}" if item["parameter"] else ""
            table.add_row(Text(f"{item['name']}{number}"), Text(", ".join(item["kinds"])))
        out.say(table, "", "one-NAME treats all dimensions as one group; :NUMBER is optional.")
    out.put({"algorithms": items})


def _item(entry: Entry[Any]) -> dict[str, Any]:
    parameters = list(inspect.signature(entry.value).parameters)
    return {
        "name": entry.name,
        "aliases": list(entry.aliases),
        "kinds": list(entry.info.get("kinds", KINDS)),
        "parameter": parameters[2] if len(parameters) > 2 else None,
    }
