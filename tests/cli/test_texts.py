"""`pyxsim workload` with texts of ASTRA-sim 1: tables, faults, and loops as traces that run to the same end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.inputs import Command

TEXT = """HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 4 checkpoints: 1 0 checkpoint_initiates: 1 2
3
attention -1 500 ALLGATHER 4096 700 REDUCESCATTER 8192 900 ALLREDUCE 65536 10
mlp -1 1500 ALLREDUCE 8192 700 NONE 0 900 ALLREDUCE 65536 10
head -1 1234 NONE 0 0 ALLTOALL 8192 900 ALLREDUCE 1048576 10
"""
NETWORK = '[network]\ntopology = "torus"\nshape = {shape}\nbandwidth = "50 GB/s"\nlatency = "100 ns"\n'


@pytest.fixture
def text(folder: Path) -> Path:
    (folder / "model.txt").write_text(TEXT)
    return folder


def test_show(pyxsim: Command, text: Path) -> None:
    ended = pyxsim("workload", "show", "model.txt")
    assert (ended.code, ended.out) == (0, "")
    rows = [line.split() for line in ended.err.splitlines()]
    assert ended.lines[0].startswith("HYBRID_TRANSFORMER_FWD_IN_BCKWD: 3 layers, model npus 4, checkpoints [0]")
    assert ["mlp", "1.500", "us", "700", "ns", "900", "ns", "10", "ns"] in rows
    assert ["all", "3.234", "us", "1.400", "us", "2.700", "us"] in rows
    assert ["mlp", "forward", "all-reduce", "8", "KiB"] in rows
    assert ["all", "all-to-all", "8", "KiB"] in rows
    told = json.loads(pyxsim("workload", "show", "model.txt", "--json").out)
    assert told["compute_ns"] == {"forward": 3234, "input_gradient": 1400, "weight_gradient": 2700}
    assert told["bytes"] == {
        "all-gather": 4096,
        "reduce-scatter": 8192,
        "all-reduce": 65536 * 2 + 8192 + (1 << 20),
        "all-to-all": 8192,
    }
    assert (told["model_npus"], told["checkpoints"], told["restarts"]) == (4, [0], [2])
    assert told["layers"][1]["forward"] == {"compute_ns": 1500, "collective": "all-reduce", "bytes": 8192}


def test_check(pyxsim: Command, text: Path) -> None:
    assert pyxsim("workload", "check", "model.txt").lines[0].startswith("3 layers: no faults; with --shape")
    told = json.loads(pyxsim("workload", "check", "model.txt", "--shape", "2x4", "--json").out)
    assert (told["layers"], told["npus"]) == (3, 8)
    ended = pyxsim("workload", "check", "model.txt", "--shape", "3,3")
    assert ended.code == 2
    assert "4 NPUs does not fit a network of 3 x 3" in ended.lines[0]
    (text / "model.txt").write_text(TEXT.replace("ALLTOALL", "ALLTOAL"))
    assert "model.txt:5: unknown communication 'ALLTOAL'" in pyxsim("workload", "check", "model.txt").lines[0]


@pytest.mark.parametrize("shape", ["4,2", "2,4", "8"], ids=["whole dimensions", "over two", "within one"])
def test_traces_of_a_loop_run_to_the_same_end(pyxsim: Command, text: Path, shape: str) -> None:
    (text / "net.toml").write_text(NETWORK.format(shape=f"[{shape}]"))
    scales = ("--passes", "2", "--comm-scale", "0.3", "--compute-scale", "1.5")
    ended = pyxsim("workload", "convert", "model.txt", "loop", "--network", "net.toml", *scales)
    assert (ended.code, ended.lines[0].startswith("wrote 8 traces, ")) == (0, True)
    ends = []
    for workload in (
        'file = "model.txt"\npasses = 2\ncomm_scale = 0.3\ncompute_scale = 1.5\n',
        'file = "loop"\n',
    ):
        (text / "run.toml").write_text(f"{NETWORK.format(shape=f'[{shape}]')}[workload]\n{workload}")
        told = json.loads(pyxsim("run", "run.toml", "--backend", "analytical", "--json").out)
        ends.append(told["time_ns"])
    assert ends[0] == ends[1] > 0


def test_networks(pyxsim: Command, text: Path) -> None:
    """The same by its shape, its number of NPUs, and files of ours and of ASTRA-sim."""
    (text / "net.toml").write_text(NETWORK.format(shape="[4]"))
    (text / "net.yml").write_text("topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n")
    ways = (("--shape", "4"), ("--npus", "4"), ("--network", "net.toml"), ("--network", "net.yml"))
    for turn, way in enumerate(ways):
        assert pyxsim("workload", "convert", "model.txt", f"w{turn}", *way).code == 0
    files = [[(text / f"w{turn}.{npu}.et").read_bytes() for npu in range(4)] for turn in range(len(ways))]
    assert all(each == files[0] for each in files)


def test_policies(pyxsim: Command, text: Path) -> None:
    """The newest goes first, or the oldest, for each collective for which the loop leaves it open."""
    for policy in ("LIFO", "FIFO"):
        (text / "model.txt").write_text("DATA\n2\na -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 64 5\n" + TEXT.splitlines()[2])
        target = f"{policy}.*.jsonl"
        assert pyxsim("workload", "convert", "model.txt", target, "--npus", "2", "--scheduling", policy).code == 0
    found = [(text / f"{policy}.0.jsonl").read_text() for policy in ("LIFO", "FIFO")]
    assert [each.count('"comm_priority","int32Val":1}') for each in found] == [1, 0]
    assert [each.count('"comm_priority","int32Val":-1}') for each in found] == [0, 1]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("convert", "model.txt", "x"),
            "a training loop requires a network; allowed: one of --shape, --npus, --network",
        ),
        (("convert", "model.txt", "x", "--npus", "8", "--shape", "8"), "--npus: --shape and --npus are given"),
        (
            ("convert", "model.txt", "x", "--npus", "0"),
            "--npus: 0 is out of range; allowed: a whole number from 1",
        ),
        (
            ("convert", "model.txt", "x", "--npus", "1048577"),
            "--npus: 1048577 is out of range; allowed: ",
        ),
        (("convert", "model.txt", "x", "--shape", "a"), "--shape: 'a' is not a shape"),
        (("convert", "model.txt", "x", "--network", "no.toml"), "no.toml: no such file"),
        (("convert", "model.txt", "x.et", "--npus", "8"), "x.et: is one file, but each NPU requires a trace"),
        (("convert", "model.txt", "x", "--npus", "8", "--passes", "0"), "--passes: 0 is too small"),
        (("convert", "model.txt", "x", "--npus", "8", "--comm-scale", "0"), "--comm-scale: '0' is not a scale"),
        (("convert", "model.txt", "x", "--npus", "8", "--scheduling", "LIVO"), "--scheduling: unknown policy 'LIVO'"),
        (("show", "model.txt", "--plot", "x.png"), "model.txt: --plot: is a workload text, whose graph depends on the"),
        (("show", "model.txt", "--rank", "1"), "--rank: has no effect without --plot"),
        (("check", "model.txt", "--groups", "g.json"), "model.txt: --groups: is a workload text, which has no groups"),
    ],
)
def test_what_cannot_be(pyxsim: Command, text: Path, words: tuple[str, ...], told: str) -> None:
    ended = pyxsim("workload", *words)
    assert ended.code == 2
    assert ended.lines[0].startswith(f"pyxsim: {told}")
    assert not list(text.glob("x*"))
