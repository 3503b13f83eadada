"""`pyxsim resume`: go on with a run from its checkpoint."""

from __future__ import annotations

from dataclasses import replace

from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.keeping import keeper_of
from pyxsim.cli.progress import Watch
from pyxsim.cli.simulate import go_on
from pyxsim.runner.checkpoint.context import take_up, typed_again


def resume(out: CommandOutput, path: str, output: str | None = None, *, keep: bool = False) -> None:
    """`pyxsim resume`. Ends as the run would have ended. `output`: in the place of the file of its result. `keep`: the
    last checkpoint stays when it has."""
    head, prepared, rest = take_up(path, output)
    keeper = keeper_of(out, path, prepared.experiment.run.every, rest)
    watch = Watch(out, ends=False)
    prepared.network.tick = watch.tick
    out.say(f"{path}: going on from cycle {prepared.network.now:,}, written {head['written']}", "")
    rest = replace(rest, outputs=typed_again(rest.outputs, output))  # further checkpoints keep the whole names
    go_on(out, prepared, rest, watch, keeper, keep=keep)
