"""[collective], [[message]] and what of [system] applies to only some NPUs only: what is read, and what is refused."""

from __future__ import annotations

import tomllib
from fractions import Fraction
from typing import Any

import pytest

from pyxsim.errors import InputError
from pyxsim.settings import load_experiment, resolved_toml
from tests.in_turn import in_turn

NETWORK = {"topology": "torus", "shape": [4, 4]}
ALL = {"kind": "all-reduce", "size": "1 MiB"}
GROUP = {"name": "left", "npus": [0, 1, 2, 3]}


def told(**tables: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        load_experiment({"network": NETWORK, **tables})
    return str(caught.value).splitlines()


def test_one_table_and_several() -> None:
    one = load_experiment({"network": NETWORK, "collective": ALL})
    assert [key for key, _ in one.collectives] == ["collective"]
    two = load_experiment({"network": NETWORK, "collective": [ALL, {"kind": "barrier", "at": "1 us", "name": "b"}]})
    assert [key for key, _ in two.collectives] == ["collective[0]", "collective[1]"]
    assert [each.label for _, each in two.collectives] == ["all-reduce", "b"]
    assert [each.bytes for _, each in two.collectives] == [2**20, 1]
    for experiment in (one, two):
        assert load_experiment(tomllib.loads(resolved_toml(experiment))) == experiment


def test_messages_alone_and_beside_a_collective() -> None:
    message = {"src": 0, "dst": 3, "size": "1 KiB"}
    assert load_experiment({"network": NETWORK, "message": [message]}).message[0].dst == 3
    both = load_experiment({"network": NETWORK, "message": [message], "collective": ALL})
    assert load_experiment(tomllib.loads(resolved_toml(both))) == both
    beside = load_experiment({"network": NETWORK, "message": [message], "traffic": {"load": 0.1}})
    assert beside.background == beside.traffic
    assert load_experiment(tomllib.loads(resolved_toml(beside))) == beside


def test_groups_and_stragglers_are_read() -> None:
    system = {
        "groups": [{**GROUP, "all_reduce": ["ring", "direct4"]}],
        "stragglers": [{"npus": [1], "start": "1 us"}, {"npus": [2, 3], "slow": 1.5}],
        "endpoint_delay": "10 ns",
    }
    experiment = load_experiment({"network": NETWORK, "system": system, "collective": {**ALL, "group": "left"}})
    assert experiment.system.stragglers[1].slow == Fraction(3, 2)
    group = experiment.system.group("left")
    assert group is not None
    assert group.algorithms("all-reduce") == ("ring", "direct:4")
    assert load_experiment(tomllib.loads(resolved_toml(experiment))) == experiment


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"collective": {"kind": "broadcast"}}, "collective.size: is missing; allowed: a size such as '4 KiB'"),
    ({"collective": [ALL, {"kind": "barrier", "size": "1 B"}]}, "collective[1].size: a barrier transfers no data"),
    ({"collective": {**ALL, "root": 1}}, "collective.root: all-reduce has no root; allowed: with broadcast, "),
    (
        {"collective": {"kind": "reduce", "size": "1 B", "root": 1, "dims": [0]}},
        "collective.root: each group along `dims` has its own root",
    ),
    ({"collective": {**ALL, "dims": [0, 0]}}, "collective.dims: a dimension is listed more than once"),
    ({"collective": {**ALL, "dims": []}}, "collective.dims: the list is empty"),
    ({"collective": {**ALL, "npus": [0, 1], "dims": [0]}}, "collective.dims: cannot be combined with `npus`"),
    ({"collective": {**ALL, "npus": [0, 1, 0]}}, "collective.npus: NPU 0 is listed 2 times; allowed: each NPU once"),
    ({"collective": {**ALL, "npus": [3]}}, "collective.npus: [3] is a single NPU; allowed: a list of at least two"),
    ({"collective": {**ALL, "npus": [-1, 3]}}, "collective.npus[0]: -1 is too small"),
    ({"collective": {**ALL, "at": "-1 ns"}}, "collective.at: '-1 ns' is negative"),
    ({"collective": {**ALL, "group": "x"}}, "collective.group: unknown group 'x'; allowed: a name of [[system."),
    (
        {"collective": {**ALL, "group": "lift"}, "system": {"groups": [GROUP]}},
        "collective.group: unknown group 'lift'; allowed: left; did you mean 'left'?",
    ),
    ({"collective": {**ALL, "priority": 3}}, "collective.priority: has no effect with system.scheduling = 'LIFO'"),
    ({"message": [{"src": 1, "dst": 1, "size": "1 B"}]}, "message[0].dst: NPU 1 cannot send a message to itself"),
    ({"message": [{"src": 1, "dst": 2, "size": "0 B"}]}, "message[0].size: '0 B' is zero"),
    ({"message": [{"src": 1, "dst": 2, "size": "1 B", "at": "-2 ns"}]}, "message[0].at: '-2 ns' is negative"),
    ({"collective": ALL, "system": {"groups": [GROUP, GROUP]}}, "system.groups[1].name: duplicate group 'left'"),
    (
        {"collective": ALL, "system": {"groups": [{"name": "a", "npus": [1, 1]}]}},
        "system.groups[0].npus: NPU 1 is listed 2 times",
    ),
    (
        {"collective": ALL, "system": {"groups": [{**GROUP, "all_reduce": ["ring"] * 3}]}},
        "system.groups[0].all_reduce: the list has 3 entries, but the network has 2 dimensions",
    ),
    (
        {"collective": ALL, "system": {"stragglers": [{"npus": [1]}]}},
        "system.stragglers[0]: the straggler is neither late nor slow",
    ),
    (
        {"collective": ALL, "system": {"stragglers": [{"npus": [1], "slow": 2}]}},
        "system.stragglers[0].slow: has no effect, because NPUs have no delays",
    ),
    (
        {"collective": ALL, "system": {"endpoint_delay": "1 ns", "stragglers": [{"npus": [1], "slow": 0.5}]}},
        "system.stragglers[0].slow: 0.5 is too small; allowed: a number from 1",
    ),
    (
        {"collective": ALL, "system": {"endpoint_delay": "1 ns", "shared_bus": {"L": "1 ns"}}},
        "system.endpoint_delay: cannot be combined with shared_bus",
    ),
    (
        {"collective": ALL, "system": {"shared_bus": {"G": "1 cycle"}}},
        "system.shared_bus.G: is a whole number of cycles per byte; allowed: a time such as '0.01 ns'",
    ),
    (
        {"collective": ALL, "system": {"compat": "astra-sim-2", "inter_dimension": "offlineGreedy"}},
        "system.inter_dimension: astra-sim-2 does not support 'themis': it always takes the dimensions in order",
    ),
    (
        {"collective": ALL, "system": {"compat": "astra-sim-1", "scheduling": "explicit"}},
        "system.scheduling: astra-sim-1 does not support 'explicit'",
    ),
    (
        {"collective": {"kind": "barrier"}, "system": {"compat": "astra-sim-1"}},
        "collective.kind: astra-sim-1 has no barrier; allowed: another kind, or no compat",
    ),
    (
        {"collective": ALL, "system": {"compat": "astra-sim-1", "broadcast": "ring"}},
        "system.broadcast: astra-sim-1 does not support this setting: it has no such collective",
    ),
    (
        {"collective": ALL, "system": {"compat": "astra-sim-2"}, "output": {"carry": True}},
        "output.carry: astra-sim-2 does not carry real data",
    ),
]


@in_turn(("tables", "line"), FAULTS)
def test_each_fault_is_one_line(tables: dict[str, Any], line: str) -> None:
    (fault,) = told(**tables)
    assert fault.startswith(line)


def test_what_a_system_file_brings_is_not_missed() -> None:
    system = {"file": "sys.txt", "chunks": 2}
    experiment = load_experiment(
        {"network": NETWORK, "collective": {**ALL, "priority": 2}, "system": system, "message": []}
    )
    assert 'file = "sys.txt"' in resolved_toml(experiment)
    assert "active_chunks" not in resolved_toml(experiment)
    again = load_experiment(experiment)
    assert again.system.model_fields_set == {"file", "chunks"}
