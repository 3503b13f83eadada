"""`pyxsim resume`: go on with a run from its checkpoint."""

from __future__ import annotations

import os

from pyxsim.cli.keeping import SUFFIX, Rest, keeper_of
from pyxsim.cli.progress import Watch
from pyxsim.cli.simulate import go_on
from pyxsim.cli.talk import Talk
from pyxsim.errors import InputError
from pyxsim.output.result import Result
from pyxsim.study import Prepared
from pyxsim.study.checkpoint import file
from pyxsim.study.checkpoint.past import Past
from pyxsim.study.prepare import PreparedTraffic


def resume(talk: Talk, path: str, *, keep: bool = False) -> None:
    """`pyxsim resume`. Ends as the run would have ended. `keep`: the last checkpoint stays when it has."""
    prepared: Prepared | PreparedTraffic
    rest: Rest
    if not os.path.lexists(path):
        _no_checkpoint(path)
    head, (prepared, rest) = file.read(path)
    rest.outputs.check([path])
    every = prepared.experiment.run.every
    keeper = keeper_of(talk, path, every, rest)
    prepared.past = Past.of(head)
    watch = Watch(talk, ends=False)
    prepared.network.tick = watch.tick
    talk.say(f"{path}: going on from cycle {prepared.network.now:,}, written {head['written']}", "")
    go_on(talk, prepared, rest, watch, keeper, keep=keep)


def _no_checkpoint(path: str) -> None:
    """Say why. Raises InputError."""
    output = path.removesuffix(SUFFIX)
    if output != path and os.path.isfile(output) and Result.load(output).complete:
        problem = "there is no checkpoint: the run has ended"
        raise InputError(problem, file=path, allowed=f"nothing; its result is {output}")
    raise InputError("there is no such file", file=path, allowed="a checkpoint, such as out.h5.checkpoint")
