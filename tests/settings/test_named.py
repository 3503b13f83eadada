"""Systems of a shelf as data: what an experiment takes from one, what it says itself, and faults of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyxsim.errors import InputError, InputErrors
from pyxsim.settings import load_experiment, resolved_toml
from pyxsim.settings.load import read_source
from pyxsim.settings.named import read_system
from pyxsim.settings.points import points

POD = """
help = "A pod of this test"
npus = 32

[network]
dims = [{ block = "switch", npus = 8, bandwidth = "300 GB/s" }, { block = "switch", npus = 4, bandwidth = "25 GB/s" }]
clock = "2 GHz"
latency = ["1 us", "5 us"]
router = { vcs = 6, pipeline = "garnet", latency = 3, routing = "ugal", routing_options = { bias = 4 } }

[system]
chunks = 8
all_reduce = ["ring", "direct"]

[[source]]
title = "Nobody's pod"
url = "https://example.org/pod"
year = 2020

[[assumed]]
key = "network.latency[1]"
why = "a guess"
"""
ASK: dict[str, Any] = {"topology": "pod"}
WORK = {"kind": "all-reduce", "size": "1 MiB"}


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    shelf = tmp_path / "mine" / "topologies"
    shelf.mkdir(parents=True)
    (shelf / "pod.toml").write_text(POD, encoding="utf-8")
    return tmp_path / "mine"


def load(mine: Path, *overrides: str, system: Any = None, **network: Any) -> Any:
    data = {"network": {**ASK, **network}, "collective": WORK, **({} if system is None else {"system": system})}
    return load_experiment(data, overrides, [mine])


def faults(mine: Path, *overrides: str, **tables: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        load(mine, *overrides, **tables)
    told = caught.value.faults if isinstance(caught.value, InputErrors) else [caught.value]
    return [str(fault).replace(f"{mine}/topologies/", "") for fault in told]


def test_an_experiment_takes_all_of_a_system(mine: Path) -> None:
    found = load(mine)
    network = found.network
    assert (network.name, network.topology, [dim.npus for dim in network.dims]) == ("pod", None, [8, 4])
    assert network.bandwidths(2) == [300 * 10**9, 25 * 10**9]
    assert (network.clock, network.router.vcs, network.router.routing) == (2 * 10**9, 6, "ugal")
    assert (found.system.chunks, found.system.all_reduce) == (8, ("ring", "direct"))


def test_what_it_says_itself_goes_first(mine: Path) -> None:
    found = load(
        mine,
        "network.router.vcs=8",
        shape=[8, 2],
        bandwidth="100 GB/s",
        name="half a pod",
        router={"routing": "valiant"},
        system={"all_reduce": "ring"},
    )
    network = found.network
    assert (network.name, [dim.npus for dim in network.dims]) == ("half a pod", [8, 2])
    assert network.bandwidths(2) == [100 * 10**9] * 2, "a bandwidth for all counts before those of the dimensions"
    assert (network.router.vcs, network.router.routing, network.router.routing_options) == (8, "valiant", {})
    assert (network.router.pipeline, network.router.latency) == ("garnet", 3)
    assert (found.system.chunks, found.system.all_reduce) == (8, "ring")


def test_another_pipeline_does_not_keep_the_latency_of_the_first(mine: Path) -> None:
    assert load(mine, router={"pipeline": "booksim"}).network.router.latency == 1


def test_a_system_file_of_astra_sim_is_not_overridden(mine: Path) -> None:
    found = load(mine, system={"file": "system.json"})
    assert found.system.model_fields_set == {"file"}


def test_the_resolved_settings_need_no_shelf(mine: Path) -> None:
    found = load(mine)
    _, tables = read_source(found)
    assert load_experiment(tables) == found
    path = mine / "resolved.toml"
    path.write_text(resolved_toml(found), encoding="utf-8")
    (mine / "topologies" / "pod.toml").unlink()
    assert load_experiment(path) == found


def test_variants_and_sweeps_may_name_systems(mine: Path) -> None:
    data = {
        "network": {"topology": "ring", "shape": [4]},
        "collective": WORK,
        "variant": [
            {"name": "ring", "set": {}},
            {"name": "pod", "set": {"network": {"topology": "pod"}}},
        ],
    }
    ring, pod = points(data, (), [mine])
    assert (ring.experiment.network.name, pod.experiment.network.name) == (None, "pod")
    assert pod.experiment.network.router.vcs == 6


def test_without_the_library_there_is_no_such_network(mine: Path) -> None:
    found = load_experiment({"network": dict(ASK), "collective": WORK})
    assert found.network.topology == "pod", "who builds it says that there is none of that name"


def test_a_graph_is_looked_for_beside_its_system(mine: Path) -> None:
    text = POD.replace("dims = [", 'topology = "graph"\noptions = { file = "pod.graphml" }\n#').replace(
        'all_reduce = ["ring", "direct"]', ""
    )
    (mine / "topologies" / "pod.toml").write_text(text.replace('["1 us", "5 us"]', '["1 us", "5 us"]'))
    assert load(mine).network.options == {"file": str(mine / "topologies" / "pod.graphml")}


@pytest.mark.parametrize(
    ("tables", "overrides", "told"),
    [
        (
            {"shape": [8]},
            (),
            ["network.shape: the shape has 1 entries, but pod has 2 dimensions; allowed: a list of 2 numbers"],
        ),
        (
            {"shape": [8, 0]},
            (),
            ["network.shape[1]: 0 is too small; allowed: a whole number from 1 to 1048576"],
        ),
        (
            {"dims": [{"block": "ring", "npus": 2}]},
            (),
            ["network.dims: cannot be combined with 'topology'; allowed: one of them"],
        ),
        (
            {},
            ("network.router.vcs=0",),
            ["overrides: network.router.vcs: 0 is too small; allowed: a whole number from 1 to 1024"],
        ),
        (
            {"bandwith": "1 GB/s"},
            (),
            None,
        ),
    ],
)
def test_faults_of_an_experiment(
    mine: Path, tables: dict[str, Any], overrides: tuple[str, ...], told: list[str] | None
) -> None:
    found = faults(mine, *overrides, **tables)
    if told is None:
        (line,) = found
        assert line.startswith("network.bandwith: unknown key")
        assert line.endswith("did you mean 'bandwidth'?")
    else:
        assert found == told


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('why = "a guess"', "", "pod.toml: assumed[0].why: is missing; allowed: a text"),
        (
            'key = "network.latency[1]"',
            'key = "network.latency[2]"',
            "pod.toml: assumed[0].key: the file does not set network.latency[2]; allowed: a key of this file",
        ),
        ("chunks = 8", "chunk = 8", "pod.toml: system.chunk: unknown key"),
        ("npus = 32", "npus = 0", "pod.toml: npus: 0 is too small; allowed: a whole number from 1 to 1048576"),
        ("[network]", "[network", "pod.toml:5: not valid TOML: Expected ']' at the end of a table declaration"),
        (
            'all_reduce = ["ring", "direct"]',
            'all_reduce = ["ring"]',
            "pod.toml: system.all_reduce: the list has 1 entries, but the network has 2 dimensions",
        ),
    ],
)
def test_faults_of_the_file_are_told_with_its_name(mine: Path, old: str, new: str, told: str) -> None:
    path = mine / "topologies" / "pod.toml"
    path.write_text(POD.replace(old, new, 1), encoding="utf-8")
    (line,) = faults(mine)
    assert line.startswith(told)


def test_a_system_that_says_nothing_of_its_sources_is_none(mine: Path) -> None:
    path = mine / "topologies" / "pod.toml"
    path.write_text(POD.split("[[source]]")[0], encoding="utf-8")
    with pytest.raises(InputError, match=r"pod\.toml: source: the table \[\[source\]\] is missing"):
        read_system(path)


def test_a_system_is_no_experiment(mine: Path) -> None:
    with pytest.raises(InputError, match=r"pod\.toml: this file describes a system, not an experiment; "):
        load_experiment(mine / "topologies" / "pod.toml")


def test_a_system_of_another_kind_has_no_shape(mine: Path) -> None:
    path = mine / "topologies" / "pod.toml"
    text = POD.replace("dims = [", 'topology = "dragonfly"\noptions = { p = 2, a = 4, h = 2 }\n#')
    path.write_text(text.replace('all_reduce = ["ring", "direct"]', ""), encoding="utf-8")
    told = "network.shape: pod has no shape; allowed: network.options: p, a, h"
    assert faults(mine, shape=[8]) == [told]


def test_a_system_stands_on_a_topology_not_on_a_system(mine: Path) -> None:
    path = mine / "topologies" / "pod.toml"
    text = POD.replace("dims = [", 'topology = "pod"\n#').replace('all_reduce = ["ring", "direct"]', "")
    path.write_text(text, encoding="utf-8")
    problem = "a system cannot name another system; allowed: a topology, or dims"
    assert faults(mine) == [f"pod.toml: network.topology: {problem}"]
