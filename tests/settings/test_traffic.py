"""[traffic]: what goes together, classes, and the same traffic at another load."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from pyxsim.errors import InputError
from pyxsim.settings import Experiment, load_experiment, resolved_toml
from pyxsim.settings.traffic import MessageClass, OnOff, Traffic
from tests.in_turn import in_turn

NETWORK = {"topology": "torus", "shape": [8, 8], "router": {"vcs": 4, "virtual_networks": [2, 2]}}


def experiment(**traffic: Any) -> Experiment:
    return load_experiment({"network": NETWORK, "traffic": traffic})


def traffic(**settings: Any) -> Traffic:
    found = experiment(**settings).traffic
    assert found is not None
    return found


def test_what_is_written_reads_the_same() -> None:
    found = experiment(
        classes=[
            {"name": "reads", "load": 0.1, "replies": {"delay": 10}},
            {"load": 0.2, "packet_flits": [1, 5], "packet_weights": [3, 1], "pattern": "tornado", "priority": 2},
            {"load": 0.3, "injection": {"process": "on-off", "alpha": 0.1, "r1": 0.9}},
        ],
        warmup=1000,
        precision=0.02,
    )
    assert load_experiment(tomllib.loads(resolved_toml(found))) == found
    hot = experiment(load=0.1, pattern="hotspot", pattern_options={"nodes": [0, 5], "share": 0.5})
    assert load_experiment(tomllib.loads(resolved_toml(hot))) == hot


def test_sizes_are_for_the_classes_without_replies() -> None:
    found = experiment(load=0.1, packet_flits=4, classes=[{"replies": {"virtual_network": 1}}, {}])
    assert load_experiment(tomllib.loads(resolved_toml(found))) == found
    answered = experiment(load=0.1, replies={})
    assert load_experiment(tomllib.loads(resolved_toml(answered))) == answered


@pytest.mark.parametrize("finite", [{"trace": "t.csv", "priority": 1}, {"batch": {"size": 4}, "pattern": "tornado"}])
def test_what_has_no_effect_is_not_written(finite: dict[str, Any]) -> None:
    found = experiment(**finite)
    assert load_experiment(tomllib.loads(resolved_toml(found))) == found
    assert load_experiment(found) == found
    assert "precision" not in resolved_toml(found)
    assert ("pattern" in resolved_toml(found)) == ("batch" in finite)


def test_the_whole_time_may_be_the_measured_one() -> None:
    assert traffic(load=0.1, warmup=1000, measure=3000, max_cycles=4000).measure == 3000


def test_classes_inherit() -> None:
    found = traffic(
        load=0.1,
        pattern="hotspot",
        pattern_options={"nodes": [3]},
        packet_flits=[1, 5],
        packet_weights=[1, 3],
        classes=[{}, {"pattern": "tornado", "load": 0.4}, {"packet_flits": 2}],
    )
    first, second, third = found.resolved
    assert (first.name, first.load, first.pattern_options, first.mean_flits) == ("class 0", 0.1, {"nodes": [3]}, 4)
    # Options and weights go with the pattern and the sizes that they were written for.
    assert (second.load, second.pattern, second.pattern_options, second.weights) == (0.4, "tornado", {}, (1, 3))
    assert (third.sizes, third.weights) == ((2,), (1,))
    assert found.offered == pytest.approx(0.6)


def test_another_load() -> None:
    assert traffic(load=0.1).at(0.7).offered == 0.7
    assert [each.load for each in traffic(load=0.1, classes=[{}, {}]).at(0.6).resolved] == [0.3, 0.3]
    scaled = traffic(load=0.1, classes=[{}, {"load": 0.3}]).at(0.8)
    assert [each.load for each in scaled.resolved] == pytest.approx([0.2, 0.6])
    with pytest.raises(InputError, match="this traffic has no load"):
        traffic(batch={"size": 4}).at(0.1)


def test_message_classes() -> None:
    found = traffic(classes=[{"load": 0.1, "replies": {}, "priority": 3}, {"load": 0.1, "name": "b"}])
    assert found.message_classes() == (
        MessageClass("class 0", 0, 3),
        MessageClass("b", 0, 0),
        MessageClass("replies to class 0", 1, 0),
    )


def test_mean_flits() -> None:
    assert traffic(load=0.1, packet_flits=[1, 4]).resolved[0].mean_flits == 2.5
    replies = {"read_request": 1, "read_reply": 9, "write_request": 5, "write_reply": 1, "write_share": 0.25}
    assert traffic(load=0.1, replies=replies).resolved[0].mean_flits == 0.75 * 10 + 0.25 * 6


def test_bursts() -> None:
    found = traffic(load=0.1, injection={"process": "on-off", "beta": 0.1, "r1": 1}).injection
    assert isinstance(found, OnOff)
    assert (found.alpha, found.beta, found.r1) == (None, 0.1, 1)


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({}, "traffic.load: is missing; allowed: flits per node and cycle, such as 0.3"),
    ({"classes": [{"load": 0.1}, {}]}, "traffic.classes[1].load: is missing"),
    ({"classes": [{}, {}]}, "traffic.load: is missing"),
    ({"load": 0.1, "classes": [{"name": "a"}, {"name": "a"}]}, "traffic.classes[1].name: duplicate class name 'a'"),
    ({"load": 0.1, "classes": [{}, {"virtual_network": 2}]}, "traffic.classes[1].virtual_network: no virtual network"),
    ({"load": 0.1, "virtual_network": 2, "classes": [{}]}, "traffic.virtual_network: no virtual network"),
    ({"load": 0.1, "classes": [{"replies": {"virtual_network": 3}}]}, "traffic.classes[0].replies.virtual_network: "),
    ({"load": 0}, "traffic.load: 0 is out of range; allowed: a number above 0, at most 1e+06"),
    ({"load": "much"}, "traffic.load: 'much' is not a number"),
    ({"load": float("nan")}, "traffic.load: nan is out of range"),
    ({"load": 0.1, "packet_flits": 0}, "traffic.packet_flits: 0 is too small"),
    ({"load": 0.1, "packet_flits": [1, 5], "packet_weights": [1]}, "traffic.packet_weights: 1 weights are given for 2"),
    ({"load": 0.1, "packet_flits": [1, 5], "packet_weights": [0, 0]}, "traffic.packet_weights: all weights are zero"),
    ({"load": 0.1, "injection": "poisson"}, "traffic.injection: unknown value 'poisson'; allowed: 'bern"),
    (
        {"load": 0.1, "injection": "on-off"},
        "traffic.injection: 'on-off' requires probabilities; allowed: 'bern",
    ),
    (
        {"load": 0.1, "injection": {"process": "on-off", "alpha": 1}},
        "traffic.injection: 1 of alpha, beta and r1 are",
    ),
    ({"load": 0.1, "injection": {"process": "on-off", "alpha": 2}}, "traffic.injection.alpha: 2 is out of range"),
    ({"load": 0.1, "batch": {"size": 1}}, "traffic.load: a batch has no load; allowed: no value"),
    ({"trace": "t.csv", "load": 1}, "traffic.load: a trace has no load; allowed: no value"),
    ({"trace": "t.csv", "batch": {"size": 1}}, "traffic.trace: cannot be combined with [traffic.batch]; allowed: one"),
    ({"trace": "t.csv", "replies": {}}, "traffic.replies: a trace has no replies"),
    (
        {"batch": {"size": 1}, "classes": [{}]},
        "traffic.classes: a batch has a single class; allowed:",
    ),
    (
        {"load": 0.1, "replies": {"virtual_network": 2}},
        "traffic.replies.virtual_network: no virtual network",
    ),
    ({"load": 0.1, "virtual_network": 2}, "traffic.virtual_network: no virtual network 2; the network has 2"),
    (
        {"trace": "t.csv", "pattern": "uniform"},
        "traffic.pattern: has no effect with a trace, which sets it; allowed: no value",
    ),
    ({"trace": "t.csv", "packet_flits": 4}, "traffic.packet_flits: has no effect with a trace"),
    (
        {"trace": "t.csv", "warmup": 0},
        "traffic.warmup: has no effect with a trace, which runs until all packets have arrived",
    ),
    ({"load": 0.1, "replies": {}, "packet_flits": 4}, "traffic.packet_flits: has no effect with replies, which have"),
    (
        {"load": 0.1, "replies": {}, "classes": [{"packet_flits": 4}]},
        "traffic.classes[0].packet_flits: has no effect with replies",
    ),
    ({"batch": {"size": 1}, "replies": {}, "packet_flits": 4}, "traffic.packet_flits: has no effect with replies"),
    ({"batch": {"size": 1}, "precision": 0.1}, "traffic.precision: has no effect with a batch"),
    (
        {"load": 0.1, "warmup": 5000, "max_cycles": 2000},
        "traffic.max_cycles: 2000 cycles are fewer than warmup; allowed: at least 5001",
    ),
    (
        {"load": 0.1, "warmup": 1000, "measure": 3000, "max_cycles": 3999},
        "traffic.max_cycles: 3999 cycles are fewer than warmup and measure; allowed: at least 4000",
    ),
    ({"load": 0.1, "warmup": "long"}, "traffic.warmup: unknown value 'long'; allowed: 'auto' or a whole"),
    ({"load": 0.1, "precision": 0}, "traffic.precision: 0 is out of range; allowed: a number above 0"),
    ({"load": 0.1, "patern": "x"}, "traffic.patern: unknown key"),
]


@in_turn(("settings", "text"), FAULTS)
def test_faults(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError) as caught:
        experiment(**settings)
    assert str(caught.value).startswith(text)
    assert "\n" not in str(caught.value)
