"""Folded runs against runs of every group: equal in every dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.network.packet import congruent_groups, folded_engine
from pyxsim.network.packet.packet_network import PacketNetwork
from pyxsim.runner.checkpoint import checkpoint_file
from pyxsim.runner.lifecycle import run, simulate
from pyxsim.settings import load_experiment
from tests import equal_results
from tests.examples import part_of
from tests.network.packet.random_experiments import dead_link, experiment, experiments
from tests.runner.checkpoint.test_checkpoint import assert_same, everything, left, prepared_of, whole


@pytest.fixture(autouse=True)
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fold small runs, too, even if that takes longer."""
    monkeypatch.setattr(congruent_groups, "LEAST_FLIT_HOPS", 0)
    monkeypatch.setattr(folded_engine, "FEWEST_RUNS", 1 << 60)
    monkeypatch.setattr(congruent_groups, "LEAST_SAVING", 2)
    monkeypatch.setattr(PacketNetwork, "wants_lines", lambda self, nbytes: False)  # tests/system/test_lockstep.py


@pytest.fixture
def networks(monkeypatch: pytest.MonkeyPatch) -> list[PacketNetwork]:
    """Collect the networks on which `expect` is called."""
    told: list[PacketNetwork] = []
    expect = PacketNetwork.expect

    def noted(self: PacketNetwork, traffic: Any) -> None:
        expect(self, traffic)
        told.append(self)

    monkeypatch.setattr(PacketNetwork, "expect", noted)
    return told


def equal(told: dict[str, Any]) -> bool:
    """Whether a run with folding equals one of every group and cycle."""
    folded, whole = run(told), run({**told, "run": {"skip": False}})
    return equal_results.equal(folded, whole)


@pytest.mark.parametrize(("shape", "links"), [([4, 4], 64), ([4, 4, 4], 384), ([8, 2], 64), ([3, 5], 60)])
def test_each_link_of_a_torus_of_rings_is_a_group(networks: list[PacketNetwork], shape: list[int], links: int) -> None:
    """Messages to neighbours share no link; few of the links differ, in dimension, direction and VC class."""
    assert equal(experiment("torus", shape, system={"all_reduce": "ring"}))
    folded = networks[0].parts
    assert isinstance(folded, folded_engine.FoldedEngine)
    assert folded.groups == links
    assert len(folded.parts) <= 4 * len(shape)  # of the pair, the smaller number first or last


def test_rows_with_messages_between_all_are_groups(
    networks: list[PacketNetwork], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ring of four has two directions; in a ring of three all messages go to neighbours, a link each."""
    monkeypatch.setattr(folded_engine, "MOST_PARTS", 100)
    assert equal(experiment("torus", [4, 3], system={"all_reduce": "direct"}))
    folded = networks[0].parts
    assert isinstance(folded, folded_engine.FoldedEngine)
    assert folded.groups == 2 * 3 + 6 * 4
    assert sum(len(part.members) for part in folded.parts) == folded.groups


def test_a_straggler_leaves_its_class(networks: list[PacketNetwork], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folded_engine, "MOST_PARTS", 100)
    assert equal(experiment("torus", [4, 2], system={"stragglers": [{"npus": [3], "slow": 3}]}))
    folded = networks[0].parts
    assert isinstance(folded, folded_engine.FoldedEngine)
    alone = [part for part in folded.parts if len(part.members) == 1]
    assert alone


@pytest.mark.parametrize("most", [1, 3, 6])
def test_a_run_with_many_classes_continues_unfolded(
    networks: list[PacketNetwork], monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(folded_engine, "MOST_PARTS", most)
    changes = {"all_reduce": "direct", "stragglers": [{"npus": [3], "start": "300 ns"}], "start_skew": "90 ns"}
    assert equal(experiment("torus", [4, 4], system=changes, collective={"size": "16 KiB"}))
    assert not isinstance(networks[0].parts, folded_engine.FoldedEngine)


def test_links_with_other_parameters_are_another_class(networks: list[PacketNetwork]) -> None:
    told = experiment("torus", [4, 4], network={"bandwidth": ["100 GB/s", "37 GB/s"]})
    assert equal(told)
    folded = networks[0].parts
    assert isinstance(folded, folded_engine.FoldedEngine)
    params = networks[0].config.link_params
    for part in folded.parts:
        assert len({params[link].s for link in part.ids[part.ids < len(params)].tolist()}) == 1


def test_equal_runs_depend_on_the_description(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without parameters of links in the descriptions, links of other bandwidths fold, and the result differs."""
    kinds = congruent_groups.wires
    monkeypatch.setattr(congruent_groups, "wires", lambda links: kinds(links) * 0)
    told = experiment("torus", [4, 4], network={"bandwidth": ["100 GB/s", "37 GB/s"]})
    assert not equal(told)


SMALL_MODEL = """kind = "transformer"
help = "a small one"
source = "made up"
layers = 4
hidden = 256
heads = 8
kv_heads = 8
ffn = 1024
gated = false
vocabulary = 1000
sequence = 64
"""


@pytest.mark.parametrize("window", ["1 us", "10 ms"])
def test_a_training_step_repeats_episodes(networks: list[PacketNetwork], tmp_path: Path, window: str) -> None:
    """Layers and micro-batches send equal messages, which are simulated once if no window ends meanwhile."""
    (tmp_path / "small.toml").write_text(SMALL_MODEL, encoding="utf-8")
    parallelism = {"tensor": 4, "data": 2, "pipeline": 2, "schedule": "1f1b"}
    dims = [{"block": "switch", "npus": npus, "bandwidth": f"{90 // npus} GB/s"} for npus in (4, 2, 2)]
    told = experiment(
        "torus", [], system={"all_reduce": "ring", "chunks": 2, "npu": {"device": "a100-80gb", "efficiency": 0.6}}
    )
    told["network"] = {"flit": "64 B", "packet": "1 KiB", "latency": "50 ns", "dims": dims}
    told |= {"output": {"window": window, "seed": 1}}
    told |= {"workload": {"model": str(tmp_path / "small.toml"), "batch": 8, "parallelism": parallelism}}
    del told["collective"]
    assert equal(told)
    folded = networks[0].parts
    assert isinstance(folded, folded_engine.FoldedEngine)
    replayed = sum(part.episodes.replayed_visits for part in folded.parts)
    assert replayed or window == "1 us"


@pytest.mark.parametrize("shape", [[6, 6], pytest.param([8, 8], marks=pytest.mark.slow)])
def test_replays_that_end_early_continue_in_their_windows(
    networks: list[PacketNetwork], monkeypatch: pytest.MonkeyPatch, shape: list[int]
) -> None:
    """Messages of the next step come during replays, which are then simulated, past the ends of windows."""
    monkeypatch.setattr(folded_engine, "MOST_PARTS", 1000)
    monkeypatch.setattr(folded_engine, "FEWEST_RUNS", 1 << 60)
    assert equal(experiment("torus", shape, system={"all_reduce": "direct"}))
    folded = networks[0].parts
    assert isinstance(folded, folded_engine.FoldedEngine)
    assert sum(part.episodes.replayed_visits for part in folded.parts)


def test_classes_that_stop_often_unfold(networks: list[PacketNetwork], monkeypatch: pytest.MonkeyPatch) -> None:
    """Rings with datelines end apart: their classes run from message to message, which takes longer than one engine."""
    monkeypatch.setattr(folded_engine, "FEWEST_RUNS", 200)
    told = experiment("torus", [8, 8], system={"all_reduce": "direct"})
    assert equal(told)
    assert not isinstance(networks[0].parts, folded_engine.FoldedEngine)


@pytest.mark.parametrize("most", [3, 100])
def test_a_checkpoint_has_all_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(folded_engine, "MOST_PARTS", most)
    system = {"all_reduce": "direct", "stragglers": [{"npus": [3], "slow": 3}]}
    told = load_experiment(experiment("torus", [4, 2], system=system))
    found, boundaries = whole(prepared_of(told), tmp_path / "whole.h5")
    for share in (0.1, 0.4, 0.8):
        left(prepared_of(told), tmp_path / "run.checkpoint", int(share * boundaries))
        _, (prepared, _) = checkpoint_file.read(tmp_path / "run.checkpoint")
        assert_same(everything(simulate(prepared, backend="packet"), tmp_path / "resumed.h5"), found)


@settings(max_examples=part_of(2500, usual=25), deadline=None)
@given(experiments(), st.sampled_from([2, 16]), st.sampled_from([20, 1 << 60]))
def test_random_experiments(told: dict[str, Any], most: int, fewest: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folded_engine, "MOST_PARTS", most)
        patch.setattr(folded_engine, "FEWEST_RUNS", fewest)
        try:
            assert equal(told)
        except InputError:
            reject()  # a combination that a topology does not have


def test_a_dead_link_is_noticed(networks: list[PacketNetwork]) -> None:
    """Only the groups whose messages went over the link take other links."""
    told = experiment("torus", [4, 4], system={"all_reduce": "ring"})
    told["network"] |= {"topology": "graph", "options": {"file": dead_link("torus", (4, 4), 5)}}
    del told["network"]["shape"]
    assert equal(told)
