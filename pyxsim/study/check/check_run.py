"""Check an experiment before it runs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pyxsim import __version__
from pyxsim.errors import InputError, SimulationError
from pyxsim.library import file_of
from pyxsim.results.table import Facts
from pyxsim.runner.prepare import PathLike, prepare
from pyxsim.runner.prepared import Prepared, PreparedTraffic
from pyxsim.settings import folder_of, load_experiment
from pyxsim.settings.load import Source
from pyxsim.settings.run import with_oom
from pyxsim.settings.types import listed
from pyxsim.study.check.registered import Check, Finding, in_order


@dataclass(frozen=True, repr=False)
class CheckReport(Facts):
    """Facts about a valid experiment, known before it runs.

    Parameters
    ----------
    findings
        By the name of the check.
    warnings, hints
        Lines that the result of the run will have, too.
    """

    findings: dict[str, Finding]
    warnings: list[str]
    hints: list[str] = field(default_factory=list)

    @property
    def rows(self) -> list[tuple[str, str]]:
        """(label, text) pairs of all findings, in order."""
        return [row for finding in self.findings.values() for row in finding.rows]

    @property
    def data(self) -> dict[str, Any]:
        """The values of all findings by name."""
        return {key: value for finding in self.findings.values() for key, value in finding.data.items()}

    def __getitem__(self, name: str) -> Any:
        """Return a value, such as `report["router_visits"]`."""
        return self.data[name]

    def json(self) -> dict[str, Any]:
        """Return everything as one JSON object, that of `pyxsim check --json`."""
        return {"ok": True, **self.data, "warnings": self.warnings, "hints": self.hints, "version": __version__}

    def __str__(self) -> str:
        width = max((len(label) for label, _ in self.rows), default=0)
        lines = [f"{label:<{width}}  {text}" for label, text in self.rows]
        return "\n".join(
            [*lines, *(f"warning: {text}" for text in self.warnings), *(f"hint: {text}" for text in self.hints)]
        )

    @property
    def facts(self) -> list[tuple[str, str]]:
        """(label, text) pairs for notebooks: all findings and warnings."""
        return [*self.rows, *(("warning", text) for text in self.warnings), *(("hint", text) for text in self.hints)]


def check(
    source: Source,
    *,
    overrides: Iterable[str] = (),
    backend: str = "packet",
    libraries: Iterable[PathLike] = (),
    allow_deadlock: bool = False,
    allow_oom: bool = False,
) -> CheckReport:
    """Prove an experiment and estimate its cost, without running it to the end.

    Every registered check runs: settings, routes, the proof that they cannot deadlock, the proofs of all schedules and
    plans, buffers, memory, bounds, cost, and your own from `checks/` of a library (docs/extending_check.md).

    Parameters
    ----------
    source, overrides, backend, libraries, allow_deadlock, allow_oom
        As for `pyxsim.run`.

    Raises
    ------
    InputError, SimulationError
        If `pyxsim.run` would refuse the experiment. `report` of a SimulationError has the findings before it.
    """
    libraries, begin = listed(libraries), time.process_time()
    prepared = prepare(
        load_experiment(source, with_oom(overrides, allow_oom), libraries),
        folder=folder_of(source),
        libraries=libraries,
        backend=backend,
        allow_deadlock=allow_deadlock,
    )
    if prepared.mode == "closed":
        prepared.ready_s = time.process_time()
        prepared.prepare_s = prepared.ready_s - begin
    findings: dict[str, Finding] = {}
    report = CheckReport(findings, prepared.warnings, prepared.hints)
    for name, run_check in in_order():
        try:
            finding = _finding(name, run_check, prepared)
        except SimulationError as error:
            error.report = report
            raise
        if finding is not None:
            findings[name] = finding
    return report


def _finding(name: str, run_check: Check, prepared: Prepared | PreparedTraffic) -> Finding | None:
    """What a check returns. Raises InputError if that is neither a Finding nor None."""
    finding = run_check(prepared)
    if finding is not None and not isinstance(finding, Finding):
        problem = f"the check '{name}' returned {type(finding).__name__}"
        raise InputError(problem, file=file_of(run_check), allowed="a Finding, or None")
    if finding is not None and not _is_whole(finding):
        problem = f"the check '{name}' returned a Finding with rows or data of other types"
        allowed = "rows: pairs of texts; data: a dict that JSON can hold"
        raise InputError(problem, file=file_of(run_check), allowed=allowed)
    return finding


def _is_whole(finding: Finding) -> bool:
    """Whether rows and data are what text and JSON need."""
    try:
        json.dumps(finding.data)
        texts = all(isinstance(label, str) and isinstance(text, str) for label, text in finding.rows)
        return texts and isinstance(finding.data, dict)
    except (TypeError, ValueError):
        return False
