"""Serving against closed forms: a lone request, the M/D/1 queue, moves of KV cache; invariants of random loads."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyxsim
from pyxsim.errors import InputError
from pyxsim.reports.text.summary import text as summary_text
from tests.examples import part_of

H, HEADS, KV, FFN, VOCABULARY, LAYERS = 64, 4, 2, 96, 256, 3
SIZE = H // HEADS
BANDWIDTH, LATENCY = 100, 200  # bytes per cycle and cycles of a link; a cycle is 1 ns
PEAK, MEMORY = 1000, 100  # operations and bytes of an NPU per cycle
MODEL = f"""
kind = "transformer"
help = "small"
source = "made up"
layers = {LAYERS}
hidden = {H}
heads = {HEADS}
kv_heads = {KV}
ffn = {FFN}
gated = true
vocabulary = {VOCABULARY}
fused_attention = true
sequence = 64
"""
TOML = """
[network]
topology = "switch"
shape = [{npus}]
bandwidth = "100 GB/s"
latency = "200 ns"
clock = "1 GHz"
[system]
all_reduce = "direct"
all_gather = "direct"
all_to_all = "direct"
[system.npu]
peak = "1 TFLOP/s"
memory_bandwidth = "100 GB/s"
memory = "1 GB"
[workload]
model = "{model}"
[workload.serving]
{serving}
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("models") / "small.toml"
    path.write_text(MODEL)
    return str(path)


@pytest.fixture(scope="module")
def experts(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("models") / "experts.toml"
    path.write_text(MODEL + "experts = 4\ntop_k = 2\n")
    return str(path)


def serve(model: str, serving: str, npus: int = 2, backend: str = "analytical", more: str = "") -> pyxsim.Result:
    text = TOML.format(npus=npus, model=model, serving=serving) + more
    return pyxsim.run(pyxsim.Experiment.from_toml(text), backend=backend)


def lone(prompt: int, output: int, **tables: str) -> str:
    lines = ["requests = 1", 'arrivals = { process = "together" }', f"prompt = {{ tokens = {prompt} }}"]
    return "\n".join([*lines, f"output = {{ tokens = {output} }}", *(f"{k} = {{ {v} }}" for k, v in tables.items())])


def product(m: int, n: int, k: int) -> Fraction:
    """Cycles of (m x k) (k x n): operations, or bytes of all three matrices with 2 per element."""
    return max(Fraction(2 * m * n * k, PEAK), Fraction(2 * (m * k + k * n + m * n), MEMORY))


def moved(elements: int) -> Fraction:
    return Fraction(2 * elements, MEMORY)


def compute(new: int, context: int, tensor: int, layers: int = LAYERS) -> int:
    """Cycles that a lone request computes in an iteration; each layer is rounded up."""
    known, heads, kv = new + context, HEADS // tensor, max(KV // tensor, 1)
    qkv = (H + 2 * KV * SIZE) // tensor
    scores = max(Fraction(2 * new * known * SIZE * heads, PEAK), moved(new * SIZE * heads + known * SIZE * kv))
    attention = product(new, qkv, H) + product(new, H, H // tensor) + 2 * scores
    attention += moved(5 * new * H + 2 * new * (H + KV * SIZE) // tensor)
    mlp = product(new, 2 * FFN // tensor, H) + product(new, H, FFN // tensor)
    mlp += moved(5 * new * H + 3 * new * FFN // tensor)
    head = product(1, VOCABULARY // tensor, H) + moved(2 * H + 2 * VOCABULARY // tensor)
    return ceil(moved(2 * new * H)) + layers * (ceil(attention) + ceil(mlp)) + ceil(head)


def message(nbytes: int) -> int:
    """Cycles of a message through the switch, truncated as docs/analytical.md says."""
    return nbytes // BANDWIDTH + 2 * LATENCY


def communicate(new: int, tensor: int) -> int:
    """Cycles of the collectives of an iteration with `direct`: two rounds of parts, and a gather of logits."""
    if tensor == 1:
        return 0
    part = new * H * 2 // tensor
    return (1 + 2 * LAYERS) * 2 * message(part) + message(VOCABULARY // tensor * 2)


def iteration(new: int, context: int, tensor: int) -> int:
    return compute(new, context, tensor) + communicate(new, tensor)


@pytest.mark.parametrize("tensor", [1, 2, 4])
@pytest.mark.parametrize(("prompt", "output"), [(300, 5), (1, 2), (1000, 1)])
def test_a_lone_request(model: str, tensor: int, prompt: int, output: int) -> None:
    result = serve(model, lone(prompt, output, instances=f"tensor = {tensor}"), npus=4)
    first = iteration(prompt, 0, tensor)
    gaps = [iteration(1, prompt + done, tensor) for done in range(output - 1)]
    row = result.requests.to_pandas().iloc[0]
    assert row.first_token == first
    assert row.last_token == first + sum(gaps)
    assert row.ttft == pytest.approx(first * 1e-9, rel=1e-12)
    if output > 1:
        assert row.tpot == pytest.approx(sum(gaps) / len(gaps) * 1e-9, rel=1e-12)
    assert row.state == "finished"
    assert result.time_cycles == row.last_token
    assert np.diff([0, *result.iterations["end"]]).tolist() == [first, *gaps]


def test_calls_of_a_collective_share_a_row(model: str) -> None:
    """A layer's collective, of 300 tokens, then twice of one token: the closed forms give size and mean time."""
    result = serve(model, lone(300, 3, instances="tensor = 2"), npus=2)
    row = next(row for row in result.collectives if row["name"].endswith("embedding"))
    sizes = [300 * H * 2, H * 2, H * 2]
    assert row["calls"] == 3
    assert row["bytes"] == round(sum(sizes) / 3)
    assert row["time"] == sum(2 * message(size // 2) for size in sizes) / 3
    assert np.isnan([row["lower_bound"], row["ratio"], row["optimum"]]).all()
    assert "embedding: all-reduce, 3 calls" in summary_text(result)


def test_chunks_of_a_prompt(model: str) -> None:
    # 300 tokens in iterations of 128: 128, 128, 44. Only the last one is followed by logits.
    result = serve(model, lone(300, 2) + "\nmax_tokens = 128")
    head = compute(1, 0, 1, layers=0) - ceil(moved(2 * H))
    parts = [compute(128, 0, 1) - head, compute(128, 128, 1) - head, compute(44, 256, 1), compute(1, 300, 1)]
    assert result.iterations["end"].tolist() == np.cumsum(parts).tolist()
    assert result.iterations["prompt_tokens"].tolist() == [128, 128, 44, 0]


def test_a_pipeline_adds_a_message(model: str) -> None:
    result = serve(model, lone(200, 1, instances="pipeline = 3"), npus=3)
    assert result.time_cycles == compute(200, 0, 1) + 2 * message(200 * H * 2)


def test_blocks_that_are_not_simulated(model: str) -> None:
    whole = serve(model, lone(300, 4, instances="tensor = 2"))
    some = serve(model, lone(300, 4, instances="tensor = 2") + "\nblocks = 1")
    assert some.requests["last_token"].tolist() == whole.requests["last_token"].tolist()
    assert some.counts["messages"] < whole.counts["messages"]


@pytest.mark.parametrize(
    ("tensors", "pipelines"), [((1, 1), (1, 1)), ((2, 1), (1, 1)), ((1, 2), (1, 3)), ((4, 2), (1, 1))]
)
def test_the_move_of_a_lone_cache(model: str, tensors: tuple[int, int], pipelines: tuple[int, int]) -> None:
    prompt, output = 160, 3
    tables = {
        role: f"tensor = {tensor}, pipeline = {pipeline}"
        for role, tensor, pipeline in zip(("prefill", "decode"), tensors, pipelines, strict=True)
    }
    result = serve(model, lone(prompt, output, **tables), npus=8)
    row = result.requests.to_pandas().iloc[0]
    first = iteration(prompt, 0, tensors[0])
    assert row.kv_sent == row.first_token == first
    moves = [each for each in result.point_to_point if each["name"] == "KV cache"]
    # Two heads of keys and values in three layers, each wanted by the NPUs of the decode instance that have its head.
    copies = max(tensors[1] // KV, 1)
    assert sum(each["bytes"] for each in moves) == copies * LAYERS * 2 * KV * SIZE * prompt * 2
    # The backend ignores that messages share links, so the longest one decides.
    assert row.kv_received == first + message(max(each["bytes"] for each in moves))
    rest = sum(iteration(1, prompt + done, tensors[1]) for done in range(output - 1))
    between = (output - 1) * (pipelines[1] - 1) * message(H * 2)
    assert row.last_token == row.kv_received + rest + between
    assert row.tpot == pytest.approx((row.last_token - row.first_token) / (output - 1) * 1e-9)


def test_waiting_in_a_queue_with_one_server(model: str) -> None:
    # Poisson arrivals, equal service times S, one request at a time: an M/D/1 queue waits rho S / (2 (1 - rho)) on
    # average (Pollaczek-Khinchine). Batches of 100 requests give the standard error.
    service = iteration(50, 0, 1)
    rho, count = 0.6, 6000
    rate = ceil(rho * 10**9 / service)
    lines = f"requests = {count}\nmax_batch = 1\nseed = 3\nprompt = {{ tokens = 50 }}\noutput = {{ tokens = 1 }}"
    result = serve(model, f'{lines}\narrivals = {{ process = "poisson", rate = {rate} }}')
    waits = result.requests["scheduled"] - result.requests["arrival"]
    rho = rate * service / 10**9
    expected = rho * service / (2 * (1 - rho))
    means = waits.reshape(-1, 100).mean(axis=1)
    error = means.std(ddof=1) / np.sqrt(len(means))
    assert error < 0.1 * expected
    assert abs(waits.mean() - expected) < 3 * error
    assert set(result.iterations["end"] - result.iterations["begin"]) == {service}


@st.composite
def loads(draw: Any) -> tuple[str, int]:
    """Settings of random loads, and the most tokens of a KV cache."""
    block = draw(st.sampled_from([1, 4, 16]))
    tokens = block * draw(st.integers(8, 40))
    pick = lambda *values: draw(st.sampled_from(values))  # noqa: E731
    lines = [
        f"requests = {draw(st.integers(1, 12))}",
        f"seed = {draw(st.integers(0, 99))}",
        f"kv_block = {block}",
        f"kv_tokens = {tokens}",
        f"max_batch = {draw(st.integers(1, 6))}",
        f"max_tokens = {draw(st.integers(1, 300))}",
        f"chunked_prefill = {pick('true', 'false')}",
        f'admission = "{pick("preempt", "reserve")}"',
        f'balance = "{pick("least-loaded", "round-robin")}"',
        f'arrivals = {{ process = "poisson", rate = {pick(10**4, 10**5, 10**6)} }}',
        f'prompt = {{ distribution = "uniform", least = 1, most = {pick(2, 40, 200)} }}',
        f'output = {{ distribution = "geometric", tokens = {pick(1, 5, 20)}, most = 40 }}',
        f'overhead = "{pick(0, 100)} ns"',
    ]
    if draw(st.booleans()):
        lines.append(f"instances = {{ count = {pick(1, 2)}, tensor = {pick(1, 2)}, pipeline = {pick(1, 2)} }}")
    else:
        lines.append(f"prefill = {{ count = {pick(1, 2)}, tensor = {pick(1, 2)} }}")
        lines.append(f"decode = {{ count = {pick(1, 2)}, pipeline = {pick(1, 2)} }}")
    return "\n".join(lines), tokens


@settings(max_examples=part_of(150, 12), deadline=None)
@given(loads())
def test_invariants(model: str, load: tuple[str, int]) -> None:
    text, most = load
    result = serve(model, text, npus=8, backend="analytical-congestion")
    table, steps = result.requests.to_pandas(), result.iterations.to_pandas()
    given_settings = pyxsim.Experiment.from_toml(result.experiment_toml).workload.serving
    # All end, or are named.
    assert set(table.state) <= {"finished", "rejected"}
    done = table[table.state == "finished"]
    assert (done.generated == done.output).all()
    assert (table[table.state == "rejected"].generated == 0).all()
    rejected = sum("was rejected" in line for line in result.warnings)
    assert rejected == min(int((table.state == "rejected").sum()), 8)
    # Tokens are conserved: each prompt once, and once more for what a preemption drops.
    computed = steps.prompt_tokens.sum() if len(steps) else 0
    if not table.preemptions.any():
        assert computed == done.prompt.sum()
        later = steps.outputs.sum() if len(steps) else 0
        assert later == (done.output - 1).sum()
    else:
        assert computed > done.prompt.sum()
        assert given_settings.admission == "preempt"
    # Limits.
    if len(steps):
        assert steps.requests.max() <= given_settings.max_batch
        assert (steps.prompt_tokens + steps.outputs).max() <= given_settings.max_tokens
        assert steps.kv_tokens.max() <= most
        assert (steps.begin < steps.end).all()
    # Times are causal.
    for earlier, later in (("arrival", "scheduled"), ("scheduled", "first_token"), ("first_token", "last_token")):
        assert (done[earlier] <= done[later]).all()
    moved_ones = done[done.decoder >= 0]
    assert (moved_ones.kv_sent >= moved_ones.first_token).all()
    assert (moved_ones.kv_received > moved_ones.kv_sent).all()
    assert (done.arrival.diff().dropna() >= 0).all()


BUSY = (
    "requests = 12\nseed = 5\nkv_tokens = 400\nmax_tokens = 128\n"
    'arrivals = { process = "poisson", rate = 100000 }\nprompt = { distribution = "uniform", least = 50, most = 150 }\n'
    'output = { distribution = "uniform", least = 5, most = 40 }\n'
)


def same(one: pyxsim.Result, other: pyxsim.Result) -> bool:
    tables = ("requests", "iterations")
    return all(getattr(one, name).to_pandas().equals(getattr(other, name).to_pandas()) for name in tables)


def test_packets_with_and_without_skipping(model: str) -> None:
    text = BUSY + "instances = { tensor = 2 }\nblocks = 2"
    plain = serve(model, text, backend="packet")
    assert same(plain, serve(model, text, backend="packet"))
    assert same(plain, serve(model, text, backend="packet", more="[run]\nskip = false\n"))
    assert plain.requests["preemptions"].sum() > 0  # the load is enough for that


def test_experts_of_a_lone_request(experts: str) -> None:
    # Two ranks with two experts each, and one request: rank 0 has it, and both ranks compute.
    result = serve(experts, lone(100, 3, instances="expert = 2"))
    tokens = [step for step in result.collectives if "tokens" in step["name"]]
    assert {step["kind"] for step in tokens} == {"all-to-all-v"}
    # In turn, half of the 200 copies go to the experts of rank 1; layers and iterations begin with other experts, but
    # 2 of 4 experts per token, so each expert has half of the tokens: of one token the two of one rank.
    prefill = LAYERS * 100 * H * 2 * 2
    decode = result.counts["bytes_delivered"] - prefill
    assert decode in {count * 2 * H * 2 * 2 for count in range(2 * LAYERS + 1)}
    skewed = serve(experts, lone(100, 3, instances="expert = 2"), more='[workload.experts]\nrouting = "W5"\n')
    assert skewed.requests["first_token"][0] > result.requests["first_token"][0]


def test_objective_and_percentiles(model: str) -> None:
    text = BUSY + 'slo = { ttft = "3 us", tpot = "2 us" }'
    result = serve(model, text)
    table = result.requests.to_pandas()
    good = (table.ttft <= 3e-6 + 1e-15) & (table.tpot <= 2e-6 + 1e-15)
    assert table.good.tolist() == good.astype(int).tolist()
    row = result.served.to_pandas().iloc[0]
    seconds = (result.time_cycles - table.arrival.min()) * 1e-9
    assert row.goodput == pytest.approx(good.sum() / seconds)
    assert row.tokens_per_s == pytest.approx(table.output.sum() / seconds)
    ordered = np.sort(table.ttft)
    assert [row.ttft_p50, row.ttft_p90, row.ttft_p99] == [ordered[5], ordered[10], ordered[11]]  # of 12


def test_run_limit_names_the_unfinished(model: str) -> None:
    result = serve(model, BUSY + 'until = "600 us"')
    table = result.requests.to_pandas()
    left = table[table.state == "unfinished"]
    assert len(left)
    assert len(table[table.state == "finished"])
    assert any(f"{len(left)} of 12 requests have not ended: {left.index[0]}" in line for line in result.warnings)
    assert (result.iterations["begin"] <= 600_000).all()


def test_file_summary_and_report(model: str, tmp_path: Path) -> None:
    result = serve(model, BUSY)
    result.save(tmp_path / "r.h5")
    again = pyxsim.load(tmp_path / "r.h5")
    assert same(result, again)
    assert again.serving.summary == pytest.approx(result.serving.summary, nan_ok=True)
    assert result.to_xarray("requests").sizes["request"] == 12
    assert result.json()["serving"]["finished"] == 12
    assert result.json()["serving"]["kv_transfer_mean"] is None
    text = summary_text(result)
    assert "to the first token (TTFT)" in text
    assert "goodput" in text
    pyxsim.report(tmp_path / "r.h5", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    for title in (
        "Times of requests",
        "Distribution of the times of requests",
        "Batches over time",
        "Requests over time",
    ):
        assert title in page


@pytest.mark.parametrize(
    ("serving", "line"),
    [
        ("requests = 1", "workload.serving.arrivals"),
        ('arrivals = { process = "poisson", rate = 1 }', "workload.serving.requests: is missing"),
        (
            lone(1, 1, instances="tensor = 3"),
            "serving.instances.tensor: 4 heads cannot be divided among 3 NPUs",
        ),
        (lone(1, 1, instances="count = 9"), "the instances need 9 NPUs, but the network has 4"),
        (lone(1, 1, instances="pipeline = 4"), "4 stages, but small has 3 blocks of layers"),
        (lone(1, 1, instances="expert = 2"), "small has no experts"),
        (lone(1, 1, prefill="count = 1"), "workload.serving.decode: is missing"),
        (lone(1, 1) + "\nkv_tokens = 3", "workload.serving.kv_tokens: less than one block"),
        (lone(1, 1) + "\nmax_tokens = 10000000", "largest term: activations"),
        (lone(1, 1) + "\nmax_batches = 3", "max_batch"),
    ],
)
def test_faults(model: str, serving: str, line: str) -> None:
    with pytest.raises(InputError) as error:
        serve(model, serving, npus=4)
    faults = getattr(error.value, "faults", [error.value])
    assert any(line in str(fault) for fault in faults), [str(fault) for fault in faults]


def test_training_settings_are_refused(model: str) -> None:
    text = TOML.format(npus=2, model=model, serving=lone(1, 1)).replace("[workload]", "[workload]\nbatch = 2")
    with pytest.raises(InputError) as error:
        pyxsim.Experiment.from_toml(text)
    assert "workload.batch" in str(getattr(error.value, "faults", [error.value])[0])
