"""Run an experiment from the command line: where its results go, how it is watched, and how it can end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.exit_codes import lines
from pyxsim.cli.faults import all_or_faults, placed
from pyxsim.cli.keeping import keeper_of
from pyxsim.cli.keeping import words as typed
from pyxsim.cli.progress import Watch
from pyxsim.errors import InputError, SimulationError
from pyxsim.reports.files import Outputs
from pyxsim.results.result import Result
from pyxsim.runner.checkpoint.context import CheckpointContext, check_new, place_of
from pyxsim.runner.checkpoint.writer import CheckpointWriter
from pyxsim.runner.lifecycle import simulate
from pyxsim.runner.packet_watch import PacketWatch
from pyxsim.runner.prepare import Prepared, PreparedTraffic, prepare
from pyxsim.settings import Experiment, load_experiment, resolved_toml


def show(out: CommandOutput, experiment: Experiment, notes: Iterable[str]) -> None:
    """Print the experiment that foreign files stand for, as TOML, in place of running it."""
    text, notes = resolved_toml(experiment), list(notes)
    out.put({"experiment": text, "notes": notes})
    out.say(*notes)
    if not out.json:
        out.write(text)


@dataclass(frozen=True)
class Job:
    """What is run: `load` reads the experiment, `place` tells in which of the input files a fault is. `warnings`: what
    `load` has to say of the files."""

    load: Callable[[], Experiment]
    inputs: tuple[str, ...]
    place: Callable[[InputError], InputError]
    folder: Path
    backend: str = "packet"
    libraries: Iterable[str] = ()
    allow_deadlock: bool = False
    watch: str | None = None
    warnings: list[str] = field(default_factory=list)


def run_experiment(
    out: CommandOutput, path: str, outputs: Outputs, *, overrides: Iterable[str] = (), **options: Any
) -> None:
    """`pyxsim run`. `options`: backend, libraries, allow_deadlock, watch of the Job."""
    overrides, libraries = tuple(overrides), list(options.get("libraries", ()))
    job = Job(
        load=lambda: load_experiment(path, overrides, libraries),
        inputs=(path,),
        place=lambda fault: placed(fault, path, overrides),
        folder=Path(path).parent,
        **options,
    )
    carry_out(out, job, outputs)


def carry_out(
    out: CommandOutput, job: Job, outputs: Outputs, last_words: Callable[[Any, Result], None] | None = None
) -> None:
    """Run a job, write and show its results. `last_words`: tells what else there is to tell of what was
    prepared, and of its complete result.

    Raises InputError, SimulationError, and KeyboardInterrupt when the run was ended early; the files are written then.
    """
    experiment, _, watched = all_or_faults(
        job.load,
        lambda: outputs.check(job.inputs),
        lambda: PacketWatch.read(job.watch) if job.watch is not None else None,
    )
    if watched is not None:
        experiment = watched.told(experiment)
    rest = CheckpointContext(
        outputs.placed(), job.backend, tuple(os.path.abspath(each) for each in job.libraries), watched
    )
    keeper = None
    if last_words is not None:  # who resumes the run would not have them
        experiment.run.without_checkpoints()
    elif experiment.run.every is not None:
        path = place_of(outputs.file, job.inputs)
        keeper = keeper_of(out, check_new(path, typed(path)), experiment.run.every, rest)
    watch = Watch(out, ends=keeper is None)
    try:
        prepared = prepare(
            experiment,
            folder=job.folder,
            libraries=job.libraries,
            backend=job.backend,
            allow_deadlock=job.allow_deadlock,
            tick=watch.tick,
        )
    except InputError as error:
        raise job.place(error) from None
    prepared.warnings[:0] = job.warnings
    if watched is not None:
        watched.begin(prepared.network)
    try:
        result = go_on(out, prepared, replace(rest, outputs=outputs), watch, keeper)
    except InputError as error:
        raise job.place(error) from None
    if last_words is not None:
        last_words(prepared, result)


def go_on(
    out: CommandOutput,
    prepared: Prepared | PreparedTraffic,
    rest: CheckpointContext,
    watch: Watch,
    keeper: CheckpointWriter | None,
    *,
    keep: bool = False,
) -> Result:
    """Run what was prepared, write and show the results; with `keep` the checkpoint stays. Raises as `carry_out`."""
    watched, outputs = rest.watched, rest.outputs
    with out.stop.deferred():  # what was simulated is written, whatever comes meanwhile
        try:
            with watch.over(prepared):
                result = simulate(prepared, backend=rest.backend, keeper=keeper)
        except SimulationError as error:
            if keeper is not None and not keep:
                keeper.forget()
            _log(out, watched, prepared.network)
            _failed(out, error, outputs, _events(watched, prepared.network))
        _log(out, watched, prepared.network)
        _ended(out, result, outputs, _events(watched, prepared.network), keeper)
        if keeper is not None and not keep:
            keeper.forget()
    return result


def _log(out: CommandOutput, watched: PacketWatch | None, network: Any) -> None:
    """What happened to the packet that somebody wants to watch."""
    if watched is not None:
        out.say(*watched.lines(network), "")


def _events(watched: PacketWatch | None, network: Any) -> dict[str, Any]:
    """What happened to that packet, for scripts."""
    if watched is None:
        return {}
    return {"watched": [list(row) for row in network.watched_events()], "watched_stays": watched.stays(network)}


def _failed(out: CommandOutput, error: SimulationError, outputs: Outputs, more: dict[str, Any]) -> None:
    result: Result | None = getattr(error, "result", None)
    if result is None:
        raise error
    out.put({**numbers(result), **more, "exit_code": error.exit_code, "errors": lines(error)})
    try:
        written = outputs.write(result)
        words = f"; {_kept(written)}" if written else ""
    except InputError as fault:  # the failure of the simulated system is the news all the same
        words = f"; {fault}"
    error.args = (f"{error}{words}", *error.args[1:])
    raise error


def _ended(
    out: CommandOutput, result: Result, outputs: Outputs, more: dict[str, Any], keeper: CheckpointWriter | None
) -> None:
    written, fault = "", None
    try:
        written = outputs.write(result)
    except InputError as error:  # the numbers are worth showing all the same
        fault = error
    out.put({**numbers(result), **more} if out.json else {})
    if not out.silent:
        from pyxsim.reports.summary import print_summary

        print_summary(result)
    if fault is not None:
        raise fault
    if not result.complete:
        words = _kept(written) if written else "without -o nothing was written"
        if keeper is not None and keeper.written:
            words += f"; {typed(keeper.path)} goes on"
        raise KeyboardInterrupt(words)
    out.say(*(["", f"wrote {written}"] if written else []))


def _kept(written: str) -> str:
    return f"what was simulated so far is in {written}, marked incomplete"


def numbers(result: Result) -> dict[str, Any]:
    """The JSON object of a run."""
    return {**result.json(), **result.tables(), "complete": result.complete, "warnings": result.warnings}
