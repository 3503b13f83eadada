"""ASTRA-sim 1's system text as settings."""

from __future__ import annotations

import pytest

from pyxsim.compat.astra.files import system_tables
from pyxsim.errors import InputError
from tests.compat.astra.files.files import SYSTEM, Write


def test_a_system(write: Write) -> None:
    assert system_tables(write(SYSTEM), 3) == {
        "compat": "astra-sim-1",
        "scheduling": "FIFO",
        "endpoint_delay": "7 ns",
        "reduction_delay": "30 ns",
        "active_chunks": 2,
        "chunks": 5,
        "optimization": "localBWAware",
        "intra_dimension": "FIFO",
        "inter_dimension": "round-robin",
        "all_reduce": ["ring", "direct:4", "halving-doubling"],
        "all_gather": "one-ring",
    }


def test_the_defaults_of_a_system(write: Write) -> None:
    assert system_tables(write({"scheduling-policy": "LIFO"}), 2) == {
        "compat": "astra-sim-1",
        "scheduling": "LIFO",
        "endpoint_delay": "10 ns",
        "reduction_delay": "30 ns",
        "active_chunks": 1,
        "chunks": 1,
        "optimization": "baseline",
        "intra_dimension": "FIFO",
        "inter_dimension": "ascending",
    }


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("inter-dimension-scheduling", "ascending"),
        ("inter-dimension-scheduling", "baseline"),
        ("inter-dimension-scheduling", "offlineGreedy"),
        ("inter-dimension-scheduling", "themis"),
        ("intra-dimension-scheduling", "FIFO"),
        ("endpoint-delay", "0"),
        ("seprate-log", "1"),
        ("local-reduction-delay", "1"),
        ("L", "500"),
        ("o", "0"),
        ("g", "1"),
        ("G", "0.0038"),
        ("model-shared-bus", "0"),
    ],
)
def test_what_is_taken(write: Write, key: str, value: str) -> None:
    system_tables(write(SYSTEM | {key: value}), 3)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"scheduling-policy": None}, "scheduling-policy: is missing"),
        ({"scheduling-policy": "RANDOM"}, "scheduling-policy: 'RANDOM' is not in this version; allowed: LIFO, FIFO"),
        ({"boost-mode": "2"}, "boost-mode: '2' is not allowed; allowed: 0, 1"),
        ({"model-shared-bus": "on"}, "model-shared-bus: 'on' is not allowed"),
        ({"L": "-1"}, "L: '-1' is not allowed; allowed: a whole number from 0"),
        ({"intra-dimension-scheduling": "LIFO"}, "intra-dimension-scheduling: 'LIFO' is not in this version"),
        ({"inter-dimension-scheduling": "greedy"}, "'greedy' is not in this version; .*offlineGreedy"),
        ({"collective-optimization": "none"}, "collective-optimization: 'none' is not in this version"),
        ({"preferred-dataset-splits": "0"}, "preferred-dataset-splits: '0' is not allowed"),
        ({"all-reduce-implementation": "ring_ring"}, "all-reduce-implementation: 2 algorithms for 3 dimensions"),
        ({"all-reduce-implementation": "ring_direct0_ring"}, "all-reduce-implementation: invalid number in 'direct0'"),
        ({"injection-policy": "normal"}, "injection-policy: belongs to the version of 2020"),
        ({"direct-collective-window": "4"}, "belongs to the version of 2020.*; allowed: a window in the name"),
        ({"split": "4"}, "split: unknown key; "),
    ],
)
def test_faults_of_a_system_text(write: Write, changes: dict[str, str | None], told: str) -> None:
    pairs = {key: value for key, value in (SYSTEM | changes).items() if value is not None}
    with pytest.raises(InputError, match=told) as caught:
        system_tables(write(pairs), 3)
    assert "file.txt" in str(caught.value)


@pytest.mark.parametrize("name", ["ring_rinng_ring", "halvingDoubling", "doubleBinaryTree"])
def test_algorithms_have_to_exist_where_they_are_used(write: Write, name: str) -> None:
    path = write(SYSTEM | {"all-to-all-implementation": name})
    assert system_tables(path, 3, {"all-reduce"})["all_to_all"]
    with pytest.raises(InputError, match=r"file.txt:10: all-to-all-implementation: "):
        system_tables(path, 3, {"all-to-all"})
