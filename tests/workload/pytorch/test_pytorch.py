"""Traces of the PyTorch profiler: recorded ones, and small ones whose times are worked out by hand."""

from __future__ import annotations

import copy
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pyxsim
from pyxsim.errors import InputError, InputErrors
from pyxsim.workload.graph import Kind, TaskGraph, check
from pyxsim.workload.pytorch import graph_of
from pyxsim.workload.pytorch.recipe import RECIPE
from tests.examples import part_of

SAMPLES = Path(__file__).parents[3] / "inputs" / "pytorch"
SAMPLE = str(SAMPLES / "step.*.kineto.json.gz")
US = 1000  # ns


def event(name: str, kind: str, start: float, took: float, thread: int = 1, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": kind, "name": name, "pid": 1, "tid": thread, "ts": start, "dur": took, "args": args}


def kernel(name: str, start: float, took: float, launch: int, stream: int = 7, **args: Any) -> dict[str, Any]:
    return event(name, "kernel", start, took, 99, device=0, stream=stream, correlation=launch, **args)


def nccl(word: str, elements: int, **args: Any) -> dict[str, Any]:
    return {"Collective name": word, "In msg nelems": elements, "Out msg nelems": elements, "dtype": "Float", **args}


def write(folder: Path, *ranks: list[dict[str, Any]]) -> str:
    for rank, events in enumerate(ranks):
        head = {"rank": rank, "world_size": len(ranks)}
        text = json.dumps({"distributedInfo": head, "traceEvents": events})
        (folder / f"t.{rank}.kineto.json").write_text(text)
    return str(folder / "t.*.kineto.json")


def simulated(name: str, npus: int, backend: str = "analytical") -> pyxsim.Result:
    """At 1 GHz: cycles are ns. Links of 1 GB/s carry a byte per ns."""
    network = {"topology": "ring", "shape": [npus], "bandwidth": "1 GB/s", "latency": "100 ns", "clock": "1 GHz"}
    return pyxsim.run({"network": network, "workload": {"file": name}}, backend=backend)


def tasks(graph: TaskGraph, npu: int) -> list[tuple[Kind, str, int]]:
    rows = zip(graph.npu.tolist(), graph.kind.tolist(), graph.name.tolist(), graph.ticks.tolist(), strict=True)
    return [(Kind(kind), graph.names[name], ticks) for own, kind, name, ticks in rows if own == npu]


def test_the_sample() -> None:
    """A model of two layers, 256 x 1024 and back, in two buckets: bytes are those of its parameters."""
    graph = graph_of(SAMPLE, 2)
    check(graph)
    assert sorted(call.size for call in graph.calls) == [4 * (1024 * 256 + 256), 4 * (256 * 1024 + 1024)]
    assert {(call.kind, call.members) for call in graph.calls} == {("all-reduce", (0, 1))}
    # Threads are covered from their first operator to their last one by tasks, but for what they wait for.
    for rank in range(2):
        events = json.loads(gzip.decompress((SAMPLES / f"step.{rank}.kineto.json.gz").read_bytes()))["traceEvents"]
        own = [each for each in events if each.get("cat") == "cpu_op"]
        measured = max(each["ts"] + each["dur"] for each in own) - min(each["ts"] for each in own)
        known = sum(ticks for _, _, ticks in tasks(graph, rank)) / US
        assert 0.7 * measured < known < measured
    result = pyxsim.run(SAMPLES / "step.toml", backend="analytical")
    assert 21.0e6 < result.time_ns < 23.5e6  # docs/collect.md: 23.1 and 23.5 ms were measured
    assert result.complete


def test_kernels_follow_their_launches(tmp_path: Path) -> None:
    """The host launches three kernels and waits. Kernel c has waited for b, on another stream."""
    name = write(
        tmp_path,
        [
            event("aten::mm", "cpu_op", 0, 10),
            event("cudaLaunchKernel", "cuda_runtime", 2, 4, correlation=1),
            event("aten::mm", "cpu_op", 10, 10),
            event("cudaLaunchKernel", "cuda_runtime", 12, 4, correlation=2),
            event("aten::add", "cpu_op", 25, 5),
            event("cudaLaunchKernel", "cuda_runtime", 26, 2, correlation=3),
            event("cudaDeviceSynchronize", "cuda_runtime", 40, 72),
            kernel("a", 8, 40, 1),
            kernel("b", 48, 30, 2),
            kernel("c", 80, 30, 3, stream=9),
        ],
    )
    graph = graph_of(name, 1)
    # Pieces of the host: 6 us to the launch, 4 and 6, 4, then a pause of 5, 3, 2, a pause of 10, and 2 after c.
    assert simulated(name, 1).time_ns == 112 * US
    found = tasks(graph, 0)
    assert (Kind.COMPUTE, "aten::mm", 6 * US) in found
    assert (Kind.MARK, "wait in cudaDeviceSynchronize", 2 * US) in found
    assert (Kind.COMPUTE, "c", 30 * US) in found
    # With kernels of twice the time, the host is still where it was: a ends at 2 * 6 + 2 + 80, b 60 later, c 62.
    network = {"topology": "ring", "shape": [1], "clock": "1 GHz"}
    slow = pyxsim.run({"network": network, "workload": {"file": name, "compute_scale": 2}}, backend="analytical")
    assert slow.time_ns == (12 + 2 + 80 + 60 + 2 + 60 + 2) * US


@pytest.mark.parametrize("backend", ["analytical", "packet"])
def test_collectives_of_nccl(backend: str, tmp_path: Path) -> None:
    """Rank 1 is later by 30 us; the all-reduce of 4 kB takes 2 (2 kB / 1 GB/s + 100 ns) on a ring of two."""
    word = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)"

    def rank(late: float) -> list[dict[str, Any]]:
        return [
            event("aten::mm", "cpu_op", 0, 10 + late),
            event("cudaLaunchKernel", "cuda_runtime", 8 + late, 2, correlation=1),
            kernel(word, 10 + late, 90 - late, 1, **nccl("allreduce", 1000, **{"Process Group Ranks": "[0, 1]"})),
            event("cudaStreamSynchronize", "cuda_runtime", 10 + late, 90 - late),
        ]

    result = simulated(write(tmp_path, rank(0), rank(30)), 2, backend)
    expected = (40 + 2 * (2 + 0.1)) * US
    assert expected <= result.time_ns < expected + (1.5 * US if backend == "packet" else 1)


def test_messages_of_nccl(tmp_path: Path) -> None:
    sends = kernel("ncclDevKernel_SendRecv", 5, 20, 1, **nccl("send", 1000, **{"Dst Rank": 1}))
    receives = kernel("ncclDevKernel_SendRecv", 0, 25, 1, **nccl("recv", 1000, **{"Src Rank": 0}))
    launch = event("cudaLaunchKernel", "cuda_runtime", 0, 5, correlation=1)
    name = write(tmp_path, [launch, sends], [launch, receives, kernel("after", 25, 3, 2)])
    assert simulated(name, 2).time_ns == 5 * US + 4 * US + 100 + 3 * US


def test_messages_of_gloo(tmp_path: Path) -> None:
    """Its operators tell the peer and the tag; the host of the receiver waits for it in the operator after them."""

    def half(word: str, peer: int) -> list[dict[str, Any]]:
        dims = {"Input Dims": [[250]], "Input type": ["float"]}
        call = {"Input Dims": [[[250]]], "Concrete Inputs": ["", "", str(peer), "3"], "Record function id": 5}
        return [
            event(f"c10d::{word}", "cpu_op", 0, 10, **call),
            event(f"gloo:{word.strip('_')}", "user_annotation", 10, 50, 2, **{"Record function id": 6}, **dims),
            event("aten::add", "cpu_op", 70, 5),
        ]

    name = write(tmp_path, half("send", 1), half("recv_", 0))
    graph = graph_of(name, 2)
    assert [kind for kind, _, _ in tasks(graph, 0)].count(Kind.SEND) == 1
    assert graph.match[graph.kind == Kind.RECEIVE].tolist() == [3]
    assert simulated(name, 2).time_ns == (10 + 1 + 0.1 + 10 + 5) * US


def broken(change: Callable[[dict[str, Any]], Any], folder: Path) -> str:
    """Two equal traces with an all-reduce, one of them changed."""
    sizes = nccl("allreduce", 10)
    events = [event("aten::mm", "cpu_op", 0, 1), kernel("ncclDevKernel_AllReduce", 1, 2, 1, **sizes)]
    name = write(folder, events, events)
    file = folder / "t.1.kineto.json"
    root = json.loads(file.read_text())
    changed = change(root)
    file.write_text(json.dumps(root if changed is None else changed))
    return name


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda root: [], "has no list traceEvents"),
        (lambda root: root["distributedInfo"].update(rank=5), "is of rank 5 of 2"),
        (lambda root: root["distributedInfo"].update(rank=0), "is of rank 0; allowed: 1, as in its name"),
        (lambda root: root["distributedInfo"].update(world_size=3), "is of 3 ranks, but"),
        (lambda root: root["traceEvents"].clear(), "has no operator"),
        (lambda root: root["traceEvents"][0].update(ts="x"), "traceEvents[0].ts: is 'x'"),
        (lambda root: root["traceEvents"][1].update(dur=-1), "traceEvents[1].dur: is -1"),
        (lambda root: root["traceEvents"].pop() and None, "rank 0 has 1 calls of all-reduce in a group of 2, rank 1 0"),
        (lambda root: root["traceEvents"][1]["args"].update({"In msg nelems": 11}), "has 44 bytes, but rank 0 40"),
        (
            lambda root: root["traceEvents"][1]["args"].update({"Collective name": "send", "Dst Rank": 7}),
            "has the peer 7; allowed: another rank of 2",
        ),
    ],
)
def test_faults(change: Callable[[dict[str, Any]], Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        graph_of(broken(change, tmp_path), 2)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_ranks(tmp_path: Path) -> None:
    name = write(tmp_path, *[[event("aten::mm", "cpu_op", 0, 1)]] * 4)
    (tmp_path / "t.2.kineto.json").unlink()
    with pytest.raises(InputError, match="has no trace of rank 2; allowed: a trace of each of the 4 ranks"):
        graph_of(name, 4)
    with pytest.raises(InputError, match="has 4 ranks; allowed: up to 3"):
        graph_of(write(tmp_path, *[[event("aten::mm", "cpu_op", 0, 1)]] * 4), 3)


VALUES = st.sampled_from([None, -1, 0, 2**63, 1e308, float("nan"), "", "x", [], {}, [[[]]], True, "[0, 9]", "kernel"])


@settings(max_examples=part_of(200), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_mutations(tmp_path: Path, data: st.DataObject) -> None:
    """A damaged trace is read, or refused in one line."""
    raw = gzip.decompress((SAMPLES / "step.1.kineto.json.gz").read_bytes())
    if data.draw(st.booleans()):
        root = json.loads(raw)
        for _ in range(data.draw(st.integers(1, 5))):
            place: Any = root
            while isinstance(place, list | dict) and place:
                key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
                if not isinstance(place[key], list | dict) or not place[key] or data.draw(st.integers(0, 3)) == 0:
                    if data.draw(st.booleans()):
                        place[key] = copy.deepcopy(data.draw(VALUES))
                    else:
                        del place[key]
                    break
                place = place[key]
        raw = json.dumps(root).encode()
    else:
        cut = data.draw(st.integers(0, len(raw)))
        raw = raw[:cut] + data.draw(st.binary(max_size=8)) + raw[cut + data.draw(st.integers(0, 20)) :]
    (tmp_path / "t.0.kineto.json.gz").write_bytes((SAMPLES / "step.0.kineto.json.gz").read_bytes())
    (tmp_path / "t.1.kineto.json.gz").write_bytes(gzip.compress(raw) if data.draw(st.booleans()) else raw)
    told = refused(lambda: check(graph_of(str(tmp_path / "t.*.kineto.json.gz"), 2)))
    assert all("\n" not in line for line in told)


def refused(call: Callable[[], None]) -> list[str]:
    """Return the faults of a call that may raise no other error."""
    try:
        call()
    except InputErrors as errors:
        return [str(error) for error in errors.errors]
    except InputError as error:
        return [str(error)]
    return []


STEP = """
import os, torch
torch.set_num_threads(1)
{recipe}
dist.init_process_group("gloo")
layers = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64))
model = torch.nn.parallel.DistributedDataParallel(layers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.randn(16, 64)

def step():
    optimizer.zero_grad()
    model(data).square().mean().backward()
    optimizer.step()

record(step)
dist.destroy_process_group()
"""


def test_a_step_of_this_machine(tmp_path: Path) -> None:
    """The recipe records a step of two processes, and the step is simulated."""
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(STEP.format(recipe=RECIPE))
    world = {
        **os.environ,
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(20000 + os.getpid() % 20000),
    }
    command = [sys.executable, "train.py"]
    both = [subprocess.Popen(command, cwd=tmp_path, env={**world, "RANK": str(rank)}) for rank in range(2)]
    assert [process.wait(120) for process in both] == [0, 0]
    name = str(tmp_path / "step.*.kineto.json")
    assert [call.size for call in graph_of(name, 2).calls] == [4 * (2 * 64 * 128 + 64 + 128)]
    result = simulated(name, 2)
    assert result.complete
    assert result.work is not None
