"""`pyxsim list` on models and devices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyxsim.cli.models import short
from tests.cli.inputs import Command


def test_shelves_of_models_and_devices(pyxsim: Command) -> None:
    found = json.loads(pyxsim("list", "--json").out)
    models = {each["name"]: each for each in found["models"]}
    assert models["resnet50"]["parameters"] == 25_557_032
    devices = {each["name"]: each for each in found["devices"]}
    assert devices["h100"]["peaks"]["bf16"] == 989_400_000_000_000
    assert devices["h100"]["memory"] == 80_000_000_000
    assert json.loads(pyxsim("list", "devices", "--json").out) == {"devices": found["devices"]}


def test_one_shelf_in_words(pyxsim: Command) -> None:
    ended = pyxsim("list", "devices")
    assert ended.code == 0
    assert "a100-80gb" in ended.err
    assert "torus" not in ended.err


def test_a_model_layer_by_layer(pyxsim: Command) -> None:
    ended = pyxsim("list", "mixtral-8x7b", "--device", "h100")
    assert ended.code == 0
    for part in ("46.7 G parameters", "113.2 TFLOP forward", "attention", "router", "experts", "forward + backward"):
        assert part in ended.err
    found = json.loads(pyxsim("list", "mixtral-8x7b", "--device", "h100", "--json").out)
    layers = {each["name"]: each for each in found["layers"]}
    assert sum(each["parameters"] * each["count"] for each in found["layers"]) == found["parameters"] == 46_702_792_704
    assert sum(each["flops"] * each["count"] for each in found["layers"]) == found["flops"]
    assert layers["experts"]["count"] == 32
    # Bound by its operations: three products of 4096 x 2 rows, at 989.4 TFLOP/s, each three times; then what is moved.
    assert layers["experts"]["training_ns"] > 3 * layers["experts"]["flops"] / 989.4e12 * 1e9
    assert "training_ns" not in json.loads(pyxsim("list", "mixtral-8x7b", "--json").out)["layers"][0]


def test_a_table_of_the_user(pyxsim: Command, folder: Path) -> None:
    (folder / "mine.csv").write_text("Layer,m,n,k\none,8,16,32\ntwo,8,4,16\n", encoding="utf-8")
    found = json.loads(pyxsim("list", "mine.csv", "--json").out)
    assert (found["batch"], found["parameters"], found["flops"]) == (8, 16 * 32 + 4 * 16, 2 * (16 * 32 + 4 * 16))
    assert found["layers"][0]["products"] == [{"m": 8, "n": 16, "k": 32, "count": 1}]
    assert "8 samples" in pyxsim("list", "mine.csv").err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("mdels",), "list: unknown shelf, model or system 'mdels'; allowed: topologies, "),
        (("torus",), "pyxsim: list: 'torus' has its own command; allowed: `pyxsim topology torus`"),
        (("ring",), "`pyxsim topology ring` or `pyxsim collective ring`"),
        (("gpt3-175",), "did you mean 'gpt3-175b'?"),
        (("no.csv",), "no.csv: no such file"),
        (("dlrm", "--device", "h10"), "--device: unknown device 'h10'; allowed: v100, "),
        (("models", "--device", "h100"), "--device: has no effect without a model; allowed: with the name of a model"),
    ],
)
def test_what_there_is_not_is_one_line(pyxsim: Command, words: tuple[str, ...], text: str) -> None:
    ended = pyxsim("list", *words)
    assert ended.code == 2
    assert len(ended.lines) == 1
    assert text in ended.err


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999, "999"), (1000, "1 k"), (999_949, "999.9 k"), (999_951, "1 M"), (174_604_259_328, "174.6 G")],
)
def test_numbers_in_four_digits(number: int, text: str) -> None:
    assert short(number) == text
