"""Requests that were served, iterations of instances, and their summary."""

from __future__ import annotations

from typing import Any

from pyxsim.results.dataset import Column, Dataset, add, restores
from pyxsim.results.hdf5 import StoredTables
from pyxsim.workload.serving_record import ServingRecord

WHEN = "with `[workload.serving]`"
_TIMES = {
    "ttft": "time to the first token: from the arrival to the first token of the output",
    "tpot": "time per output token: mean time between tokens of the output after the first one",
    "end_to_end": "from the arrival to the last token",
    "queueing": "from the arrival to the first iteration with the request",
    "kv_transfer": "time of the move of keys and values to a decode instance",
}
REQUESTS = (
    Column("arrival", "cycles", "cycle in which the request arrives"),
    Column("scheduled", "cycles", "cycle in which its first iteration starts; -1: none"),
    Column("first_token", "cycles", "cycle of its first token; -1: none"),
    Column("last_token", "cycles", "cycle of its last token; -1: none"),
    Column("prompt", "1", "tokens of the prompt"),
    Column("output", "1", "tokens of the output that it asks for"),
    Column("generated", "1", "tokens of the output that it has"),
    Column("instance", "1", "instance that processes the prompt; -1: none"),
    Column("decoder", "1", "decode instance that gets its keys and values; -1: none"),
    Column("kv_sent", "cycles", "cycle in which its keys and values begin to move; -1: never"),
    Column("kv_received", "cycles", "cycle in which its keys and values have arrived; -1: never"),
    Column("preemptions", "1", "how often it lost its KV cache and started again"),
    *(Column(name, "seconds", f"{text}; NaN: unknown", "float64") for name, text in _TIMES.items()),
    Column("longest_gap", "seconds", "longest time between two tokens of the output; NaN: fewer than two", "float64"),
    Column("good", "1", "1 if it has ended and kept the service-level objective, else 0", "int8"),
    Column("state", "", "finished, unfinished or rejected", "text"),
)
ITERATIONS = (
    Column("instance", "1", "instance", "int32"),
    Column("begin", "cycles", "cycle in which it starts"),
    Column("end", "cycles", "cycle in which it ends"),
    Column("requests", "1", "requests of the batch"),
    Column("prompt_tokens", "1", "tokens of prompts, and of outputs that are computed again"),
    Column("outputs", "1", "requests that compute one token, the last one of their output so far"),
    Column("waiting", "1", "requests that wait for KV cache at its end"),
    Column("kv_tokens", "1", "tokens for which the fullest rank holds blocks of its KV cache at its end"),
)
_COUNTS = {
    "requests": "requests",
    "finished": "requests with all tokens",
    "rejected": "requests that no instance can serve",
    "good": "requests that have ended and kept the service-level objective",
    "generated": "tokens of all outputs",
    "preemptions": "how often a request lost its KV cache",
}
_RATES = {
    "requests_per_s": "finished requests",
    "tokens_per_s": "tokens of outputs",
    "prompt_tokens_per_s": "tokens of prompts whose first token of the output is there",
    "goodput": "good requests",
}
_STATISTICS = {"mean": "mean", "p50": "median", "p90": "90th percentile", "p99": "99th percentile"}
SERVED = (
    *(Column(name, "1", text) for name, text in _COUNTS.items()),
    Column("seconds", "seconds", "from the first arrival to the end of the run", "float64"),
    *(Column(name, "1/second", f"{text} per second", "float64") for name, text in _RATES.items()),
    *(
        Column(f"{name}_{word}", "seconds", f"{statistic} of the {name} of requests", "float64")
        for name in _TIMES
        for word, statistic in _STATISTICS.items()
    ),
)

add(
    Dataset(
        "requests",
        "One row per request, in the order of arrival.",
        REQUESTS,
        lambda result: result.serving and result.serving.requests,
        ("request",),
        when=WHEN,
        present=lambda result: result.serving,
    )
)
add(
    Dataset(
        "iterations",
        "One row per iteration of an instance, in the order of their ends.",
        ITERATIONS,
        lambda result: result.serving and result.serving.iterations,
        ("iteration",),
        when=WHEN,
        present=lambda result: result.serving,
    )
)
add(
    Dataset(
        "served",
        "One row: counts, rates and percentiles over all requests.",
        SERVED,
        lambda result: [result.serving.summary] if result.serving else [],
        when=WHEN,
        present=lambda result: result.serving,
        json=True,
    )
)


@restores
def restore(tables: StoredTables) -> dict[str, Any]:
    """The requests and iterations."""
    if "requests" not in tables:
        return {}
    requests = tables["requests"].columns(without="request")
    iterations = tables["iterations"].columns(without="iteration")
    summary = {name: values[0].item() for name, values in tables["served"].columns(without="row").items()}
    return {"serving": ServingRecord(dict(requests), dict(iterations), summary)}
