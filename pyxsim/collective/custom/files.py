"""Files that are algorithms: which reader reads which, and remembering what was read until the file changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pyxsim.chakra.files import rank_files
from pyxsim.collective.custom.chakra_traces import read_traces
from pyxsim.collective.custom.msccl import read_msccl
from pyxsim.collective.custom.python import read_python
from pyxsim.collective.kinds import KINDS
from pyxsim.errors import InputError


@dataclass(frozen=True)
class Found:
    """What a file offers: `function(kind, n)` gives the schedule; the kinds of collective that it can be asked for."""

    function: Callable[..., Any]
    kinds: tuple[str, ...]


def _python(path: str, part: str | None) -> Found:
    return Found(*read_python(path, part))


def _msccl(path: str, part: str | None) -> Found:
    _refuse_part(path, part)
    return Found(*read_msccl(path))


def _traces(path: str, part: str | None) -> Found:
    _refuse_part(path, part)
    return Found(read_traces(path), tuple(KINDS))


def _refuse_part(path: str, part: str | None) -> None:
    if part is not None:
        raise InputError(f"'{part}' behind it has no meaning: it is one algorithm", file=path, allowed="the path alone")


# By suffix: path and the part after ":" (None where there is none) -> what the file offers.
READERS: dict[str, Callable[[str, str | None], Found]] = {"py": _python, "xml": _msccl, "et": _traces}


def find(path: str, part: str | None) -> Found:
    """What a file offers, read once as long as it does not change. Raises InputError: no such file, or a broken one.

    The same file gives the same object, so what is built from it can be remembered by it.
    """
    files = rank_files(path).values() if path.endswith(".et") else [Path(path)]
    return _read(path, part, tuple(_age(file) for file in files))


@lru_cache(maxsize=64)
def _read(path: str, part: str | None, age: object) -> Found:
    return READERS[path.rpartition(".")[2]](path, part)


def _age(path: Path) -> object:
    """Something that is different when the file has been written anew."""
    try:
        state = path.stat()
    except OSError:
        return None  # the reader says what is wrong
    return str(path), state.st_mtime_ns, state.st_size
