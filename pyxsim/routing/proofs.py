"""Proofs that were made before: of the same relation and pairs, by the same prover, in this process or another one.

A proof is known by the SHA-256 of all that it depends on. Those that succeeded are remembered as small files in a
folder: $PYXSIM_CACHE if it is set (empty: none), else pyxsim/ in $XDG_CACHE_HOME or ~/.cache. A folder that cannot be
read or written, or a file with anything else in it, only means that the proof is made again.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import fields
from functools import cache
from pathlib import Path

import numpy as np

from pyxsim.routing.relation import Longs, Relation

_PROVED: set[str] = set()
_TEXT = "proved: these routes cannot deadlock\n"


def key(relation: Relation, pairs: Longs | None, whole: bool) -> str:
    """The name of a proof."""
    digest = hashlib.sha256(f"{_prover()} {whole} {pairs is None}".encode())
    for field in fields(relation):
        value = getattr(relation, field.name)
        if field.name == "link_name":  # only for people
            continue
        if isinstance(value, np.ndarray):
            digest.update(f"{field.name} {value.dtype} {value.shape} ".encode())
            digest.update(np.ascontiguousarray(value).data)
        else:
            digest.update(f"{field.name} {value!r} ".encode())
    if pairs is not None:
        digest.update(np.ascontiguousarray(pairs).data)
    return digest.hexdigest()


def known(name: str) -> bool:
    """Whether the proof was made before."""
    if name in _PROVED:
        return True
    folder = _folder()
    try:
        found = folder is not None and (folder / name).read_text(encoding="utf-8") == _TEXT
    except (OSError, ValueError):
        return False
    if found:
        _PROVED.add(name)
    return found


def remember(name: str) -> None:
    """The proof was made."""
    _PROVED.add(name)
    folder = _folder()
    if folder is None:
        return
    # Written under another name first: others never see half of a file.
    draft = folder / f"{name}.{os.getpid()}"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            draft.write_text(_TEXT, encoding="utf-8")
            draft.replace(folder / name)
        finally:
            draft.unlink(missing_ok=True)


def forget() -> None:
    """Only what is remembered in this process."""
    _PROVED.clear()


def _folder() -> Path | None:
    told = os.environ.get("PYXSIM_CACHE")
    if told is not None:
        return Path(told) / "proofs" if told else None
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        return None  # nobody's home
    return Path(home) / "pyxsim" / "proofs"


@cache
def _prover() -> str:
    """Changes with any line of the code that proves."""
    digest = hashlib.sha256()
    for name in ("by_dimension", "deadlock", "explore", "grid", "journeys", "planes", "relation"):
        try:
            digest.update(Path(__file__).with_name(f"{name}.py").read_bytes())
        except OSError:
            return f"{os.getpid()}"  # without its text: nobody else's proofs count
    return digest.hexdigest()
