"""The same experiment on every backend: what is told of each, what the time of packets hung on, and the verdicts."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.analysis.verdict import AWARE, NOT_SAFE, SAFE, UNAWARE, UNKNOWN, beforehand, by_waiting, measured, verdicts
from pyxsim.errors import InputError
from pyxsim.reports.text.comparison_tables import said, spent
from pyxsim.results.comparison import (
    ETHERNET,
    FRAMES,
    GAPS,
    KNOWN,
    PACKET,
    PACKETS,
    Compared,
    Comparison,
    Entry,
    PacketEstimate,
)
from pyxsim.results.comparison_file import read, save
from pyxsim.runner.hooks import ProgressHooks
from pyxsim.runner.lifecycle import run
from pyxsim.settings import load_experiment
from pyxsim.study.compare import Step, compare, plan_of
from pyxsim.study.compare.alone import delays, packet_estimate
from tests.examples import part_of

OTHERS = ("analytical", "analytical-congestion", "flow")
WIRES = {"bandwidth": "64 GB/s", "flit": "64 B", "latency": "20 ns"}
SMALL: dict[str, Any] = {
    "network": {"topology": "ring", "shape": [4], **WIRES},
    "collective": {"kind": "all-reduce", "size": "16 KiB"},
}
HOTSPOT: dict[str, Any] = {
    **SMALL,
    "network": {**SMALL["network"], "topology": "switch", "shape": [6]},
    "system": {"all_reduce": "direct"},
    "message": [{"src": src, "dst": 0, "size": "64 KiB"} for src in (1, 2, 3)],
}


@pytest.fixture(scope="module")
def hotspot() -> Compared:
    return compare(HOTSPOT).points[0]


def test_each_backend_tells_what_it_tells_alone(hotspot: Compared) -> None:
    assert [entry.backend for entry in hotspot.entries] == [*OTHERS, PACKET]
    for entry in hotspot.entries:
        assert entry.reason == ""
        assert entry.cycles == run(HOTSPOT, backend=entry.backend).time_cycles


def test_waiting_is_told_although_nobody_asked(hotspot: Compared) -> None:
    result = hotspot.result(PACKET)
    assert result is not None
    assert result.attribution is not None
    assert result.attribution.of_messages["source"] > 0
    quiet = compare({**HOTSPOT, "output": {"attribution": "messages"}}, backends=[PACKET]).points[0].result(PACKET)
    assert quiet is not None
    assert quiet.attribution is not None
    assert len(quiet.attribution.stays["message"]), "a finer one that was asked for stays"


def test_a_switch_is_bound_by_its_busiest_link(hotspot: Compared) -> None:
    """NPU 0 is sent 3 * 64 KiB by the messages and 2 * 5 sixths of its 16 KiB: over a link of 64 B per cycle."""
    assert hotspot.busiest is not None
    assert hotspot.busiest.link == "d0down:(*)->(0)"
    parts = [len(range(i, 2**14, 6)) for i in range(6)]  # a byte more or less
    own = 3 * 2**16 // 64 + sum(-(-max(parts) // 64) for _ in range(10))
    assert abs(hotspot.busiest.cycles - own) <= 10
    assert hotspot.lower_bound <= hotspot.busiest.cycles + 40
    assert (hotspot.cycles(PACKET) or 0) >= hotspot.busiest.cycles


@pytest.mark.parametrize("size", ["2 KiB", "64 KiB"])
@pytest.mark.parametrize("delay", ["0 ns", "10 ns"])
def test_a_ring_alone_is_known_to_the_cycle(size: str, delay: str) -> None:
    """Nobody waits: the chain is 2 (N - 1) messages, and without their packets it is the time of the other models."""
    tables = {**SMALL, "collective": {"kind": "all-reduce", "size": size}, "system": {"endpoint_delay": delay}}
    point = compare({**tables, "system": {**tables["system"], "all_reduce": "ring"}}).points[0]
    assert point.chain is not None
    assert point.chain.messages == 6
    assert point.chain.unaware == point.cycles(UNAWARE)
    assert set(point.chain.spent) >= {GAPS, KNOWN, PACKETS}
    waited = {name: cycles for name, cycles in point.chain.spent.items() if name not in (GAPS, KNOWN, PACKETS)}
    assert not any(waited.values())
    assert point.chain.spent[GAPS] == 7 * int(delay.split()[0])  # before each, and after the last
    assert point.chain.spent[KNOWN] + point.chain.spent[GAPS] == point.cycles(UNAWARE)


TOPOLOGIES = st.sampled_from(
    [
        {"topology": "ring", "shape": [4]},
        {"topology": "torus", "shape": [2, 3]},
        {"topology": "switch", "shape": [5]},
        {"topology": "mesh", "shape": [2, 2]},
        {"topology": "leaf-spine", "options": {"npus": 2, "leaves": 2, "spines": 1}},
    ]
)


@settings(max_examples=part_of(100))
@given(
    TOPOLOGIES,
    st.sampled_from(["ring", "direct"]),
    st.sampled_from(["all-reduce", "all-gather", "all-to-all"]),
    st.integers(1, 30_000),
    st.integers(1, 4),
    st.sampled_from(["0 ns", "7 ns"]),
    st.sampled_from(["auto", 2, 8]),
    st.booleans(),
)
def test_all_the_time_of_the_packets_is_spent_on_something(
    network: dict[str, Any], algorithm: str, kind: str, size: int, chunks: int, delay: str, buffer: Any, beside: bool
) -> None:
    tables = {
        "network": {**WIRES, **network, "router": {"buffer": buffer}},
        "collective": {"kind": kind, "size": f"{size} B"},
        "system": {"all_reduce": algorithm, "chunks": chunks, "endpoint_delay": delay},
        "message": [{"src": 1, "dst": 0, "size": "4 KiB", "at": "50 ns"}] if beside else [],
    }
    point = compare(tables, backends=[PACKET, UNAWARE]).points[0]
    assert point.chain is not None
    assert sum(point.chain.spent.values()) == point.cycles(PACKET)
    assert all(cycles >= 0 for cycles in point.chain.spent.values())
    assert point.chain.unaware <= (point.cycles(PACKET) or 0)
    assert point.lower_bound <= (point.cycles(PACKET) or 0)


@pytest.mark.parametrize("flow_control", ["wormhole", "virtual-cut-through", "store-and-forward"])
@pytest.mark.parametrize("size", ["1 KiB", "5 KiB", "40 KiB"])
@pytest.mark.parametrize("topology", ["switch", "mesh"])
def test_what_packets_take_alone_is_known_beforehand(flow_control: str, size: str, topology: str) -> None:
    """One message over one link and over several: what the run takes more than the model without congestion."""
    network = {**WIRES, "topology": topology, "shape": [4], "packet": "1 KiB", "header": "16 B"}
    tables = {
        "network": {**network, "router": {"flow_control": flow_control}},
        "message": [{"src": 0, "dst": 3, "size": size}],
    }
    point = compare(tables).points[0]
    assert point.estimate is not None
    packet, alone = point.cycles(PACKET) or 0, point.cycles(UNAWARE) or 0
    assert (1 + point.estimate.overhead) * alone == pytest.approx(packet, rel=0.02)


def test_messages_alone_take_what_theory_says() -> None:
    """Of each pair: the delay without packets, and the overhead of packets that is told beforehand."""
    plan = plan_of({**SMALL, "collective": {"kind": "all-reduce", "size": "16 KiB"}})
    prepared = plan.prepared(plan.points[0], PACKET)
    rows = np.array([[0, 1, 0, 4096, 1], [1, 0, 0, 64, 1]])
    assert delays(prepared, rows)[0] == 4096 // 64 + 20
    told = packet_estimate(prepared)
    assert told.certain
    assert told.covered == 1.0
    point = compare(plan).points[0]
    assert point.chain is not None
    assert told.overhead == pytest.approx(point.chain.spent[PACKETS] / point.chain.spent[KNOWN], rel=0.05)


# -- what cannot be run, and what is wrong -----------------------------------------------------------------------------


def test_a_backend_that_cannot_run_it_is_a_row_with_the_reason() -> None:
    tables = {**SMALL, "network": {**SMALL["network"], "topology": "torus", "shape": [2, 2]}}
    found = compare({**tables, "system": {"compat": "astra-sim-2", "endpoint_delay": "10 ns"}})
    entry = next(each for each in found.points[0].entries if each.backend == "analytical-congestion")
    assert entry.result is None
    assert "has one dimension; this network has 2" in entry.reason
    assert found.complete
    assert found.points[0].cycles(PACKET)
    assert next(row for row in found.json()["points"][0]["backends"] if row["reason"])["reason"] == entry.reason


def test_packets_that_exclude_attribution_are_compared_without() -> None:
    network = {"topology": "ring", "shape": [4], "transactions": {}, "flit": "16 B"}
    compared = compare({"network": network, "collective": SMALL["collective"]}, backends=[PACKET, UNAWARE])
    point = compared.points[0]
    assert point.result(PACKET) is not None
    assert not point.chains
    reason = next(entry.reason for entry in point.entries if entry.backend == UNAWARE)
    assert reason is not None
    assert "backend 'analytical'" in reason


@pytest.mark.parametrize("changes", [{"retry": {}}, {"reroute": {}}])
def test_faults_are_a_part_of_the_chain(changes: dict[str, Any]) -> None:
    fault = {"npu": 0, "down": True, "at": "1 ns", "for": "1 us"}
    network = {"topology": "ring", "shape": [4], **changes}
    tables = {"network": network, "faults": [fault], "collective": SMALL["collective"]}
    (chain,) = compare(tables, backends=[PACKET, UNAWARE]).points[0].chains.values()
    assert chain.spent["fault"] + chain.spent["credit"] > 900


def test_a_deadlock_is_a_row_with_the_reason() -> None:
    """Packets in wormholes that adapt in a torus: the proof refuses them, and whoever has no packets does not care."""
    torus = {**SMALL["network"], "topology": "torus", "shape": [4, 4], "router": {"routing": "minimal-adaptive"}}
    point = compare({**SMALL, "network": torus, "system": {"all_reduce": "direct"}}).points[0]
    reason = next(entry.reason for entry in point.entries if entry.backend == PACKET)
    assert "deadlock" in reason
    assert point.cycles(UNAWARE)
    assert point.chain is None
    assert all(each.by == "beforehand" for each in verdicts(point, 0.1))
    lines = said(point, 0.1)
    assert f"packet: failed: {reason}" in lines
    assert sum(reason in line for line in lines) == 1, "once, and whole"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"backends": ["packets"]}, "backend: unknown backend 'packets'; .*did you mean 'packet'"),
        ({"overrides": ["network.topology=rings"]}, "did you mean 'ring'"),
    ],
)
def test_faults_are_told_before_anything_runs(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError, match=line):
        compare(SMALL, **changes)


def test_faults_of_all_points_come_at_once() -> None:
    study = {**SMALL, "sweep": {"network.topology": ["ring", "rings", "tours"]}}
    with pytest.raises(InputError) as caught:
        compare(study)
    lines = str(caught.value).splitlines()
    assert [line.partition(": ")[0] for line in lines] == [f'sweep."network.topology"[{number}]' for number in (1, 2)]


def test_open_traffic_has_nothing_to_be_compared_with() -> None:
    traffic = {"network": SMALL["network"], "traffic": {"pattern": "uniform", "load": 0.1, "packet_flits": 1}}
    with pytest.raises(InputError, match="traffic: compare does not take open traffic"):
        compare(traffic)
    with pytest.raises(InputError) as caught:
        compare({**traffic, "collective": SMALL["collective"]}, backends=["packet", "reference"])
    assert str(caught.value) == (
        "traffic: compare does not take background traffic; "
        "allowed: the same file without [traffic], or `pyxsim run` for each backend"
    )


def test_an_interruption_keeps_what_is_there() -> None:
    """Ctrl-C in the packets of the second point: the first is whole, the second has what was done, the third is not."""
    study = {**SMALL, "sweep": {"collective.size": ["1 KiB", "2 KiB", "3 KiB"]}}
    steps = []

    def hooks(step: Step) -> ProgressHooks:
        steps.append((step.point.label, step.backend, step.number, step.count))
        found = ProgressHooks()
        found.signals.number = signal.SIGINT if len(steps) == 8 else 0
        return found

    found = compare(study, hooks=hooks)
    assert not found.complete
    assert [point.label for point in found.points] == ["size=1 KiB", "size=2 KiB"]
    assert found.points[0].complete
    assert not found.points[1].complete
    entry = found.points[1].entries[-1]
    assert entry.backend == PACKET
    assert entry.cycles is None
    assert entry.result is not None
    assert not entry.result.complete
    assert steps[7] == ("size=2 KiB", PACKET, 7, 12)


# -- verdicts ----------------------------------------------------------------------------------------------------------


def of(times: dict[str, int], lower_bound: int = 1, **changes: Any) -> Compared:
    """A point with nothing but times."""
    blank = compare(SMALL, backends=[UNAWARE]).points[0]
    result = blank.result(UNAWARE)
    assert result is not None
    entries = [Entry(name, replace(result, time_cycles=cycles, backend=name)) for name, cycles in times.items()]
    return replace(blank, entries=entries, lower_bound=lower_bound, **changes)


def test_what_was_measured_counts() -> None:
    point = of({"packet": 1000, "analytical": 901, "flow": 1101})
    assert [(each.backend, each.says) for each in verdicts(point, 0.1)] == [("analytical", SAFE), ("flow", NOT_SAFE)]
    assert measured(point, "flow", 0.2).says == SAFE
    assert measured(point, "analytical", 0.05).says == NOT_SAFE
    assert by_waiting(point, 0.1) is None, "nothing is known of what packets waited"


GOOD = PacketEstimate(overhead=0.01, covered=1.0, certain=False)


@pytest.mark.parametrize(
    ("times", "changes", "says", "why"),
    [
        ({"analytical": 100}, {"lower_bound": 112}, NOT_SAFE, "links cannot carry"),
        ({"analytical": 100}, {"lower_bound": 111}, UNKNOWN, "a verdict requires both"),
        ({"analytical": 100, "analytical-congestion": 120, "flow": 112}, {"estimate": GOOD}, NOT_SAFE, "every model"),
        ({"analytical": 100, "analytical-congestion": 120, "flow": 111}, {"estimate": GOOD}, UNKNOWN, "differ by 21%"),
        (
            {"analytical": 100, "analytical-congestion": 103, "flow": 102},
            {"estimate": GOOD},
            UNKNOWN,
            "choose between routes",
        ),
        (
            {"analytical": 100, "analytical-congestion": 103, "flow": 102},
            {"estimate": replace(GOOD, certain=True)},
            SAFE,
            "differ by 4.0%",
        ),
        (
            {"analytical": 100, "analytical-congestion": 103, "flow": 102},
            {"estimate": replace(GOOD, certain=True, overhead=0.03)},
            UNKNOWN,
            "differ by 6%",
        ),
        (
            {"analytical": 100, "analytical-congestion": 103, "flow": 102},
            {"estimate": replace(GOOD, certain=True, covered=0.5)},
            UNKNOWN,
            "buffers and VCs keep links busy only 50% of the time",
        ),
        (
            {"analytical": 100, "analytical-congestion": 103, "flow": 102},
            {"estimate": replace(GOOD, certain=True, own=False)},
            UNKNOWN,
            "NPUs do not have one lane per link",
        ),
        (
            {"analytical": 100, "analytical-congestion": 103, "flow": 102},
            {"estimate": replace(GOOD, certain=True, lanes=11200)},
            NOT_SAFE,
            "the lanes of an NPU cannot carry its bytes",
        ),
    ],
)
def test_what_is_known_beforehand(times: dict[str, int], changes: dict[str, Any], says: str, why: str) -> None:
    # The links of the blank point are busy for a while, which is more than 100 cycles of a certain route.
    point = of({name: 100 * cycles for name, cycles in times.items()}, **{"lower_bound": 0, **_hundred(changes)})
    told = beforehand(point, "analytical", 0.1)
    assert (told.says, why in told.why) == (says, True), told


def test_waiting_on_the_way_is_a_doubt_where_messages_can_meet() -> None:
    times = {"analytical": 8000, "analytical-congestion": 10_000, "flow": 10_000}
    for meet, says in ((False, SAFE), (True, UNKNOWN)):
        point = of(times, lower_bound=0, estimate=replace(GOOD, certain=True, meet=meet))
        assert beforehand(point, "flow", 0.1).says == says
        assert beforehand(point, "flow", 0.25).says == SAFE


@pytest.mark.parametrize(
    ("network", "work", "meet"),
    [
        ({"topology": "ring", "shape": [4]}, {"kind": "all-reduce", "algorithm": "ring"}, False),
        ({"topology": "ring", "shape": [4]}, {"kind": "all-reduce", "algorithm": "direct"}, True),
        ({"topology": "fully-connected", "shape": [4]}, {"kind": "all-reduce", "algorithm": "direct"}, False),
        ({"topology": "switch", "shape": [4]}, {"kind": "broadcast", "algorithm": "one-direct"}, False),
        ({"topology": "switch", "shape": [4]}, {"kind": "all-to-all"}, True),
        # Two NPUs at a router want the link to the spine.
        ({"topology": "leaf-spine", "options": {"npus": 2, "leaves": 2, "spines": 1}}, {"kind": "all-to-all"}, True),
    ],
)
def test_where_messages_meet(network: dict[str, Any], work: dict[str, Any], meet: bool) -> None:
    point = _told(network, collective={**work, "size": "4 KiB"})
    assert point.estimate is not None
    assert point.estimate.certain
    assert point.estimate.meet is meet


def _told(network: dict[str, Any], **work: Any) -> Compared:
    wires = {"bandwidth": "100 GB/s", "latency": "300 ns", "packet": "1 KiB"}
    return compare({"network": {**wires, **network}, **work}, backends=[UNAWARE, *AWARE]).points[0]


BROADCAST = {"collective": {"kind": "broadcast", "algorithm": "one-direct", "size": "256 KiB", "root": 5}}
DRAGONFLY: dict[str, Any] = {"topology": "dragonfly", "options": {"p": 1, "a": 2, "h": 1}, "router": {"vcs": 3}}
TORUS = {"topology": "torus", "shape": [4, 4]}
ALL_REDUCE = {"collective": {"kind": "all-reduce", "size": "1 MiB"}}


@pytest.mark.parametrize(
    ("network", "work", "says", "why"),
    [
        (TORUS, ALL_REDUCE, SAFE, "differ by"),
        ({**TORUS, "router": {"vc_reuse": "drained"}}, ALL_REDUCE, UNKNOWN, "buffers and VCs keep links busy only 3%"),
        ({**TORUS, "router": {"buffer": 2}}, ALL_REDUCE, UNKNOWN, "buffers and VCs keep links busy only"),
        (
            {**TORUS, "router": {"flow_control": "virtual-cut-through", "buffer": 4}},
            ALL_REDUCE,
            UNKNOWN,
            "buffers and VCs",
        ),
        ({**TORUS, "lanes": 1}, ALL_REDUCE, UNKNOWN, "NPUs do not have one lane per link"),
        ({**TORUS, "lanes": 4}, ALL_REDUCE, UNKNOWN, "NPUs do not have one lane per link"),
        ({**TORUS, "lane_bandwidth": "25 GB/s"}, ALL_REDUCE, UNKNOWN, "models and uncontended packets differ"),
        ({**DRAGONFLY, "lanes": 1}, BROADCAST, NOT_SAFE, "the lanes of an NPU cannot carry"),
        ({**DRAGONFLY, "lanes": 2}, BROADCAST, UNKNOWN, "NPUs do not have one lane per link"),
    ],
)
def test_what_models_do_not_know_of_the_machine_is_known_beforehand(
    network: dict[str, Any], work: dict[str, Any], says: str, why: str
) -> None:
    told = beforehand(_told(network, **work), "flow", 0.1)
    assert (told.says, why in told.why) == (says, True), told


def _hundred(changes: dict[str, Any]) -> dict[str, Any]:
    return {key: 100 * value if key == "lower_bound" else value for key, value in changes.items()}


def test_what_packets_waited_tells_what_a_model_would_say(hotspot: Compared) -> None:
    told = by_waiting(hotspot, 0.1)
    true = measured(hotspot, UNAWARE, 0.1)
    assert told is not None
    assert told.says == true.says == NOT_SAFE
    assert told.error == pytest.approx(true.error, abs=0.02)


# -- files -------------------------------------------------------------------------------------------------------------


def test_the_hdf5_file_holds_every_result(tmp_path: Any) -> None:
    study = {**SMALL, "sweep": {"network.bandwidth": ["64 GB/s", "32 GB/s"]}}
    found = compare(study)
    save(found, tmp_path / "all.h5")
    with h5py.File(tmp_path / "all.h5") as file:
        assert [text.decode() for text in file["compare/point"][()]] == [point.label for point in found.points]
        assert [text.decode() for text in file["compare/backend"][()]] == list(found.backends)
        for row, point in enumerate(found.points):
            group = next(each for each in file["points"].values() if each.attrs["label"] == point.label)
            assert load_experiment(_toml(group.attrs["experiment"])) == plan_of(study).points[row].experiment
            for column, name in enumerate(found.backends):
                assert file["compare/time_ns"][row, column] == point.ns(point.cycles(name) or 0)
                flits = group[name]["links_total/flits"][()]
                result = point.result(name)
                assert result is not None
                assert (flits == result.totals["flits"]).all()
            assert "attribution" in str(list(group[PACKET])) or "congestion" in group[PACKET]


def test_labels_that_are_alike_as_names_of_groups(tmp_path: Any) -> None:
    names = ["a/b", "a\u2215b", "...", "point", "point (2)"]
    variants = [{"name": name, "set": {}} for name in names]
    save(compare({**SMALL, "variant": variants}, backends=[UNAWARE]), tmp_path / "all.h5")
    with h5py.File(tmp_path / "all.h5") as file:
        assert {each.attrs["label"] for each in file["points"].values()} == set(names)


def _toml(text: str) -> dict[str, Any]:
    import tomllib

    return tomllib.loads(text)


def test_other_files_are_refused(tmp_path: Any) -> None:
    with pytest.raises(InputError, match=r"a comparison cannot be written as '.csv'; allowed: .h5, .*.json, .md"):
        save(Comparison("", [], []), tmp_path / "all.csv")


@settings(max_examples=part_of(40))
@given(
    st.sampled_from(["none", "dctcp", "dcqcn", "ndp", "nscc"]),
    st.sampled_from(["ring", "direct"]),
    st.sampled_from(["all-reduce", "all-gather", "all-to-all"]),
    st.integers(1, 60_000),
    st.integers(1, 4),
    st.sampled_from(["0 ns", "7 ns"]),
    st.sampled_from([1, 3]),
)
def test_all_the_time_on_ethernet_is_spent_on_something(
    transport: str, algorithm: str, kind: str, size: int, chunks: int, delay: str, pairs: int
) -> None:
    ethernet = {"transport": transport, "queue_pairs": pairs}
    clos = {"topology": "leaf-spine", "options": {"npus": 3, "leaves": 2, "spines": 1}, **WIRES}
    tables = {
        "network": {**clos, "ethernet": ethernet},
        "collective": {"kind": kind, "size": f"{size} B"},
        "system": {"all_reduce": algorithm, "chunks": chunks, "endpoint_delay": delay},
    }
    point = compare(tables, backends=[ETHERNET, UNAWARE]).points[0]
    chain = point.chains[ETHERNET]
    assert sum(chain.spent.values()) == point.cycles(ETHERNET)
    assert all(cycles >= 0 for cycles in chain.spent.values())
    assert chain.unaware <= (point.cycles(ETHERNET) or 0)


@pytest.mark.parametrize("delay", ["0 ns", "10 ns"])
def test_a_ring_alone_on_ethernet_is_known_to_the_cycle(delay: str) -> None:
    """Six messages one after the other: bytes and wires, headers and a switch's store and forward, and no waiting."""
    network = {"topology": "ring", "shape": [4], "ethernet": {"transport": "none"}, **WIRES}
    tables = {**SMALL, "network": network, "system": {"endpoint_delay": delay, "all_reduce": "ring"}}
    point = compare(tables, backends=[ETHERNET, UNAWARE]).points[0]
    chain = point.chains[ETHERNET]
    assert chain.messages == 6
    assert chain.unaware == point.cycles(UNAWARE)
    assert chain.spent[GAPS] == 7 * int(delay.split()[0])
    assert chain.spent[KNOWN] + chain.spent[GAPS] == point.cycles(UNAWARE)
    assert chain.spent[FRAMES] == 6 * -(-82 // 64)  # a header of 82 B at 64 B per cycle
    assert sum(chain.spent.values()) == point.cycles(ETHERNET)


def test_ethernet_is_another_fabric_and_no_model(tmp_path: Any) -> None:
    """It gets no verdict. The report splits its time into parts, and a file preserves them."""
    network = {**HOTSPOT["network"], "ethernet": {"transport": "dcqcn"}}
    tables = {**HOTSPOT, "network": network, "message": [], "collective": {"kind": "all-to-all", "size": "1 MiB"}}
    comparison = compare(tables, backends=[PACKET, ETHERNET, UNAWARE])
    point = comparison.points[0]
    assert [verdict.backend for verdict in verdicts(point, 0.1)] == [UNAWARE]
    (line,) = (line for line in said(point, 0.1) if line.startswith(ETHERNET))
    error = point.error(ETHERNET)
    assert error is not None
    assert f"another fabric, {1 + error:.4g} times as long as packet (" in line
    assert spent(point).head[1::2] == [f"{name}, {point.chains[name].messages} message" for name in (PACKET, ETHERNET)]
    save(comparison, tmp_path / "both.h5")
    again = read(tmp_path / "both.h5").points[0]
    assert again.chains == point.chains
    assert said(again, 0.1) == said(point, 0.1)


def test_messages_beside_collectives_have_no_chain_on_ethernet() -> None:
    point = compare(HOTSPOT, backends=[ETHERNET]).points[0]
    assert not point.chains
    assert said(point, 0.1) == ["ethernet: another fabric"]
