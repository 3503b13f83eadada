"""`pyxsim workload generate`: what it writes runs to the same end as the model itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.inputs import Command

TINY = """
kind = "transformer"
help = "A transformer that is quickly trained."
source = "None: it is for a test."
layers = 4
hidden = 64
heads = 4
ffn = 128
vocabulary = 96
tied = true
sequence = 32
"""
EXPERTS = "experts = 4\ntop_k = 2\n"
NETWORK = """
[network]
topology = "torus"
shape = [4, 4]
bandwidth = "10 GB/s"
latency = "20 ns"
{system}
[system.npu]
device = "a100-80gb"
"""
OF_A_MODEL = """
[workload]
model = "tiny.toml"
batch = 16
micro_batch = 1
{keys}
[workload.parallelism]
{own}
"""


def write(folder: Path, keys: str, own: str, model: str = TINY) -> None:
    (folder / "tiny.toml").write_text(model)
    (folder / "model.toml").write_text(NETWORK.format(system="") + OF_A_MODEL.format(keys=keys, own=own))


@pytest.mark.parametrize(
    ("keys", "own", "model"),
    [
        ("", "tensor = 2\npipeline = 2\nzero = 1", TINY),
        ('recompute = "full"\npasses = 2', 'tensor = 4\nsequence = true\norder = ["data", "tensor", "pipeline"]', TINY),
        ("comm_scale = 0.3", "pipeline = 2\nexpert = 4\nzero = 3", TINY + EXPERTS),
        ("compute_scale = 2.5", 'pipeline = 2\nschedule = "interleaved"', TINY),
    ],
)
def test_traces_run_to_the_same_end(pyxsim: Command, folder: Path, keys: str, own: str, model: str) -> None:
    write(folder, keys, own, model)
    (folder / "traces").mkdir()
    told = json.loads(pyxsim("workload", "generate", "model.toml", "-o", "traces/step.*.et", "--json").out)
    assert told["file"] == "traces/step.*.et"
    groups = f'groups = "{told["groups"]}"\n' if told["groups"] else ""
    traces = NETWORK.format(system="").partition("[system.npu]")[0] + f'[workload]\nfile = "traces/step"\n{groups}'
    (folder / "traces.toml").write_text(traces)
    direct = json.loads(pyxsim("run", "model.toml", "--backend", "analytical", "--json").out)
    again = json.loads(pyxsim("run", "traces.toml", "--backend", "analytical", "--json").out)
    assert direct["complete"]
    assert again["time_ns"] == direct["time_ns"] > 0
    assert sum(told["tasks"].values()) > 16


MEMORY = """[system.remote_memory]
kind = "hierarchical"
latency = "300 ns"
bandwidth = "20 GB/s"
groups = 4
switches = 2
memory_link = "10 GB/s"
node_link = "25 GB/s"
npu_link = "15 GB/s"
npus_per_node = 4
chunk = "1 KiB"
in_switch = {in_switch}
"""


@pytest.mark.parametrize(
    ("offload", "own", "in_switch", "kinds"),
    [
        ("optimizer", "tensor = 2\npipeline = 2", "false", {"load", "store"}),
        ("optimizer", "zero = 1", "true", {"load", "store", "gather", "reduce"}),
        ("parameters", "pipeline = 2\nzero = 3", "false", {"load", "store"}),
        ("parameters", "zero = 3", "true", {"load", "store", "gather", "reduce"}),
    ],
)
def test_what_is_offloaded_stays_so(
    pyxsim: Command, folder: Path, offload: str, own: str, in_switch: str, kinds: set[str]
) -> None:
    """Traces access remote memory as the model itself does, and what is told of it is what is accessed."""
    write(folder, f'offload = "{offload}"', own)
    system = MEMORY.format(in_switch=in_switch)
    text = (folder / "model.toml").read_text().replace("[system.npu]", f"{system}[system.npu]")
    (folder / "model.toml").write_text(text)
    ended = pyxsim("workload", "generate", "model.toml")
    assert ended.code == 0
    assert "remote memory" in ended.err
    (folder / "traces").mkdir()
    told = json.loads(pyxsim("workload", "generate", "model.toml", "-o", "traces/step.*.et", "--json").out)
    assert set(told["remote_memory"]) == kinds
    assert all(stage["remote"] > 0 for stage in told["stages"])
    groups = f'groups = "{told["groups"]}"\n' if told["groups"] else ""
    network = NETWORK.format(system=system).partition("[system.npu]")[0]
    (folder / "traces.toml").write_text(network + f'[workload]\nfile = "traces/step"\n{groups}')
    direct, again = (
        json.loads(pyxsim("run", name, "--backend", "analytical", "--json").out)
        for name in ("model.toml", "traces.toml")
    )
    assert again["time_ns"] == direct["time_ns"] > 0
    assert again["memory"] == direct["memory"]
    bytes_of = {kind: each["bytes"] for kind, each in told["remote_memory"].items()}
    assert direct["memory"]["loaded"] == bytes_of["load"] + bytes_of.get("gather", 0)
    assert direct["memory"]["stored"] == bytes_of["store"] + bytes_of.get("reduce", 0)


def test_what_is_told(pyxsim: Command, folder: Path) -> None:
    write(folder, "", "tensor = 2\npipeline = 2")
    ended = pyxsim("workload", "generate", "model.toml")
    assert (ended.code, ended.out) == (0, "")
    assert "16 NPUs: tensor 2 x data 4 x pipeline 2; each replica runs 4 micro-batches of 1 sample" in ended.err
    told = json.loads(pyxsim("workload", "generate", "model.toml", "--json").out)
    assert (told["file"], told["npus"], told["micro_batches"]) == (None, 16, 4)
    assert [stage["held"] for stage in told["stages"]] == [2, 1]
    assert set(told["communication"]) == {"all-reduce", "message"}
    assert not list(folder.glob("*.et"))


def test_a_text(pyxsim: Command, folder: Path) -> None:
    words = ("--model", "dlrm", "--device", "a100-80gb", "--shape", "4,2", "--set", "workload.batch=64")
    assert pyxsim("workload", "generate", *words, "-o", "dlrm.txt").code == 0
    assert (folder / "dlrm.txt").read_text().startswith("HYBRID_DLRM ")
    shown = pyxsim("workload", "show", "dlrm.txt")
    assert shown.code == 0
    (folder / "text.toml").write_text(
        NETWORK.format(system="").partition("[system.npu]")[0] + '[workload]\nfile = "dlrm.txt"'
    )
    assert json.loads(pyxsim("run", "text.toml", "--backend", "analytical", "--json").out)["complete"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["small.toml"], "small.toml: workload.model: has no [workload] model"),
        ([], "--model: is required without an experiment file"),
        (["--model", "dlrm"], "--device: is required"),
        (["--model", "dlrm", "--device", "a100-80gb"], "--shape: is required"),
        (["model.toml", "--model", "dlrm"], "--model: cannot be combined with an experiment file"),
        (["--model", "dlrn", "--device", "a100-80gb", "--shape", "4"], "workload.model: unknown model 'dlrn'"),
        (["--model", "dlrm", "--device", "a100", "--shape", "4"], "system.npu.device: "),
        (
            ["model.toml", "-o", "step.txt"],
            "workload.parallelism.pipeline: a workload text of ASTRA-sim 1 cannot express it",
        ),
        (["model.toml", "-o", "step.et"], "step.et: "),
        (["model.toml", "-o", "steps/a.*.et"], "steps/a.*.et: cannot be written: there is no folder 'steps'"),
        (["model.toml", "-o", "steps/a.txt"], "steps/a.txt: cannot be written: there is no folder 'steps'"),
        (["model.toml", "--set", "workload.parallelism.tensor=3"], "workload.parallelism.tensor: tensor 3"),
        (["model.toml", "--set", "workload.parallelism.tensr=3"], "workload.parallelism.tensr: unknown key"),
    ],
)
def test_what_is_refused(pyxsim: Command, folder: Path, words: list[str], told: str) -> None:
    write(folder, "", "pipeline = 2")
    ended = pyxsim("workload", "generate", *words)
    assert ended.code == 2
    assert told in ended.lines[0]
    assert "Traceback" not in ended.err
    assert not list(folder.glob("step*"))
