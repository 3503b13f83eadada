"""Run an experiment: `pyxsim run`, `pyxsim resume`, and the commands for files of other simulators."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.exit_codes import complain, lines
from pyxsim.cli.faults import placed
from pyxsim.cli.mpi_ranks import check_all_ready
from pyxsim.errors import InputError, SimulationError, all_or_faults
from pyxsim.network.packet.mpi_world import mpi_world
from pyxsim.reports.files import Outputs
from pyxsim.results.result import Result
from pyxsim.runner.checkpoint.context import (
    CheckpointContext,
    check_new,
    checkpoint_writer,
    default_path,
    open_checkpoint,
    relative_outputs,
)
from pyxsim.runner.hooks import ProgressHooks
from pyxsim.runner.lifecycle import RunOutcome, complete_run, run_experiment
from pyxsim.runner.packet_watch import PacketWatch
from pyxsim.runner.progress_bar import ProgressBar
from pyxsim.settings import Experiment, load_experiment, resolved_toml

MPI = "run.mpi=true"  # what --mpi sets


def show_experiment(out: CommandOutput, experiment: Experiment, notes: Iterable[str]) -> None:
    """Print the experiment that files of another simulator describe, as TOML; run nothing."""
    text, notes = resolved_toml(experiment), list(notes)
    out.put({"experiment": text, "notes": notes})
    out.say(*notes)
    if not out.json:
        out.write(text)


@dataclass(frozen=True)
class Request:
    """What a command runs.

    Parameters
    ----------
    load
        Reads the experiment; it may extend `warnings`.
    inputs
        The input files.
    place
        Adds to a fault the input file that it is in.
    folder
        Where relative paths of the experiment start.
    watch
        The packet of --watch.
    """

    load: Callable[[], Experiment]
    inputs: tuple[str, ...]
    place: Callable[[InputError], InputError]
    folder: Path
    backend: str = "packet"
    libraries: Sequence[str] = ()
    allow_deadlock: bool = False
    watch: str | None = None
    warnings: list[str] = field(default_factory=list)


def run_file(out: CommandOutput, path: str, outputs: Outputs, *, overrides: Iterable[str] = (), **options: Any) -> None:
    """Run `pyxsim run`; `options` are backend, libraries, allow_deadlock and watch of a Request."""
    overrides, libraries = tuple(overrides), options.get("libraries", ())
    if MPI in overrides and out.join(mpi_world()):  # before the experiment is read: one rank prints its faults
        outputs = Outputs()
    request = Request(
        load=lambda: load_experiment(path, overrides, libraries),
        inputs=(path,),
        place=lambda fault: placed(fault, path, overrides),
        folder=Path(path).parent,
        **options,
    )
    run_request(out, request, outputs)


def run_request(
    out: CommandOutput,
    request: Request,
    outputs: Outputs,
    epilogue: Callable[[Any, Result], None] | None = None,
) -> Result:
    """Run an experiment, write its files, print its summary, and return its result.

    Parameters
    ----------
    epilogue
        Prints what another simulator would print at the end of a complete run.

    Raises
    ------
    InputError, SimulationError
        As the run.
    KeyboardInterrupt
        When the run was interrupted; its files have been written.
    """
    experiment, _, watch = all_or_faults(
        request.load,
        lambda: outputs.check(request.inputs),
        lambda: PacketWatch.read(request.watch) if request.watch is not None else None,
    )
    if epilogue is not None:  # a resumed run has none, and only rank 0 has the result
        experiment.run.check_single()
    if experiment.run.mpi and out.join(mpi_world()):
        outputs = Outputs()
    if out.world is not None:
        check_all_ready(out.world)
    libraries = tuple(os.path.abspath(library) for library in request.libraries)
    context = CheckpointContext(outputs.placed(), request.backend, libraries, watch)
    writer = None
    if experiment.run.every is not None:
        path = default_path(outputs.file, request.inputs)
        writer = checkpoint_writer(check_new(path, resume_command(path)), experiment.run.every, context, warn=complain)
    hooks = ProgressHooks(progress_of(out), signals=out.signals, checkpoints=writer)
    try:
        outcome = run_experiment(
            experiment,
            folder=request.folder,
            allow_deadlock=request.allow_deadlock,
            context=CheckpointContext(outputs, request.backend, libraries, watch),
            hooks=hooks,
            finished=lambda outcome: show_outcome(out, outcome, watch, hooks),
            warnings=request.warnings,
        )
    except InputError as error:
        raise request.place(error) from None
    if epilogue is not None:
        epilogue(outcome.prepared, outcome.result)
    return outcome.result


def progress_of(out: CommandOutput, label: str = "") -> ProgressBar | None:
    """Return the progress bar of a run; None without a terminal."""
    return ProgressBar(label) if out.live else None


def resume_command(path: str) -> str:
    """Return what to type to continue from a checkpoint."""
    return f"pyxsim resume {shlex.quote(path)}"


def show_outcome(out: CommandOutput, outcome: RunOutcome, watch: PacketWatch | None, hooks: ProgressHooks) -> None:
    """Print how a run ended. Raises what ends the command: a failure, an unwritten file, an interruption."""
    network, result, failure = outcome.prepared.network, outcome.result, outcome.failure
    data = numbers(result) if out.json else {}
    if watch is not None:
        out.say(*watch.lines(network), "")
        data |= {"watched": [list(row) for row in network.watched_events()], "watched_stays": watch.stays(network)}
    if failure is not None:
        out.put({**data, "exit_code": failure.exit_code, "errors": lines(failure)})
        raise _with_files(failure, outcome)
    out.put(data)
    if not out.silent:
        from pyxsim.reports.text.summary import print_summary

        print_summary(result)
    if outcome.write_error is not None:
        raise outcome.write_error
    if not result.complete:
        message = _kept(outcome.written) if outcome.written else "nothing was written, because -o is missing"
        if hooks.checkpoints is not None and hooks.checkpoints.written:
            message += f"; {resume_command(hooks.checkpoints.path)} continues the run"
        raise KeyboardInterrupt(message)
    out.say(*(["", f"wrote {outcome.written}"] if outcome.written else []))


def _with_files(failure: SimulationError, outcome: RunOutcome) -> SimulationError:
    """The message of a failure with the file of its result, or why that could not be written."""
    suffix = f"; {_kept(outcome.written)}" if outcome.written else ""
    if outcome.write_error is not None:
        suffix = f"; {outcome.write_error}"
    failure.args = (f"{failure}{suffix}", *failure.args[1:])
    return failure


def _kept(written: str) -> str:
    return f"{written} contains the incomplete result"


def numbers(result: Result) -> dict[str, Any]:
    """Return the JSON object of a run."""
    return {
        **result.json(),
        **result.tables(),
        "complete": result.complete,
        "warnings": result.warnings,
        "hints": result.hints,
    }


def resume(out: CommandOutput, path: str, output: str | None = None, *, keep: bool = False) -> None:
    """Run `pyxsim resume`: continue a run to its end.

    Parameters
    ----------
    output
        A file for the result, in place of the planned one.
    keep
        Keep the last checkpoint when the run has ended.
    """
    head, prepared, context = open_checkpoint(path, output)
    writer = checkpoint_writer(path, prepared.experiment.run.every, context, warn=complain)
    hooks = ProgressHooks(progress_of(out), signals=out.signals, checkpoints=writer)
    out.say(f"{path}: continuing from cycle {prepared.network.now:,}, written {head['written']}", "")
    # The context in further checkpoints keeps the absolute names.
    context = replace(context, outputs=relative_outputs(context.outputs, output))
    complete_run(
        prepared,
        context,
        hooks,
        lambda outcome: show_outcome(out, outcome, context.packet_watch, hooks),
        keep_checkpoint=keep,
    )
