"""The yardstick is the same work everywhere, and none of the simulator."""

from __future__ import annotations

import bz2
import hashlib
import itertools
import re
import sys
from pathlib import Path

import pytest

from benchmarks import yardstick
from benchmarks.yardstick import MB_PER_S, PACKED, SIZE, against_table, measure_yardstick, said, text


def test_the_work_is_always_the_same() -> None:
    data = text()
    assert len(data) == SIZE
    assert hashlib.sha256(data).hexdigest() == "453f10d706006c3d191e4836848fbe2f875cf1558227cbe7ef0097b7625f89c6"
    assert len(bz2.compress(data, 9)) == PACKED


def test_megabytes_in_a_second() -> None:
    """With a clock of which each look takes longer than the one before: 1, 3 and 5 seconds between them."""
    times = itertools.accumulate(itertools.count(1), lambda now, step: now + step, initial=0.0)
    found = measure_yardstick(3, clock=lambda: float(next(times)))
    assert found is not None
    assert found["mb_per_s"] == pytest.approx({"min": SIZE / 5e6, "median": SIZE / 3e6, "max": SIZE / 1e6})


def test_what_is_said() -> None:
    now = {"mb_per_s": {"min": 1.0, "median": MB_PER_S / 2, "max": 99.0}}
    assert against_table(now) == 0.5
    line = f"this machine: 0.50 of the one of the tables in docs/performance.md ({MB_PER_S / 2:.1f} MB/s of bzip2)"
    assert said(now) == said(now, {}) == said(now, {"yardstick": None}) == line
    then = {"yardstick": {"mb_per_s": {"median": MB_PER_S / 4}}}
    assert said(now, then) == f"{line}; 2.00 of what it was in the session before"
    assert said(None) == ""


def test_without_bzip2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yardstick, "PACKED", PACKED + 1)  # another one, whose work would be another
    assert measure_yardstick(1) is None
    monkeypatch.setitem(sys.modules, "bz2", None)
    assert measure_yardstick(1) is None


def test_the_page_has_the_same_figure(tree: Path) -> None:
    page = (tree / "docs" / "performance.md").read_text(encoding="utf-8")
    assert re.findall(r"yardstick of the tables: ([\d.]+) MB/s", page) == [f"{MB_PER_S:.0f}"]
