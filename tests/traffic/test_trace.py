"""Traces from files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pyxsim.errors import InputError
from pyxsim.traffic.trace import read_trace


def test_text(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(
        "cycle,src,dst,bytes\n# late ones first\n20,0,1,100\n\n5, 1, 0, 7 # a remark\n5 0 1 8\n", encoding="utf-8"
    )
    trace = read_trace(path, 2)
    assert trace.cycle.tolist() == [5, 5, 20]
    assert trace.src.tolist() == [1, 0, 0]
    assert trace.dst.tolist() == [0, 1, 1]
    assert trace.nbytes.tolist() == [7, 8, 100]


def test_npy(tmp_path: Path) -> None:
    np.save(tmp_path / "trace.npy", np.array([[3, 0, 1, 64], [1, 1, 1, 32]]))
    trace = read_trace(tmp_path / "trace.npy", 2)
    assert trace.nbytes.tolist() == [32, 64]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("0,0,2,8\n", "trace.csv:1: dst 2 is out of range; allowed: from 0 to 1"),
        ("0,0,1,8\n0,-1,1,8\n", "trace.csv:2: src -1 is out of range; allowed: from 0 to 1"),
        ("0,0,1,0\n", "trace.csv:1: bytes 0 is out of range; allowed: from 1 to 4611686018427387904"),
        ("0,0,1\n", "trace.csv:1: '0,0,1' is not a message; allowed: cycle, src, dst, bytes"),
        ("0,0,1,8.5\n", "trace.csv:1: '0,0,1,8.5' is not a message; allowed: cycle, src, dst, bytes"),
        (f"0,0,1,{2**64}\n", f"trace.csv:1: '0,0,1,{2**64}' is not a message; allowed: cycle, src, dst, bytes"),
        ("cycle,src,dst,bytes\n", "trace.csv: contains no messages; allowed: lines of cycle, src, dst, bytes"),
    ],
)
def test_faults(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "trace.csv").write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_trace(tmp_path / "trace.csv", 2)
    assert str(caught.value) == f"{tmp_path}/{problem}"


def test_faults_of_npy(tmp_path: Path) -> None:
    np.save(tmp_path / "floats.npy", np.zeros((3, 4)))
    (tmp_path / "none.npy").write_text("nothing", encoding="utf-8")
    with pytest.raises(InputError, match=r"array of shape 3x4 and type float64; allowed: four columns of integers"):
        read_trace(tmp_path / "floats.npy", 2)
    with pytest.raises(InputError, match="not a NumPy file"):
        read_trace(tmp_path / "none.npy", 2)
