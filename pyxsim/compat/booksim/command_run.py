"""`pyxsim booksim`: BookSim2's configuration files and its command line, `FILE key=value ...`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.simulate import Request, run_request, show_experiment
from pyxsim.compat.booksim.translation import booksim_experiment
from pyxsim.errors import InputError, bundle, single_faults
from pyxsim.reports.files import Outputs
from pyxsim.results.result import Result
from pyxsim.settings import Experiment

STDIN = "-"
# Where a key of our own experiment comes from, when the network finds fault with it.
_KEYS = {
    "network.shape": "k, n",
    "network.options": "k, n",
    "network.router.vcs": "num_vcs",
    "network.router.buffer": "vc_buf_size",
    "network.router.routing": "routing_function",
    "network.router.virtual_networks": "num_vcs",
    "traffic.pattern": "traffic",
    "traffic.load": "injection_rate",
    "traffic.injection": "injection_process",
}


def run_booksim(
    out: CommandOutput,
    path: str,
    words: Iterable[str],
    outputs: Outputs,
    *,
    overrides: Iterable[str] = (),
    show_only: bool = False,
    strict: bool = False,
) -> None:
    """`pyxsim booksim`. `show_only`: print the experiment and do not run it; `strict`: what differs is a fault.

    BookSim2 runs routes that can deadlock, and so does this, with a warning, unless it is strict.
    """
    text = sys.stdin.read() if path == STDIN else None
    words, overrides = tuple(words), tuple(overrides)
    told: list[str] = []

    def load() -> Experiment:
        experiment, notes = booksim_experiment(path, words, overrides, text)
        if strict and notes:
            raise bundle([InputError(note) for note in notes])
        told.extend(note for note in notes if note not in told)
        return experiment

    if show_only:
        show_experiment(out, load(), told)
        return
    inputs = () if path == STDIN else (path,)
    folder = Path() if path == STDIN else Path(path).parent
    request = Request(load, inputs, _place, folder=folder, allow_deadlock=not strict)
    run_request(out, request, outputs, lambda _, result: out.say(*told, *last_words(result)))


def _place(error: InputError) -> InputError:
    """The same faults with the key of the configuration that ours came from."""

    def place(fault: InputError) -> InputError:
        key = fault.key or ""
        found = next((theirs for ours, theirs in _KEYS.items() if key == ours or key.startswith(f"{ours}.")), None)
        if found is None:
            return fault
        return InputError(fault.problem, file=fault.file, key=found, allowed=fault.allowed, given=fault.given)

    return bundle([place(fault) for fault in single_faults(error)])


def last_words(result: Result) -> list[str]:
    """What BookSim2 prints at the end, in the same units: cycles, routers visited, flits per node and cycle."""
    told = result.json()
    if "packet_latency" not in told:
        return []
    state = "saturated" if told.get("saturated") else "stable"
    rows = [
        ("packet latency, with queueing at the source", told["packet_latency"], "cycles"),
        ("network latency", told["network_latency"], "cycles"),
        ("hops, counted as routers visited", told["hops"], ""),
        ("accepted", told["accepted_load"], "flits per node and cycle"),
        ("offered", told["offered_load"], f"flits per node and cycle: {state}"),
    ]
    return [f"{what} {value:.6g} {unit}".rstrip() for what, value, unit in rows if value is not None]
