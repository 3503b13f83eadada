"""Resolve references of an experiment to other files: written graphs, ASTRA-sim's system file, paths of algorithms."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyxsim import plugins
from pyxsim.collective.lookup import located
from pyxsim.errors import InputError, InputErrors, bundle
from pyxsim.settings import Experiment, load_experiment
from pyxsim.settings.algorithms import ALGORITHM_KEYS
from pyxsim.settings.router import DEFAULT_ALLOCATORS
from pyxsim.settings.spelling import of_system_file
from pyxsim.topology.exported import restored


def resolved(experiment: Experiment, folder: Path) -> tuple[Experiment, list[str]]:
    """Return the experiment without a system file or written graph, and their warnings. Raises InputError.

    `folder`: start of relative paths. The shelves must be loaded, so that their names are not taken for paths.
    """
    for stage in DEFAULT_ALLOCATORS:
        experiment.network.router.allocator(stage)
    warnings = list(experiment.notes)
    network, lost = restored(experiment.network, folder)
    experiment = experiment.model_copy(update={"network": network})
    warnings += lost
    if experiment.system.file is not None:
        experiment, notes = _with_system_file(experiment, folder / experiment.system.file)
        warnings += notes
    collective = _located_collectives(experiment.collective, folder)
    jobs = tuple(
        job.model_copy(update={"collective": _located_collectives(job.collective, folder)}) for job in experiment.job
    )
    system = _located(experiment.system, ALGORITHM_KEYS, folder)
    groups = tuple(_located(group, ALGORITHM_KEYS, folder) for group in system.groups)
    system = system.model_copy(update={"groups": groups})
    return experiment.model_copy(update={"system": system, "collective": collective, "job": jobs}), warnings


def _with_system_file(experiment: Experiment, path: Path) -> tuple[Experiment, list[str]]:
    """The keys of the file, overridden by those of the experiment."""
    try:
        tables, warnings = plugins.system_files.reader(path)(path)
    except InputError as error:
        raise error.named_by("system.file") from None
    overriding = {key: getattr(experiment.system, key) for key in experiment.system.model_fields_set - {"file"}}
    keys = type(experiment).model_fields  # not the fields of the object, which also has its folder
    data = {key: value for key in keys if (value := getattr(experiment, key)) not in (None, (), {})}
    try:
        return load_experiment({**data, "system": {**tables, **overriding}}), warnings
    except InputError as error:
        faults = error.faults if isinstance(error, InputErrors) else [error]
        raise bundle([_placed(fault, str(path), overriding) for fault in faults]) from None


def _placed(fault: InputError, file: str, overriding: Iterable[str]) -> InputError:
    """A fault with the system file and its key, if only that file sets the key."""
    table, _, key = (fault.key or "").partition(".")
    name = re.split(r"[.\[]", key)[0]
    if table != "system" or name in overriding:
        return fault
    written = of_system_file(f"{table}.{key}")
    return InputError(fault.problem, file=file, key=written, allowed=fault.allowed, given=fault.given)


def _located_collectives(collective: Any, folder: Path) -> Any:
    """One or several collectives, or None, in which the paths of algorithm files are absolute."""
    if isinstance(collective, tuple):
        return tuple(_located(table, ("algorithm",), folder) for table in collective)
    return None if collective is None else _located(collective, ("algorithm",), folder)


def _located(table: Any, keys: tuple[str, ...], folder: Path) -> Any:
    """A table in which the paths of algorithm files are absolute."""
    changed: dict[str, Any] = {}
    for key in keys:
        names = getattr(table, key)
        if isinstance(names, str):
            changed[key] = located(names, folder)
        elif names is not None:
            changed[key] = tuple(located(name, folder) for name in names)
    return table.model_copy(update=changed)
