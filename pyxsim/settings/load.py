"""Load an experiment from a file or a dict and `--set` overrides, or report all problems."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from os.path import relpath
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from pyxsim.errors import InputError, InputErrors, bundle, nearest
from pyxsim.settings.experiment import Experiment
from pyxsim.settings.faults import key_path, translate, unknown_key
from pyxsim.settings.named import Systems, Underlay
from pyxsim.settings.override import Steps, parse_override, put, split_override
from pyxsim.settings.renamed import is_old, note, rename
from pyxsim.settings.spelling import as_written, respell
from pyxsim.settings.toml import parse_toml, read_toml, to_toml
from pyxsim.settings.types import TableType, fresh, listed

_FILES = ("file", "groups", "algorithms", "trace")  # settings that are always the name of a file
_PATH = re.compile(r"(one-)?([^:]+)((?::\w+)*)")  # FILE, or as an algorithm one-FILE.py:FUNCTION:4
_OVERRIDE = "--set"
LOADS = ("collective", "traffic", "workload", "job")  # one of these tables, and traffic beside another
STUDY = ("sweep", "variant", "search")  # tables of a file that holds several experiments: points.py
BESIDE = "message"  # with collectives or alone
_NOTHING: Mapping[str, str] = MappingProxyType({})
_TABLES = "one of [collective], [[message]], [traffic], [workload] and [[job]]"

Source = str | PathLike[str] | Mapping[str, Any] | Experiment


def load_experiment(
    source: Source,
    overrides: Iterable[str] = (),
    libraries: Iterable[str | PathLike[str]] = (),
    *,
    work: bool = True,
    base: bool = False,
) -> Experiment:
    """Load an experiment.

    Parameters
    ----------
    source
        Path of a TOML file, a dict of the same tables, or an Experiment.
    overrides
        Texts such as "network.router.vcs=8", applied in order.
    libraries
        Folders with further named systems.
    work
        False: without collectives, messages, traffic, workload and jobs, for a network that another simulator uses.
    base
        Of a file with [search] take the experiment that its designs vary.

    Raises
    ------
    InputError
        If the experiment is invalid, with the file and key path; InputErrors if there are several errors.
    """
    file, data = read_source(source)
    if base:
        data.pop("search", None)
    for table in STUDY:
        if table in data:
            what = "the file defines several experiments" if file else "the source defines several experiments"
            allowed = "`pyxsim sweep` or `pyxsim compare`, which run all of them"
            if table == "search":
                allowed = "`pyxsim search`, which looks for the best of them"
            raise InputError(what, file=file, key=table, allowed=allowed)
    experiment = assemble(data, read_overrides(overrides), file, Systems(libraries), work=work)
    return experiment if isinstance(source, Mapping) else experiment.placed(folder_of(source))


def folder_of(source: Source) -> Path:
    """Return where relative paths of a source start."""
    if isinstance(source, str | PathLike):
        return Path(source).parent
    return source.folder if isinstance(source, Experiment) else Path()


@dataclass(frozen=True)
class Setting:
    """A value that overrides one in the file, and where the user wrote it: `file`, and `key` there. `name`: of a swept
    table."""

    steps: Steps
    value: Any
    key: str
    file: str | None
    name: str | None = None

    def written(self, path: str) -> str | None:
        """Return a key path at or below this setting's as the user wrote it; None for other paths."""
        own = key_path(self.steps)
        return self.key + path.removeprefix(own) if path == own or path.startswith((f"{own}.", f"{own}[")) else None


def read_overrides(overrides: Iterable[str]) -> list[Setting | InputError]:
    """Parse the values of `--set`; errors take the place of settings that cannot be parsed."""
    found: list[Setting | InputError] = []
    for text in listed(overrides):
        try:
            steps, value = parse_override(text)
            written = split_override(text)[0].strip()
            found.append(Setting(steps, value, written if is_old(written) else key_path(steps), _OVERRIDE))
        except InputError as error:
            found.append(error.at(file=_OVERRIDE))
    return found


def assemble(
    data: dict[str, Any],
    settings: Iterable[Setting | InputError],
    file: str | None,
    systems: Systems,
    *,
    work: bool = True,
) -> Experiment:
    """Make an experiment of tables (modified in place) and settings that override them. Raises all errors together.

    `work`: see `load_experiment`.
    """
    if not data:
        allowed = f"an experiment with the table [network] and {_TABLES}"
        raise InputError("empty file" if file else "empty experiment", file=file, allowed=allowed)
    if {"network", "source"} <= data.keys():
        problem = "this file describes a system, not an experiment"
        raise InputError(
            problem,
            file=file,
            allowed='as a named system in an experiment: [network] topology = "NAME", with --library',
        )
    renamed: dict[str, str] = {}
    both, notes = rename(data, renamed)
    faults = [fault.at(file=file) for fault in (*_misspelt_tables(data), *both, *respell(data, renamed))]
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
        if is_old(setting.key):
            notes.append(note(setting.key, key_path(setting.steps)))
        replaced.append(setting)
    under: Underlay | None = None

    def place(fault: InputError) -> InputError:
        fault = fault if under is None else under.located(fault)
        return fault if fault.file is not None else placed(fault, file, replaced, renamed)

    try:
        under = systems.laid_under(data)
    except InputError as error:
        problems = error.faults if isinstance(error, InputErrors) else [error]
        raise bundle([*faults, *map(place, problems)]) from None
    faults += [place(fault) for fault in (_load_faults(data) if work else _work_faults(data))]
    try:
        experiment = Experiment.model_validate(data)
    except ValidationError as error:
        faults += [place(fault) for fault in translate(error, Experiment)]
    else:
        if not faults:
            experiment._notes = tuple(notes)
            return experiment
    raise bundle(faults)


def _load_faults(data: Mapping[str, Any]) -> list[InputError]:
    """Errors unless one of the tables LOADS is present.

    Messages may stand alone or with collectives, traffic alone or beside other work.
    """
    given = [table for table in LOADS if data.get(table) not in (None, [], ())]
    if (len(given) > 1 or data.get(BESIDE)) and "traffic" in given:
        given.remove("traffic")
    if data.get(BESIDE) and given[:1] != ["collective"]:
        given.insert(0, BESIDE)
    unknown = [str(key) for key in data if key not in Experiment.model_fields]
    if not given and not any(nearest(key, Experiment.model_fields) in (*LOADS, BESIDE) for key in unknown):
        return [InputError("the table [collective] is missing", key="collective", allowed=_TABLES)]
    return [
        InputError(f"cannot be combined with [{given[0]}]", key=table, allowed="one of them") for table in given[1:]
    ]


def _work_faults(data: Mapping[str, Any]) -> list[InputError]:
    """Errors for tables of work where another simulator sends the messages."""
    problem = "has no effect: the simulator that uses this network sends the messages"
    tables = (*LOADS, BESIDE)
    return [InputError(problem, key=table, allowed="no such table") for table in tables if data.get(table)]


def _misspelt_tables(data: dict[str, Any]) -> list[InputError]:
    """Errors for misspelt tables; `data` gets them under the right name, so that their keys are checked as well."""
    faults = []
    for key in [key for key in data if isinstance(key, str) and key not in Experiment.model_fields]:
        name = nearest(key, Experiment.model_fields)
        if name not in (None, BESIDE) and isinstance(data[key], dict) and isinstance(data.get(name, {}), dict):
            faults.append(unknown_key(Experiment, (key,)))
            data[name] = {**data.pop(key), **data.get(name, {})}
    return faults


def placed(
    fault: InputError, file: str | None, settings: Sequence[Setting], renamed: Mapping[str, str] = _NOTHING
) -> InputError:
    """Return an error with its file, or with the place of the last setting that overrode its key."""
    key = fault.key or ""
    for setting in reversed(settings):
        if (written := setting.written(key)) is not None:
            return replaced_key(fault, written).at(file=setting.file)
    return replaced_key(fault, as_written(key, renamed)).at(file=file)


def replaced_key(fault: InputError, key: str) -> InputError:
    """Return an error with another key path."""
    return InputError(fault.problem, file=fault.file, key=key, allowed=fault.allowed, given=fault.given)


def resolved_toml(experiment: Experiment) -> str:
    """Write every setting with its value as TOML; load_experiment reads an equal experiment from it."""
    return to_toml(_plain(experiment))


def _write(experiment: Experiment, path: str | PathLike[str] | None) -> str:
    if path is None:
        return resolved_toml(experiment)
    folder = Path(path).parent.absolute()
    text = to_toml(_moved(_plain(experiment), "", experiment.folder.absolute(), folder))
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=fspath(path)) from error
    return text


def _moved(value: Any, key: str, old: Path, new: Path) -> Any:
    """Return settings in which relative paths start at the folder `new` instead of `old`."""
    if isinstance(value, Mapping):
        return {name: _moved(item, name, old, new) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_moved(item, key, old, new) for item in value]
    match = _PATH.fullmatch(value) if isinstance(value, str) else None
    if match is None or old == new or Path(match[2]).is_absolute():
        return value
    if key in _FILES or (Path(match[2]).suffix and (old / match[2]).is_file()):
        return (match[1] or "") + relpath(old / match[2], new) + match[3]
    return value


def read_source(source: object) -> tuple[str | None, dict[str, Any]]:
    """Return (file name for error messages or None, a copy of the tables) of a source."""
    if isinstance(source, Experiment):
        return None, _plain(source)
    if isinstance(source, Mapping):
        return None, fresh(source)
    if isinstance(source, str | PathLike):
        return str(source), read_toml(source)
    raise InputError(f"a {type(source).__name__} is not an experiment", allowed="the path of a TOML file, or a dict")


def _plain(experiment: Experiment) -> dict[str, Any]:
    data = experiment.model_dump(mode="python")
    if experiment.system.file is not None:  # unset keys come from that file
        data["system"] = experiment.system.model_dump(mode="python", exclude_unset=True)
    # A graph file may contain settings; those that the experiment sets override them.
    data["network"] = experiment.network.tables(defaults=experiment.network.topology != "graph")
    for table, key in (
        (data["system"], "stragglers"),
        (data["system"], "groups"),
        (data, "message"),
        (data, "faults"),
        (data, "job"),
    ):
        if not table.get(key):
            table.pop(key, None)
    for key in experiment.traffic.without_effect if experiment.traffic is not None else ():
        del data["traffic"][key]
    return data


def _parse(text: str) -> Experiment:
    if isinstance(text, PathLike) or (isinstance(text, str) and text.endswith(".toml") and "\n" not in text):
        raise InputError("is a file name; use pyxsim.load_experiment to read a file", file=fspath(text))
    return load_experiment(parse_toml(text))


TableType.on_invalid = staticmethod(lambda error, table: bundle(translate(error, table)))
Experiment.codec = (_write, _parse)
