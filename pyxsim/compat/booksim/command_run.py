"""`pyxsim booksim`: BookSim2's configuration files and its command line, `FILE key=value ...`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.functions import ReturnedOutput
from pyxsim.cli.simulate import Request, run_request, show_experiment
from pyxsim.compat.booksim.translation import booksim_experiment, sim_count
from pyxsim.errors import InputError, bundle, single_faults
from pyxsim.reports.files import Outputs
from pyxsim.results.result import Result
from pyxsim.runner.lifecycle import run_experiment
from pyxsim.runner.prepare import PathLike
from pyxsim.settings import Experiment, load_experiment
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
        Assignments "key=value", applied after the file.
    overrides
        As for `pyxsim.run`.
    strict
        Refuse settings that differ from BookSim2, and routes that can deadlock.

    Raises
    ------
    InputError, SimulationError
        As for `pyxsim.run`.
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

    def finish(_: object, result: Result) -> None:
        others = repeat(load(), sim_count(path, words, text) - 1, folder, strict)
        out.say(*seen, *final_report(result, *others))

    return run_request(out, request, outputs, finish)


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


def repeat(experiment: Experiment, times: int, folder: Path, strict: bool) -> list[Result]:
    """Run an experiment again with the seeds that follow, as sim_count does."""
    seed = experiment.output.seed
    again = [load_experiment(experiment, [f"output.seed={seed + number}"]) for number in range(1, times + 1)]
    return [run_experiment(key, folder=folder, allow_deadlock=not strict).result_or_raise() for key in again]


def final_report(*results: Result) -> list[str]:
    """Return BookSim2's figures in its units (cycles, routers, flits per node and cycle); means of several runs."""
    runs = [result.json() for result in results]
    if "packet_latency" not in runs[0]:
        return []
    names = ("packet_latency", "network_latency", "hops", "accepted_load", "offered_load")
    known = {name: [run[name] for run in runs if run[name] is not None] for name in names}
    figures = {name: sum(values) / len(values) if values else None for name, values in known.items()}
    state = "saturated" if any(run.get("saturated") for run in runs) else "stable"
    rows = [
        ("packet latency, with queueing at the source", figures["packet_latency"], "cycles"),
        ("network latency", figures["network_latency"], "cycles"),
        ("hops, counted as routers visited", figures["hops"], ""),
        ("accepted", figures["accepted_load"], "flits per node and cycle"),
        ("offered", figures["offered_load"], f"flits per node and cycle: {state}"),
    ]
    lines = [f"{what} {value:.6g} {unit}".rstrip() for what, value, unit in rows if value is not None]
    return [f"means of {len(runs)} runs", *lines] if len(runs) > 1 else lines
