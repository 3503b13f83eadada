"""Which NPUs jobs run on: by hand, and against the definition for random sizes."""

from __future__ import annotations

from typing import Any

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.library import load_all
from pyxsim.settings import load_experiment
from pyxsim.topology.build import network_of
from pyxsim.topology.from_networkx import from_networkx
from pyxsim.workload.jobs.placement import placed, racks

TORUS = {"topology": "torus", "shape": [4, 4], "bandwidth": "50 GB/s"}
WORK = {"kind": "all-reduce", "size": "1 KiB"}


def homes(*jobs: dict[str, Any], network: dict[str, Any] = TORUS, seed: int = 1) -> list[list[int]]:
    tables = [{"name": f"j{number}", "collective": WORK, **job} for number, job in enumerate(jobs)]
    load_all([])
    experiment = load_experiment({"network": network, "job": tables})
    topology = network_of(experiment.network)
    return [npus.tolist() for npus in placed(experiment.job, topology, seed)]


def test_packed_jobs_take_the_next_free_npus_around_own_lists() -> None:
    assert homes({"npus": 3}, {"placement": [7, 1]}, {"npus": 4}) == [[0, 2, 3], [7, 1], [4, 5, 6, 8]]


def test_a_scattered_job_takes_every_kth_free_npu() -> None:
    assert homes({"npus": 4, "placement": "scattered"}, {"npus": 6, "placement": "scattered"}) == [
        [0, 4, 8, 12],
        [1, 3, 6, 9, 11, 14],
    ]


def test_a_rack_is_a_coordinate_of_the_last_dimension() -> None:
    # Rows of the torus are NPUs 0-3, 4-7, 8-11, 12-15. NPU 1 is taken: rows 1 to 3 are whole, then comes row 0.
    assert homes({"placement": [1]}, {"npus": 14, "placement": "by-rack"})[1] == [*range(4, 16), 0, 2]


def test_partly_free_racks_come_in_the_order_of_their_free_npus() -> None:
    taken = [0, 1, 2, 4, 8, 9, 12]  # free: one, three, two and three NPUs
    chosen = homes({"placement": taken}, {"npus": 9, "placement": "by-rack"})[1]
    assert chosen == [5, 6, 7, 13, 14, 15, 10, 11, 3]


def test_a_rack_of_a_fat_tree_is_what_is_below_a_switch_of_the_last_level() -> None:
    load_all([])
    options = {"children": [4, 3], "parents": [2]}
    tree = {"topology": "fat-tree", "options": options, "bandwidth": "50 GB/s"}
    found = racks(network_of(load_experiment({"network": tree, "collective": WORK}).network))
    assert found.tolist() == [leaf for leaf in range(3) for _ in range(4)]


@pytest.mark.parametrize("attached", [False, True])
def test_a_rack_of_a_network_of_one_dimension_is_below_its_first_switch(attached: bool) -> None:
    graph = networkx.Graph()
    leaves, own = ["s0", "s1"], [] if attached else ["n0", "n1", "n2", "n3"]
    graph.add_nodes_from(leaves, npus=2 if attached else 0)
    graph.add_nodes_from(own, npus=1)
    graph.add_edge("s0", "s1")
    graph.add_edges_from([("n0", "s1"), ("n1", "s0"), ("n2", "s1"), ("n3", "s0")] if own else [])
    assert racks(from_networkx(graph)).tolist() in ([[0, 0, 1, 1]] if attached else [[0, 1, 0, 1], [1, 0, 1, 0]])


def test_without_switches_all_npus_are_one_rack() -> None:
    load_all([])
    ring = {"topology": "torus", "shape": [6], "bandwidth": "50 GB/s"}
    assert set(racks(network_of(load_experiment({"network": ring, "collective": WORK}).network)).tolist()) == {0}


@given(st.integers(1, 16), st.integers(0, 2**32))
def test_random_npus_are_free_distinct_and_repeatable(count: int, seed: int) -> None:
    jobs = ({"placement": [3, 5]}, {"npus": min(count, 14), "placement": "random", "seed": seed})
    chosen = homes(*jobs)[1]
    assert chosen == homes(*jobs)[1] == sorted(set(chosen) - {3, 5})
    assert len(chosen) == min(count, 14)


def test_the_seed_changes_random_npus() -> None:
    drawn = [homes({"npus": 8, "placement": "random"}, seed=seed)[0] for seed in range(5)]
    assert len({tuple(each) for each in drawn}) > 1


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        (
            [{"npus": 10}, {"npus": 7}],
            r"job\[1\].npus: job 'j1' needs 7 NPUs, but only 6 of 16 are free; allowed: at most 6, or",
        ),
        ([{"npus": 17}], r"job\[0\].npus: job 'j0' needs 17 NPUs, but the network has 16; allowed: at most 16$"),
        ([{"npus": 15}, {"npus": 2}], "needs 2 NPUs, but only 1 of 16 is free"),
        (
            [{"placement": [0, 1]}, {"placement": [2, 1]}],
            r"job\[1\].placement\[1\]: NPU 1 already belongs to job 'j0'; allowed: each NPU in one job",
        ),
        ([{"placement": [0, 16]}], r"job\[0\].placement\[1\]: there is no NPU 16; allowed: NPUs 0 to 15"),
    ],
)
def test_npus_that_a_job_cannot_have(jobs: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        homes(*jobs)
