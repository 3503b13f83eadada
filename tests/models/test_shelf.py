"""The models that ship: parameters as published, work as the closed forms of the literature have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyxsim.errors import InputError
from pyxsim.models import Kind, load_model, model_files

# Of torchvision's ResNet-50; half the bytes (two each) of the published weights of Llama 3 70B and Mixtral 8x7B.
EXACT = {"resnet50": 25_557_032, "llama3-70b": 70_553_706_496, "mixtral-8x7b": 46_702_792_704}


@pytest.mark.parametrize("name", EXACT)
def test_parameters_are_as_published(name: str) -> None:
    assert load_model(name).parameters == EXACT[name]


@pytest.mark.parametrize(("name", "billions"), [("gpt3-175b", 174.6), ("transformer-1t", 1008.0)])
def test_parameters_are_as_in_the_table_of_megatron(name: str, billions: float) -> None:
    """Narayanan et al. 2021, table 1, to its digits; GPT-3 there has a vocabulary of 51200: 0.01 more."""
    assert round(load_model(name).parameters / 1e9, 1) == billions


def test_transformers_by_the_formula_of_megatron() -> None:
    """Narayanan et al. 2021, equation 2: P = 12 l h^2 (1 + 13 / 12 h + (V + s) / 12 l h), without a norm at the end."""
    layers, hidden, vocabulary, positions = 128, 25600, 51200, 2048
    expected = 12 * layers * hidden**2 + 13 * layers * hidden + (vocabulary + positions) * hidden
    assert load_model("transformer-1t").parameters == expected + 2 * hidden


def test_flops_by_the_formula_of_megatron() -> None:
    """Equation 3, a third of it for the forward pass, without recomputing: 24 B s l h^2 (1 + s / 6 h + V / 12 l h)."""
    tokens = 2048
    sizes = {"gpt3-13b": (40, 5120, 50257), "gpt3-175b": (96, 12288, 50257), "transformer-1t": (128, 25600, 51200)}
    for name, (layers, hidden, vocabulary) in sizes.items():
        expected = 24 * tokens * layers * hidden**2 + 4 * tokens**2 * layers * hidden + 2 * tokens * vocabulary * hidden
        assert load_model(name).flops == expected


def test_dlrm_is_that_of_mlperf() -> None:
    model = load_model("dlrm")
    tables = [layer for layer in model.layers if layer.kind == Kind.TABLES]
    assert sum(layer.expert_parameters for layer in tables) == 187_767_399 * 128  # 89.5 GiB with four bytes each
    assert [layer.outputs for layer in model.layers][-6:] == [479, 1024, 1024, 512, 256, 1]


def test_resnet_has_its_multiplications() -> None:
    assert load_model("resnet50").flops == 2 * 4_089_184_256


def test_resnet_fits_together() -> None:
    """Each block hands on what the next takes, but for the padding and what a stride leaves over."""
    blocks = load_model("resnet50").blocks()
    sides = [56, 56, 56, 28, 28, 28, 28, 14, 14, 14, 14, 14, 14, 7, 7, 7]
    widths = [256] * 3 + [512] * 4 + [1024] * 6 + [2048] * 3
    assert [block[-1].outputs for block in blocks[1:-1]] == [s * s * w for s, w in zip(sides, widths, strict=True)]
    assert sum(len(block) for block in blocks) == 54


def test_more_tokens_are_a_matter_of_the_run() -> None:
    model = load_model("llama3-70b", sequence=1024)
    assert model.tokens == 1024
    assert model.parameters == EXACT["llama3-70b"]


@pytest.mark.parametrize(
    ("name", "sequence", "text"),
    [
        ("gpt3", None, "model: unknown model 'gpt3'"),
        ("gpt3-175b", 4096, "sequence: 4096 tokens, but the model has 2048 positions; allowed: 1 to 2048"),
        ("resnet50", 10, "sequence: samples of the model 'resnet50' have no tokens"),
        ("dlrm", 10, "sequence: samples of the model 'dlrm' have no tokens"),
    ],
)
def test_what_there_is_not_is_refused(name: str, sequence: int | None, text: str) -> None:
    with pytest.raises(InputError) as caught:
        load_model(name, sequence)
    assert str(caught.value).startswith(text)


def test_every_model_tells_its_source() -> None:
    for name in model_files():
        model = load_model(name)
        assert model.help
        assert model.source


TRANSFORMER = """
kind = "transformer"
help = "small"
source = "made up"
layers = 2
hidden = 8
heads = 2
ffn = 16
vocabulary = 10
sequence = 4
"""


def test_a_file_of_the_user_is_a_model(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(TRANSFORMER)
    assert load_model(str(file)).parameters == 2 * (4 * 64 + 2 * 128 + 2 * 8) + 8 + 2 * 80


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('kind = "transformer"', "", "kind: is missing; allowed: transformer, recommendation"),
        ('"transformer"', '"transfromer"', "kind: 'transfromer' is not a kind of model; allowed: transformer, recom"),
        ('"transformer"', "3", "kind: 3 is not a kind of model"),
        ("heads = 2", "heads = 3", "heads: 8 elements cannot be divided among 3 heads; allowed: a div"),
        ("heads = 2", "heads = 4\nkv_heads = 3", "kv_heads: 4 heads cannot be divided among 3"),
        ("heads = 2", "heads = 2\nexperts = 4", "top_k: tokens are routed to 0 of 4 experts; allowed: 1 to 4"),
        ("heads = 2", "heads = 2\ntop_k = 4", "top_k: tokens are routed to 4 of 0 experts; allowed: 0 to 0"),
        ("heads = 2", "head = 2", "head: unknown key"),
        ("hidden = 8", "hidden = 0", "hidden: 0 is too small; allowed: a whole number from 1 to"),
    ],
)
def test_a_broken_description_is_refused(tmp_path: Path, old: str, new: str, text: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(TRANSFORMER.replace(old, new))
    with pytest.raises(InputError) as caught:
        load_model(str(file))
    assert f"{file}: {text}" in str(caught.value)


def test_vectors_of_a_dlrm_must_be_of_one_length(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        'kind = "recommendation"\nhelp = "x"\nsource = "x"\n'
        "dense = 4\nbottom = [8]\nrows = [3]\nembedding = 4\ntop = [1]\n"
    )
    with pytest.raises(InputError, match="bottom: the last layer has 8 outputs, but a row of a table has 4 elements"):
        load_model(str(file))
