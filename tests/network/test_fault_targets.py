"""What a fault affects, on networks whose links can be listed by hand."""

from __future__ import annotations

from typing import Any

import pytest

from pyxsim.errors import InputError
from pyxsim.network.fault_targets import npus_of, timed_links
from pyxsim.settings import load_experiment
from pyxsim.topology.build import network_of

RING = {"topology": "ring", "shape": [4]}
LEAVES = {"topology": "leaf-spine", "options": {"npus": 2, "leaves": 2, "spines": 1}}


def names(network: dict[str, Any], fault: dict[str, Any], **tables: Any) -> list[str]:
    """The names of the links that a fault affects."""
    tables = {"message": [{"src": 0, "dst": 1, "size": "1 KiB"}], **tables}
    experiment = load_experiment({"network": network, "faults": [{"down": True, **fault}], **tables})
    topology = network_of(experiment.network, experiment.folder)
    ((_, links),) = timed_links(experiment, topology, experiment.faults[0], "faults[0]")
    assert links.tolist() == sorted(set(links.tolist()))
    return [topology.counted_link_name[link] for link in links]


def test_a_link_and_the_one_back() -> None:
    assert names(RING, {"link": "d0+:(0)->(1)"}) == ["d0+:(0)->(1)", "d0-:(1)->(0)"]
    assert names(RING, {"link": "d0-:(1)->(0)"}) == ["d0+:(0)->(1)", "d0-:(1)->(0)"]
    assert names(RING, {"link": "d0+:(0)->(1)", "both_directions": False}) == ["d0+:(0)->(1)"]


@pytest.mark.parametrize(
    ("fault", "sizes"),
    [
        ({"link": "*"}, [2] * 4),
        ({"link": "*", "both_directions": False}, [1] * 8),
        ({"link": "d0+:*", "count": 3}, [2] * 3),
        ({"router": "*"}, [4] * 4),
        ({"npu": "*"}, [4] * 4),
    ],
)
def test_with_random_times_each_fails_by_itself(fault: dict[str, Any], sizes: list[int]) -> None:
    random = {**fault, "down": True, "for": "1 us", "mttf": "1 us"}
    tables = {"network": RING, "faults": [random], "message": [{"src": 0, "dst": 1, "size": "1 KiB"}]}
    experiment = load_experiment(tables)
    topology = network_of(experiment.network, experiment.folder)
    parts = list(timed_links(experiment, topology, experiment.faults[0], "faults[0]"))
    assert [len(links) for _, links in parts] == sizes
    assert len({next(times.all_begins()) for times, _ in parts}) == len(parts)
    together = sorted({topology.counted_link_name[link] for _, links in parts for link in links})
    assert together == sorted(names(RING, fault))


def test_a_router_loses_all_its_links() -> None:
    assert set(names(RING, {"router": "(2)"})) == {
        "d0+:(1)->(2)",
        "d0+:(2)->(3)",
        "d0-:(3)->(2)",
        "d0-:(2)->(1)",
    }


def test_an_npu_without_host_links_has_those_of_its_router() -> None:
    assert names(RING, {"npu": 2}) == names(RING, {"router": "(2)"})
    assert set(names(RING, {"npu": 2, "both_directions": False})) == {"d0+:(2)->(3)", "d0-:(2)->(1)"}


def test_an_npu_with_host_links_has_these() -> None:
    assert names(LEAVES, {"npu": 3}) == ["host:NPU 3->(1)", "host:(1)->NPU 3"]
    assert names(LEAVES, {"npu": "3", "both_directions": False}) == ["host:NPU 3->(1)"]


def test_a_host_link_by_name() -> None:
    assert names(LEAVES, {"link": "host:NPU 0->*"}) == ["host:NPU 0->(0)", "host:(0)->NPU 0"]


def test_a_group_is_its_npus() -> None:
    system = {"groups": [{"name": "a", "npus": [0, 1]}, {"name": "b", "npus": [2, 3]}]}
    found = names(LEAVES, {"group": "b"}, system=system)
    assert found == ["host:NPU 2->(1)", "host:NPU 3->(1)", "host:(1)->NPU 2", "host:(1)->NPU 3"]
    with pytest.raises(InputError, match="no group has the name 'c'"):
        names(LEAVES, {"group": "c"}, system=system)


def test_npus_that_share_a_router_have_no_links_of_their_own() -> None:
    with pytest.raises(InputError, match="NPU 0 shares its router"):
        names({**LEAVES, "host_links": False}, {"npu": 0})


def test_a_count_draws_cables_and_the_same_ones_again() -> None:
    drawn = [names(RING, {"link": "*", "count": 2, "seed": seed}) for seed in range(60)]
    assert all(len(links) == 4 for links in drawn)  # two cables, both directions
    assert drawn == [names(RING, {"link": "*", "count": 2, "seed": seed}) for seed in range(60)]
    assert len({tuple(links) for links in drawn}) == 6  # all pairs of four cables
    single = names(RING, {"link": "*", "count": 3, "both_directions": False})
    assert len(single) == 3


def test_patterns_of_npus() -> None:
    tables = {"network": LEAVES, "message": [{"src": 0, "dst": 1, "size": "1 KiB"}]}
    experiment = load_experiment({**tables, "faults": [{"npu": "*", "count": 2, "seed": 5, "down": True}]})
    topology = network_of(experiment.network, experiment.folder)
    assert len(npus_of(experiment, topology, experiment.faults[0], "faults[0]")) == 2
