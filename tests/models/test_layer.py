"""What layers ask of NPUs: sums that must hold however they are divided, and formulas of the literature."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.models import Elements, Gemm, Kind, Layer, Model, Part, Share, Split, load_model

FORWARD, INPUT, WEIGHT = Part.FORWARD, Part.INPUT_GRADIENT, Part.WEIGHT_GRADIENT
SIZE = st.integers(1, 40)


def flops(gemm: Gemm, part: Part, samples: int, share: Share = Share()) -> int:  # noqa: B008 (frozen)
    return sum(work.flops for work in gemm.work(part, samples, share))


@given(m=SIZE, n=SIZE, k=SIZE, count=SIZE, samples=SIZE, weights=st.booleans())
def test_backward_is_twice_forward(m: int, n: int, k: int, count: int, samples: int, weights: bool) -> None:
    gemm = Gemm("", m, n, k, count, weights=weights)
    forward = flops(gemm, FORWARD, samples)
    assert forward == gemm.flops * samples == 2 * m * n * k * count * samples
    assert flops(gemm, INPUT, samples) + flops(gemm, WEIGHT, samples) == 2 * forward
    assert flops(gemm, Part.UPDATE, samples) == 0


@given(m=SIZE, n=SIZE, k=SIZE, samples=SIZE)
def test_a_product_reads_two_matrices_and_writes_one(m: int, n: int, k: int, samples: int) -> None:
    for part in (FORWARD, INPUT, WEIGHT):
        (work,) = Gemm("", m, n, k).work(part, samples)
        assert work.elements == samples * m * k + k * n + samples * m * n
        assert {work.m, work.n, work.k} == {samples * m, n, k}
    # Without weights each sample has its own second matrix.
    (work,) = Gemm("", m, n, k, weights=False).work(FORWARD, samples)
    assert work.elements == samples * (m * k + k * n + m * n)


@given(
    m=SIZE,
    n=SIZE,
    k=SIZE,
    count=SIZE,
    samples=SIZE,
    tensor=st.integers(1, 50),
    split=st.sampled_from(list(Split)),
    part=st.sampled_from((FORWARD, INPUT, WEIGHT)),
)
def test_shares_cover_the_whole(
    m: int, n: int, k: int, count: int, samples: int, tensor: int, split: Split, part: Part
) -> None:
    """The largest share times the NPUs is the whole, or so much more as it does not come out even."""
    gemm = Gemm("", m, n, k, count, split)
    alone, shared = flops(gemm, part, samples), flops(gemm, part, samples, Share(tensor))
    divided = {Split.NONE: 0, Split.COLUMN: n, Split.ROW: k, Split.HEADS: count}[split]
    if not divided:
        assert shared == alone
    else:
        assert alone <= shared * tensor
        assert shared * divided == alone * -(-divided // tensor)


@given(experts=st.sampled_from((4, 8)), expert=st.sampled_from((1, 2, 4)), samples=st.integers(1, 9))
def test_experts_get_the_tokens_of_all_who_share_them(experts: int, expert: int, samples: int) -> None:
    gemm = Gemm("", 64, 5, 7, experts=experts)
    (work,) = gemm.work(FORWARD, samples, Share(expert=expert))
    assert (work.count, work.m) == (experts // expert, 64 * samples * expert // experts)
    assert work.flops == gemm.flops * samples  # an even load: everybody does as much as before
    assert work.elements == work.count * (work.m * 7 + 7 * 5 + work.m * 5)  # but reads fewer weights


def test_routers_and_experts_with_sequence_parallelism() -> None:
    """Each NPU routes its own tokens. Experts that are divided compute the rows of all, and keep what they gathered."""
    router, experts = load_model("mixtral-8x7b").layers[2:4]
    rows, hidden, inner = 3 * 4096, 4096, 3 * 14336
    for share, own in ((Share(4), 1), (Share(4, sequence=True), 4)):
        product, _ = router.work(FORWARD, 3, share)
        assert (product.m, product.n, product.k) == (rows // own, 8, hidden)
    for share in (Share(4, 2), Share(4, 2, sequence=True)):
        up, *_ = experts.work(FORWARD, 3, share)
        assert (up.m * up.count, up.n) == (2 * rows * 2 // 2, 2 * 14336 // 4)
        assert experts.kept_at(share) == 2 * 4096 * (2 * hidden + 2 * inner // 4)
    assert experts.kept_at(Share(4, sequence=True)) == 2 * 4096 * (2 * hidden + 2 * inner) // 4


def test_what_stays_on_the_chip_is_not_moved() -> None:
    scores = Gemm("", 100, 100, 8, 4, weights=False, result=0)
    (work,) = scores.work(FORWARD, 3)
    assert work.elements == 3 * 4 * (100 * 8 + 8 * 100)
    convolution = Gemm("", 36, 2, 9 * 5, left=64 * 5)
    (work,) = convolution.work(FORWARD, 3)
    assert work.elements == 3 * 64 * 5 + 90 + 3 * 36 * 2


def test_what_is_moved_beside_products() -> None:
    layer = Layer("x", Kind.LINEAR, 1, 1, moved=Elements(whole=100, divided=60))
    moved = {
        share: [sum(work.elements for work in layer.work(part, 2, share)) for part in (FORWARD, INPUT, WEIGHT)]
        for share in (Share(), Share(2), Share(2, sequence=True))
    }
    assert list(moved.values()) == [[320, 640, 0], [260, 520, 0], [160, 320, 0]]


@pytest.mark.parametrize(("tensor", "sequence"), [(1, False), (8, False), (8, True)])
def test_activations_by_the_formulas_of_korthikanti(tensor: int, sequence: bool) -> None:
    """Korthikanti et al. 2022, table 2: bytes that a block keeps for a sample, s h (10 + 24 / t + 5 a s / h t)."""
    tokens, hidden, heads = 2048, 12288, 96
    attention, mlp = load_model("gpt3-175b").layers[1:3]
    kept = sum(layer.kept.of_one(Share(tensor, sequence=sequence)) for layer in (attention, mlp))
    scores = Fraction(5 * heads * tokens, hidden)
    expected = Fraction(34) + scores if sequence else 10 + Fraction(24 + scores, tensor) if tensor > 1 else 34 + scores
    assert kept == tokens * hidden * (expected / tensor if sequence else expected)


def test_shares_of_parameters() -> None:
    model = load_model("mixtral-8x7b")
    experts = model.layers[3]
    assert experts.kind == Kind.EXPERTS
    assert experts.held() == (0, 8 * 3 * 4096 * 14336)
    assert experts.held(Share(tensor=2, expert=4)) == (0, 3 * 4096 * 14336)
    head = load_model("gpt3-175b").layers[-1]
    assert head.tied == "embedding"
    assert head.own_parameters == 2 * 12288
    assert head.held() == (2 * 12288 + 50257 * 12288, 0)


def test_blocks_stay_together() -> None:
    def layer(name: str, block: int = -1) -> Layer:
        return Layer(name, Kind.LINEAR, 1, 1, block=block)

    model = Model("x", (layer("a"), layer("b"), layer("c", 0), layer("d", 0), layer("e", 1), layer("f")), "")
    assert ["".join(each.name for each in block) for block in model.blocks()] == ["a", "b", "cd", "e", "f"]
    sizes = [len(block) for block in load_model("mixtral-8x7b").blocks()]
    assert sizes == [1, *[3] * 32, 1]
