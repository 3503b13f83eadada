"""Find and load the shelves: folders of files that register topologies, patterns, collectives and more.

A *library* is a folder that contains one or more shelves (see SHELVES). Libraries are searched in this order:

1. folders given by the user (`--library DIR`);
2. the files that ship with pyxsim: the copy in the wheel (`pyxsim/_library/<shelf>`), or the source tree (`<shelf>`
   next to the package). The copy comes first because unrelated files may lie next to an installed package;
3. installed packages with an entry point in the group `pyxsim.library`: the entry point names a package that contains
   shelves, or a module that registers its objects when it is imported.

Every `.py` on a shelf is imported once, as `pyxsim_library.<shelf>.<stem>`: a stable name, so that objects pickle, in
a package of its own, so that `sys.path` does not change. A file registers its objects (see `registry`); it can import
other files of its shelf under their `pyxsim_library` names. Names that start with `_` or `.` are ignored.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Iterable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from pyxsim import registry
from pyxsim.errors import InputError

SHIPPED = ("topologies", "routings", "patterns", "collectives", "readers")
EXTENSIONS = ("allocators", "backends", "checks", "datasets", "panels", "transports")  # in libraries of users only
SHELVES = (*SHIPPED, *EXTENSIONS)
ALIKE = 0.75  # likeness of a folder's name from which it is a misspelt shelf
ENTRY_POINTS = "pyxsim.library"
PACKAGE = Path(__file__).resolve().parent
_ROOT = "pyxsim_library"
_given: set[Path] = set()  # shelves of all folders that users gave in this process
_current: set[Path] = set()  # of these, the shelves of the run, report or list that is under way
_USER_ROOTS = (_ROOT, "pyxsim_custom")  # the second: files of collective/custom, named by their path


def import_from_checkout(module: str) -> ModuleType:
    """Import a module of the packages that lie beside pyxsim in a checkout and are not in the wheel.

    Parameters
    ----------
    module
        Dotted name, such as "validation.command" or "benchmarks.command".

    Raises
    ------
    InputError
        If pyxsim is installed without its source tree.
    """
    package = module.partition(".")[0]
    root = PACKAGE.parent
    if not ((root / "setup.py").is_file() and (root / package / "__init__.py").is_file()):
        raise InputError(f"{package}/ is not installed", key=package, allowed="an editable install of the source tree")
    if str(root) not in sys.path:
        sys.path.append(str(root))  # worker processes inherit sys.path
    return importlib.import_module(module)


def shelf_dirs(shelf: str, extra_dirs: Iterable[str | Path] = ()) -> list[Path]:
    """Return the folders of one shelf in search order. Raises InputError for an extra folder without any shelf."""
    libraries = [_library(Path(d)) for d in extra_dirs]
    dirs = [library / shelf for library in libraries]
    if shelf in SHIPPED:
        dirs += [d for d in (PACKAGE / "_library" / shelf, PACKAGE.parent / shelf) if d.is_dir()][:1]
    dirs += [library / shelf for library in _announced()]
    return list(dict.fromkeys(d.resolve() for d in dirs if d.is_dir()))


def load_all(extra_dirs: Iterable[str | Path] | None = None) -> None:
    """Import all files of all shelves that are not imported yet.

    Parameters
    ----------
    extra_dirs
        Folders given by the user; `used` holds for them until others are given. None leaves those of before.

    Raises
    ------
    InputError
        If a file cannot be imported (with its line), or registers a name that is already taken.
    """
    of_user = list(extra_dirs or ())
    folders = {shelf: shelf_dirs(shelf, of_user) for shelf in SHELVES}
    if extra_dirs is not None:
        _current.clear()
        _current.update((Path(file) / shelf).resolve() for file in of_user for shelf in SHELVES)
        _given.update(_current)
    # Reversed: shipped files come first, so the error about a duplicate name reports the user's file.
    files = [(s, path) for s in SHELVES for folder in reversed(folders[s]) for path in _files(folder, ".py")]
    if any(f"{_ROOT}.{shelf}.{path.stem}" not in sys.modules for shelf, path in files):
        importlib.invalidate_caches()  # a new file may be newer than the finders' cached listings
    for shelf, path in files:
        _load(shelf, path)
    for name, path in _stems(folders["topologies"], ".toml").items():
        if name in registry.topologies:
            raise InputError(f"a topology named '{name}' already exists", file=str(path), allowed="another name")


def in_use() -> bool:
    """Return whether the present run, report or list has libraries of a user."""
    return bool(_current)


def used(entry: registry.Entry[Any]) -> bool:
    """Return whether an entry ships or is from a library of the present run.

    Datasets, checks, panels and plots apply without being named: those from the libraries of earlier runs do not.
    """
    file = getattr(sys.modules.get(entry.module), "__file__", None)
    shelf = None if file is None else Path(file).parent
    return shelf not in _given or shelf in _current


def data_files(
    shelf: str = "topologies", suffix: str = ".toml", extra_dirs: Iterable[str | Path] = ()
) -> dict[str, Path]:
    """Return the data files of a shelf by name (stem): named systems (`.toml`), graphs (`.graphml`).

    The first library in search order wins.
    """
    return _stems(shelf_dirs(shelf, extra_dirs), suffix)


def user_fault(error: BaseException) -> InputError | None:
    """Return the fault of the user's file that raised an error, or that called what raised it.

    Frames outside pyxsim and the libraries, such as those of numpy, do not count.

    Returns
    -------
    InputError or None
        None if no code of a user's file was running (pyxsim checks what it returns where it receives it), and for
        memory that ran out.
    """
    place, inside = None, ""
    if isinstance(error, MemoryError):
        return None
    for frame, line in traceback.walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__", ""))
        path = Path(frame.f_code.co_filename)
        if module.partition(".")[0] in _USER_ROOTS and not _ships(path):
            place, inside = f"{path}:{line}", ""
        elif module.partition(".")[0] in (*_USER_ROOTS, "pyxsim"):
            inside = f", raised by {module.replace('.', '/')}.py:{line}, which this line calls"
    if place is None:
        return None
    problem = f"{type(error).__name__}: {error}".removesuffix(": ")
    return InputError(problem + inside, file=place)


def place_of(error: BaseException, function: Any) -> str:
    """Return file:line of the innermost frame of a user's file, else of the function, else of the innermost frame."""
    frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    for frame, line in reversed(frames):
        if file := file_of_module(str(frame.f_globals.get("__name__", ""))):
            return f"{file}:{line}"
    return file_of(function) or f"{frames[-1][0].f_code.co_filename}:{frames[-1][1]}"


def file_of(value: Any) -> str | None:
    """Return the file and line of a class or function of a user's file, such as a registered one; else None."""
    module = getattr(value, "__module__", None)
    path = file_of_module(module) if isinstance(module, str) else None
    try:
        return path and f"{path}:{inspect.getsourcelines(value)[1]}"
    except (OSError, TypeError):
        return path


def file_of_module(module: str) -> str | None:
    """Return the file of a module if it is a user's; else None."""
    path = getattr(sys.modules.get(module), "__file__", None)
    if not path or module.partition(".")[0] not in _USER_ROOTS or _ships(Path(path)):
        return None
    return str(path)


def _ships(path: Path) -> bool:
    return any(path.parent in (PACKAGE / "_library" / shelf, PACKAGE.parent / shelf) for shelf in SHIPPED)


def _stems(folders: Iterable[Path], suffix: str) -> dict[str, Path]:
    paths: dict[str, Path] = {}
    for folder in folders:
        for path in _files(folder, suffix):
            paths.setdefault(path.stem, path)
    return dict(sorted(paths.items()))


def _library(folder: Path) -> Path:
    if not folder.is_dir():
        raise InputError("not a folder" if folder.exists() else "no such folder", file=str(folder), key="--library")
    for name in sorted({path.parent.name for path in folder.glob("*/*.py")} - {*SHELVES}):
        if difflib.get_close_matches(name.lower(), SHELVES, n=1, cutoff=ALIKE):
            raise InputError("is not a shelf", file=str(folder / name), key="--library", allowed=SHELVES, given=name)
    if not any((folder / shelf).is_dir() for shelf in SHELVES):
        allowed = f"a folder with subfolders {', '.join(SHELVES)}"
        raise InputError("this folder contains no shelf", file=str(folder), key="--library", allowed=allowed)
    return folder


def _files(folder: Path, suffix: str) -> list[Path]:
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=str(folder)) from error
    return [p for p in paths if p.suffix == suffix and p.name[0] not in "_." and p.is_file()]


def _announced() -> list[Path]:
    """Folders of the packages that the entry points name; loading them also runs modules that register directly."""
    folders = []
    for point in _points(tuple((place, _changed(place)) for place in sys.path)):
        try:
            module = point.load()
        except Exception as error:
            raise InputError(
                f"the entry point '{point.name}' = '{point.value}' cannot be loaded: {type(error).__name__}: {error}",
                key=ENTRY_POINTS,
            ) from error
        folders += [Path(folder) for folder in getattr(module, "__path__", ())]
    return folders


@functools.lru_cache(maxsize=1)
def _points(places: tuple[tuple[str, int], ...]) -> list[importlib.metadata.EntryPoint]:
    """The entry points of installed packages.

    Scanning all packages takes 20 ms; the result is cached until `places` changes: the folders of `sys.path` with the
    times of their last change.
    """
    return sorted(importlib.metadata.entry_points(group=ENTRY_POINTS), key=lambda point: point.name)


def _changed(place: str) -> int:
    try:
        return os.stat(place or ".").st_mtime_ns
    except OSError:
        return 0


def _package(name: str) -> ModuleType:
    """The package of that name, created on first use; it has no file."""
    if name not in sys.modules:
        sys.modules[name] = importlib.util.module_from_spec(ModuleSpec(name, None, is_package=True))
    return sys.modules[name]


def _load(shelf: str, path: Path) -> None:
    if not path.stem.isidentifier():
        raise InputError(
            f"'{path.stem}' is not a valid name for a library file", file=str(path), allowed="letters, digits and '_'"
        )
    _package(_ROOT)
    package = _package(f"{_ROOT}.{shelf}")
    if str(path.parent) not in package.__path__:
        package.__path__.append(str(path.parent))
    name = f"{_ROOT}.{shelf}.{path.stem}"
    try:
        module = importlib.import_module(name)
    except (Exception, SystemExit) as error:
        _forget_broken()
        raise _fault(path, error) from error
    owner = module.__file__
    if owner != str(path):
        raise InputError(
            "another library file has the same name", file=str(path), allowed=f"any other name than {owner}"
        )


def _forget_broken() -> None:
    """Remove entries of files that failed after registering them (a failed import leaves no module)."""
    for table in registry.REGISTRIES:
        for module in {entry.module for entry in table.entries}:
            if module.startswith(f"{_ROOT}.") and module not in sys.modules:
                table.discard(module)


def _fault(path: Path, error: BaseException) -> InputError:
    """The InputError for a library file that cannot be imported, with its line."""
    if isinstance(error, SyntaxError):
        return InputError(f"not valid Python: {error.msg}", file=f"{error.filename or path}:{error.lineno or 1}")
    if isinstance(error, ValueError) and "null bytes" in str(error):  # a SyntaxError from Python 3.11.4 on
        return InputError(f"not valid Python: {error}", file=f"{path}:1")
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    place = f"{path}:{line}" if line else str(path)
    if isinstance(error, InputError):
        return error.at(file=place)
    return InputError(f"cannot be loaded: {type(error).__name__}: {error}", file=place)
