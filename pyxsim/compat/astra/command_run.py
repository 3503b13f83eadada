"""`pyxsim astra`: the command line of ASTRA-sim, for the files of its versions 1 and 2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from pyxsim.cli.command_output import CommandOutput
from pyxsim.cli.faults import by_hand
from pyxsim.cli.options import count
from pyxsim.cli.simulate import Request, run_request, show_experiment
from pyxsim.compat.astra import backend_csv as backend_tables
from pyxsim.compat.astra.end_report import Line, finished
from pyxsim.compat.astra.files import form_of, read_astra
from pyxsim.compat.astra.ns3_files import Ns3Files
from pyxsim.compat.astra.tables import Tables
from pyxsim.errors import DeadlockError, InputError, bundle, single_faults
from pyxsim.models import roofline
from pyxsim.paths import make_folder
from pyxsim.reports.files import Outputs
from pyxsim.results.hdf5 import check_writable
from pyxsim.results.result import Result
from pyxsim.runner.prepared import Prepared
from pyxsim.settings import Experiment
from pyxsim.settings.spelling import of_system_file

RUN_NAME = "run"
_OPTIONS = {
    "workload.passes": "--num-passes",
    "workload.comm_scale": "--comm-scale",
    "workload.compute_scale": "--compute-scale",
    "system.queues": "--num-queues-per-dim",
    "system.rendezvous": "--rendezvous-protocol",
}
_FLAGS = {"true": True, "1": True, "t": True, "false": False, "0": False, "f": False}
LOG = "log.log"  # in the folder of --logging-folder, as version 2 calls it
_HINT = "; --allow-deadlock"  # what `prepare` says for `pyxsim run`


@dataclass(frozen=True)
class AstraFiles:
    """The input files. `queues`: whether an option gives their number."""

    network: str
    system: str | None
    workload: str | None
    groups: str | None = None
    memory: str | None = None
    logical: str | None = None
    queues: bool = False
    overrides: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all given files."""
        names = (self.network, self.system, self.workload, self.groups, self.memory, self.logical)
        return tuple(name for name in names if name)

    def place(self, error: InputError) -> InputError:
        """Return the faults with the file or option behind each key of the experiment."""

        def place(fault: InputError) -> InputError:
            key = fault.key or ""
            if key in _OPTIONS and fault.file is None and (self.queues or key != "system.queues"):
                return InputError(fault.problem, key=_OPTIONS[key], allowed=fault.allowed, given=fault.given)
            if key.startswith("--") or fault.file is not None:
                return fault
            if by_hand(key, self.overrides):
                return fault.at(file="--set")
            file, written = self._file_of(key), of_system_file(key)
            if key in ("workload.file", "workload.groups"):  # not keys of those files; the problem may name the file
                named = file is not None and fault.problem.startswith(file)
                return InputError(fault.problem, file=None if named else file, allowed=fault.allowed, given=fault.given)
            return InputError(fault.problem, file=file, key=written, allowed=fault.allowed, given=fault.given)

        return bundle([place(fault) for fault in single_faults(error)])

    def _file_of(self, key: str) -> str | None:
        """The file behind a key."""
        if key.startswith("workload.groups"):
            return self.groups
        if key.startswith("system.remote_memory"):
            return self.memory
        return vars(self).get(key.partition(".")[0])


@dataclass(frozen=True)
class Words:
    """The other options of the command line, with ASTRA-sim's defaults.

    `dimensions`: of the network JSON of version 1. `row` of `rows`: of EndToEnd.csv. `log`: the folder of log.log.
    """

    path: str | None = None
    run_name: str | None = None
    passes: str = "1"
    comm_scale: str = "1"
    compute_scale: str = "1"
    injection_scale: str = "1"
    queues: str | None = None
    dimensions: Mapping[str, str | None] = field(default_factory=dict)
    rendezvous: str | None = None
    backend: str | None = None
    overrides: tuple[str, ...] = ()
    rows: int = 1
    row: int = 0
    log: str | None = None
    log_settings: str | None = None
    synthetic: str | None = None
    strict: bool = False

    def check(self) -> None:
        """Raise InputError for unsupported values."""
        if not 0 <= self.row < self.rows:
            allowed = f"0 to {max(self.rows, 1) - 1}"
            raise InputError(f"there is no row {self.row} of {self.rows}", key="--stat-row", allowed=allowed)
        if self.rendezvous is not None and self.rendezvous.lower() not in _FLAGS:
            problem = f"'{self.rendezvous}' is not a Boolean"
            raise InputError(problem, key="--rendezvous-protocol", allowed=["true", "false"])
        if self.log_settings not in (None, "empty"):
            problem = "levels and patterns of the log cannot be set"
            raise InputError(problem, key="--logging-configuration", allowed="empty, or to leave it out")
        if self.synthetic not in (None, "training"):
            problem = f"'{self.synthetic}' is not the traffic of a workload"
            raise InputError(problem, key="--synthetic", allowed="training; `pyxsim curve` has other traffic")


def run_astra(
    out: CommandOutput, files: AstraFiles, outputs: Outputs, words: Words, *, show_only: bool = False
) -> Result | None:
    """Run `pyxsim astra` and return its result; None with `show_only`.

    The result goes to PATH/RUN-NAME.h5 unless `-o` names another file, and to the tables of ASTRA-sim 1 in PATH, as one
    row per layer. `show_only`: print the experiment without running it.
    """
    words.check()
    warnings: list[str] = []
    files = replace(files, queues=words.queues is not None, overrides=words.overrides)
    name, tables = words.run_name or RUN_NAME, None
    if words.path or words.run_name:
        folder = Path(words.path or ".")
        if not show_only:
            make_folder(folder)
        tables = Tables(str(folder), name, words.rows, words.row)
        outputs = replace(outputs, file=outputs.file or str(folder / f"{name}.h5"), tables=tables)
        for table in backend_tables.files(folder) if form_of(files.network).given and not show_only else ():
            check_writable(table)
    costs: list[float] = []  # of the network, for files of version 1's analytical backend
    ns3: list[Ns3Files] = []
    log = None if words.log is None else Path(words.log) / LOG
    if log is not None and not show_only:
        make_folder(log.parent)
        check_writable(log)

    def load() -> Experiment:
        try:
            read = read_astra(
                files.network,
                files.system,
                files.workload,
                passes=count(words.passes, "--num-passes"),
                comm_scale=words.comm_scale,
                compute_scale=words.compute_scale,
                injection_scale=words.injection_scale,
                queues=None if words.queues is None else count(words.queues, "--num-queues-per-dim"),
                backend=words.backend,
                overrides=files.overrides,
                groups=files.groups,
                memory=files.memory,
                rendezvous=words.rendezvous is not None and _FLAGS[words.rendezvous.lower()],
                dimensions={key: value for key, value in words.dimensions.items() if value is not None},
                logical=files.logical,
            )
            if read.ns3 is not None and not show_only:
                ns3.append(Ns3Files.of(read.ns3, words.path))
        except InputError as error:
            raise files.place(error) from None
        warnings.extend(read.warnings)
        costs.extend([] if read.cost is None else [read.cost])
        return read.experiment

    if show_only:
        show_experiment(out, load(), warnings)
        return None

    def report_end(prepared: Prepared, result: Result) -> None:
        system, shape = prepared.experiment.system, prepared.topology.shape
        npu = system.npu
        used = roofline(npu) if npu is not None and npu.roofline else None
        lines = finished(prepared.job, result, system, shape, used)
        text = "".join(f"{line}\n" for line in _as_printed(prepared, lines))
        if not out.silent:
            out.write(text)
        if log is not None:
            _write(log, text)
        for written in ns3:
            written.write(prepared, result)
        if costs and tables is not None and len(result.layers.get("name", ())):
            backend_tables.write(*tables, prepared, result, costs[0])

    request = Request(
        load,
        files.names,
        files.place,
        folder=Path(),
        backend=words.backend or form_of(files.network).backend,
        allow_deadlock=not words.strict,
        warnings=warnings,
    )
    try:
        return run_request(out, request, outputs, report_end)
    except DeadlockError as error:
        text = str(error.args[0])
        if _HINT in text:
            raise DeadlockError(f"{text.partition(_HINT)[0]}; without --strict it is run", error.cycle) from None
        raise


def _as_printed(prepared: Prepared, lines: list[Line]) -> Iterator[str]:
    """Yield the lines as printed: those of version 2 have a prefix, which scripts parse."""
    if not (prepared.job.per_npu and prepared.job.sequential):
        yield from (line.text for line in lines)
        return
    now = datetime.now()
    when = f"{now:%Y-%m-%d %H:%M:%S}.{now.microsecond // 1000:03}"
    yield from (f"[{when}] [{who}] [{level}] {text}" for who, text, level in lines)


def _write(log: Path, text: str) -> None:
    """Write the log of version 2, a copy of stdout."""
    try:
        log.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", file=str(log)) from None
