"""Routing of tokens to experts: each goes to top_k different experts, with the probabilities of the distribution."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.models.expert_routing import expert_routing, inclusion
from pyxsim.settings.experts import WORKLOADS, Experts
from tests.examples import part_of

_TOKENS = st.lists(st.integers(0, 50), min_size=1)
NAMES = ["balanced", "zipf", "dirichlet", *WORKLOADS]


def counts(name: str, experts: int, top_k: int, tokens: list[int], step: int = 0, **more: Any) -> np.ndarray:
    routing = expert_routing(Experts(routing=name, **more), experts, top_k)
    assert routing is not None
    return routing.counts(tokens, 3, step)


@settings(max_examples=part_of(300, 20))
@given(
    st.sampled_from(NAMES),
    st.integers(1, 20),
    st.integers(1, 20),
    st.lists(st.integers(0, 50), min_size=1),
    st.integers(0, 9),
)
def test_each_token_goes_to_different_experts(
    name: str, experts: int, top_k: int, tokens: list[int], step: int
) -> None:
    top_k = min(top_k, experts)
    found = counts(name, experts, top_k, tokens, step)
    assert found.sum(axis=1).tolist() == [count * top_k for count in tokens]
    assert (found >= 0).all()
    assert (found <= np.array(tokens)[:, None]).all()  # an expert gets a token once
    assert (found == counts(name, experts, top_k, tokens, step)).all()


@settings(max_examples=part_of(300, 20))
@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=20), st.integers(1, 20))
def test_inclusion(weights: list[float], top_k: int) -> None:
    top_k = min(top_k, len(weights))
    shares = inclusion(np.array(weights), top_k)
    assert shares.sum() == pytest.approx(top_k)
    assert (shares <= 1 + 1e-12).all()
    free = shares < 1 - 1e-9
    if free.any():  # proportional to the weights where nothing is cut off
        assert np.ptp(shares[free] / np.array(weights)[free]) <= 1e-6 * (shares[free] / np.array(weights)[free]).max()


def test_zipf_shares() -> None:
    # Exponent 1, one expert per token: shares 1/1, 1/2, 1/3, 1/4 of 25/12, in some order; 4 standard deviations.
    found = np.sort(counts("zipf", 4, 1, [480_000])[0])[::-1]
    expected = 480_000 * np.array([12, 6, 4, 3]) / 25
    assert (abs(found - expected) < 4 * np.sqrt(expected)).all()


@pytest.mark.parametrize(
    ("name", "step", "expected"),
    [
        # 32 experts, 4 for each token, as in the published table of the benchmark for 512 tokens of 4 sources: largest
        # over mean number of tokens 1.000, 1.781, 1.770, 1.047, 1.086, 2.000, 1.770, 1.066 for 8 experts.
        ("W0", 0, 1.0),
        ("W1", 0, 1.75),
        ("W2", 0, 1.75),
        ("W3", 0, 1.0),
        ("W4", 0, 1.0),
        ("W5", 0, 2.0),
        ("W6", 0, 1.75),
        ("W7", 0, 1.0),
        ("W7", 3, 1.5),
    ],
)
def test_published_imbalance(name: str, step: int, expected: float) -> None:
    # 8 experts, 4 per token: 4 hot experts. W1, W2 and W6 send 3 of 4 tokens to them, and half of the rest:
    # (3/4 + 1/4 * 4/8) / (4/8) = 1.75. W3's pool of even experts is {0, 2, 4, 6}: the same heat, but its published
    # imbalance of 1.047 is that of 16 experts or more; W5 uses half of the experts. W7 bursts in every fourth step.
    found = counts(name, 8, 4, [2048] * 4, step).sum(axis=0)
    if name == "W3":
        expected = 1.75
    sigma = np.sqrt(found.mean()) / found.mean()
    assert found.max() / found.mean() == pytest.approx(expected, abs=5 * sigma)


def test_hot_experts_rotate() -> None:
    hottest = [int(counts("W6", 16, 1, [4000], step)[0].argmax()) // 4 for step in (0, 2, 3, 6, 9, 12)]
    assert hottest == [0, 0, 1, 2, 3, 0]  # 4 hot experts, the next 4 after three steps
    assert set(np.flatnonzero(counts("W5", 16, 2, [4000])[0]).tolist()) == set(range(8, 16))


def test_balanced_over_sources_and_capacity() -> None:
    assert counts("balanced", 8, 2, [1, 1, 1, 1]).sum(axis=0).tolist() == [1] * 8
    found = counts("W5", 4, 1, [100], capacity_factor=Fraction(5, 4))
    assert found.tolist() == [[0, 0, 32, 32]]  # ceil(1.25 * 100 / 4)


def test_a_trace_of_tokens(tmp_path: Path) -> None:
    rows = [
        {"row_type": "header"},
        {"routing": [{"layer_index": 0, "expert_ids": [1, 3]}, {"layer_index": 4, "expert_ids": [0, 2]}]},
    ]
    rows += [{"layer": 0, "experts": [3, 2]}]
    file = tmp_path / "r.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    found = expert_routing(Experts(routing="file", file="r.jsonl"), 4, 2, tmp_path)
    assert found is not None
    assert found.counts([3, 1], 0, 0).tolist() == [[0, 2, 1, 3], [0, 0, 1, 1]]  # tokens 0 1 0 | 1
    assert found.counts([2], 1, 0).tolist() == [[2, 0, 2, 0]]  # the second layer of the file is number 4
    with pytest.raises(InputError, match="2 different experts from 0 to 2"):
        expert_routing(Experts(routing="file", file="r.jsonl"), 3, 2, tmp_path)


@settings(max_examples=part_of(200, 10))
@given(st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=2, unique=True), min_size=1, max_size=30))
def test_a_table_of_counts_is_exact(tokens: list[list[int]]) -> None:
    found = Counter(expert for chosen in tokens for expert in chosen)
    with TemporaryDirectory() as folder:
        lines = ["source,expert,tokens", *(f"0,{expert},{count}" for expert, count in found.items())]
        (Path(folder) / "c.csv").write_text("\n".join(lines))
        routing = expert_routing(Experts(routing="file", file="c.csv"), 4, 2, Path(folder))
    assert routing is not None
    assert routing.counts([len(tokens)], 0, 0)[0].tolist() == [found[expert] for expert in range(4)]


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("r.jsonl", "nonsense", "r.jsonl:1: is not a line of JSON"),
        ("r.jsonl", '{"a": 1}', "has no tokens"),
        ("r.jsonl", '{"routing": [{"layer_index": 0}]}', "has no layer or no experts"),
        ("r.csv", "expert,count\n", "r.csv:1"),
        ("r.csv", "expert,tokens\n9,1\n", "experts 0 to 3"),
        ("r.csv", "expert,tokens\n1,x\n", "is not a row of counts"),
        ("r.txt", "", "unknown format"),
    ],
)
def test_faults_of_files(tmp_path: Path, name: str, text: str, line: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as error:
        expert_routing(Experts(routing="file", file=name), 4, 2, tmp_path)
    assert line in str(error.value)
