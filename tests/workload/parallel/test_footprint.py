"""The memory of an NPU, against published figures and formulas."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from pyxsim.errors import InputError
from pyxsim.models import Elements, Kind, Layer, Model, load_model
from pyxsim.models.transformer import Transformer
from pyxsim.settings import Workload
from pyxsim.settings.npu import Npu
from pyxsim.workload.parallel import with_overhead
from pyxsim.workload.parallel.footprint import TERMS, footprint
from pyxsim.workload.parallel.plan import Plan, make_plan
from pyxsim.workload.parallel.statistics import stages
from tests.in_turn import in_turn
from tests.workload.parallel.drawn import GHZ, Rows

# Models of the sizes of Korthikanti et al. 2022 (arXiv 2205.05198): heads a, hidden h, layers L, pipeline p, chunks v,
# batch; t = 8, s = 2048. The paper's 5 a s / h is 80 for GPT-3 (175B) and 64 for MT-NLG (530B), as here.
MEGATRON = {
    "22B": (64, 6144, 48, 1, 1, 4),
    "175B": (96, 12288, 96, 8, 3, 64),
    "530B": (128, 20480, 105, 35, 3, 280),
    "1T": (160, 25600, 128, 64, 1, 512),
}
TENSOR, SEQUENCE = 8, 2048
# GB of model states per NPU of a model of 7.5, 128 and 1000 billion parameters P on n replicas, stages 1, 2 and 3:
# (4 + 12 / n) P, (2 + 14 / n) P and 16 P / n bytes (Rajbhandari et al. 2020, arXiv 1910.02054). Figure 1 of the paper
# has 31.4, 16.6 and 1.9 GB for 7.5 billion on 64.
ZERO = {
    4: ((52.5, 41.3, 30), (896, 704, 512), (7000, 5500, 4000)),
    16: ((35.6, 21.6, 7.5), (608, 368, 128), (4750, 2875, 1000)),
    64: ((31.4, 16.6, 1.88), (536, 284, 32), (4187, 2218, 250)),
    256: ((30.4, 15.4, 0.47), (518, 263, 8), (4046, 2054, 62.5)),
    1024: ((30.1, 15.1, 0.12), (513, 257, 2), (4011, 2013, 15.6)),
}


def planned(model: Model, npus: int, parallelism: dict[str, Any], **keys: Any) -> Plan:
    workload = Workload.model_validate({"model": "x", "parallelism": parallelism, **keys})
    return make_plan(model, workload, Rows(), (npus,), GHZ)


def megatron(name: str, *, ends: bool = False, **keys: Any) -> Plan:
    """A model of the paper in its setting; without `ends` only its equal blocks."""
    heads, hidden, layers, pipeline, chunks, batch = MEGATRON[name]
    sizes: dict[str, Any] = {"layers": layers, "hidden": hidden, "heads": heads, "ffn": 4 * hidden, "vocabulary": 51200}
    more: dict[str, Any] = {"positions": SEQUENCE, "bias": True, "dropout": True, "sequence": SEQUENCE}
    described = Transformer(kind="transformer", help=name, source="the paper", **sizes, **more)
    built = described.build(SEQUENCE)
    model = Model(name, tuple(built if ends else built[1:-1]), "a sequence", SEQUENCE)
    parallelism: dict[str, Any] = {"tensor": TENSOR, "pipeline": pipeline, "sequence": keys.pop("sequence", False)}
    if chunks > 1:
        parallelism |= {"schedule": "interleaved", "chunks": chunks}
    samples = {"micro_batch": 4} if name == "22B" else {"micro_batch": 1}
    return planned(model, TENSOR * pipeline, parallelism, batch=batch, **samples, **keys)


@in_turn("replicas", sorted(ZERO))
@in_turn(("model", "billions"), [(0, 7.5), (1, 128), (2, 1000)])
@in_turn("zero", [1, 2, 3])
def test_model_states_of_zero(replicas: int, model: int, billions: float, zero: int) -> None:
    each = int(billions * 10**9) // 10
    layers = (
        Layer(f"{number}", Kind.MLP, 10, 10, parameters=Elements(whole=each), block=number) for number in range(10)
    )
    plan = planned(Model("blocks", tuple(layers), "a sample"), replicas, {"zero": zero}, batch=replicas)
    sizes = footprint(plan, 0)
    states = sum(sizes[term] for term in ("weights", "gradients", "optimizer")) / 10**9
    # Two or three digits: 15.6 GB stand for 15.625.
    assert states == pytest.approx(ZERO[replicas][model][zero - 1], rel=0.01, abs=0.005)


@pytest.mark.parametrize("name", MEGATRON)
@pytest.mark.parametrize("sequence", [False, True])
@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_activations_of_megatron(name: str, sequence: bool, recompute: str) -> None:
    """The formulas of Korthikanti et al. 2022 for a layer; in the first stage of a pipeline (section 4.2.3) those of as
    many micro-batches as fill it: L layers, or L (1 + (p - 1) / (p v)) interleaved."""
    heads, hidden, layers, pipeline, chunks, _ = MEGATRON[name]
    size = SEQUENCE * hidden * (4 if name == "22B" else 1)
    scores = 0 if recompute == "selective" else Fraction(5 * heads * SEQUENCE, hidden)
    layer = (34 + scores) / Fraction(TENSOR) if sequence else 10 + (24 + scores) / Fraction(TENSOR)
    kept = Fraction(2, TENSOR if sequence else 1) if recompute == "full" else layer
    held = layers * (1 + Fraction(pipeline - 1, pipeline * chunks) if chunks > 1 else 1)
    sizes = footprint(megatron(name, sequence=sequence, recompute=recompute), 0)
    assert sizes["activations"] == size * held * kept
    assert sizes["recomputed block"] == (size * layer if recompute == "full" else 0)


@pytest.mark.parametrize(("name", "saved"), [("175B", 0.70), ("530B", 0.65)])
def test_selective_recomputation_saves(name: str, saved: float) -> None:
    """With sequence parallelism, 5 a s / h of 34 + 5 a s / h: 80 of 114 for GPT-3, 64 of 98 for MT-NLG."""
    kept, less = (footprint(megatron(name, sequence=True, recompute=how), 0) for how in ("none", "selective"))
    assert 1 - less["activations"] / kept["activations"] == pytest.approx(saved, rel=0.05)


@pytest.mark.parametrize(
    ("layers", "experts", "tensor", "npus", "zero", "gib"),
    [
        # A report in the manner of Megatron-LM (flagos-ai/FlagScale, pull request 454): 16.42 billion parameters, of
        # which 1.56 of embeddings and 0.06 + 0.21 of each layer; 46983.28 MiB of weights, gradients and optimizer.
        (54, 0, 4, 8, 1, 46983.28 / 1024),
        # Measured for a mixture of experts with 1,250,961,408 parameters on 8 GPUs (README of ISEEKYAN's MoE LLM Memory
        # Estimator, "Real Model"); as the products of its layers say: 2048 to 4096 and 10880, 8 experts, 32000 words.
        (4, 8, 1, 8, 1, 8.8),
        (4, 8, 2, 8, 1, 5.3),
    ],
)
def test_published_model_states(layers: int, experts: int, tensor: int, npus: int, zero: int, gib: float) -> None:
    """Gradients in FP32, and the optimizer divided among the replicas."""
    dense: dict[str, Any] = {"hidden": 5120, "heads": 40, "kv_heads": 8, "ffn": 13824, "vocabulary": 152064}
    sparse: dict[str, Any] = {"hidden": 2048, "heads": 16, "kv_heads": 8, "ffn": 5440, "vocabulary": 32000}
    sizes = {**sparse, "experts": experts, "top_k": 2} if experts else dense
    described = Transformer(
        kind="transformer",
        help="x",
        source="x",
        layers=layers,
        gated=True,
        fused_attention=True,
        sequence=4096,
        **sizes,
    )
    model = Model("published", tuple(described.build(4096)), "a sequence", 4096)
    plan = planned(model, npus, {"tensor": tensor, "zero": zero}, batch=npus, micro_batch=1, gradient="4 B")
    terms = footprint(plan, 0)
    states = sum(terms[term] for term in ("weights", "expert weights", "gradients", "optimizer"))
    assert states / 2**30 == pytest.approx(gib, rel=0.05)


def test_fragments_and_context() -> None:
    npu = Npu.model_validate({"device": "h100", "reserved": "2 GB", "fragments": "4 %"})
    terms = with_overhead({"weights": 100, "optimizer": 50}, npu)
    assert terms == {"weights": 100, "optimizer": 50, "fragments": 6, "reserved": 2 * 10**9}
    assert with_overhead({"weights": 100}, Npu.model_validate({"device": "h100"})) == {"weights": 100}
    for wrong in ("-1 %", "101 %", "some", 2):
        with pytest.raises(ValueError, match="is not a fraction"):
            Npu.model_validate({"device": "h100", "fragments": wrong})


def test_ends_of_a_model() -> None:
    """Section 4.3: a mask of the embedding's dropout, s b h; inputs of the last norm and product, 4 s b h; logits with
    four bytes, 4 s b v. All are divided by tensor and sequence parallelism."""
    size, logits = 4 * SEQUENCE * 6144, 4 * SEQUENCE * 51200
    ends, blocks = (footprint(megatron("22B", ends=ends, sequence=True), 0) for ends in (True, False))
    assert ends["activations"] - blocks["activations"] == 5 * size / TENSOR
    assert (ends["logits"], blocks["logits"]) == (4 * logits / TENSOR, 0)


def test_selective_recomputation_takes_time() -> None:
    """It repeats two products of 2 s^2 h each in every layer, divided by tensor parallelism."""
    plans = [megatron("22B", ends=True, recompute=how) for how in ("none", "selective")]
    (kept,), (again,) = map(stages, plans)
    assert again.operations - kept.operations == 4 * 48 * 4 * SEQUENCE**2 * 6144 // TENSOR
    with pytest.raises(InputError, match='llama3-70b stores no attention scores; allowed: "none" or "full"'):
        planned(load_model("llama3-70b"), 8, {}, batch=8, recompute="selective")


def test_what_is_whole_for_a_while() -> None:
    """With ZeRO-3 the parameters of two blocks and the gradients of one; operands of collectives on activations."""
    layers = tuple(
        Layer(f"{number}", Kind.MLP, 10, 10, parameters=Elements(whole=100 * (number + 1)), block=number)
        for number in range(3)
    )
    sizes = footprint(planned(Model("blocks", layers, "a sample"), 4, {"zero": 3}, batch=4), 0)
    assert (sizes["parameters in use"], sizes["gradients in use"]) == (2 * 500, 2 * 300)
    assert sizes["communication"] == 0
    plan = megatron("22B")
    assert footprint(plan, 0)["communication"] == 2 * 4 * SEQUENCE * 6144
    assert tuple(footprint(plan, 0)) == TERMS
    mixtral = planned(load_model("mixtral-8x7b"), 8, {"expert": 8}, batch=8, recompute="full")
    sizes = footprint(mixtral, 0)
    assert sizes["expert weights"] == 2 * 32 * 3 * 4096 * 14336  # one of eight experts of each layer
    assert sizes["communication"] == 2 * 2 * 4096 * 4096  # the tokens for two experts each
