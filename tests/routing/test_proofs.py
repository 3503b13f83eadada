"""Proofs are remembered, in the process and on disk, and nothing wrong on disk does harm."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyxsim.errors import DeadlockError, InputError
from pyxsim.routing import Relation, deadlock, proofs, prove
from tests.routing.nets import grid


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many proofs were made."""
    made = []
    real = deadlock._check

    def counted(*args: Any, **options: Any) -> Any:
        made.append(1)
        return real(*args, **options)

    monkeypatch.setattr(deadlock, "_check", counted)
    return lambda: len(made)


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PYXSIM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "proofs"


def another(relation: Relation, **changes: Any) -> Relation:
    """The same, as another process would build it."""
    copies = {
        f.name: value.copy()
        for f in dataclasses.fields(relation)
        if isinstance(value := getattr(relation, f.name), np.ndarray)
    }
    return dataclasses.replace(relation, **{**copies, **changes})


def test_in_the_process(count: Callable[[], int]) -> None:
    ring = grid("ring", [6])
    prove(ring)
    prove(another(ring))
    assert count() == 1
    prove(ring, [(0, 1)])
    prove(ring, np.array([[0, 1], [0, 1]]))
    assert count() == 2
    prove(ring, whole=True)
    assert count() == 3
    # Names are for people.
    prove(another(ring, link_name=["x"] * 12))
    assert count() == 3
    for changed in (
        another(ring, link_group=np.full_like(ring.link_group, -1)),
        another(ring, fixed_vcs=(1, 1)),
        another(ring, separable=False),
    ):
        before = count()
        prove(changed)
        assert count() == before + 1


def test_on_disk(count: Callable[[], int], folder: Path) -> None:
    ring = grid("ring", [6])
    prove(ring)
    proofs.forget()
    prove(ring)
    assert count() == 1
    (file,) = folder.iterdir()
    assert len(file.name) == 64
    # Whatever else a file says is no proof.
    for text in (b"", b"proved", b"\xff\xfe\x00"):
        file.write_bytes(text)
        proofs.forget()
        before = count()
        prove(ring)
        assert count() == before + 1
        assert file.read_text() == "proved: these routes cannot deadlock\n"


def test_refusals_are_not_remembered(count: Callable[[], int], folder: Path) -> None:
    ring = grid("ring", [6])
    bad = dataclasses.replace(ring, vc_class=np.zeros_like(ring.vc_class))
    for _ in range(2):
        with pytest.raises(DeadlockError):
            prove(bad)
    assert count() == 2
    assert not folder.exists()


def test_folders_that_cannot_be_used(count: Callable[[], int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ring = grid("ring", [6])
    file = tmp_path / "file"
    file.write_text("no folder")
    for place in (str(file), "/proc/nothing/here", ""):
        monkeypatch.setenv("PYXSIM_CACHE", place)
        proofs.forget()
        before = count()
        prove(ring)
        prove(ring)
        assert count() == before + 1
    assert file.read_text() == "no folder"


def test_where_the_folder_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PYXSIM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    prove(grid("ring", [5]))
    assert len(list((tmp_path / "xdg" / "pyxsim" / "proofs").iterdir())) == 1
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    prove(grid("ring", [7]))
    assert len(list((tmp_path / ".cache" / "pyxsim" / "proofs").iterdir())) == 1


def test_tables_that_name_what_there_is_not() -> None:
    ring = grid("ring", [4])
    with pytest.raises(InputError, match=r"VC class 2 of d0[+-]:.*, which does not exist"):
        prove(dataclasses.replace(ring, vc_class=np.where(ring.link == 1, 2, ring.vc_class).astype(np.int32)))
    with pytest.raises(InputError, match="candidate set that does not exist"):
        prove(dataclasses.replace(ring, link=np.where(ring.link == 1, -2, ring.link).astype(np.int32)))
    fewer = ring.link_classes.copy()
    fewer[3] = 3
    with pytest.raises(InputError, match="fewer VC classes than others of its group"):
        prove(dataclasses.replace(ring, link_classes=fewer))
