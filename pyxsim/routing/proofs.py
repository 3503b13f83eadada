"""Proofs that were made before: of the same relation and pairs, by the same prover, in this process or another one.

A proof is known by the SHA-256 of all that it depends on. Those that succeeded are remembered (pyxsim/remembered.py);
a file with anything else in it only means that the proof is made again.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import fields
from functools import cache
from pathlib import Path

import numpy as np

from pyxsim import remembered
from pyxsim.routing.relation import Longs, Relation

_PROVED: set[str] = set()
_FOLDER = "proofs"
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
    if name not in _PROVED and remembered.recall(_FOLDER, name) == _TEXT:
        _PROVED.add(name)
    return name in _PROVED


def remember(name: str) -> None:
    """The proof was made."""
    _PROVED.add(name)
    remembered.remember(_FOLDER, name, _TEXT)


def forget() -> None:
    """Only what is remembered in this process."""
    _PROVED.clear()


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
