"""Where the time went, of whole experiments: every sum is exact, and the tables say the same."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pyxsim.errors import DeadlockError, InputError
from pyxsim.results import attribution as output
from pyxsim.results.attribution import PARTS, Attribution
from pyxsim.results.result import HOW_IT_RAN, Result
from pyxsim.runner.attribution_tables import traffic_names
from pyxsim.runner.lifecycle import run, simulate
from pyxsim.runner.prepare import prepare
from pyxsim.runner.prepared import Prepared
from pyxsim.settings import load_experiment
from pyxsim.study.curve.load_curve import curve, points_of
from tests.examples import part_of
from tests.runner.experiments import GRAPHS, experiments, graph
from tests.runner.test_lifecycle import RISKY

SMALL: dict[str, Any] = {
    "network": {
        "topology": "torus",
        "shape": [4, 2],
        "flit": "64 B",
        "packet": "512 B",
        "bandwidth": "64 GB/s",
        "latency": "40 ns",
    },
    "system": {"chunks": 4, "endpoint_delay": "10 ns"},
    "collective": [
        {"kind": "all-reduce", "size": "20 kB", "dims": [0], "name": "gradients"},
        {"kind": "all-to-all", "size": "10 kB", "at": "100 ns"},
    ],
    "message": [{"src": src, "dst": 5, "size": "3 kB", "name": "hot"} for src in (0, 1, 2, 7)],
    "output": {"attribution": "messages"},
}


def split(table: dict[str, Any]) -> Any:
    """The parts of a table's rows, int64[rows, 8]."""
    return np.stack([table[part] for part in PARTS], axis=1)


def added(keys: Iterable[Any], values: Any) -> dict[Any, list[int]]:
    """Rows of values, added up by their key; keys without anything are left out."""
    found: dict[Any, Any] = {}
    for key, row in zip(keys, values, strict=True):
        found[key] = found.get(key, 0) + row
    return {key: np.atleast_1d(row).tolist() for key, row in found.items() if np.any(row)}


def check(result: Result) -> Attribution:
    """Hold everything that is told against everything else; "messages"."""
    told = result.attribution
    assert told is not None
    latency, stays, blame = told.latency, told.stays, told.blame
    # Each message: its parts are its latency, and it was told of if it has arrived.
    parts = split(latency)
    assert (parts >= 0).all()
    assert (parts.sum(axis=1) == latency["arrived"] - latency["sent"]).all()
    assert len(parts) == result.counts["messages"]
    assert told.parts.tolist() == [parts[latency["traffic"] == i].sum(axis=0).tolist() for i in range(len(told.parts))]
    assert told.messages.sum() == len(parts)
    # Each packet: its stays are its latency; a message is as late as one of its packets.
    packets = added(zip(stays["message"].tolist(), stays["packet"].tolist(), strict=True), split(stays))
    of_message: dict[int, list[list[int]]] = {}
    for (message, _), row in packets.items():
        of_message.setdefault(message, []).append(row)
    for message, row in zip(latency["message"].tolist(), parts.tolist(), strict=True):
        assert row in of_message[message]
        assert sum(row) == max(map(sum, of_message[message]))
    # Each link and traffic: whoever was the culprit, what is blamed is what was waited.
    assert (blame["cycles"] > 0).all()
    rows = list(zip(*(blame[name].tolist() for name in output.BLAME[:4]), strict=True))
    assert len(set(rows)) == len(rows)
    blamed = added([row[:2] + row[3:] for row in rows], blame["cycles"])
    whose = dict(zip(latency["message"].tolist(), latency["traffic"].tolist(), strict=True))
    if result.complete:
        keys = zip(stays["place"].tolist(), (whose[message] for message in stays["message"].tolist()), strict=True)
        waited = added(keys, split(stays))
        for (link, victim, part), (cycles,) in blamed.items():
            assert waited[link, victim][part] == cycles
    congestion = told.congestion()
    for link in range(len(told.link_names)):
        assert congestion[link].sum(axis=0).tolist() == split(stays)[stays["place"] == link].sum(axis=0).tolist()
    assert list(told.of_packets.values()) == congestion.sum(axis=(0, 1)).tolist() == split(stays).sum(axis=0).tolist()
    return told


@st.composite
def crowds(draw: st.DrawFn) -> dict[str, Any]:
    """Several collectives and messages on a random network, some NPUs late or slow."""
    tables = draw(experiments(most=12))
    network, collective = tables["network"], tables["collective"]
    shape = network.get("shape") or [dim["npus"] for dim in network.get("dims", [])]
    npus = (
        math.prod(shape)
        if shape
        else next(
            graph(i).npus
            for i, (name, options) in enumerate(GRAPHS)
            if (name, options) == (network["topology"], network["options"])
        )
    )
    many = [collective]
    for _ in range(draw(st.integers(0, 2))):
        more = collective | {"size": f"{draw(st.integers(1, 300))} B", "at": f"{draw(st.integers(0, 200))} ns"}
        if shape and "compat" not in tables["system"] and draw(st.booleans()):
            more["dims"] = [0]
        many.append(more)
    tables["collective"] = many
    if npus > 1 and "compat" not in tables["system"]:
        ends = st.permutations(range(npus))
        tables["message"] = [
            {"src": src, "dst": dst, "size": f"{draw(st.integers(1, 200))} B", "name": draw(st.sampled_from("ab"))}
            for src, dst, *_ in (draw(ends) for _ in range(draw(st.integers(0, 4))))
        ]
        if draw(st.booleans()):
            tables["system"]["stragglers"] = [{"npus": [npus - 1], "start": "50 ns"}]
    return tables


@given(crowds())
@settings(max_examples=part_of(60))
def test_sums_are_exact_whatever_is_run(tables: dict[str, Any]) -> None:
    try:
        plain = run(tables)
    except InputError as error:
        assume("ASTRA-sim" not in error.problem)  # which stops at some sizes
        raise
    result = run(tables | {"output": {"attribution": "messages"}})
    check(result)
    # To keep books changes nothing.
    assert result.time_cycles == plain.time_cycles
    mine, other = ({k: v for k, v in each.counts.items() if k not in HOW_IT_RAN} for each in (result, plain))
    assert mine == other
    assert all((values == plain.totals[name]).all() for name, values in result.totals.items())


def test_traffics_are_collectives_whatever_their_groups_and_names_of_messages() -> None:
    result = run(SMALL)
    told = check(result)
    assert result.traffic_names == ["gradients", "all-to-all", "hot"]
    assert told.messages.tolist()[2] == 4
    hot = result.latency["traffic"] == 2
    assert sorted(result.latency["src"][hot].tolist()) == [0, 1, 2, 7]
    assert set(result.latency["bytes"][hot].tolist()) == {3000}
    assert set(result.latency["sent"][hot].tolist()) == {10}  # its endpoint takes so long
    # Messages of one name that go to one NPU wait for each other, and somebody else's at its lane.
    assert told.matrix[2].sum() > 0


def test_links_tells_the_same_but_for_each_packet() -> None:
    every, links = run(SMALL), run(SMALL | {"output": {"attribution": "links"}})
    assert links.stays["message"].tolist() == []
    for name in ("latency", "congestion"):
        one, other = getattr(every, name), getattr(links, name)
        assert {key: values.tolist() for key, values in one.items()} == {
            key: values.tolist() for key, values in other.items()
        }


def test_off_tells_nothing() -> None:
    result = run(SMALL | {"output": {}})
    assert result.attribution is None
    assert result.json()["attribution"] is None


@pytest.mark.parametrize("backend", ["analytical", "analytical-congestion", "flow"])
def test_other_backends_have_nothing_to_tell(backend: str) -> None:
    tables = SMALL | {"network": SMALL["network"] | {"shape": [8]}}
    assert run(tables, backend=backend).attribution is None


@pytest.mark.parametrize("compat", ["astra-sim-1", "astra-sim-2"])
def test_compat(compat: str) -> None:
    tables = SMALL | {"collective": {"kind": "all-reduce", "size": "64 kB"}, "message": []}
    result = run(tables | {"system": {"compat": compat, "chunks": 4, "all_reduce": "ring", "endpoint_delay": "10 ns"}})
    assert check(result).messages.tolist() == [result.counts["messages"]]


def test_more_traffics_than_can_be_told_apart() -> None:
    many = [{"kind": "all-gather", "size": "64 B", "name": f"layer {i}"} for i in range(40)]
    result = run(SMALL | {"collective": many, "message": []})
    told = check(result)
    assert result.traffic_names == [*(f"layer {i}" for i in range(31)), "others"]
    # All are alike, and the last one is nine of them.
    assert told.messages.tolist() == [told.messages[0]] * 31 + [9 * told.messages[0]]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ([], []),
        (["a", "b"], ["a", "b"]),
        (["a", "a", "b", "a"], ["a", "a 2", "b", "a 3"]),
        (["a 2", "a", "a"], ["a 2", "a", "a 3"]),
        ([str(i) for i in range(32)], [str(i) for i in range(32)]),
        ([str(i) for i in range(33)], [*(str(i) for i in range(31)), "others"]),
    ],
)
def test_names(wanted: list[str], names: list[str]) -> None:
    assert traffic_names(wanted) == names


def test_tables_that_are_too_long_are_cut_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(SMALL)
    monkeypatch.setattr("pyxsim.runner.attribution_tables.MOST_ROWS", 100)
    result = run(SMALL)
    told = result.attribution
    assert told is not None
    missing = {name: len(getattr(whole, name)["message"]) - 100 for name in ("latency", "stays")}
    assert told.left_out == missing
    assert result.latency["message"].tolist() == list(range(100))
    assert told.of_messages == (whole.attribution and whole.attribution.of_messages)
    assert [line for line in result.warnings if "output.attribution" in line] == [
        f"output.attribution: the table /{name} is limited to 100 rows; {missing[name]:,} more are missing"
        for name in ("latency", "stays")
    ]


@pytest.mark.parametrize("after", [1, 5, 20])
def test_an_interrupted_run_tells_of_what_has_arrived(after: int) -> None:
    ticks = iter(range(after))

    def tick() -> None:
        if next(ticks, None) is None:
            raise KeyboardInterrupt

    prepared = prepare(load_experiment(SMALL | {"output": {"attribution": "messages", "window": "7 cycles"}}))
    prepared.network.tick = tick
    assert isinstance(prepared, Prepared)
    result = simulate(prepared)
    assert not result.complete
    check(result)


def test_a_run_that_fails_tells_of_what_has_arrived() -> None:
    prepared = prepare(load_experiment(RISKY | {"output": {"attribution": "messages"}}), allow_deadlock=True)
    with pytest.raises(DeadlockError) as caught:
        simulate(prepared)
    check(caught.value.result)  # type: ignore[attr-defined]


TRAFFIC: dict[str, Any] = {
    "network": {"topology": "torus", "shape": [4, 4], "latency": "2 ns", "router": {"virtual_networks": [2, 2]}},
    "traffic": {
        "warmup": 300,
        "measure": 1000,
        "classes": [
            {"name": "reads", "load": 0.1, "replies": {}},
            {"name": "noise", "load": 0.2, "packet_flits": 3},
        ],
    },
    "output": {"attribution": "links"},
}


def test_open_traffic_is_split_by_class() -> None:
    result = run(TRAFFIC)
    told, traffic = result.attribution, result.traffic
    assert told is not None
    assert traffic is not None
    assert result.traffic_names == ["reads", "noise", "replies to reads"]
    rows = {row["name"]: row for row in traffic.summary["classes"]}
    for name, count, parts in zip(told.traffic_names, told.messages, told.parts, strict=True):
        # Of packets of one flit or more, alone in their message: the mean latency is the sum of the parts.
        assert count == rows[name]["measured_packets"]
        assert parts.sum() / count == pytest.approx(rows[name]["packet_latency"])
        assert parts[PARTS.index("hops")] > 0
    assert told.blame["cycles"].sum() > told.parts.sum()  # the whole run
    assert set(told.blame["victim"].tolist()) == {0, 1, 2}
    assert result.latency["message"].tolist() == []


@pytest.mark.parametrize(
    "traffic",
    [
        {"batch": {"size": 20, "count": 2}, "replies": {}},
        {"batch": {"size": 20}},
    ],
)
def test_batches(traffic: dict[str, Any]) -> None:
    result = run(TRAFFIC | {"traffic": traffic})
    told = result.attribution
    assert told is not None
    assert told.messages.sum() == result.counts["messages"]
    # Everything is measured, and every message is a packet.
    assert told.of_messages == told.of_packets


def test_open_traffic_with_each_packet() -> None:
    result = run(TRAFFIC | {"output": {"attribution": "messages"}})
    told = result.attribution
    assert told is not None
    assert list(told.of_packets.values()) == split(result.stays).sum(axis=0).tolist()


def test_a_curve_has_the_parts_at_each_load() -> None:
    tables = TRAFFIC | {"traffic": {"warmup": 300, "measure": 1000, "load": 0.1}}
    found = curve(points_of(tables, workers=1), [0.1, 0.3])
    mean = sum(found.column(f"latency_{part}") for part in PARTS)
    assert mean == pytest.approx(found.column("packet_latency"))
    assert found.column("latency_arbitration")[1] > found.column("latency_arbitration")[0]


@pytest.mark.parametrize("after", [1, 3, 8])
def test_open_traffic_that_is_interrupted(after: int) -> None:
    ticks = iter(range(after))

    def tick() -> None:
        if next(ticks, None) is None:
            raise KeyboardInterrupt

    prepared = prepare(load_experiment(TRAFFIC | {"output": {"attribution": "links", "window": "50 cycles"}}))
    prepared.network.tick = tick
    result = simulate(prepared)
    assert not result.complete
    told = result.attribution
    assert told is not None
    assert told.messages.sum() <= result.counts["messages"]
    # Every packet that has arrived is in the tables of the whole run, measured or not.
    assert told.blame["cycles"].sum() >= told.parts.sum()


@pytest.mark.slow
@given(crowds())
@settings(max_examples=800)
def test_sums_are_exact_in_many_more_runs(tables: dict[str, Any]) -> None:
    try:
        check(run(tables | {"output": {"attribution": "messages"}}))
    except InputError as error:
        assume("ASTRA-sim" not in error.problem)
        raise
