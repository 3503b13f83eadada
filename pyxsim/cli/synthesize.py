"""`pyxsim synthesize`: find, prove, rank and write a collective for a network."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

from pyxsim import library
from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.topology import WORD, find_topology, override_of, shape_of
from pyxsim.errors import InputError
from pyxsim.registry import topologies
from pyxsim.results.hdf5 import check_writable
from pyxsim.settings import read_toml
from pyxsim.synthesis.files import check_format
from pyxsim.synthesis.ranking import Setting
from pyxsim.synthesis.synthesize import Ranked, Synthesis, run_task, task_of
from pyxsim.units import format_bandwidth, format_bytes

MOST_ROWS = 16


def seconds_of(text: str) -> float:
    """Parse --seconds. Raises InputError."""
    try:
        return float(text)
    except ValueError:
        raise InputError(f"'{text}' is not a number", key="--seconds", allowed="a number of seconds") from None


def show_synthesis(
    out: CommandOutput,
    name: str,
    *,
    kind: str,
    size: str,
    file: str | None,
    form: str | None,
    method: str,
    rank: str,
    shape: str | None,
    in_switch: bool,
    slices: int | None,
    seconds: float,
    overrides: Iterable[str] = (),
    libraries: Iterable[str] = (),
) -> None:
    """Run `pyxsim synthesize`. Raises InputError.

    `name`: one of the shelf, optionally with options in the same text, or an experiment.
    """
    libraries = list(libraries)
    name, *words = name.split() if WORD.search(name.partition(" ")[2]) else [name]
    overrides = (*map(override_of, words), *overrides)
    if file is not None:
        check_format(file, form, kind)
        check_writable(file)
    elif form is not None:
        raise InputError("requires --output FILE", key="--format")
    topology, network, notes = find_topology(name, shape, overrides, libraries)
    out.say(*(f"warning: {note}" for note in notes))
    systems = library.data_files(extra_dirs=libraries)
    on_shelf = name in topologies or name in systems
    data: dict[str, Any] = {"network": {"topology": name}} if on_shelf else read_toml(name)
    if shape is not None and isinstance(data.get("network"), dict):
        data["network"]["shape"] = shape_of(shape)
    setting = Setting(data, tuple(overrides), Path() if on_shelf else Path(name).parent, tuple(libraries))
    task = task_of(
        setting,
        topology,
        network,
        kind=kind,
        size=size,
        method=method,
        rank=rank,
        in_switch=in_switch,
        slices=slices,
        seconds=seconds,
    )
    found = run_task(task, file, form, (lambda line: out.say(line)) if out.live else (lambda _: None))
    _show(out, found)
    out.put(found.json())


def _show(out: CommandOutput, found: Synthesis) -> None:
    if out.silent:
        return
    from rich.table import Table
    from rich.text import Text

    rows = [
        ("network", f"{found.network}, {found.npus:,} NPUs, links with {_bandwidth(found)}"),
        ("collective", f"{found.kind} of {format_bytes(found.size)}"),
        ("bound", f"{found.bound_s * 1e6:.6g} us: {found.bound_kind}"),
        ("best", f"{found.best.name}: {found.best.note}"),
        ("proof", found.proof),
        *((name, why) for name, why in found.without.items()),
    ]
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for label, value in rows:
        grid.add_row(label, Text(value, overflow="fold"))
    out.say(grid, "")
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("schedule", no_wrap=True)
    for label in ("slices", "estimate", "simulated", "of bound"):
        table.add_column(label, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for each in found.ranked[:MOST_ROWS]:
        table.add_row(*map(Text, _row(each, found)))
    out.say(table)
    if len(found.ranked) > MOST_ROWS:
        out.say(f"  and {len(found.ranked) - MOST_ROWS} more; --json has all of them")
    if not found.complete:
        out.say("", "interrupted: the best so far")
    if found.file is not None:
        out.say("", f"wrote {found.file}; [system] {found.use}")


def _bandwidth(found: Synthesis) -> str:
    least, most = (format_bandwidth(Fraction(rate)) for rate in found.bandwidth)
    return least if least == most else f"{least} to {most}"


def _row(each: Ranked, found: Synthesis) -> tuple[str, ...]:
    name = each.name if each.source == "synthesized" else f"{each.name} (shelf)"
    return (
        f"* {name}" if each is found.best else f"  {name}",
        str(each.slices) if each.source == "synthesized" else "",
        "" if each.estimate_s is None else f"{each.estimate_s * 1e6:.6g} us",
        "" if each.simulated_s is None else f"{each.simulated_s * 1e6:.6g} us",
        "" if each.of_bound is None else f"{each.of_bound:.4f}",
        each.backend,
    )
