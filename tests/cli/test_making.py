"""`pyxsim workload expand`, `learn`, `synthesize`, and `convert` to another device."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pyxsim as face
from tests.cli.inputs import Command

STEP = "inputs/pytorch/step.*.kineto.json.gz"
NODE = '{"id": 0, "name": "add", "type": "COMP_NODE", "durationMicros": 100, "attr": [%s]}'
ENDS = """num_ranks 2
rank 0 {
a: send 2b to 1
b: recv 2b from 1
}
rank 1 {
a: recv 2b from 0
b: send 2b to 0
}
"""
BYTES = '{"name": "tensor_size", "uint64Val": "1000"}'


@pytest.fixture
def step(tree: Path, folder: Path) -> str:
    return str(tree / STEP)


@pytest.fixture
def one(folder: Path) -> str:
    (folder / "one.jsonl").write_text(f'{{"version": "0.0.4"}}\n{NODE % BYTES}\n', encoding="utf-8")
    return "one.jsonl"


def test_one_rank_becomes_many(pyxsim: Command, step: str, folder: Path) -> None:
    ended = pyxsim("workload", "expand", step.replace("*", "1"), "-o", "many.*.json", "--npus", "6", "--json")
    assert ended.code == 0
    found = json.loads(ended.out)
    assert (found["traces"], found["after"], found["groups"]) == (6, {"axes": [6], "stages": 1}, None)
    assert pyxsim("workload", "check", "many.*.json").code == 0
    assert face.expand_workload(step, "again.*.json", npus=6, ranks=[1]) == {**found, "file": "again.*.json"}
    for rank in range(6):
        assert Path(f"again.{rank}.json").read_bytes() == Path(f"many.{rank}.json").read_bytes()


def test_traces_of_more_ranks_are_not_left_among_new_ones(pyxsim: Command, step: str, one: str, folder: Path) -> None:
    source = step.replace("*", "0")
    many, model = (
        ("workload", "expand", source, "-o", "many.*.et", "--npus"),
        ("workload", "learn", step, "-o", "m.json"),
    )
    assert (pyxsim(*many, "6").code, pyxsim(*model).code) == (0, 0)
    before = Path("many.0.et").read_bytes()
    for words in (
        [*many, "4"],
        ["workload", "synthesize", "m.json", "-o", "many.*.et", "--npus", "4"],
        ["workload", "convert", "workload.txt", "many.*.et", "--npus", "4"],
    ):
        ended = pyxsim(*words)
        start = "pyxsim: many.4.et: is of a rank that the new traces do not have, and would count as part of them"
        assert (ended.code, ended.lines) == (2, [f"{start}; allowed: another prefix, or remove the file first"])
    ended = pyxsim("workload", "convert", one, "many.*.et")
    assert (ended.code, len(ended.lines)) == (2, 1)
    assert ended.lines[0].startswith("pyxsim: many.1.et: is of a rank that the new traces do not have")
    assert Path("many.0.et").read_bytes() == before
    assert pyxsim(*many, "6").code == 0
    Path("few.groups.json").write_text('{"1": [0, 1]}', encoding="utf-8")
    ended = pyxsim("workload", "expand", source, "-o", "few.*.et", "--npus", "2")
    assert (ended.code, len(ended.lines)) == (2, 1)
    assert ended.lines[0].startswith("pyxsim: few.groups.json: has groups of other traces, and these have none")


def test_ranks_that_differ(pyxsim: Command, step: str, tree: Path, folder: Path) -> None:
    """Of a message around a ring, rank 0 sends first, and the others receive first."""
    ring = str(tree / "inputs" / "goal" / "ring.goal")
    ended = pyxsim("workload", "expand", ring, "--ranks", "1", "-o", "x.*.et", "--npus", "4")
    assert (ended.code, len(ended.lines), list(folder.glob("x.*"))) == (2, 1, [])
    assert ended.lines[0].startswith(
        f"pyxsim: {ring}: is not symmetric: NPU 0, 'recv' (task 0) waits for NPU 3, 'send'"
    )
    assert "and so on: 12 wait for each other in a cycle; allowed: a rank that" in ended.lines[0]
    ended = pyxsim("workload", "expand", ring, "-o", "x.*.et", "--npus", "4")
    warning = f"{ring}: rank 1 has 3 tasks, but rank 0 5"
    assert (ended.code, f"warning: {warning}; all ranks of the larger job do what rank 0 does" in ended.lines) == (
        0,
        True,
    )
    assert pyxsim("workload", "check", "x.*.et").code == 0
    found = face.expand_workload("x.*.et", "y.*.et", npus=8)
    assert found["warnings"] == []
    Path("x.2.et").write_bytes(b"x")
    (warning,) = face.expand_workload("x.*.et", "y.*.et", npus=8)["warnings"]
    assert warning.startswith("rank 2 cannot be compared with rank 0: x.2.et: ")
    assert face.expand_workload(step, "z.*.et", npus=4)["warnings"] == []
    Path("ends.goal").write_text(ENDS, encoding="utf-8")
    (warning,) = face.expand_workload("ends.goal", "e.*.et", npus=2)["warnings"]
    assert warning.startswith("ends.goal: rank 1 has receive of 2 bytes where rank 0 has send of 2 bytes; all ranks")


def test_a_model_and_what_is_drawn(pyxsim: Command, step: str, folder: Path) -> None:
    ended = pyxsim("workload", "learn", step, "-o", "m.json", "--json")
    assert ended.code == 0
    assert face.learn_workload(step, "n.json") == {**json.loads(ended.out), "file": "n.json"}
    assert Path("n.json").read_bytes() == Path("m.json").read_bytes()
    ended = pyxsim("workload", "synthesize", "m.json", "-o", "s.*.et", "--npus", "4", "--seed", "3", "--json")
    assert json.loads(ended.out)["layout"] == {"axes": [4], "stages": 1}
    face.synthesize_workload("m.json", "t.*.et", npus=4, seed=3)
    assert [Path(f"t.{rank}.et").read_bytes() for rank in range(4)] == [
        Path(f"s.{rank}.et").read_bytes() for rank in range(4)
    ]
    assert pyxsim("workload", "check", "s.*.et").code == 0
    assert "4 ranks (4)" in pyxsim("workload", "synthesize", "m.json", "-o", "s.*.et", "--npus", "4").err


def test_drawn_tasks_that_are_left_out_are_told(pyxsim: Command, step: str, folder: Path) -> None:
    """A collective of groups of one rank is left out."""
    assert pyxsim("workload", "learn", step, "-o", "m.json").code == 0
    draw = ("workload", "synthesize", "m.json", "-o", "s.*.et")
    assert not any("warning" in line for line in pyxsim(*draw).lines)
    text = Path("m.json").read_text(encoding="utf-8")
    Path("m.json").write_text(text.replace('[0, 0, "own"]', '[1, 0, "own"]'), encoding="utf-8")
    dropped = face.synthesize_workload("m.json", "s.*.et")["dropped"]
    assert dropped > 1
    warning = f"warning: left out {dropped} drawn tasks without a partner or a group"
    assert warning in pyxsim(*draw).lines
    Path("m.json").write_text(text.replace('[0, 0, "own"]', '[7, 7, "own"]'), encoding="utf-8")
    ended = pyxsim(*draw)
    assert ended.lines == [
        "pyxsim: m.json: families[2].where[0]: is 7; allowed: a whole number from 0 to 1",
        "pyxsim: m.json: families[2].where[1]: is 7; allowed: a whole number from 0 to 1",
    ]


def test_times_of_another_device(pyxsim: Command, one: str) -> None:
    """A sum is bound by the memory: 2039 GB/s, then 3350 GB/s."""
    devices = ("--from-device", "a100-80gb", "--to-device", "h100")
    assert pyxsim("workload", "convert", one, "other.jsonl", *devices).code == 0
    found = face.show_workload("other.jsonl")["total"]["compute_ns"]
    assert found == pytest.approx(100_000 * 2039 / 3350, abs=1)
    face.expand_workload(one, "x.*.et", npus=2, from_device="a100-80gb", to_device="h100")
    assert face.show_workload("x.*.et")["total"]["compute_ns"] == pytest.approx(2 * found, abs=2)


def test_a_factor_for_all_times(pyxsim: Command, one: str) -> None:
    assert pyxsim("workload", "convert", one, "other.jsonl", "--compute-scale", "2.5").code == 0
    assert face.show_workload("other.jsonl")["total"]["compute_ns"] == 250_000


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("expand one.jsonl -o x.*.et --npus 0", "--npus: 0 is out of range; allowed: a whole number from 1 to"),
        ("expand none.et -o x.*.et --npus 2", "none.et: no such traces exist"),
        ("expand one.jsonl -o x.et --npus 2", "x.et: is one file, but each NPU requires a trace"),
        ("expand one.jsonl -o x.*.et --npus 2 --ranks 0,0", "--ranks: 0,0 has a rank twice"),
        ("expand one.jsonl -o x.*.et --npus 2 --ranks 3", "one.jsonl: there is no trace of rank 3; allowed: 0"),
        ("expand one.jsonl -o x.*.et --npus 4 --tensor 2", "one.jsonl: --tensor: has no groups within others"),
        ("expand small.toml -o x.*.et --npus 2", "small.toml: is not a trace; allowed: Chakra traces"),
        ("expand one.jsonl -o x.*.et --npus 2 --from-device v100 --to-device h10", "--to-device: unknown device 'h10'"),
        ("convert one.jsonl x.goal --compute-scale 2", "--compute-scale: has no effect on x.goal"),
        ("convert one.jsonl x.jsonl --compute-scale x", "--compute-scale: "),
        ("convert workload.txt x.*.et --npus 8 --to-device h100", "--to-device: has no effect on workload.txt"),
        ("learn one.jsonl -o m.json --order 9", "--order: 9 is out of range; allowed: a whole number from 0 to 8"),
        ("learn none.*.et -o m.json", "none.*.et: no such traces exist"),
        ("learn small.toml -o m.json", "small.toml: is not a trace"),
        ("synthesize small.toml -o s.*.et", "small.toml: not valid JSON"),
        ("synthesize one.jsonl -o s.*.et", "one.jsonl: not valid JSON: Extra data"),
        ("synthesize none.json -o s.*.et", "none.json: no such file"),
    ],
)
def test_faults_are_one_line(pyxsim: Command, one: str, folder: Path, words: str, text: str) -> None:
    before = sorted(path.name for path in folder.iterdir())
    ended = pyxsim("workload", *words.split())
    assert ended.code == 2
    assert len(ended.lines) == 1
    assert ended.lines[0].startswith(f"pyxsim: {text}")
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_trace_of_pytorch_is_for_expand(pyxsim: Command, step: str, folder: Path) -> None:
    source = step.replace("*", "0")
    for words in (["convert", source, "x.et"], ["show", source], ["check", source]):
        ended = pyxsim("workload", *words)
        assert (ended.code, len(ended.lines)) == (2, 1)
        start = f"pyxsim: {source}: is a trace of PyTorch's profiler; allowed: a Chakra trace; `pyxsim workload expand`"
        assert ended.lines[0].startswith(start)


def test_the_python_that_records(pyxsim: Command, folder: Path) -> None:
    assert face.collect_workload() == json.loads(pyxsim("workload", "collect", "--json").out)
