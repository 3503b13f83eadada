"""Files as algorithms: selects the reader, and caches what was read until the file changes.

A reader is imported when a file needs it: most runs use the algorithms of the shelf.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pyxsim.collective.kinds import KINDS
from pyxsim.errors import InputError
from pyxsim.rank_files import rank_files


@dataclass(frozen=True)
class Found:
    """What a file provides: `function(kind, n)` returns the schedule; the kinds of collective that it supports."""

    function: Callable[..., Any]
    kinds: tuple[str, ...]


def _python(path: str, part: str | None) -> Found:
    from pyxsim.collective.custom.python import read_python

    return Found(*read_python(path, part))


def _xml(path: str, part: str | None) -> Found:
    from pyxsim.xml_elements import read_xml

    _refuse_part(path, part)
    root = read_xml(path, "an XML file of MSCCL or ForestColl")
    if root.tag == "Algo":
        from pyxsim.collective.custom.forestcoll import read_forestcoll

        return Found(*read_forestcoll(path, root))
    from pyxsim.collective.custom.msccl import read_msccl

    return Found(*read_msccl(path, root))


def _json(path: str, part: str | None) -> Found:
    from pyxsim.collective.custom.json_file import read_json
    from pyxsim.collective.custom.mscclpp import read_mscclpp
    from pyxsim.collective.custom.teccl import is_teccl, read_teccl

    _refuse_part(path, part)
    root = read_json(path, "an execution plan of MSCCL++ or a result of TE-CCL")
    return Found(*(read_teccl if is_teccl(root) else read_mscclpp)(path, root))


def _csv(path: str, part: str | None) -> Found:
    from pyxsim.collective.custom.tacos import read_tacos

    _refuse_part(path, part)
    return Found(*read_tacos(path))


def _traces(path: str, part: str | None) -> Found:
    from pyxsim.collective.custom.chakra_traces import read_traces

    _refuse_part(path, part)
    return Found(read_traces(path), tuple(KINDS))


def _refuse_part(path: str, part: str | None) -> None:
    if part is not None:
        raise InputError(
            f"':{part}' has no meaning, because the file is one algorithm", file=path, allowed="the path alone"
        )


# By suffix: path and the part after ":" (None without one) -> what the file provides.
READERS: dict[str, Callable[[str, str | None], Found]] = {
    "py": _python,
    "xml": _xml,
    "json": _json,
    "csv": _csv,
    "et": _traces,
}


def find(path: str, part: str | None) -> Found:
    """Return what a file provides, read once while it does not change. Raises InputError: no such file, or a broken
    one.

    The same file yields the same object, which can serve as a cache key.
    """
    files = rank_files(path).values() if path.endswith(".et") else [Path(path)]
    return _read(path, part, tuple(_age(file) for file in files))


@lru_cache(maxsize=64)
def _read(path: str, part: str | None, age: object) -> Found:
    return READERS[path.rpartition(".")[2]](path, part)


def _age(path: Path) -> object:
    """A value that changes when the file is rewritten."""
    try:
        state = path.stat()
    except OSError:
        return None  # the reader reports the error
    return str(path), state.st_mtime_ns, state.st_size
