"""`pyxsim bench`: the speed of the simulator on this machine, and the time of experiments that follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyxsim.cli.command_output import CommandOutput
from pyxsim.errors import InputError, closest
from pyxsim.reports.text.facts import rounded
from pyxsim.units import rough_seconds

if TYPE_CHECKING:
    from benchmarks.measure import Row

# One case per kind of work: busy routers, a large network, the system layer, no packets.
SHORT = ("torus8x8-uniform-0.4", "torus32x32-uniform-0.1", "torus4x4x4-all-reduce", "torus16x16x16-analytical")
FOR_NETWORK = SHORT[1]
# The third case on more NPUs; long enough to measure the speed in one run.
ONCE = ("torus8x8x8-all-reduce", "torus16x16x16-all-reduce")
MOST_REPEAT = 1000


def bench(out: CommandOutput, names: Sequence[str], *, repeat: int, list_only: bool = False, skip: bool = True) -> None:
    """Run cases; without names a few, from which the time of experiments follows. `skip`: skip repeating cycles.
    Raises InputError."""
    from benchmarks.cases import CASES
    from benchmarks.history import session
    from benchmarks.measure import measure
    from benchmarks.show import tables
    from benchmarks.yardstick import measure_yardstick, said

    if list_only:
        out.put({"cases": [{"name": name, "what": case.what, "unit": case.unit} for name, case in CASES.items()]})
        out.say(*(f"{name}: {case.what}" for name, case in CASES.items()))
        return
    _check(names)
    if not 1 <= repeat <= MOST_REPEAT:
        raise InputError(f"{repeat} runs", key="--repeat", allowed=f"from 1 to {MOST_REPEAT}")
    if out.silent and not out.json:
        raise InputError("nobody would be told what was measured", key="--quiet", allowed="with --json")
    yardstick = measure_yardstick()
    out.say(*filter(None, [said(yardstick)]))
    rows: list[Row] = []
    for name in names or (*SHORT, *ONCE):
        out.say(f"{name} ...")
        rows.append(measure(name, repeat if names or name not in ONCE else 1, skip=skip))
    told: dict[str, Any] = session(rows, yardstick)
    out.say("", f"{told['machine']}, {told['build']} build", *tables(rows))
    if not names:
        told["expected"] = _expect(out, {row["name"]: row for row in rows})
    out.put(told)


def show_case(out: CommandOutput, names: Sequence[str]) -> None:
    """Print the experiment of a case. Raises InputError."""
    from benchmarks.cases import CASES

    _check(names)
    if len(names) != 1:
        what = "the case is missing" if not names else f"{len(names)} cases"
        raise InputError(what, key="bench --show", allowed="one: `pyxsim bench --list` tells their names")
    text = CASES[names[0]].show()
    out.put({"case": names[0], "experiment": text})
    if not out.json:
        out.write(text)


def _check(names: Sequence[str]) -> None:
    from benchmarks.cases import CASES

    for name in names:
        if name not in CASES:
            allowed = f"what `pyxsim bench --list` tells{closest(name, CASES)}"
            raise InputError(f"no case '{name}'", key="bench", allowed=allowed)


def _expect(out: CommandOutput, rows: dict[str, Row]) -> list[dict[str, Any]]:
    """Estimate the time of experiments by the most similar case."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from benchmarks.expect import SPEED_OF, expected

    table = Table(
        title="a ring all-reduce, flit by flit, nothing skipped, on this machine as it is now", box=SIMPLE_HEAD
    )
    for head in ("NPUs", "size", "router visits", "about"):
        table.add_column(head, justify="right", no_wrap=True)
    found = list(expected({name: rows[name]["visits_per_cpu_s"] for name in SPEED_OF.values()}))
    for each in found:
        table.add_row(f"{each.npus:,}", each.size, rounded(each.router_visits, ""), rough_seconds(each.cpu_s))
    routers = 32 * 32
    room = rows[FOR_NETWORK]["network_mb"] / routers * 1000
    memory = f"memory of the network: {room:.0f} kB for each router (4 VCs x 8 flits)"
    out.say(table, memory, "`pyxsim check EXPERIMENT.toml` tells the router visits of an experiment, and its time.")
    return [each._asdict() for each in found]
