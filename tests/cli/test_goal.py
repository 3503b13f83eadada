"""`pyxsim workload` with GOAL schedules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command

SAMPLE = (Path(__file__).parents[2] / "inputs" / "goal" / "ring.goal").read_text()


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
    (folder / "w.txt").write_text("MODEL\n1\na -1 5 ALLREDUCE 64 5 NONE 0 5 NONE 0 5\n")
    ended = pyxsim("workload", "convert", "w.txt", "w2.goal", "--npus", "2")
    assert ended.code == 2
    assert "GOAL has messages only" in ended.err
    assert not (folder / "w2.goal").exists()
