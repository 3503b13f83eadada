"""`pyxsim resume`: continue a run from its checkpoint."""

from __future__ import annotations

from dataclasses import replace

from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.exit_codes import complain
from pyxsim.cli.simulate import progress_of, show_outcome
from pyxsim.runner.checkpoint.context import checkpoint_writer, open_checkpoint, relative_outputs
from pyxsim.runner.hooks import ProgressHooks
from pyxsim.runner.lifecycle import complete_run


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
