"""Training with unevenly used experts: equal to the plain step where tokens are even, slowest expert, bytes, drops."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import pyxsim
from pyxsim.errors import InputError
from pyxsim.models import Kind, Part
from pyxsim.models.expert_work import expert_work
from pyxsim.models.layer import Share
from pyxsim.settings import Experiment
from pyxsim.workload.graph import Kind as Task
from pyxsim.workload.parallel import program, training_plan
from pyxsim.workload.parallel.experts import UnevenExperts

MODEL = """
kind = "transformer"
help = "small"
source = "made up"
layers = 2
hidden = 64
heads = 4
ffn = 96
gated = true
experts = 8
top_k = 2
vocabulary = 256
fused_attention = true
sequence = 64
"""
TOML = """
[network]
topology = "switch"
shape = [{npus}]
bandwidth = "100 GB/s"
latency = "200 ns"
[system]
all_to_all = "direct"
[system.npu]
peak = "100 GFLOP/s"
memory_bandwidth = "100 GB/s"
memory = "1 GB"
[workload]
model = "small.toml"
batch = 16
micro_batch = 2
{more}
[workload.parallelism]
{parallelism}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "small.toml").write_text(MODEL)
    return tmp_path


def experiment(more: str = "", parallelism: str = "expert = 4", npus: int = 4) -> Experiment:
    return Experiment.from_toml(TOML.format(more=more, parallelism=parallelism, npus=npus))


def plan_of(folder: Path, one: Experiment):  # type: ignore[no-untyped-def]
    assert one.workload is not None
    return training_plan(one.workload, one.system.npu, one.network.shape or (4,), one.network.clock, folder)


@pytest.mark.parametrize("parallelism", ["expert = 4", "expert = 2", "expert = 1", "tensor = 2\nexpert = 2"])
def test_balanced_tokens_are_the_plain_step(folder: Path, parallelism: str) -> None:
    # 128 tokens of a micro-batch, 2 copies each, on 8 experts: 32 each.
    plain = pyxsim.run(experiment("", parallelism).placed(folder), backend="flow")
    even = pyxsim.run(experiment('[workload.experts]\nrouting = "W0"', parallelism).placed(folder), backend="flow")
    assert even.time_cycles == plain.time_cycles
    assert even.counts["bytes_delivered"] == plain.counts["bytes_delivered"]


def test_slowest_expert_and_bytes(folder: Path) -> None:
    plan = plan_of(folder, experiment('[workload.experts]\nrouting = "zipf"\nexponent = 2'))
    uneven = UnevenExperts(plan, plan.routing)
    layer = next(layer for layer in plan.model.layers if layer.kind == Kind.EXPERTS)
    counts = uneven.counts(layer, 0)
    assert counts.sum() == 4 * 128 * 2
    received = counts.sum(axis=0).reshape(4, 2)
    ticks, size = uneven.cost(layer, Part.FORWARD, 0)
    for npu, rows in enumerate(received.tolist()):
        # Up: rows x 192 x 64, down: rows x 64 x 96; a product takes its operations or its bytes. 10^11 of each per
        # second; 1 cycle is 1 ns. Moved: 3 hidden of 128 tokens, 4 hidden of 256 copies, inner + ffn of each row.
        seconds, nbytes = Fraction(0), 0
        for m in filter(None, rows):
            for n, k in ((192, 64), (64, 96)):
                moved = 2 * (m * k + k * n + m * n)
                seconds += max(Fraction(2 * m * n * k, 10**11), Fraction(moved, 10**11))
                nbytes += moved
        rest = 2 * (3 * 64 * 128 + 4 * 64 * 256 + sum(rows) * (192 + 96))
        seconds += Fraction(rest, 10**11)
        assert ticks[npu] == -(-seconds * plan.clock // 1)
        assert size[npu] == nbytes + rest
    (matrix,) = uneven.matrices(layer, 0, back=False)
    assert matrix.rows.tolist() == (counts.reshape(4, 4, 2).sum(axis=2) * 64 * 2).tolist()
    assert uneven.matrices(layer, 0, back=True)[0] == matrix.transposed


def test_even_rows_are_the_work_of_a_layer(folder: Path) -> None:
    plan = plan_of(folder, experiment())
    layer = next(layer for layer in plan.model.layers if layer.kind == Kind.EXPERTS)
    for share in (Share(), Share(2, 4), Share(1, 8)):
        for part in (Part.FORWARD, Part.INPUT_GRADIENT, Part.WEIGHT_GRADIENT):
            own = 8 // share.expert
            rows = [2 * 64 * 2 * share.expert // 8] * own
            assert expert_work(layer, part, rows, 2, share) == layer.work(part, 2, share)


def test_skew_takes_longer_and_the_bytes_stay(folder: Path) -> None:
    plain = pyxsim.run(experiment().placed(folder), backend="analytical-congestion")
    skewed = pyxsim.run(
        experiment('[workload.experts]\nrouting = "W5"').placed(folder), backend="analytical-congestion"
    )
    # Two of four NPUs get all tokens: their experts take about twice as long.
    assert skewed.time_cycles > 1.1 * plain.time_cycles
    compute = skewed.work.npus["compute"]
    assert compute[2:].min() > 1.2 * compute[:2].max()
    dropped = pyxsim.run(
        experiment('[workload.experts]\nrouting = "W5"\ncapacity_factor = 1').placed(folder),
        backend="analytical-congestion",
    )
    assert dropped.time_cycles < skewed.time_cycles
    assert dropped.counts["bytes_delivered"] < skewed.counts["bytes_delivered"]


def test_graph_conserves_tokens(folder: Path) -> None:
    plan = plan_of(folder, experiment('[workload.experts]\nrouting = "dirichlet"\nseed = 4', "expert = 2"))
    graph = program(plan)
    calls = [call for call in graph.calls if call.matrices is not None]
    # 2 layers, there and back, forward and backward, 2 micro-batches (16 samples on 4 NPUs, 2 at a time).
    assert len(calls) == 2 * 2 * 2 * 2
    for call in calls:
        assert call.matrices is not None
        assert call.groups == ((0, 1), (2, 3))
        assert sum(int(matrix.rows.sum()) for matrix in call.matrices) == 4 * 128 * 2 * 64 * 2
    assert np.count_nonzero(graph.kind == Task.COLLECTIVE) > 0


def test_refused(folder: Path) -> None:
    sequence = experiment('[workload.experts]\nrouting = "zipf"', "tensor = 2\nexpert = 2\nsequence = true")
    with pytest.raises(InputError, match=r"workload\.experts: tensor-parallel NPUs would gather"):
        plan_of(folder, sequence)
    (folder / "small.toml").write_text(MODEL.replace("experts = 8\ntop_k = 2", ""))
    with pytest.raises(InputError, match=r"workload\.experts: small has no experts"):
        plan_of(folder, experiment('[workload.experts]\nrouting = "zipf"', "data = 4"))
