"""[system]: names of algorithms in both spellings, and which of them are wanted."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.settings import System, canonical_algorithm, load_experiment


@pytest.mark.parametrize(
    ("given_name", "name"),
    [
        ("ring", "ring"),
        ("oneRing", "one-ring"),
        ("one-ring", "one-ring"),
        ("direct", "direct"),
        ("direct4", "direct:4"),
        ("direct:4", "direct:4"),
        ("direct:04", "direct:4"),
        ("oneDirect", "one-direct"),
        ("oneDirect16", "one-direct:16"),
        ("one-direct:16", "one-direct:16"),
        ("halvingDoubling", "halving-doubling"),
        ("oneHalvingDoubling", "one-halving-doubling"),
        ("doubleBinaryTree", "double-binary-tree"),
        ("myOwn_Ring2", "myOwn_Ring2"),
        ("directed", "directed"),
    ],
)
def test_both_spellings_have_one_name(given_name: str, name: str) -> None:
    assert canonical_algorithm(given_name) == name
    assert canonical_algorithm(name) == name


@pytest.mark.parametrize(
    "name", ["direct0", "direct:0", "direct:", "direct:x", "direct:-1", "direct:1.5", "one-direct:"]
)
def test_a_window_is_a_count(name: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"invalid number in '{name}'")):
        canonical_algorithm(name)


@given(st.text())
def test_a_name_is_kept_or_translated_once_and_for_all(name: str) -> None:
    try:
        once = canonical_algorithm(name)
    except InputError:
        assert "direct:" in name or "Direct:" in name or name.rstrip("0").endswith("irect")
    else:
        assert canonical_algorithm(once) == once


def test_algorithms_are_kept_in_our_spelling_for_each_kind() -> None:
    system = System.model_validate({"all_reduce": ["oneRing", "direct4"], "all_to_all": "direct"})
    assert system.algorithms("all-reduce") == ("one-ring", "direct:4")
    assert system.algorithms("all-to-all") == "direct"
    assert system.algorithms("all-gather") is None
    assert system.algorithms("reduce-scatter") is None


@pytest.mark.parametrize(
    ("system", "problem"),
    [
        ({"endpoint": {}}, "the table sets no limit"),
        ({"endpoint": {"memory_bandwidth": "1 GB/s", "engine_memory": "1 MiB"}}, "requires an offload engine"),
        ({"endpoint": {"memory_bandwidth": "1 GB/s", "engine_rate": "1 GB/s"}}, "requires an offload engine"),
        ({"endpoint": {"compute_share": 0.1, "offload": "engine"}}, "not the cores"),
        ({"endpoint": {"compute_share": 1}}, "no cores are left"),
        ({"endpoint": {"compute_share": 0.1}}, "has no effect without computation"),
        ({"endpoint": {"compute_share": 0.1, "communication_bandwidth": "1 GB/s"}}, "must not exceed memory_bandwidth"),
        (
            {"endpoint": {"memory_bandwidth": "1 GB/s", "communication_bandwidth": "2 GB/s"}},
            "must not exceed memory_bandwidth",
        ),
        ({"endpoint": {"memory_bandwidth": "1 GB/s"}, "boost": True}, "all groups share its memory"),
        ({"endpoint": {"memory_bandwidth": "1 GB/s"}, "shared_bus": {"L": "1 ns"}}, "path between memory and network"),
        ({"endpoint": {"memory_bandwidth": "1 GB/s"}, "local_memory_bandwidth": "1 GB/s"}, "traffic of reductions"),
        ({"endpoint": {"memory_bandwidth": "1 GB/s"}, "compat": "astra-sim-1"}, "does not support"),
        ({"endpoint": {"memory_bandwidth": "1 GB/s"}, "compat": "astra-sim-2"}, "does not support"),
    ],
)
def test_an_endpoint_says_what_it_is(system: dict[str, object], problem: str) -> None:
    network = {"topology": "ring", "shape": [4], "bandwidth": "1 GB/s", "latency": "1 ns"}
    with pytest.raises(InputError, match=problem):
        load_experiment({"network": network, "system": system, "collective": {"kind": "all-reduce", "size": "1 B"}})


def test_open_traffic_has_no_memory() -> None:
    network = {"topology": "ring", "shape": [4], "bandwidth": "1 GB/s", "latency": "1 ns"}
    system = {"endpoint": {"memory_bandwidth": "1 GB/s"}}
    with pytest.raises(InputError, match="has no effect on open traffic"):
        load_experiment({"network": network, "system": system, "traffic": {"pattern": "uniform", "load": 0.1}})
