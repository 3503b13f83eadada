"""`pyxsim list`: models, devices, and a model layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyxsim.cli.command_output import CommandOutput
from pyxsim.errors import InputError
from pyxsim.models import device, devices, load_model, model_files, processor
from pyxsim.models.layer import Model
from pyxsim.models.summary import Line, lines
from pyxsim.settings.npu import Npu
from pyxsim.units import format_bandwidth, format_bytes, format_flops, format_time_ns

_STEPS = ("", "k", "M", "G", "T", "P", "E")


def short(number: int) -> str:
    """Format a number with four digits: 174604259328 -> "174.6 G"."""
    value, step = float(number), 0
    while value >= 999.95 and step < len(_STEPS) - 1:
        value, step = value / 1000, step + 1
    return f"{value:.4g} {_STEPS[step]}".rstrip()


def model_facts() -> list[dict[str, Any]]:
    """Return the models of the shelf."""
    return [_facts(load_model(name)) for name in model_files()]


def device_facts() -> list[dict[str, Any]]:
    """The devices on the shelf: bytes, bytes per second, operations per second."""
    return [
        {
            "name": one.name,
            "help": one.help,
            "memory": one.memory,
            "bandwidth": int(one.bandwidth),
            "peaks": {precision: int(peak) for precision, peak in one.peaks.items()},
            "source": one.source,
        }
        for one in devices().values()
    ]


def model_notes(facts: dict[str, Any]) -> list[str]:
    """Return the description of a model."""
    return [f"{short(facts['parameters'])} parameters; {short(facts['flops'])}FLOP forward for {facts['sample']}"]


def device_notes(facts: dict[str, Any]) -> list[str]:
    """Return the description of a device."""
    known = device(facts["name"])
    peaks = ", ".join(f"{precision} {format_flops(peak)}" for precision, peak in known.peaks.items())
    return [f"{format_bytes(known.memory)}, {format_bandwidth(known.bandwidth)}; {peaks}"]


def show_model(out: CommandOutput, name: str, on: str | None) -> None:
    """Print the layers of a model, with their times `on` a device. Raises InputError."""
    model = load_model(name)
    npu = None
    if on is not None:
        try:
            npu = processor(Npu(device=on))
        except InputError as error:
            raise InputError(error.problem, key="--device", allowed=error.allowed, given=error.given) from None
    rows = lines(model, npu, model.batch)
    facts = _facts(model)
    out.say(f"{model.name}: {model.help or 'a table of layers'}", *(f"  {note}" for note in model_notes(facts)))
    if model.batch > 1:
        out.say(f"  for a batch of {model.batch} samples")
    if model.source:
        out.say(f"  source: {model.source}")
    _table(out, rows, npu is not None)
    out.put({**facts, "layers": [_row(line) for line in rows]})


def _facts(model: Model) -> dict[str, Any]:
    return {
        "name": model.name,
        "help": model.help,
        "parameters": model.parameters,
        "flops": model.flops,
        "sample": model.sample,
        "tokens": model.tokens,
        "batch": model.batch,
        "source": model.source,
    }


def _row(line: Line) -> dict[str, Any]:
    row = {
        "name": line.name,
        "count": line.count,
        "parameters": line.parameters,
        "flops": line.flops,
        "bytes": line.bytes,
        "products": [{"m": m, "n": n, "k": k, "count": count} for m, n, k, count in line.products],
    }
    return row if line.seconds is None else {**row, "training_ns": float(line.seconds * 10**9)}


def _table(out: CommandOutput, rows: Sequence[Line], timed: bool) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("layer", "times", "parameters", "FLOP forward", "bytes forward", "products: m x n x k"):
        table.add_column(heading, justify="left" if heading in ("layer", "products: m x n x k") else "right")
    if timed:
        table.add_column("forward + backward", justify="right")
    for line in rows:
        products = "; ".join(f"{m} x {n} x {k}" + (f" ({count})" * (count > 1)) for m, n, k, count in line.products)
        cells = [line.name, str(line.count), *map(short, (line.parameters, line.flops, line.bytes)), products]
        table.add_row(*cells, *([] if line.seconds is None else [format_time_ns(line.seconds * 10**9)]))
    out.say("", table)
