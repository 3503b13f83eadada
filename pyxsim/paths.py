"""Files that a user names: checks with the same messages everywhere, and writing that leaves no half of a file."""

from __future__ import annotations

import gzip
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from pyxsim.errors import InputError, closest

PathLike = str | os.PathLike[str]


def missing(path: PathLike, allowed: str | None = None) -> InputError:
    """Return the fault of a missing input file; it names a similar file in the same folder."""
    place = Path(path)
    near = _near(place.name, place.parent, lambda each: each.suffix == place.suffix)
    return InputError(f"no such file{near}", file=os.fspath(path), allowed=allowed)


def need_folder(path: PathLike) -> None:
    """Raise InputError unless the folder of an output file exists.

    It is not created: a misspelt name would leave a folder, and the file in it.
    """
    folder = Path(path).parent
    try:
        problem = "" if stat.S_ISDIR(os.stat(folder).st_mode) else f"'{folder}' is not a folder"
    except FileNotFoundError:
        problem = f"there is no folder '{folder}'"
    except OSError as error:
        problem = error.strerror or str(error)
    if problem:
        near = _near(folder.name, folder.parent, Path.is_dir)
        allowed = f"an existing folder{near}"
        raise InputError(f"cannot be written: {problem}", file=os.fspath(path), allowed=allowed)


def make_folder(path: PathLike) -> None:
    """Create the folder that a command fills; its parent must exist. Raises InputError."""
    need_folder(path)
    try:
        Path(path).mkdir(exist_ok=True)
    except FileExistsError as error:
        raise InputError("is a file", file=os.fspath(path), allowed="the name of a folder") from error
    except OSError as error:
        raise InputError(f"cannot be made: {error.strerror or error}", file=os.fspath(path)) from error


def ending(path: PathLike, allowed: Iterable[str], what: str, hint: str = "") -> str:
    """Return the suffix of an output file, ".h5".

    Raises InputError unless it is one of those `allowed`. The message names `what`, such as "a result", and ends with
    `hint`.
    """
    name, ends = os.fspath(path), tuple(allowed)
    suffix = Path(name).suffix
    if suffix.lower() not in ends:
        problem = f"{what} cannot be written as '{suffix}'" if suffix else f"the file name of {what} has no extension"
        more = closest(suffix, ends) if suffix else ""
        raise InputError(problem, file=name, allowed=f"{', '.join(ends)}{more}{hint}")
    return suffix.lower()


@contextmanager
def created(path: str) -> Iterator[BinaryIO]:
    """Open a file for writing; compressed if its name ends with .gz. It appears under its name when it is complete.

    Raises InputError if it cannot be written.
    """
    unfinished = None
    try:
        target = Path(os.path.realpath(path))
        if target.is_dir():
            raise InputError("is a folder", file=path, allowed="the name of a file")
        place = target
        if target.is_file() or not target.exists():  # pipes and devices are written directly
            need_folder(path)
            need_folder(target)
            place = unfinished = target.with_name(f".unfinished-{os.getpid()}-{target.name}")
        with place.open("wb") as plain:
            if path.endswith(".gz"):
                # Without a name and a date in it, equal contents are equal files.
                with gzip.GzipFile("", "wb", fileobj=plain, mtime=0) as packed:
                    yield cast(BinaryIO, packed)
            else:
                yield plain
        if unfinished is not None:
            unfinished.replace(target)
            unfinished = None
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", file=path) from error
    finally:
        if unfinished is not None:
            with suppress(OSError):  # a read-only file system
                unfinished.unlink(missing_ok=True)


def _near(name: str, folder: Path, alike: Callable[[Path], bool]) -> str:
    try:
        return closest(name, [entry.name for entry in folder.iterdir() if alike(entry)])
    except OSError:
        return ""
