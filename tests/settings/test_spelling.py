"""ASTRA-sim's spellings of keys and words in [system], from files and from --set."""

from __future__ import annotations

from typing import Any

import pytest

from pyxsim.errors import InputError
from pyxsim.settings import load_experiment, resolved_toml
from pyxsim.settings.spelling import SPELLINGS, of_system_file
from pyxsim.settings.system import System
from tests.in_turn import in_turn

BASE: dict[str, Any] = {
    "network": {"topology": "torus", "shape": [4, 4]},
    "collective": {"kind": "all-reduce", "size": "1 MiB"},
}

SAME = [
    ({"preferred-dataset-splits": 4}, {"chunks": 4}),
    ({"active-chunks-per-dimension": 2}, {"active_chunks": 2}),
    ({"scheduling-policy": "FIFO"}, {"scheduling": "FIFO"}),
    ({"scheduling-policy": "EXPLICIT"}, {"scheduling": "explicit"}),
    ({"collective-optimization": "baseline"}, {"optimization": "baseline"}),
    ({"intra-dimension-scheduling": "smallestFirst"}, {"intra_dimension": "smallest-first"}),
    ({"intra_dimension": "lessRemainingPhaseFirst"}, {"intra_dimension": "fewest-phases-first"}),
    ({"inter-dimension-scheduling": "offlineGreedy"}, {"inter_dimension": "themis"}),
    ({"inter_dimension": "offlineGreedyFlex"}, {"inter_dimension": "themis-flex"}),
    ({"inter_dimension": "roundRobin"}, {"inter_dimension": "round-robin"}),
    ({"inter_dimension": "themisFlex"}, {"inter_dimension": "themis-flex"}),
    ({"intra_dimension": "SCF"}, {"intra_dimension": "smallest-first"}),
    ({"inter_dimension": "baseline"}, {"inter_dimension": "ascending"}),
    ({"endpoint-delay": 10}, {"endpoint_delay": "10 ns"}),
    ({"endpoint-delay": "10 cycles"}, {"endpoint_delay": "10 cycles"}),
    ({"local-mem-bw": 50}, {"local_memory_bandwidth": "50 GB/s"}),
    ({"local-mem-bw": 0}, {}),
    ({"boost-mode": 1}, {"boost": True}),
    ({"num-queues-per-dim": 2}, {"queues": 2}),
    ({"all-reduce-implementation": "ring_halvingDoubling"}, {"all_reduce": ["ring", "halving-doubling"]}),
    ({"all-to-all-implementation": ["direct4", "ring"]}, {"all_to_all": ["direct:4", "ring"]}),
    ({"all-gather-implementation": "oneRing"}, {"all_gather": "one-ring"}),
    ({"reduce-scatter-implementation-custom": ["traces/rs"]}, {"reduce_scatter": "traces/rs.*.et"}),
]


@in_turn(("theirs", "ours"), SAME)
def test_both_spellings_mean_the_same(theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    assert load_experiment({**BASE, "system": theirs}) == load_experiment({**BASE, "system": ours})


def test_every_spelling_is_of_a_key() -> None:
    assert {key for key, _ in SPELLINGS.values()} <= set(System.model_fields)
    assert not set(SPELLINGS) & set(System.model_fields)


def test_a_key_is_told_as_a_system_file_has_it() -> None:
    assert of_system_file("system.all_reduce[1]") == "all-reduce-implementation[1]"
    assert of_system_file("system.endpoint_delay") == "endpoint-delay"
    assert of_system_file("system.shared_bus.L") == "system.shared_bus.L"
    assert of_system_file("network.shape") == "network.shape"


def test_a_key_in_two_spellings_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        load_experiment({**BASE, "system": {"chunks": 2, "preferred-dataset-splits": 4}})
    assert str(caught.value) == "system.preferred-dataset-splits: same setting as `chunks`; allowed: one of them"
    names = {"all-reduce-implementation": "ring", "all-reduce-implementation-custom": ["x"]}
    with pytest.raises(InputError) as caught:
        load_experiment({**BASE, "system": names})
    assert "same setting as `all-reduce-implementation`" in str(caught.value)


def test_faults_name_the_key_as_it_is_written() -> None:
    for table, told in (
        ({"preferred-dataset-splits": 0}, "system.preferred-dataset-splits: 0 is too small"),
        ({"endpoint-delay": -1}, "system.endpoint-delay: '-1 ns' is negative"),
        ({"inter-dimension-scheduling": "ofline"}, "system.inter-dimension-scheduling: unknown value 'ofline'"),
        ({"all-reduce-implementation": ["ring", 3]}, "system.all-reduce-implementation[1]: 3 is not a name"),
    ):
        with pytest.raises(InputError) as caught:
            load_experiment({**BASE, "system": table})
        assert str(caught.value).startswith(told)


def test_an_unknown_spelling_has_a_closest_match() -> None:
    with pytest.raises(InputError, match=r"system.active-chunks: unknown key; .*did you mean 'active_chunks'\?"):
        load_experiment({**BASE, "system": {"active-chunks": 2}})


def test_overrides_may_be_spelled_so() -> None:
    experiment = load_experiment({**BASE, "system": {"chunks": 2}}, ["system.preferred-dataset-splits=8"])
    assert experiment.system.chunks == 8
    data = {**BASE, "system": {"preferred-dataset-splits": 0}}
    assert load_experiment(data, ["system.chunks=3"]).system.chunks == 3
    with pytest.raises(InputError, match=r"^overrides: system.endpoint_delay: '-1 ns' is negative"):
        load_experiment(BASE, ["system.endpoint-delay=-1"])


def test_the_resolved_text_has_our_spelling() -> None:
    text = resolved_toml(load_experiment({**BASE, "system": {"preferred-dataset-splits": 4}}))
    assert "chunks = 4" in text
    assert "preferred" not in text
