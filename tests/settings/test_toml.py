"""The writer of TOML against Python's reader, and experiments that come back equal from their resolved text."""

from __future__ import annotations

import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.settings import load_experiment, resolved_toml
from pyxsim.settings.toml import to_toml
from pyxsim.units import format_bandwidth, format_bytes, format_duration, format_frequency
from tests.examples import part_of

# TOML is UTF-8, so it has every character but half of a surrogate pair.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=part_of(100))
@given(st.dictionaries(TEXTS, VALUES))
def test_what_is_written_is_read_back(data: dict[str, Any]) -> None:
    assert tomllib.loads(to_toml(data)) == data


def test_the_layout_is_that_of_a_person() -> None:
    data = {"b": {"x": 1, "y": None, "z": {"k": [1, "two"]}, "w": True}, "a": [{"p": 1}, {"p": 2}], "c d": 1.5}
    assert to_toml(data) == (
        '"c d" = 1.5\n\n[b]\nx = 1\nw = true\n\n[b.z]\nk = [1, "two"]\n\n[[a]]\np = 1\n\n[[a]]\np = 2\n'
    )


@pytest.mark.parametrize("value", [object(), {1}, 1j])
def test_values_that_toml_has_not_are_refused(value: object) -> None:
    with pytest.raises(TypeError, match="TOML has no"):
        to_toml({"a": value})


# Experiments

COUNTS = st.integers(1, 1000)
BANDWIDTHS = st.fractions(10**4, 10**12, max_denominator=10**6).map(format_bandwidth)
LATENCIES = st.fractions(Fraction(1, 10**12), 1, max_denominator=10**12).map(format_duration) | st.sampled_from(
    ["1 cycle", "17 cycles"]
)
DELAYS = LATENCIES | st.just("0 ns")
# A name may name a file, so it has no zero character.
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(
    lambda t: t.strip() != "" and "irect" not in t
)
ALGORITHMS = st.sampled_from(["ring", "oneRing", "direct", "direct4", "direct:2", "halvingDoubling"]) | NAMES


def tables(required: dict[str, Any], **optional: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(required, optional=optional)


def one_or_many(value: st.SearchStrategy[Any], n: int) -> st.SearchStrategy[Any]:
    return value | st.lists(value, min_size=n, max_size=n)


DELAY = st.integers(0, 9)
ROUTERS = tables(
    {},
    pipeline=st.just("booksim") | tables({}, bw=DELAY, rc=DELAY, va=DELAY, sa=st.integers(1, 9), st=DELAY),
    vcs=COUNTS,
    buffer=st.just("auto") | COUNTS,
    vc_reuse=st.sampled_from(["tail", "drained"]),
    arbiter=st.sampled_from(["round-robin", "step"]),
    injection=st.sampled_from(["packet", "interleaved"]),
    output_queue=st.booleans(),
    serdes=DELAY,
    serdes_credit=DELAY,
    routing=NAMES,
) | tables({"pipeline": st.just("garnet")}, latency=COUNTS)


@st.composite
def experiments(draw: st.DrawFn) -> dict[str, Any]:
    n = draw(st.integers(1, 3))
    links: dict[str, st.SearchStrategy[Any]] = {
        "clock": st.fractions(10**6, 10**10, max_denominator=7).map(format_frequency),
        "flit": st.integers(1, 512).map(format_bytes),
        "packet": st.integers(512, 10**6).map(format_bytes),
        "header": st.just("0 B") | st.just("1 B"),
        "bandwidth": one_or_many(BANDWIDTHS, n),
        "latency": one_or_many(LATENCIES, n),
        "lanes": st.sampled_from(["per-link", "per-dimension", 3]),
        "lane_latency": LATENCIES,
        "lane_bandwidth": BANDWIDTHS,
        "pad_packets": st.booleans(),
        "router": ROUTERS,
    }
    dims = tables(
        {"block": NAMES, "npus": COUNTS}, bandwidth=BANDWIDTHS, latency=LATENCIES, bidirectional=st.booleans()
    )
    shapes = st.lists(st.integers(1, 64), min_size=n, max_size=n)
    option = st.dictionaries(TEXTS, VALUES, max_size=2)
    network = draw(
        tables({"topology": NAMES, "shape": shapes}, options=option, **links)
        | tables(
            {"dims": st.lists(dims.map(lambda d: {**d, "npus": d["npus"] % 64 + 1}), min_size=n, max_size=n)}, **links
        )
    )
    algorithms = one_or_many(ALGORITHMS, n)
    system = tables(
        {},
        compat=st.just("astra-sim-1"),
        chunks=COUNTS,
        active_chunks=COUNTS,
        scheduling=st.sampled_from(["LIFO", "FIFO"]),
        inter_dimension=st.sampled_from(["ascending", "round-robin"]),
        optimization=st.sampled_from(["baseline", "localBWAware"]),
        endpoint_delay=DELAYS,
        reduction_delay=DELAYS,
        queues=one_or_many(COUNTS, n),
        all_reduce=algorithms,
        reduce_scatter=algorithms,
        all_gather=algorithms,
        all_to_all=algorithms,
    )
    kinds = st.sampled_from(["all-reduce", "reduce-scatter", "all-gather", "all-to-all"])
    scales = st.floats(1e-6, 1e6)
    loads = tables(
        {"collective": st.fixed_dictionaries({"kind": kinds, "size": st.integers(1, 2**62).map(format_bytes)})}
    ) | tables({"workload": tables({"file": NAMES}, passes=COUNTS, comm_scale=scales, compute_scale=scales)})
    rest = tables(
        {},
        system=system,
        output=tables({}, window=LATENCIES, seed=st.integers(0, 2**63 - 1)),
    )
    return {"network": network, **draw(loads), **draw(rest)}


@settings(max_examples=part_of(100))
@given(experiments())
def test_the_resolved_text_reads_back_to_an_equal_experiment(data: dict[str, Any]) -> None:
    experiment = load_experiment(data)
    text = resolved_toml(experiment)
    again = load_experiment(tomllib.loads(text))
    assert again == experiment
    assert resolved_toml(again) == text


def test_the_resolved_text_holds_every_key_that_has_a_value(tmp_path: Path) -> None:
    data = {"network": {"topology": "ring", "shape": [4]}, "collective": {"kind": "all-reduce", "size": "1 MiB"}}
    path = tmp_path / "resolved.toml"
    path.write_text(resolved_toml(load_experiment(data)), encoding="utf-8")
    written = tomllib.loads(path.read_text(encoding="utf-8"))
    # Left out: what is null (higher floors resolve it), an empty table, and a clock that a run chooses.
    for name, table in load_experiment(data):
        keys = {key for key, value in table if value not in (None, {}, ())} if table else set()
        keys -= {"clock"}
        assert set(written.get(name, {})) == keys
    assert load_experiment(path) == load_experiment(data)
