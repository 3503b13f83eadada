"""What a training step amounts to, against what papers and closed forms say."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from pyxsim.models import load_model
from pyxsim.settings import Workload
from pyxsim.workload.parallel.plan import make_plan
from pyxsim.workload.parallel.statistics import stages, traffic
from tests.workload.parallel.drawn import GHZ, Rows, built, equal_blocks, planned, transformer


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
def test_activations_of_a_pipeline(schedule: str) -> None:
    """1F1B holds those of p - s micro-batches in stage s, GPipe all; each block keeps 5 bytes for two of an element."""
    own = {"pipeline": 4, "schedule": schedule}
    rows = stages(planned(equal_blocks(8), (4,), batch=6, element="2 B", parallelism=own))
    held = [4, 3, 2, 1] if schedule == "1f1b" else [6] * 4
    assert [row.held for row in rows] == held
    assert [row.activations for row in rows] == [10 * each for each in held]
    short = stages(planned(equal_blocks(8), (4,), batch=2, parallelism=own))
    assert [row.held for row in short] == ([2, 2, 2, 1] if schedule == "1f1b" else [2] * 4)


def test_recomputing_keeps_inputs() -> None:
    """Those of each block, 10 elements (the embedding's, 1, in the first), and one block that is computed again."""
    rows = stages(planned(equal_blocks(4), (2,), batch=3, recompute="full", parallelism={"pipeline": 2}))
    assert [row.activations for row in rows] == [2 * (1 + 10) + 5 // 2, 20 + 5 // 2]


@pytest.mark.parametrize(
    ("zero", "per_parameter"),
    [(0, 16), (1, 4 + Fraction(12, 64)), (2, 2 + Fraction(14, 64)), (3, Fraction(16, 64))],
)
def test_memory_of_zero(zero: int, per_parameter: Fraction) -> None:
    """Rajbhandari et al. 2020, figure 1: a model of 7.5 billion on 64 NPUs has 120, 31.4, 16.6 and 1.9 GB."""
    told = {0: 120.0, 1: 31.4, 2: 16.6, 3: 1.9}[zero]
    assert float(per_parameter * Fraction(75, 10)) == pytest.approx(told, abs=0.05)
    plan = planned(equal_blocks(64), (64,), element="2 B", batch=64, parallelism={"zero": zero})
    (row,) = stages(plan)
    assert row.memory - row.activations - row.buffers == plan.model.parameters * per_parameter


def test_operations_of_gpt() -> None:
    """Narayanan et al. 2021, section 5.1: 96 B s l h^2 (1 + s/6h + V/16lh) with recomputing, for a step of B sequences.

    Theirs counts the embedding's product once forward and twice backward, and recomputes blocks only, as here.
    """
    model = load_model("gpt3-175b")
    own: dict[str, Any] = {"tensor": 8, "pipeline": 16}
    workload = Workload.model_validate({"model": "x", "batch": 64, "recompute": "full", "parallelism": own})
    plan = make_plan(model, workload, Rows(), (8, 128), GHZ)
    total = sum(row.operations * row.npus for row in stages(plan))
    batch, s, layers, h, v = 64, 2048, 96, 12288, 50257
    wanted = 96 * batch * s * layers * h**2 * (1 + Fraction(s, 6 * h) + Fraction(v, 16 * layers * h))
    assert total == pytest.approx(float(wanted), rel=1e-3)


@pytest.mark.parametrize("expert", [1, 4])
def test_activations_of_experts(expert: int) -> None:
    """With sequence parallelism NPUs keep their part of a layer's inputs, and all tokens that experts have gathered."""
    own = {"tensor": 4, "sequence": True, "expert": expert}
    workload = Workload.model_validate({"model": "x", "batch": 8, "parallelism": own})
    (row,) = stages(make_plan(load_model("mixtral-8x7b"), workload, Rows(), (32,), GHZ))
    tokens, hidden, ffn, keys = 4096, 4096, 14336, 1024
    attention = 4 * hidden + 2 * (2 * hidden + 2 * keys)
    router, inputs, inner = 4 * hidden, 2 * 2 * hidden, 2 * 2 * 3 * ffn
    ends = 4 * hidden + 4 * 32000
    block = Fraction(attention + router + inner + inputs, 4) + (Fraction(3 * inputs, 4) if expert > 1 else 0)
    assert row.activations == tokens * (32 * block + Fraction(ends, 4))


def test_parameters_are_all_there() -> None:
    """Of all stages and tensor-parallel NPUs together; norms are everywhere, so there are some more."""
    for experts in (0, 4):
        model = transformer(4, experts=experts)
        own = {"tensor": 2, "pipeline": 2, "data": 4, "expert": 4 if experts else 1}
        rows = stages(planned(model, (16,), batch=8, parallelism=own))
        whole = sum(layer.parameters.whole for layer in model.layers)
        total = sum(row.parameters for row in rows) * 2
        shared = 4 * sum(layer.expert_parameters for layer in model.layers) // 4
        lone = model.parameters + whole - (shared - shared // 4 if experts else 0)
        assert total == lone


def test_what_is_communicated() -> None:
    plan = planned(transformer(2), (4,), batch=6, parallelism={"tensor": 2, "pipeline": 2})
    rows = {each.kind: each for each in traffic(built(plan))}
    size = 4 * 8
    # Ten all-reduces of activations in each micro-batch, by two NPUs each; messages there and back, by two each.
    assert (rows["all-reduce"].tasks, rows["all-reduce"].bytes) == (6 * 10 * 2, 6 * 10 * 2 * size)
    assert (rows["message"].tasks, rows["message"].bytes) == (6 * 2 * 2, 6 * 2 * 2 * size)


def test_tables_have_no_optimizer() -> None:
    model = load_model("dlrm")
    workload = Workload.model_validate({"model": "x", "batch": 64})
    (row,) = stages(make_plan(model, workload, Rows(), (8,), GHZ))
    assert row.gradients < 2**24 < row.weights
