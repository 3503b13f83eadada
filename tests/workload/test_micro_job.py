"""MICRO: the weight-gradient collective of the first layer, once per pass, all issued together."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from pyxsim.errors import InputError
from pyxsim.runner.lifecycle import run
from pyxsim.settings import Workload
from pyxsim.workload import START, MicroJob, TextWorkload, read_text_workload
from tests.system.ideal import system

T = 100  # cycles of every message


def text(folder: Path, layer: str, layers: int = 1) -> TextWorkload:
    path = folder / "work.txt"
    path.write_text(f"MICRO\n{layers}\n{layer}\n", encoding="utf-8")
    return read_text_workload(path)


def micro(folder: Path, layer: str, *, cycles_per_ns: Fraction = Fraction(1), **settings: Any) -> MicroJob:
    return MicroJob(text(folder, layer), Workload(file="work.txt", **settings), cycles_per_ns)


def line(kind: str = "ALLGATHER", size: int = 4000, update: int = 5) -> str:
    """Times and communication of the other passes are there, and play no part."""
    return f"conv1 -1 500 ALLREDUCE 64 700 ALLTOALL 64 900 {kind} {size} {update}"


def test_one_pass(tmp_path: Path) -> None:
    """ASTRA-sim's 13 cycles before, the update time after; no compute."""
    job, s = micro(tmp_path, line()), system([4], T)
    job.begin(s)
    assert s.run() == START + 3 * T
    assert START == 13
    assert job.end == START + 3 * T + 5
    (collective,) = s.collectives
    assert (collective.kind, collective.size, collective.start) == ("all-gather", 4000, 13)


@pytest.mark.parametrize("scheduling", ["LIFO", "FIFO"])
def test_all_passes_are_issued_at_once(tmp_path: Path, scheduling: str) -> None:
    job = micro(tmp_path, line(), passes=3)
    s = system([4], T, scheduling=scheduling)
    job.begin(s)
    s.run()
    assert [c.start for c in s.collectives] == [13] * 3
    ends = [c.end for c in s.collectives]
    # The first one has begun when the others come; of those the newest goes first, or the oldest.
    assert ends == ([313, 913, 613] if scheduling == "LIFO" else [313, 613, 913])
    assert sorted(job.ends) == [318, 618, 918]
    assert job.end == 918


@pytest.mark.parametrize(
    ("scale", "size"), [("0.1", 400), ("0.3333", 1333), ("1/3", 1333), ("2.5", 10000), ("0.00025", 1)]
)
def test_comm_scale(tmp_path: Path, scale: str, size: int) -> None:
    """Exact, then cut off to whole bytes: 4000 x 0.1 is 400, and not 399 for being a binary fraction."""
    assert micro(tmp_path, line(), comm_scale=scale).size == size


def test_compute_scale_has_nothing_to_scale(tmp_path: Path) -> None:
    job, s = micro(tmp_path, line(), compute_scale="1000"), system([4], T)
    job.begin(s)
    s.run()
    assert job.end == 318


@pytest.mark.parametrize(("cycles_per_ns", "start", "update"), [(Fraction(3, 2), 20, 8), (Fraction(1, 4), 4, 2)])
def test_times_are_ns(tmp_path: Path, cycles_per_ns: Fraction, start: int, update: int) -> None:
    """Rounded up to cycles: 13 ns are 19.5 of 1.5 GHz, the 5 ns of the update 7.5."""
    job = micro(tmp_path, line(), cycles_per_ns=cycles_per_ns)
    assert (job.start, job.update) == (start, update)


def test_only_the_first_layer_counts(tmp_path: Path) -> None:
    two = text(tmp_path, f"{line(size=100)}\n{line(size=999)}", 2)
    assert MicroJob(two, Workload(file="work.txt"), Fraction(1)).size == 100


def test_without_a_collective_there_is_nothing_to_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"work.txt: layer 'conv1' has no weight-gradient collective"):
        micro(tmp_path, line("NONE", 0))


@pytest.mark.parametrize(("size", "scale"), [(0, 1), (9, "0.1")])
def test_a_collective_has_bytes(tmp_path: Path, size: int, scale: Any) -> None:
    with pytest.raises(InputError, match=r"work.txt: layer 'conv1': a all-gather of 0 bytes"):
        micro(tmp_path, line(size=size), comm_scale=scale)


def test_more_bytes_than_can_be_counted(tmp_path: Path) -> None:
    job = micro(tmp_path, line(size=2**62), comm_scale=10**9)
    with pytest.raises(InputError, match="exceeds the range of the counters"):
        job.begin(system([4], T))


def test_as_an_experiment(tmp_path: Path) -> None:
    """The file is found beside the experiment; the update time is in the time of the run."""
    (tmp_path / "work.txt").write_text(f"MICRO\n1\n{line('ALLREDUCE', 4096)}\n", encoding="utf-8")
    toml = tmp_path / "exp.toml"
    toml.write_text(
        '[network]\ntopology = "ring"\nshape = [4]\n[workload]\nfile = "work.txt"\npasses = 2\n', encoding="utf-8"
    )
    result = run(toml)
    first, second = result.collectives
    assert (first["start"], second["start"]) == (13, 13)
    assert result.time_cycles == max(first["end"], second["end"]) + 5
    assert result.counts["bytes_delivered"] == 2 * 2 * 3 * 4096
