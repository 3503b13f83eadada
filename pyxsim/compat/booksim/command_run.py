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
# The BookSim2 key behind a key of the experiment, for faults.
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
    """Run `pyxsim booksim`.

    `show_only`: print the experiment without running it; `strict`: differences from BookSim2 are faults.

    Routes that can deadlock run with a warning, as in BookSim2, unless `strict`.
    """
    text = sys.stdin.read() if path == STDIN else None
    words, overrides = tuple(words), tuple(overrides)
    seen: list[str] = []

    def load() -> Experiment:
        experiment, notes = booksim_experiment(path, words, overrides, text)
        if strict and notes:
            raise bundle([InputError(note) for note in notes])
        seen.extend(note for note in notes if note not in seen)
        return experiment

    if show_only:
        show_experiment(out, load(), seen)
        return
    inputs = () if path == STDIN else (path,)
    folder = Path() if path == STDIN else Path(path).parent
    request = Request(load, inputs, _place, folder=folder, allow_deadlock=not strict)
    run_request(out, request, outputs, lambda _, result: out.say(*seen, *final_report(result)))


def _place(error: InputError) -> InputError:
    """Return the faults with the keys of the configuration."""

    def place(fault: InputError) -> InputError:
        key = fault.key or ""
        keys = (theirs for ours, theirs in _KEYS.items() if key == ours or key.startswith(f"{ours}."))
        booksim_key = next(keys, None)
        if booksim_key is None:
            return fault
        return InputError(fault.problem, file=fault.file, key=booksim_key, allowed=fault.allowed, given=fault.given)

    return bundle([place(fault) for fault in single_faults(error)])


def final_report(result: Result) -> list[str]:
    """Return BookSim2's figures in its units: cycles, routers visited, flits per node and cycle."""
    figures = result.json()
    if "packet_latency" not in figures:
        return []
    state = "saturated" if figures.get("saturated") else "stable"
    rows = [
        ("packet latency, with queueing at the source", figures["packet_latency"], "cycles"),
        ("network latency", figures["network_latency"], "cycles"),
        ("hops, counted as routers visited", figures["hops"], ""),
        ("accepted", figures["accepted_load"], "flits per node and cycle"),
        ("offered", figures["offered_load"], f"flits per node and cycle: {state}"),
    ]
    return [f"{what} {value:.6g} {unit}".rstrip() for what, value, unit in rows if value is not None]
