"""`pyxsim booksim`: BookSim2's configuration files and its command line, `FILE key=value ...`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.functions import ReturnedOutput
from pyxsim.cli.simulate import Request, run_request, show_experiment
from pyxsim.compat.booksim.translation import booksim_experiment
from pyxsim.errors import InputError, bundle, single_faults
from pyxsim.reports.files import Outputs
from pyxsim.results.result import Result
from pyxsim.runner.prepare import PathLike
from pyxsim.settings import Experiment
from pyxsim.settings.types import listed

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


def booksim(
    configuration: PathLike,
    assignments: Iterable[str] = (),
    *,
    overrides: Iterable[str] = (),
    strict: bool = False,
) -> Result:
    """Simulate a configuration of BookSim2.

    Parameters
    ----------
    configuration
        The file.
    assignments
        "key=value" that come after the file.
    overrides
        As of `pyxsim.run`.
    strict
        Refuse what would differ from BookSim2, and routes that can deadlock.

    Raises
    ------
    InputError, SimulationError
        As of `pyxsim.run`.
    """
    words = listed(assignments)
    result = run_booksim(
        ReturnedOutput(), str(configuration), words, Outputs(), overrides=listed(overrides), strict=strict
    )
    assert result is not None
    return result


def run_booksim(
    out: CommandOutput,
    path: str,
    words: Iterable[str],
    outputs: Outputs,
    *,
    overrides: Iterable[str] = (),
    show_only: bool = False,
    strict: bool = False,
) -> Result | None:
    """Run `pyxsim booksim` and return its result; None with `show_only`.

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
        return None
    inputs = () if path == STDIN else (path,)
    folder = Path() if path == STDIN else Path(path).parent
    request = Request(load, inputs, _place, folder=folder, allow_deadlock=not strict)
    return run_request(out, request, outputs, lambda _, result: out.say(*seen, *final_report(result)))


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
