"""From a file, a dict and `--set` overrides to an Experiment, or to the list of all that is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from pyxsim.errors import InputError, InputErrors, bundle, nearest
from pyxsim.settings.experiment import Experiment
from pyxsim.settings.faults import key_path, translate
from pyxsim.settings.named import Systems, Underlay
from pyxsim.settings.override import Steps, parse_override, put
from pyxsim.settings.spelling import as_written, respell
from pyxsim.settings.toml import parse_toml, read_toml, to_toml
from pyxsim.settings.types import TableType, fresh, listed

_OVERRIDE = "--set"
LOADS = ("collective", "traffic", "workload")  # what a network has to do: one of them
STUDY = ("sweep", "variant")  # tables of a file that holds several experiments: points.py
BESIDE = "message"  # stands beside collectives, or alone
_ALL = (*LOADS, BESIDE)
_NOTHING: Mapping[str, str] = MappingProxyType({})
_TABLES = "one of [collective], [[message]], [traffic] and [workload]"

Source = str | PathLike[str] | Mapping[str, Any] | Experiment


def load_experiment(
    source: Source, overrides: Iterable[str] = (), libraries: Iterable[str | PathLike[str]] = ()
) -> Experiment:
    """The experiment of a TOML file (its path) or of a dict, after overrides such as "network.router.vcs=8".

    `libraries`: folders whose systems it may name, besides those that ship.

    Raises InputError, or InputErrors with every fault that was found, each with its file and key path.
    """
    file, data = read_source(source)
    for table in STUDY:
        if table in data:
            what = "the file holds several experiments" if file else "these are several experiments"
            allowed = "with `pyxsim sweep` or `pyxsim compare`, which run each"
            raise InputError(f"{what}, not one", file=file, key=table, allowed=allowed)
    return assemble(data, read_overrides(overrides), file, Systems(libraries))


@dataclass(frozen=True)
class Setting:
    """A value that takes the place of one in the file, and where the user wrote it: `file`, and `key` there."""

    steps: Steps
    value: Any
    key: str
    file: str | None

    def written(self, path: str) -> str | None:
        """A key path at or below this one as the user wrote it; None for another one."""
        own = key_path(self.steps)
        return self.key + path.removeprefix(own) if path == own or path.startswith((f"{own}.", f"{own}[")) else None


def read_overrides(overrides: Iterable[str]) -> list[Setting | InputError]:
    """What `--set` sets; a fault for what it cannot set."""
    found: list[Setting | InputError] = []
    for text in listed(overrides):
        try:
            steps, value = parse_override(text)
            found.append(Setting(steps, value, key_path(steps), _OVERRIDE))
        except InputError as error:
            found.append(error.at(file=_OVERRIDE))
    return found


def assemble(
    data: dict[str, Any], settings: Iterable[Setting | InputError], file: str | None, systems: Systems
) -> Experiment:
    """The experiment of tables, which change on the way, with some values replaced. Raises all faults together."""
    if not data:
        allowed = f"an experiment with the table [network] and {_TABLES}"
        raise InputError("is empty" if file else "the experiment is empty", file=file, allowed=allowed)
    if {"network", "source"} <= data.keys():
        problem = "describes a system, not an experiment"
        raise InputError(problem, file=file, allowed='in an experiment: [network] topology = "its name", and --library')
    renamed: dict[str, str] = {}
    faults = [fault.at(file=file) for fault in respell(data, renamed)]
    replaced: list[Setting] = []
    for setting in settings:
        if isinstance(setting, InputError):
            faults.append(setting)
            continue
        try:
            put(data, setting.steps, fresh(setting.value))
        except InputError as error:
            faults.append(replaced_key(error, setting.key).at(file=setting.file))
            continue
        renamed.pop(key_path(setting.steps), None)
        replaced.append(setting)
    under: Underlay | None = None

    def place(fault: InputError) -> InputError:
        fault = fault if under is None else under.told(fault)
        return fault if fault.file is not None else placed(fault, file, replaced, renamed)

    try:
        under = systems.laid_under(data)
    except InputError as error:
        told = error.faults if isinstance(error, InputErrors) else [error]
        raise bundle([*faults, *map(place, told)]) from None
    faults += [place(fault) for fault in _load_faults(data)]
    try:
        experiment = Experiment.model_validate(data)
    except ValidationError as error:
        faults += [place(fault) for fault in translate(error, Experiment)]
    else:
        if not faults:
            return experiment
    raise bundle(faults)


def _load_faults(data: Mapping[str, Any]) -> list[InputError]:
    """Exactly one of the tables that say what the network has to do; messages alone, or beside collectives.

    A table whose name is misspelt is not missing, too.
    """
    given = [table for table in LOADS if data.get(table) is not None]
    if data.get(BESIDE) and given[:1] != ["collective"]:
        given.insert(0, BESIDE)
    if not given and not any(nearest(key, Experiment.model_fields) in _ALL for key in _unknown(data)):
        return [InputError("the table [collective] is missing", key="collective", allowed=_TABLES)]
    return [InputError(f"[{given[0]}] is given, too", key=table, allowed="one of them") for table in given[1:]]


def _unknown(data: Mapping[str, Any]) -> list[str]:
    """The tables that there are not, misspelt ones mostly."""
    return [str(key) for key in data if key not in Experiment.model_fields]


def placed(
    fault: InputError, file: str | None, settings: Sequence[Setting], renamed: Mapping[str, str] = _NOTHING
) -> InputError:
    """The fault with the file of its key, or with the place of the last of some settings that brought the value."""
    key = fault.key or ""
    for setting in reversed(settings):
        if (written := setting.written(key)) is not None:
            return replaced_key(fault, written).at(file=setting.file)
    return replaced_key(fault, as_written(key, renamed)).at(file=file)


def replaced_key(fault: InputError, key: str) -> InputError:
    """The same fault at another key path."""
    return InputError(fault.problem, file=fault.file, key=key, allowed=fault.allowed, given=fault.given)


def resolved_toml(experiment: Experiment) -> str:
    """Every setting with its value, defaults included, as TOML: load_experiment reads an equal experiment from it."""
    return to_toml(_plain(experiment))


def read_source(source: object) -> tuple[str | None, dict[str, Any]]:
    """(file name for error texts, fresh tables) of whatever the user has."""
    if isinstance(source, Experiment):
        return None, _plain(source)
    if isinstance(source, Mapping):
        return None, fresh(source)
    if isinstance(source, str | PathLike):
        return str(source), read_toml(source)
    raise InputError(f"a {type(source).__name__} is no experiment", allowed="the path of a TOML file, or a dict")


def _plain(experiment: Experiment) -> dict[str, Any]:
    data = experiment.model_dump(mode="python")
    if experiment.system.file is not None:  # what is left out there is still to be read from the file
        data["system"] = experiment.system.model_dump(mode="python", exclude_unset=True)
    for table, key in (
        (data["network"], "options"),
        (data["system"], "stragglers"),
        (data["system"], "groups"),
        (data, "message"),
    ):
        if not table.get(key):
            table.pop(key, None)
    for key in experiment.traffic.without_effect if experiment.traffic is not None else ():
        del data["traffic"][key]
    return data


def _parse(text: str) -> Experiment:
    return load_experiment(parse_toml(text))


TableType.on_invalid = staticmethod(lambda error, table: bundle(translate(error, table)))
Experiment.codec = (resolved_toml, _parse)
