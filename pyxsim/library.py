"""The shelves `topologies` and `collectives`: where their files are, and how they are loaded.

A *library* is a folder that holds one or both shelves. Libraries are looked for in this order:

1. folders that the user names (`--library DIR`);
2. what ships with pyxsim: the copy in the wheel (`pyxsim/_library/<shelf>`), or the source tree (`<shelf>` next to the
   package). The copy is asked first because next to an installed package anything may lie;
3. installed packages that announce themselves as entry points of the group `pyxsim.library`: the entry point names a
   package with shelves inside, or a module that registers what it offers when it is imported.

Every `.py` on a shelf is imported once, as `pyxsim_library.<shelf>.<stem>`: a stable name, so that objects pickle,
under packages of our own, so that `sys.path` stays as it was. A file registers what it offers (see `registry`); its
siblings on the shelf can be imported under their `pyxsim_library` names. Names that start with `_` or `.` are left out.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Iterable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from pyxsim import registry
from pyxsim.errors import InputError

SHELVES = ("topologies", "collectives")
ENTRY_POINTS = "pyxsim.library"
PACKAGE = Path(__file__).resolve().parent
_ROOT = "pyxsim_library"
_REGISTRIES = (registry.topologies, registry.blocks, registry.collectives)


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
    """The folders of one shelf, in the order above. Raises InputError for an extra folder without any shelf."""
    libraries = [_library(Path(d)) for d in extra_dirs]
    dirs = [library / shelf for library in libraries]
    dirs += [d for d in (PACKAGE / "_library" / shelf, PACKAGE.parent / shelf) if d.is_dir()][:1]
    dirs += [library / shelf for library in _announced()]
    return list(dict.fromkeys(d.resolve() for d in dirs if d.is_dir()))


def load_all(extra_dirs: Iterable[str | Path] = ()) -> None:
    """Import every file of every shelf that is not imported yet. Raises InputError for a broken file, with its line."""
    extra_dirs = list(extra_dirs)
    folders = {shelf: shelf_dirs(shelf, extra_dirs) for shelf in SHELVES}
    for shelf in SHELVES:
        # Reversed: what ships is there before the user's files, so a name taken twice is told of the user's file.
        for folder in reversed(folders[shelf]):
            for path in _files(folder, ".py"):
                _load(shelf, path)
    for name, path in _stems(folders["topologies"], ".toml").items():
        if name in registry.topologies:
            raise InputError(f"a topology is called '{name}', too", file=str(path), allowed="another name")


def data_files(
    shelf: str = "topologies", suffix: str = ".toml", extra_dirs: Iterable[str | Path] = ()
) -> dict[str, Path]:
    """Paths by name (stem) of data on a shelf: named systems (`.toml`), graphs (`.graphml`); the first library wins."""
    return _stems(shelf_dirs(shelf, extra_dirs), suffix)


def _stems(folders: Iterable[Path], suffix: str) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for folder in folders:
        for path in _files(folder, suffix):
            found.setdefault(path.stem, path)
    return dict(sorted(found.items()))


def _library(folder: Path) -> Path:
    if not folder.is_dir():
        raise InputError("is no folder" if folder.exists() else "no such folder", file=str(folder), key="--library")
    if not any((folder / shelf).is_dir() for shelf in SHELVES):
        wanted = " or ".join(f"'{shelf}'" for shelf in SHELVES)
        raise InputError(
            "this folder is no library", file=str(folder), key="--library", allowed=f"a folder that holds {wanted}"
        )
    return folder


def _files(folder: Path, suffix: str) -> list[Path]:
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=str(folder)) from error
    return [p for p in paths if p.suffix == suffix and p.name[0] not in "_." and p.is_file()]


def _announced() -> list[Path]:
    """Folders of the packages behind the entry points; importing them also runs modules that register directly."""
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
    """The entry points of what is installed. To look at every package takes 20 ms, so it is done again only when
    `places` have changed: where Python looks for packages, and when something there has come or gone."""
    return sorted(importlib.metadata.entry_points(group=ENTRY_POINTS), key=lambda point: point.name)


def _changed(place: str) -> int:
    try:
        return os.stat(place or ".").st_mtime_ns
    except OSError:
        return 0


def _package(name: str) -> ModuleType:
    """The package of that name; made on first use, without any file behind it."""
    if name not in sys.modules:
        sys.modules[name] = importlib.util.module_from_spec(ModuleSpec(name, None, is_package=True))
    return sys.modules[name]


def _load(shelf: str, path: Path) -> None:
    if not path.stem.isidentifier():
        raise InputError(
            f"'{path.stem}' cannot be the name of a library file", file=str(path), allowed="letters, digits and '_'"
        )
    _package(_ROOT)
    package = _package(f"{_ROOT}.{shelf}")
    if str(path.parent) not in package.__path__:
        package.__path__.append(str(path.parent))
    name = f"{_ROOT}.{shelf}.{path.stem}"
    if name not in sys.modules:
        importlib.invalidate_caches()  # the file may be younger than the finder's memory of the folder
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
    """Take back what files registered before they failed (a failed import leaves no module)."""
    for each in _REGISTRIES:
        for module in {entry.module for entry in each.entries}:
            if module.startswith(f"{_ROOT}.") and module not in sys.modules:
                each.discard(module)


def _fault(path: Path, error: BaseException) -> InputError:
    """What is wrong with a library file, and in which line of it."""
    if isinstance(error, SyntaxError):
        return InputError(f"is no valid Python: {error.msg}", file=f"{error.filename or path}:{error.lineno or 1}")
    if isinstance(error, ValueError) and "null bytes" in str(error):  # a SyntaxError from Python 3.11.4 on
        return InputError(f"is no valid Python: {error}", file=f"{path}:1")
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    place = f"{path}:{line}" if line else str(path)
    if isinstance(error, InputError):
        return error.at(file=place)
    return InputError(f"cannot be loaded: {type(error).__name__}: {error}", file=place)
