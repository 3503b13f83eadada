"""`pyxsim workload` with GOAL schedules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyxsim.runner.lifecycle import run
from tests.cli.conftest import Command

SAMPLE = (Path(__file__).parents[2] / "inputs" / "goal" / "ring.goal").read_text()
ENDS = (".txt", ".goal")


@pytest.fixture
def sample(folder: Path) -> None:
    (folder / "a.goal").write_text(SAMPLE)


@pytest.mark.usefixtures("sample")
def test_show_and_check(pyxsim: Command) -> None:
    facts = json.loads(pyxsim("workload", "show", "a.goal", "--json").out)
    assert facts["operations"] == {"send": 4, "recv": 4, "calc": 6}
    assert facts["calc_ns"] == 2000 + 5000 + 500 + 3 * 1000
    assert facts["sent_bytes"] == 4 * 65536
    assert "no faults" in pyxsim("workload", "check", "a.goal").err
    assert pyxsim("workload", "show", "a.goal", "--plot", "a.png").code == 2
    assert pyxsim("workload", "check", "a.goal", "--npus", "4").code == 2


@pytest.mark.usefixtures("sample")
def test_there_and_back(pyxsim: Command, folder: Path) -> None:
    for one, other in (("a.goal", "b.bin"), ("b.bin", "c.goal"), ("c.goal", "d.*.et"), ("d.*.et", "e.goal")):
        assert pyxsim("workload", "convert", one, other).code == 0
    assert (folder / "b.bin").read_bytes()[:2] == b"\x7f\x10"
    assert (folder / "c.goal").read_text().startswith("num_ranks 4\n\nrank 0 {\nl1: calc 2000\n")
    assert pyxsim("workload", "check", "e.goal").code == 0
    assert "is also the input" in pyxsim("workload", "convert", "a.goal", "a.goal").err


def test_what_goal_cannot_say(pyxsim: Command, folder: Path) -> None:
    (folder / "w.txt").write_text("MODEL\n1\na -1 5 NONE 0 5 NONE 0 5 NONE 0 5\n")
    said = pyxsim("workload", "convert", "w.txt", "w.goal", "--npus", "2").err
    assert "layers and names of tasks are left out" in said


def test_collectives_become_messages(pyxsim: Command, folder: Path) -> None:
    (folder / "w.txt").write_text("MODEL\n1\na -1 5 ALLREDUCE 4096 5 NONE 0 5 NONE 0 5\n")
    said = pyxsim("workload", "convert", "w.txt", "w.goal", "--npus", "4").err
    assert "collectives are the messages of their algorithm" in said
    facts = json.loads(pyxsim("workload", "show", "w.goal", "--json").out)
    assert facts["operations"]["send"] == facts["operations"]["recv"] == 4 * 6  # a ring: 2 (N - 1) messages per rank
    assert facts["sent_bytes"] == 4 * 6 * 1024
    assert pyxsim("workload", "check", "w.goal").code == 0
    (folder / "w.txt").write_text("HYBRID_DATA_MODEL\n1\na -1 5 ALLREDUCE 64 5 NONE 0 5 NONE 0 5\n")
    ended = pyxsim("workload", "convert", "w.txt", "w2.goal", "--shape", "2,2")
    assert ended.code == 2
    assert "runs along dimensions" in ended.err
    assert not (folder / "w2.goal").exists()


def test_the_messages_take_as_long_as_the_collectives(pyxsim: Command, folder: Path) -> None:
    layers = (
        "a -1 50 ALLREDUCE 4096 5 ALLGATHER 4096 5 NONE 0 0\nb -1 70 ALLTOALL 4096 5 REDUCESCATTER 4096 5 NONE 0 0\n"
    )
    (folder / "w.txt").write_text(f"MODEL\n2\n{layers}")
    assert pyxsim("workload", "convert", "w.txt", "w.goal", "--npus", "4").code == 0
    network = {"topology": "ring", "shape": [4], "bandwidth": "50 GB/s", "latency": "500 ns"}
    rings = dict.fromkeys(("all_reduce", "all_gather", "reduce_scatter"), "ring")
    system = {"chunks": 1, "all_to_all": "direct", **rings}
    for backend in ("analytical", "analytical-congestion"):
        tables = [{"network": network, "system": system, "workload": {"file": str(folder / f"w{end}")}} for end in ENDS]
        times = [run(table, backend=backend).time_ns for table in tables]
        assert times[0] == times[1]
