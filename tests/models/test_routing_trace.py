"""Routing traces: the lines of SimLLM's fixture for Granite 3.0, tables of counts, and their faults."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.models.routing_trace import RoutingTrace, read_routing

# openfabric-systems/simllm, examples/sglang_composed_deployment_v1/fixtures/routing-trace.jsonl: a header, a request,
# and the first two of 24 layers of two tokens.
SIMLLM = """{"provenance":{"expert_count":32,"top_k":8},"row_type":"header","schema":"simllm-preplay-trace-v2"}
{"request_id":"p0","row_type":"request","output_length":20}
{"phase":"prefill","request_id":"p0","routing":[{"expert_ids":[13,14,29,28,12,18,1,23],"layer_index":0},\
{"expert_ids":[8,19,13,25,20,30,1,11],"layer_index":1}],"row_type":"observed-dispatch","token_index":0}
{"phase":"prefill","request_id":"p0","routing":[{"expert_ids":[31,3,30,10,11,22,19,24],"layer_index":0},\
{"expert_ids":[8,13,19,29,14,31,1,0],"layer_index":1}],"row_type":"observed-dispatch","token_index":1}
"""


def read(folder: Path, text: str, name: str, experts: int = 32, top_k: int = 8) -> RoutingTrace:
    path = folder / name
    path.write_text(text)
    return read_routing(path, experts, top_k)


def test_simllm(tmp_path: Path) -> None:
    trace = read(tmp_path, SIMLLM, "routing-trace.jsonl")
    assert [layer.shape for layer in trace.tokens] == [(2, 8), (2, 8)]
    counts = trace.counts(np.array([1, 1]), 0, 0, 32, 8)
    assert sorted(np.flatnonzero(counts[0])) == [1, 12, 13, 14, 18, 23, 28, 29]
    assert sorted(np.flatnonzero(counts[1])) == [3, 10, 11, 19, 22, 24, 30, 31]
    both = trace.counts(np.array([2]), 1, 0, 32, 8)[0]
    assert both[[1, 8, 13, 19]].tolist() == [2, 2, 2, 2]
    assert both.sum() == 16
    # Tokens and layers beyond the trace repeat it; the next step goes on where this one ended.
    assert (trace.counts(np.array([1, 1]), 2, 0, 32, 8) == counts).all()
    assert (trace.counts(np.array([1]), 0, 1, 32, 8)[0] == counts[1]).all()


def test_table_in_proportion(tmp_path: Path) -> None:
    trace = read(tmp_path, "layer,source,expert,tokens\n0,0,0,30\n0,0,1,10\n0,1,2,8\n0,1,3,8\n", "counts.csv", 4, 1)
    assert trace.counts(np.array([4, 2]), 0, 0, 4, 1).tolist() == [[3, 1, 0, 0], [0, 0, 1, 1]]


@given(
    st.lists(st.integers(0, 1000), min_size=4, max_size=4).filter(any),
    st.integers(0, 200),
    st.integers(1, 4),
)
def test_every_token_goes_to_top_k_experts(
    tmp_path_factory: pytest.TempPathFactory, weights: list[int], tokens: int, top_k: int
) -> None:
    rows = "".join(f"{expert},{weight}\n" for expert, weight in enumerate(weights))
    trace = read(tmp_path_factory.mktemp("t"), "expert,tokens\n" + rows, "counts.csv", 4, top_k)
    counts = trace.counts(np.array([tokens]), 0, 0, 4, top_k)[0]
    assert counts.sum() == tokens * top_k
    assert 0 <= counts.min() <= counts.max() <= tokens


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        (SIMLLM, "trace.txt", "unknown format"),
        ("{}\n", "a.jsonl", "has no tokens"),
        (SIMLLM.replace("23]", "13]"), "a.jsonl", "a.jsonl:3: a token goes to the experts"),
        (SIMLLM.replace("23]", "32]"), "a.jsonl", "a.jsonl:3: a token goes to the experts"),
        ('{"routing": [3]}', "a.jsonl", "a.jsonl:1: an entry of `routing` has no layer or no experts"),
        ("expert,tokens\n0,x\n", "a.csv", "a.csv:2: '0,x' is not a row of counts"),
        ("expert,tokens\n32,1\n", "a.csv", "a.csv:2: expert 32 with 1 tokens"),
        ("expert,tokens\n0,0\n", "a.csv", "a source has no tokens"),
        ("a,b\n", "a.csv", "a.csv:1: the columns are a, b"),
    ],
)
def test_faults_name_the_line(tmp_path: Path, text: str, name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, text, name)
