"""`pyxsim astra`: the command line of ASTRA-sim, for the files of its version 1 and its Garnet backend."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from pyxsim.cli.faults import each
from pyxsim.cli.simulate import Job, Outputs, carry_out
from pyxsim.cli.talk import Talk
from pyxsim.errors import DeadlockError, InputError, bundle
from pyxsim.output.result import Result
from pyxsim.settings import Experiment
from pyxsim.study.astra import astra_experiment

RUN_NAME = "run"
DIGITS = 9
_OPTIONS = {
    "workload.passes": "--num-passes",
    "workload.comm_scale": "--comm-scale",
    "workload.compute_scale": "--compute-scale",
}
_HINT = "; --allow-deadlock"  # what `prepare` says for `pyxsim run`


@dataclass(frozen=True)
class AstraFiles:
    """The three input files."""

    network: str
    system: str
    workload: str

    def place(self, error: InputError) -> InputError:
        """The same faults with the file, or the option, that the key of the experiment came from."""

        def place(fault: InputError) -> InputError:
            key = fault.key or ""
            if key in _OPTIONS and fault.file is None:
                return InputError(fault.problem, key=_OPTIONS[key], allowed=fault.allowed, given=fault.given)
            return fault if key.startswith("--") else fault.at(file=vars(self).get(key.partition(".")[0]))

        return bundle([place(fault) for fault in each(error)])


def run_astra(
    talk: Talk,
    files: AstraFiles,
    outputs: Outputs,
    *,
    path: str | None = None,
    run_name: str | None = None,
    passes: str = "1",
    comm_scale: str = "1",
    compute_scale: str = "1",
    overrides: Iterable[str] = (),
    strict: bool = False,
) -> None:
    """`pyxsim astra`. The result goes to PATH/RUN-NAME.h5, unless `-o` says otherwise."""
    if outputs.file is None and (path or run_name):
        outputs = replace(outputs, file=str(Path(path or ".") / f"{run_name or RUN_NAME}.h5"))

    def load() -> Experiment:
        try:
            return astra_experiment(
                files.network,
                files.system,
                files.workload,
                passes=_count(passes),
                comm_scale=comm_scale,
                compute_scale=compute_scale,
                overrides=tuple(overrides),
            )
        except InputError as error:
            raise files.place(error) from None

    inputs = (files.network, files.system, files.workload)
    job = Job(load, inputs, files.place, folder=Path(), allow_deadlock=not strict)
    try:
        carry_out(talk, job, outputs, _last_words)
    except DeadlockError as error:
        text = str(error)
        if _HINT in text:
            raise DeadlockError(f"{text.partition(_HINT)[0]}; without --strict it is run", error.cycle) from None
        raise


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > DIGITS:
        raise InputError(f"'{text}' is no number", key="--num-passes", allowed="a whole number from 1")
    return int(text)


def _last_words(result: Result) -> str:
    """ASTRA-sim's own line, which scripts look for."""
    return f"all passes finished at time: {result.time_ns}"
