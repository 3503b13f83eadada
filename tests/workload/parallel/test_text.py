"""Training steps as texts of ASTRA-sim 1: what is read back, and what is refused."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import pytest

from pyxsim.errors import InputError
from pyxsim.models import Elements, Gemm, Kind, Layer, Model
from pyxsim.workload.parallel.plan import Plan
from pyxsim.workload.parallel.text import astra_text
from pyxsim.workload.text_workload import Pass, TextWorkload, read_text_workload
from tests.workload.parallel.drawn import Rows, equal_blocks, planned, transformer


def read(plan: Plan, folder: Path) -> TextWorkload:
    file = folder / "work.txt"
    file.write_text(astra_text(plan), encoding="ascii")
    return read_text_workload(file)


def test_replicas(tmp_path: Path) -> None:
    text = read(planned(equal_blocks(3), (4,), Rows(10), batch=8), tmp_path)
    assert text.parallelism == "DATA"
    assert [layer.name for layer in text.layers] == ["embedding", "block_0", "block_1", "block_2"]
    block = text.layers[1]
    assert (block.forward, block.input_gradient) == (Pass(14, None, 0), Pass(14, None, 0))
    assert block.weight_gradient == Pass(7, "all-reduce", 60)
    assert block.update == 6


@pytest.mark.parametrize(
    ("shape", "own", "keyword", "group"),
    [
        ((4,), {"tensor": 4}, "MODEL", 1),
        ((4, 2), {"tensor": 4}, "HYBRID_DATA_MODEL", 1),
        ((8, 2), {"tensor": 4}, "HYBRID_TRANSFORMER", 4),
        ((4, 2), {"tensor": 2, "order": ["data", "tensor", "pipeline"]}, "HYBRID_MODEL_DATA", 1),
    ],
)
def test_tensor_parallelism(
    tmp_path: Path, shape: tuple[int, ...], own: dict[str, Any], keyword: str, group: int
) -> None:
    text = read(planned(transformer(2), shape, batch=8, parallelism=own), tmp_path)
    assert (text.parallelism, text.header.model_npus) == (keyword, group)
    attention = text.layers[1]
    samples = 8 * own["tensor"] // prod(shape)
    assert (attention.forward.kind, attention.forward.size) == ("all-reduce", 32 * samples)
    assert attention.update == 0  # it would come behind the sums of activations, too


def test_tables(tmp_path: Path) -> None:
    bottom = Layer("bottom", Kind.LINEAR, 1, 6, (Gemm("bottom", 5, 1, 1),), Elements(whole=8))
    tables = Layer("tables", Kind.TABLES, 3, 6, expert_parameters=1000, dispatched=6)
    mixed = Layer("interaction", Kind.INTERACTION, 6, 1, (Gemm("pairs", 3, 1, 1),))
    text = read(planned(Model("small", (bottom, tables, mixed), "a sample"), (2,), batch=4), tmp_path)
    assert (text.parallelism, text.header.last_bottom) == ("HYBRID_DLRM", 1)
    assert [layer.name for layer in text.layers] == ["tables", "bottom", "interaction"]
    assert text.layers[0].forward == Pass(0, "all-to-all", 12)
    assert text.layers[0].weight_gradient.kind is None


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        ({"parallelism": {"pipeline": 2}}, "parallelism.pipeline"),
        ({"parallelism": {"zero": 1}}, "parallelism.zero"),
        ({"parallelism": {"tensor": 2, "sequence": True}}, "parallelism.sequence"),
        ({"parallelism": {"tensor": 4, "order": ["data", "tensor", "pipeline"]}}, "parallelism.order"),
        ({"micro_batch": 1}, "micro_batch"),
        ({"recompute": "full"}, "recompute"),
    ],
)
def test_what_it_cannot_say(keys: dict[str, Any], place: str) -> None:
    with pytest.raises(InputError) as caught:
        astra_text(planned(transformer(2), (4, 2), batch=16, **keys))
    told = str(caught.value).splitlines()
    assert told[0].startswith(f"workload.{place}: ")
    assert "or traces, PREFIX.*.et" in told[0]


def test_experts_cannot_be_said() -> None:
    plan = planned(transformer(2, experts=2), (4,), batch=4, parallelism={"expert": 2})
    with pytest.raises(InputError, match=r"workload\.parallelism\.expert"):
        astra_text(plan)
