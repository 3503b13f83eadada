"""`pyxsim collective`: the algorithms of the shelf, and what one of them does, step by step."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pyxsim import library
from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.counts import count
from pyxsim.collective.arrays import I64
from pyxsim.collective.bounds import lower_bound_bytes, waves
from pyxsim.collective.checker import prove
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.kinds import KINDS
from pyxsim.collective.lookup import get_algorithm, get_schedule, located
from pyxsim.collective.plan import whole_bytes
from pyxsim.collective.sizes import block_sizes
from pyxsim.errors import InputError
from pyxsim.registry import Entry, collectives
from pyxsim.reports.files import check_plot, save_picture
from pyxsim.reports.plots.spacetime import runs, spacetime
from pyxsim.reports.text.facts import plural
from pyxsim.units import format_bytes, parse_bytes

MAX_STEPS = 40  # rows of the table
MAX_MESSAGES = 12  # of one step


@dataclass(frozen=True)
class Facts:
    """What is known of one algorithm for one kind on one group.

    `steps`: messages that must follow each other. `sent`, `received`: bytes of every rank when the collective is of
    `size` bytes. `least`: what the busiest rank must send or receive whatever the algorithm. Both are None where a file
    says how large its messages are. `unproved`: why nothing is proved about the data, if so.
    """

    name: str
    kind: str
    npus: int
    size: int | None
    steps: int
    messages: int
    blocks: int
    window: int | None
    sent: list[int]
    received: list[int]
    least: float | None
    proved: bool
    unproved: str


def show_collective(
    out: CommandOutput,
    name: str | None,
    *,
    npus: str = "8",
    kind: str | None = None,
    size: str = "1 MiB",
    libraries: Iterable[str] = (),
    plot: str | None = None,
) -> None:
    """`pyxsim collective`. Raises InputError, ScheduleError where the algorithm is wrong."""
    library.load_all(list(libraries))
    if name is None:
        if plot is not None:
            raise InputError("needs the name of an algorithm", key="--plot", allowed=collectives.names())
        _list(out)
        return
    path = None if plot is None else check_plot(plot)
    name = located(name, Path.cwd())
    if kind is None:
        kinds = get_algorithm(name).kinds
        kind = "all-reduce" if "all-reduce" in kinds else kinds[0]
    elif kind not in KINDS:
        raise InputError(f"unknown collective '{kind}'", key="--kind", allowed=list(KINDS), given=kind)
    get_algorithm(name).check(kind, key="--kind")
    schedule = get_schedule(kind, name, count(npus, "--npus"))
    prove(schedule)
    total = _size(kind, size)
    carried = _carried(schedule, total)
    facts = _facts(schedule, name, total, carried)
    if path is not None:
        save_picture(spacetime(schedule), path)
    _show(out, schedule, facts, carried)
    if plot is not None:
        out.say("", f"wrote {plot}")
    out.put({**vars(facts), "schedule": _rows(schedule, carried), "file": plot})


def _size(kind: str, text: str) -> int:
    try:
        return 1 if KINDS[kind].idempotent else parse_bytes(text)
    except InputError as error:
        raise error.at(key="--size") from None


def _carried(s: CompiledSchedule, size: int) -> I64:
    """Bytes of every message."""
    if s.given_bytes is not None:
        return s.given_bytes
    return s.message_bytes(block_sizes(s.kind, s.n, s.blocks, whole_bytes(s.kind.name, size, s.n)))


def _facts(s: CompiledSchedule, name: str, size: int, carried: I64) -> Facts:
    sent, received = np.zeros((2, s.n), dtype=np.int64)
    np.add.at(sent, s.src[~s.local], carried[~s.local])
    np.add.at(received, s.dst[~s.local], carried[~s.local])
    given = s.given_bytes is not None
    return Facts(
        name=name,
        kind=s.kind.name,
        npus=s.n,
        size=None if given else size,
        steps=sum(1 for _ in waves(s)),
        messages=int((~s.local).sum()),
        blocks=s.blocks,
        window=s.window,
        sent=sent.tolist(),
        received=received.tolist(),
        least=None if given else float(lower_bound_bytes(s.kind.name, s.n, size, in_network=bool((s.join >= 0).any()))),
        proved=not s.unproved,
        unproved=s.unproved,
    )


def _rows(s: CompiledSchedule, carried: I64) -> list[dict[str, Any]]:
    """Every message, in the order of the steps."""
    return [
        {
            "step": number,
            "src": int(s.src[m]),
            "dst": int(s.dst[m]),
            "blocks": s.content[s.block_ptr[m] : s.block_ptr[m + 1]].tolist(),
            "bytes": int(carried[m]),
            "reduce": bool(s.adds[m]),
        }
        for number, sent in enumerate(waves(s))
        for m in sent.tolist()
    ]


def _show(out: CommandOutput, s: CompiledSchedule, facts: Facts, carried: I64) -> None:
    if out.silent:
        return
    from rich.table import Table
    from rich.text import Text

    about = Table.grid(padding=(0, 2))
    about.add_column(style="dim", no_wrap=True)
    about.add_column()
    for label, value in _about(facts):
        about.add_row(label, Text(value))
    out.say(about, "")
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


def _about(facts: Facts) -> list[tuple[str, str]]:
    busiest = max(*facts.sent, *facts.received)
    of = "" if facts.kind == "barrier" or facts.size is None else f", of {format_bytes(facts.size)}"
    least = facts.least or 0
    over = f", {busiest / least:.4g} times the least there can be" if busiest > least > 0 else ""
    return [
        ("algorithm", f"{facts.name}: {facts.kind} on {plural(facts.npus, 'NPU')}{of}"),
        ("proof", facts.unproved or "right, in whatever order messages arrive"),
        ("steps", f"{plural(facts.steps, 'message')} behind each other"),
        (
            "messages",
            f"{facts.messages:,}; the data are cut in {plural(facts.blocks, 'block')}"
            + (f", at most {facts.window} of a rank are unanswered" if facts.window else ""),
        ),
        ("sent", f"{_span(facts.sent)} by each rank"),
        ("received", f"{_span(facts.received)} by each rank{over}"),
    ]


def _span(numbers: list[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{high:,} bytes" if low == high else f"{low:,} to {high:,} bytes"


def _messages(s: CompiledSchedule, messages: list[int], carried: I64) -> str:
    def told(m: int) -> str:
        blocks = s.content[s.block_ptr[m] : s.block_ptr[m + 1]].tolist()
        return f"{s.src[m]}>{s.dst[m]}: {runs(blocks) if blocks else format_bytes(int(carried[m]))}"

    more = len(messages) - MAX_MESSAGES
    return "   ".join(told(m) for m in messages[:MAX_MESSAGES]) + (f"   and {more} more" if more > 0 else "")


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
        out.say(table, "", "A name behind one- goes over all dimensions together; :NUMBER may be left out.")
    out.put({"algorithms": items})


def _item(entry: Entry[Any]) -> dict[str, Any]:
    parameters = list(inspect.signature(entry.value).parameters)
    return {
        "name": entry.name,
        "aliases": list(entry.aliases),
        "kinds": list(entry.info.get("kinds", KINDS)),
        "parameter": parameters[2] if len(parameters) > 2 else None,
    }
