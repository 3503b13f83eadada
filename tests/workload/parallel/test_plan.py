"""What does not come out even is refused, with the key that says it; and what the rest is resolved to."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from pyxsim.errors import InputError
from pyxsim.models import Kind
from pyxsim.settings import Workload
from pyxsim.settings.load import load_experiment
from pyxsim.settings.npu import Npu
from pyxsim.workload.parallel import training_graph, training_plan
from tests.workload.parallel.drawn import equal_blocks, planned, transformer

P = "workload.parallelism"


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"parallelism": {"tensor": 3}}, f"{P}.tensor: tensor 3 x pipeline 1 does not equal the 8 NPUs"),
        ({"parallelism": {"pipeline": 16}}, f"{P}.pipeline: tensor 1 x pipeline 16 does not equal the 8 NPUs"),
        ({"parallelism": {"data": 4}}, f"{P}.data: tensor 1 x pipeline 1 x data 4 does not equal the 8 NPUs"),
        ({"parallelism": {"pipeline": 8}}, f"{P}.pipeline: 8 stages, but transformer has 4 blocks of layers"),
        (
            {"parallelism": {"pipeline": 4, "schedule": "interleaved"}},
            f"{P}.chunks: 8 stages, but transformer has 4 blocks of layers",
        ),
        ({"parallelism": {"expert": 3}}, f"{P}.expert: 3 does not divide the 8 replicas"),
        ({"parallelism": {"expert": 4}}, f"{P}.expert: transformer has no experts"),
        ({"parallelism": {"tensor": 8, "sequence": True}}, f"{P}.sequence: 4 tokens cannot be divided among 8"),
        ({"batch": 12}, "workload.batch: 12 samples cannot be divided among 8 replicas"),
        ({"micro_batch": 3}, "workload.micro_batch: 3 is not a divisor of the replica's 2 samples"),
        (
            {"batch": 12, "parallelism": {"pipeline": 2, "schedule": "interleaved"}},
            "workload.batch: 3 micro-batches on 2 stages",
        ),
    ],
)
def test_what_is_refused(keys: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError) as caught:
        planned(transformer(2), (4, 2), **{"batch": 16, **keys})
    assert str(caught.value).splitlines()[0].startswith(told)
    assert "allowed" in str(caught.value)


def test_more_tasks_than_memories_hold() -> None:
    with pytest.raises(
        InputError, match=r"workload\.batch: 131072 micro-batches of 202 layers are more than 211812352"
    ):
        planned(transformer(100), (4, 2), batch=2**20, micro_batch=1)


@pytest.mark.parametrize(
    ("model", "keys", "key"),
    [
        ("dlrm", {"parallelism": {"tensor": 2}}, f"{P}.tensor"),
        ("dlrm", {"parallelism": {"pipeline": 2}}, f"{P}.pipeline"),
        ("dlrm", {"recompute": "full"}, "workload.recompute"),
        ("dlrm", {"sequence": 7}, "workload.sequence"),
        ("resnet50", {"parallelism": {"tensor": 2, "sequence": True}}, f"{P}.sequence"),
        ("gpt3-175b", {"sequence": 4096}, "workload.sequence"),
        ("mixtral-8x7b", {"parallelism": {"expert": 16}, "batch": 16}, f"{P}.expert"),
        ("llama3-70b", {"parallelism": {"tensor": 48}}, f"{P}.tensor"),
        ("gpt3", {}, "workload.model"),
        ("none.csv", {}, "workload.model"),
    ],
)
def test_what_a_shipped_model_refuses(model: str, keys: dict[str, Any], key: str) -> None:
    shape = (48,) if "llama" in model else (16,)
    workload = Workload.model_validate({"model": model, "batch": 480, **keys})
    with pytest.raises(InputError) as caught:
        training_plan(workload, Npu.model_validate({"device": "a100-80gb"}), shape, Fraction(10**9))
    assert key in {line.split(": ")[0] for line in str(caught.value).splitlines()}


def test_an_npu_is_needed() -> None:
    workload = Workload.model_validate({"model": "resnet50", "batch": 16})
    with pytest.raises(InputError, match=r"system\.npu: the speed of the NPUs is missing"):
        training_graph(workload, None, (4,), Fraction(10**9))


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"order": ["tensor", "data"]}, "order: invalid order tensor, data"),
        ({"order": ["tensor", "data", "pipelines"]}, "order[2]"),
        ({"data": 6, "expert": 4}, "expert: 4 does not divide the 6 replicas"),
        ({"data": 1, "zero": 1}, "zero: has no effect with a single replica"),
        ({"sequence": True}, "sequence: has no effect without tensor parallelism"),
        ({"schedule": "interleaved"}, "schedule: requires a pipeline"),
        ({"pipeline": 2, "chunks": 2}, "chunks: 1f1b runs one stage per NPU"),
        ({"zero": 4}, "zero: 4 is too large"),
        ({"tensors": 4}, "tensors: unknown key"),
    ],
)
def test_what_the_settings_refuse(table: dict[str, Any], told: str) -> None:
    network = {"topology": "ring", "shape": [4]}
    with pytest.raises(InputError) as caught:
        load_experiment({"network": network, "workload": {"model": "resnet50", "parallelism": table}})
    assert f"{P}.{told}" in str(caught.value)


def test_what_is_trained_belongs_to_a_model() -> None:
    with pytest.raises(InputError, match=r"workload\.batch: requires a model"):
        load_experiment({"network": {"topology": "ring", "shape": [4]}, "workload": {"file": "a.txt", "batch": 3}})


def test_what_is_left_out() -> None:
    """Replicas are what remains; a replica takes its part of the batch at once, in a pipeline one sample at a time."""
    plan = planned(transformer(2), (4, 2), batch=16, parallelism={"tensor": 2})
    assert (plan.grid.data, plan.samples, plan.micro_batches) == (4, 4, 1)
    plan = planned(transformer(2), (4, 2), batch=16, parallelism={"pipeline": 2})
    assert (plan.grid.data, plan.samples, plan.micro_batches) == (4, 1, 4)
    assert planned(transformer(2), (4, 2)).samples == 1  # a batch of one for each replica


def test_stages_have_about_the_same_work() -> None:
    """An embedding takes no time here: the first stage has it besides."""
    plan = planned(equal_blocks(8), (4,), batch=4, parallelism={"pipeline": 4})
    assert [[layer.name for block in stage for layer in block] for stage in plan.blocks] == [
        ["embedding", "block 0", "block 1"],
        ["block 2", "block 3"],
        ["block 4", "block 5"],
        ["block 6", "block 7"],
    ]


def test_chunks_go_round() -> None:
    own = {"pipeline": 2, "schedule": "interleaved", "chunks": 3}
    plan = planned(equal_blocks(6), (2,), batch=2, parallelism=own)
    assert [layer.name for layer in plan.layers(1)] == ["block 1", "block 3", "block 5"]
    assert plan.layers(0)[0].kind == Kind.EMBEDDING
