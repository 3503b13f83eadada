"""Whole experiments with and without fast-forward: the same to the bit, in every dataset of the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim.reports.text.facts import facts
from pyxsim.results.result import HOW_IT_RAN, Result
from pyxsim.runner.lifecycle import run
from tests.examples import part_of

PERIODIC: dict[str, Any] = {
    "network": {
        "topology": "torus",
        "shape": [4],
        "flit": "64 B",
        "packet": "256 B",
        "bandwidth": "64 GB/s",
        "latency": "10 ns",
    },
    "system": {"chunks": 1},
    "collective": {"kind": "all-reduce", "size": "1 MiB"},
    "output": {"window": "100 ns"},
}
NETWORKS = (
    {"topology": "torus", "shape": [4]},
    {"topology": "torus", "shape": [3, 3]},
    {"topology": "torus", "shape": [2, 2, 2]},
    {"topology": "mesh", "shape": [3, 2]},
    {"dims": [{"block": "ring", "npus": 4}, {"block": "switch", "npus": 2}]},
    {"dims": [{"block": "fully-connected", "npus": 4}]},
    {"dims": [{"block": "switch", "npus": 5}]},
)


def changed(**tables: dict[str, Any]) -> dict[str, Any]:
    """The experiment with some settings of its tables."""
    return {**PERIODIC, **{name: {**PERIODIC.get(name, {}), **table} for name, table in tables.items()}}


def datasets(result: Result, file: Path) -> dict[str, Any]:
    result.save(file)
    found: dict[str, Any] = {}
    with h5py.File(file) as data:
        data.visititems(lambda name, each: found.update({name: each[()]} if isinstance(each, h5py.Dataset) else {}))
    return found


def compare(experiment: dict[str, Any], folder: Path) -> Result:
    """Run it both ways; the result of the one that skips."""
    fast = run(experiment)
    slow = run({**experiment, "run": {"skip": False}})
    assert slow.counts["skipped_cycles"] == 0
    mine, other = datasets(fast, folder / "fast.h5"), datasets(slow, folder / "slow.h5")
    assert list(mine) == list(other)
    for name, values in mine.items():
        np.testing.assert_array_equal(values, other[name], err_msg=name)
    assert {k: v for k, v in fast.json().items() if k not in HOW_IT_RAN} == {
        k: v for k, v in slow.json().items() if k not in HOW_IT_RAN
    }
    return fast


@st.composite
def experiments(draw: st.DrawFn) -> dict[str, Any]:
    """Small flits and long messages, so that there is something to skip."""
    network: dict[str, Any] = dict(draw(st.sampled_from(NETWORKS)))
    network |= {
        "flit": "64 B",
        "packet": draw(st.sampled_from(["64 B", "192 B", "256 B", "1 KiB"])),
        "bandwidth": draw(st.sampled_from(["64 GB/s", "50 GB/s", "25.6 GB/s"])),
        "latency": f"{draw(st.integers(1, 40))} ns",
        "router": {
            "pipeline": draw(st.sampled_from(["booksim", "garnet"])),
            "vcs": draw(st.sampled_from([2, 4])),
            "buffer": draw(st.sampled_from(["auto", 4, 16])),
            "output_queue": draw(st.booleans()),
        },
    }
    kind = draw(st.sampled_from(["all-reduce", "all-gather", "reduce-scatter", "all-to-all"]))
    return {
        "network": network,
        "system": {
            "chunks": draw(st.integers(1, 4)),
            "active_chunks": draw(st.integers(1, 4)),
            "endpoint_delay": f"{draw(st.integers(0, 30))} ns",
            "all_reduce": draw(st.sampled_from(["ring", "direct"])),
        },
        "collective": {"kind": kind, "size": f"{draw(st.integers(100, 1000))} kB"},
        "output": {
            "window": f"{draw(st.integers(5, 3000))} ns",
            "attribution": draw(st.sampled_from(["off", "off", "links"])),
        },
    }


def all_equal(folder: Path, examples: int) -> int:
    """Random experiments; returns the cycles skipped in all of them."""
    skipped = 0

    @settings(max_examples=examples, suppress_health_check=[HealthCheck.too_slow])
    @given(experiment=experiments())
    def each(experiment: dict[str, Any]) -> None:
        nonlocal skipped
        skipped += compare(experiment, folder).counts["skipped_cycles"]

    each()
    return skipped


def test_random_experiments_are_the_same_with_and_without(tmp_path: Path) -> None:
    assert all_equal(tmp_path, part_of(12)) > 0


@pytest.mark.slow
def test_many_random_experiments_are_the_same_with_and_without(tmp_path: Path) -> None:
    assert all_equal(tmp_path, 200) > 100_000


@pytest.mark.slow
def test_the_first_experiment_with_64_mib(tmp_path: Path) -> None:
    experiment = {
        "network": {
            "topology": "torus",
            "shape": [4, 4, 4],
            "bandwidth": "100 GB/s",
            "latency": "100 ns",
            "flit": "256 B",
            "packet": "4 KiB",
            "router": {"vcs": 4},
        },
        "system": {"chunks": 8, "active_chunks": 4, "endpoint_delay": "10 ns", "optimization": "localBWAware"},
        "collective": {"kind": "all-reduce", "size": "64 MiB"},
        "output": {"window": "100 ns"},
    }
    assert compare(experiment, tmp_path).counts["skipped_cycles"] > 0


def why_nothing(result: Result) -> str:
    """What the summary says of a run of which nothing was skipped."""
    assert result.json()["skipped_cycles"] == 0
    (fact,) = [each for each in facts(result) if each.label == "skipped"]
    assert fact.value == "nothing"
    assert fact.note == result.json()["not_skipped"]
    return fact.note


def test_a_ring_all_reduce_is_hardly_simulated(tmp_path: Path) -> None:
    """Six steps of 4096 flits each, a flit per cycle, in which nothing changes; the summary tells."""
    result = compare(PERIODIC, tmp_path)
    assert result.counts["skipped_cycles"] > 0.8 * result.time_cycles
    (fact,) = [each for each in facts(result) if each.label == "skipped"]
    assert fact.value.endswith("%")
    assert f"{result.time_cycles - result.counts['skipped_cycles']:,} were simulated" in fact.note
    assert result.json()["not_skipped"] is None


def test_visits_of_skipped_cycles_are_told(tmp_path: Path) -> None:
    """The ring is as busy in one cycle as in another, but for the begin and the end of its steps."""
    result = compare(PERIODIC, tmp_path)
    share = result.counts["skipped_visits"] / result.counts["router_visits"]
    assert share == pytest.approx(result.counts["skipped_cycles"] / result.time_cycles, rel=0.05)
    simulated = run({**PERIODIC, "run": {"skip": False}})
    assert simulated.counts["skipped_visits"] == 0
    assert simulated.counts["router_visits"] == result.counts["router_visits"]
    (fact,) = [each for each in facts(result) if each.label == "simulated in"]
    assert "with those skipped" in fact.note


@pytest.mark.parametrize("window", ["1 cycle", "7 cycles", "64 cycles", "1 ms"])
def test_windows_end_anywhere_in_a_period(tmp_path: Path, window: str) -> None:
    result = compare(changed(output={"window": window}), tmp_path)
    assert result.counts["skipped_cycles"] > 0
    for name, total in result.totals.items():
        assert np.array_equal(result.windows.counts[name].sum(axis=0), total)


def test_attribution_by_links_is_skipped_exactly(tmp_path: Path) -> None:
    result = compare(changed(output={"attribution": "links"}), tmp_path)
    assert result.counts["skipped_cycles"] > 0.5 * result.time_cycles


def test_attribution_of_every_packet_wants_every_cycle() -> None:
    experiment = changed(output={"attribution": "messages"}, collective={"size": "64 KiB"})
    assert why_nothing(run(experiment)) == 'output.attribution = "messages" needs every cycle simulated'


@pytest.mark.parametrize(
    "router",
    [
        {"vcs": 3, "vc_classes": "shared", "va_allocator": "islip:1"},
        {"internal_speedup": 2, "queue_limit": 1},
        {"buffer": 2, "shared_buffer": 6, "shared_limit": 3},
        {"buffer": 2, "shared_buffer": 6, "shared_limit": "equal"},
        {"pipeline": {"va": 0}, "vc_choice": "next"},
    ],
    ids=str,
)
def test_options_of_the_full_router_are_the_same_with_and_without(router: dict[str, Any], tmp_path: Path) -> None:
    compare(changed(network={"router": router}, collective={"size": "64 KiB"}), tmp_path)


def test_why_nothing_was_skipped() -> None:
    """Of what would be skipped, a few threads or `--no-skip` skip nothing; what is short has nothing to skip."""
    assert "--no-skip" in why_nothing(run(changed(run={"skip": False})))
    assert "run.threads = 2" in why_nothing(run(changed(run={"threads": 2})))
    assert "nothing was found to repeat" in why_nothing(run(changed(collective={"size": "1 KiB"})))
    traffic = {"load": 0.1, "measure": 200, "warmup": 50}
    network = {"topology": "torus", "shape": [4], "flit": "64 B"}
    assert "open traffic" in why_nothing(run({"network": network, "traffic": traffic}))


def test_delays_have_no_cycles_to_skip() -> None:
    result = run(PERIODIC, backend="analytical")
    assert result.json()["not_skipped"] is None
    assert not [fact for fact in facts(result) if fact.label == "skipped"]
