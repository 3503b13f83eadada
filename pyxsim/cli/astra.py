"""`pyxsim astra`: the command line of ASTRA-sim, for the files of its versions 1 and 2."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from pyxsim.cli.counts import count
from pyxsim.cli.faults import by_hand, each
from pyxsim.cli.simulate import Job, Outputs, Table, carry_out
from pyxsim.cli.talk import Talk
from pyxsim.errors import DeadlockError, InputError, bundle
from pyxsim.output.end_to_end import NAME
from pyxsim.output.result import Result
from pyxsim.settings import Experiment
from pyxsim.settings.spelling import of_system_file
from pyxsim.study.astra import form_of, read_astra

RUN_NAME = "run"
_OPTIONS = {
    "workload.passes": "--num-passes",
    "workload.comm_scale": "--comm-scale",
    "workload.compute_scale": "--compute-scale",
    "system.queues": "--num-queues-per-dim",
}
_HINT = "; --allow-deadlock"  # what `prepare` says for `pyxsim run`


@dataclass(frozen=True)
class AstraFiles:
    """The three input files."""

    network: str
    system: str
    workload: str
    queues: bool = False  # whether an option tells their number
    overrides: tuple[str, ...] = ()

    def place(self, error: InputError) -> InputError:
        """The same faults with the file, or the option, that the key of the experiment came from."""

        def place(fault: InputError) -> InputError:
            key = fault.key or ""
            if key in _OPTIONS and fault.file is None and (self.queues or key != "system.queues"):
                return InputError(fault.problem, key=_OPTIONS[key], allowed=fault.allowed, given=fault.given)
            if key.startswith("--") or fault.file is not None:
                return fault
            if by_hand(key, self.overrides):
                return fault.at(file="--set")
            file, written = vars(self).get(key.partition(".")[0]), of_system_file(key)
            return InputError(fault.problem, file=file, key=written, allowed=fault.allowed, given=fault.given)

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
    injection_scale: str = "1",
    queues: str | None = None,
    rendezvous: str | None = None,
    backend: str | None = None,
    overrides: Iterable[str] = (),
    rows: int = 1,
    row: int = 0,
    strict: bool = False,
) -> None:
    """`pyxsim astra`. The result goes to PATH/RUN-NAME.h5, unless `-o` says otherwise, and to PATH/EndToEnd.csv, where
    it is row number `row` of `rows` of each layer.
    """
    if not 0 <= row < rows:
        raise InputError(f"there is no row {row} of {rows}", key="--stat-row", allowed=f"0 to {max(rows, 1) - 1}")
    _no_rendezvous(rendezvous)
    warnings: list[str] = []
    files = replace(files, queues=queues is not None, overrides=tuple(overrides))
    name = run_name or RUN_NAME
    if path or run_name:
        table = Table(str(Path(path or ".") / NAME), name, rows, row)
        outputs = replace(outputs, file=outputs.file or str(Path(path or ".") / f"{name}.h5"), table=table)

    def load() -> Experiment:
        try:
            read = read_astra(
                files.network,
                files.system,
                files.workload,
                passes=count(passes, "--num-passes"),
                comm_scale=comm_scale,
                compute_scale=compute_scale,
                injection_scale=injection_scale,
                queues=None if queues is None else count(queues, "--num-queues-per-dim"),
                backend=backend,
                overrides=files.overrides,
            )
        except InputError as error:
            raise files.place(error) from None
        warnings.extend(read.warnings)
        return read.experiment

    inputs = (files.network, files.system, files.workload)
    job = Job(
        load,
        inputs,
        files.place,
        folder=Path(),
        backend=backend or form_of(files.network).backend,
        allow_deadlock=not strict,
        warnings=warnings,
    )
    try:
        carry_out(talk, job, outputs, _last_words)
    except DeadlockError as error:
        text = str(error)
        if _HINT in text:
            raise DeadlockError(f"{text.partition(_HINT)[0]}; without --strict it is run", error.cycle) from None
        raise


def _no_rendezvous(word: str | None) -> None:
    """ASTRA-sim 2's protocol of asking before sending: only saying no to it can be honoured."""
    if word is not None and word.lower() not in ("false", "0"):
        raise InputError(
            "messages are sent without asking first; a rendezvous is not in this version",
            key="--rendezvous-protocol",
            allowed="false, or to leave it out",
        )


def _last_words(result: Result) -> str:
    """ASTRA-sim's own line, which scripts look for."""
    return f"all passes finished at time: {result.time_ns}"
