"""docs/memory.md: what it says of inputs/memory/ is so, and its program makes the traces there."""

from __future__ import annotations

import re
from fractions import Fraction
from math import ceil
from pathlib import Path

import numpy as np
import pytest

from pyxsim.models import load_model
from pyxsim.reports.text.comparison_tables import page as markdown
from pyxsim.runner.lifecycle import run
from pyxsim.study.compare import compare

ROOT = Path(__file__).resolve().parents[2]
INPUTS = ROOT / "inputs" / "memory"
PAGE = (ROOT / "docs" / "memory.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)\.toml` \| ([\d.]+) us \| ([\d.]+) us \| ([\d.]+) us \| ([\d.]+) us \|$", re.MULTILINE)
TABLE = {match[1]: [float(each) for each in match.groups()[1:]] for match in ROW.finditer(PAGE)}
LAYER, SHARD, CHUNK, LATENCY = 4 << 20, (4 << 20) // 8, 16 << 10, 1000  # bytes, ns


def pipelined(size: int, *stages: Fraction) -> int:
    """`stages`: ns for a byte."""
    return LATENCY + sum(ceil(CHUNK * each) for each in stages) + ceil((size - CHUNK) * max(stages))


ACCESSES = {
    "zero_infinity": LATENCY + ceil(Fraction(SHARD, 100)),
    "hierarchical": pipelined(SHARD, *[Fraction(1, 100)] * 3, Fraction(1, 256)),
    "in_switch": pipelined(LAYER, Fraction(1, 800), Fraction(1, 800), Fraction(1, 400), Fraction(1, 256)),
}


@pytest.mark.parametrize("name", ACCESSES)
def test_the_table(name: str) -> None:
    result = run(INPUTS / f"{name}.toml", backend="analytical")
    access, time, memory, exposed = TABLE[name]
    assert access == round(ACCESSES[name] / 1000, 3)
    assert time == round(float(result.time_ns) / 1000, 1)
    of_npus = result.npus
    assert set(of_npus["memory"].tolist()) == {12 * ACCESSES[name]}  # eight loads, four stores
    assert memory == round(12 * ACCESSES[name] / 1000, 1)
    assert set(of_npus["exposed"].tolist()) == {of_npus["exposed"][0]}
    assert exposed == round(int(of_npus["exposed"][0]) / 1000, 1)


def test_backends_agree_where_there_are_no_messages() -> None:
    """Nothing is left for the network: to compare that, and to tell it, is no fault."""
    found = compare(INPUTS / "in_switch.toml")
    (point,) = found.points
    times = {name: result.time_ns for name in found.backends if (result := point.result(name)) is not None}
    assert len(times) == len(found.backends) > 1
    assert len(set(times.values())) == 1
    assert "safe" in markdown(found)


TRAINED = re.compile(
    r"^\| `(mixtral_\w+)\.toml` \| ([\d.]+) ms \| ([\d.]+) ms \| ([\d.]+) ms \| ([\d.]+) ms \|$", re.MULTILINE
)
ROWS = {match[1]: [float(each) for each in match.groups()[1:]] for match in TRAINED.finditer(PAGE)}


@pytest.mark.parametrize("name", ["mixtral_zero_infinity", "mixtral_hierarchical", "mixtral_in_switch"])
def test_the_table_of_a_model(name: str) -> None:
    result = run(ROOT / "inputs" / "training" / f"{name}.toml", backend="analytical-congestion")
    ns_per_cycle = 1e9 / float(result.clock_hz)
    means = [float(np.mean(result.npus[column])) * ns_per_cycle for column in ("compute", "memory", "exposed")]
    assert ROWS[name] == [round(each / 1e6, 1) for each in (float(result.time_ns), *means)]


def test_what_the_page_says_of_them() -> None:
    """The step of the optimizer moves 28 bytes of each parameter, a 64th of them at each NPU, with 100 GB/s."""
    assert f"{load_model('mixtral-8x7b').parameters / 64 * 28 / 100e6:.0f} ms for 28 bytes" in PAGE
    times = [row[0] for row in ROWS.values()]
    assert f"{times[0] / times[2]:.2f} times as fast" in PAGE


def test_what_is_shipped_is_what_the_program_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    made = tmp_path / "inputs" / "memory"
    made.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "docs/memory.md", "exec"), {})
    shipped = sorted(INPUTS.glob("*.jsonl"))
    assert [path.name for path in sorted(made.iterdir())] == [path.name for path in shipped]
    assert all((made / path.name).read_bytes() == path.read_bytes() for path in shipped)
