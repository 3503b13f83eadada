"""Proofs of large schedules are remembered, in the process and on disk, and nothing wrong on disk does harm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pyxsim.collective import checker
from pyxsim.collective.checker import prove
from pyxsim.collective.kinds import Kind
from pyxsim.collective.lookup import get_schedule
from pyxsim.collective.schedule import ScheduleError


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    monkeypatch.setenv("PYXSIM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(checker, "_LARGE", 1)
    checker._PROOFS.forget()
    yield tmp_path / "cache" / "schedules"
    checker._PROOFS.forget()


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many proofs were made."""
    made = []
    real = checker._prove_data

    def counted(schedule: checker.CompiledSchedule) -> None:
        made.append(1)
        real(schedule)

    monkeypatch.setattr(checker, "_prove_data", counted)
    return lambda: len(made)


def test_a_schedule_is_proved_once(count: Callable[[], int], folder: Path) -> None:
    ring = get_schedule("all-reduce", "ring", 4)
    prove(ring)
    prove(replace(ring, src=ring.src.copy()))  # as another process would build it
    checker._PROOFS.forget()
    prove(ring)
    assert count() == 1
    (file,) = folder.iterdir()
    for text in (b"", b"proved", b"\xff\xfe"):
        file.write_bytes(text)
        checker._PROOFS.forget()
        before = count()
        prove(ring)
        assert count() == before + 1


def test_whatever_a_proof_depends_on_makes_it_another_one(count: Callable[[], int]) -> None:
    ring = get_schedule("all-gather", "ring", 4)
    prove(ring)
    kind = ring.kind
    same_name = Kind(kind.name, kind.homes, kind.start, lambda n, unit, root=0: range(n - 1))  # asks for less
    for changed in (
        get_schedule("all-gather", "ring", 5),
        get_schedule("all-gather", "direct", 4),
        replace(ring, kind=same_name),
        replace(ring, way=-ring.way),
        replace(ring, block_ids=ring.block_ids.copy()),  # no longer the same array as put_ids: cells may be shared
    ):
        before = count()
        prove(changed)
        assert count() == before + 1


def test_refusals_are_not_remembered(count: Callable[[], int], folder: Path) -> None:
    ring = get_schedule("reduce-scatter", "ring", 4)
    prove(ring)
    wrong = replace(ring, reduce=np.zeros_like(ring.reduce))
    for _ in range(2):
        with pytest.raises(ScheduleError):
            prove(wrong)
    assert count() == 3
    assert len(list(folder.iterdir())) == 1


def test_small_ones_are_proved_every_time(
    count: Callable[[], int], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checker, "_LARGE", 10**6)
    for _ in range(2):
        prove(get_schedule("all-reduce", "ring", 4))
    assert count() == 2
    assert not folder.exists()
