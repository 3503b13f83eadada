"""Runs that simulate the groups of NPU 0 only, against runs of all NPUs and cycles: equal in every dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.network.delay import delay_network
from pyxsim.network.packet import congruent_groups, folded_engine
from pyxsim.results.result import Result
from pyxsim.runner.checkpoint import checkpoint_file
from pyxsim.runner.checkpoint.context import CheckpointContext
from pyxsim.runner.lifecycle import complete_run, run, simulate
from pyxsim.runner.prepare import prepare
from pyxsim.settings import load_experiment
from pyxsim.system import lockstep, work
from tests.equal_results import differences
from tests.examples import part_of
from tests.network.packet.random_experiments import experiment
from tests.runner.checkpoint.test_checkpoint import assert_same, everything, left, prepared_of, whole


@pytest.fixture(autouse=True)
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small runs, too."""
    monkeypatch.setattr(congruent_groups, "LEAST_FLIT_HOPS", 0)
    monkeypatch.setattr(congruent_groups, "LEAST_SAVING", 2)
    monkeypatch.setattr(delay_network, "LEAST_NPUS", 0)


def simulated(told: dict[str, Any], backend: str = "packet") -> tuple[Result, bool, bool]:
    """The result, and whether NPU 0 stood for all: when the run began, and at its end."""
    prepared = prepare(load_experiment(told), backend=backend)
    began = prepared.every_npu is not None
    result = simulate(prepared, backend=backend)
    return result, began, prepared.every_npu is not None


def kept_step(told: dict[str, Any], backend: str = "packet") -> tuple[bool, bool]:
    """Whether NPU 0 stood for all; after a comparison with the run of every NPU and cycle."""
    result, began, kept = simulated(told, backend)
    assert differences(result, run({**told, "run": {"skip": False}}, backend=backend)) == []
    return began, kept


BACKENDS = ["packet", "analytical", "analytical-congestion", "flow"]
RING = {"all_reduce": "ring", "all_gather": "ring", "reduce_scatter": "ring", "all_to_all": "ring"}
HIERARCHY = experiment("torus", [4, 4], system=RING)
del HIERARCHY["network"]["topology"], HIERARCHY["network"]["shape"]
HIERARCHY["network"]["dims"] = [{"block": "switch", "npus": 4}, {"block": "fully-connected", "npus": 3}]
BUBBLE = {"router": {"routing": "bubble"}}
IN_STEP = [
    experiment("torus", [4, 4], system=RING),
    experiment("torus", [4, 2, 3], system=RING, collective={"size": "96 KiB"}),
    experiment("torus", [2, 8], system=RING, network={"bandwidth": ["100 GB/s", "37 GB/s"]}),
    experiment("torus", [4, 4], system={**RING, "inter_dimension": "round-robin", "active_chunks": 2}),
    experiment("torus", [4, 4], system={**RING, "optimization": "baseline", "scheduling": "FIFO"}),
    experiment("torus", [4, 4], system=RING, collective={"kind": "all-gather", "size": "4 KiB"}),
    experiment("torus", [4, 4], system=RING, collective={"kind": "reduce-scatter"}),
    HIERARCHY,
    experiment("torus", [2, 2, 2], system={"all_reduce": "direct"}),
    # Without datelines all NPUs of a ring do the same, also with messages over several links.
    experiment("torus", [4, 4], system={"all_reduce": "direct"}, network=BUBBLE),
    experiment("torus", [5, 3], system={"all_reduce": "direct"}, collective={"size": "90 KiB"}, network=BUBBLE),
    experiment("torus", [4, 6], system={"all_to_all": "direct"}, collective={"kind": "all-to-all"}, network=BUBBLE),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("told", IN_STEP, ids=lambda told: str(told["network"].get("shape", "dims")))
def test_all_npus_do_the_same(told: dict[str, Any], backend: str) -> None:
    # The destination selects the direction between opposite NPUs of a ring, so its links carry different bytes.
    opposite = told["network"].get("shape") == [4, 6] and backend in ("analytical-congestion", "flow")
    assert kept_step(told, backend) == (True, not opposite)


def test_several_collectives_at_several_times() -> None:
    """The second one begins while the first one runs."""
    told = experiment("torus", [4, 4], system=RING)
    first = told.pop("collective")
    told["collective"] = [first, {**first, "kind": "all-gather", "size": "2 KiB", "at": "300 ns"}]
    assert kept_step(told) == (True, True)


LOST = [
    # A ring of five has messages over two links and a dateline, which its NPUs are at different distances from.
    experiment("torus", [5, 5], system={"all_reduce": "direct"}, collective={"size": "50 KiB"}),
    experiment("torus", [4, 4], system={"all_reduce": "direct"}),
]


@pytest.mark.parametrize("told", LOST, ids=lambda told: str(told["network"]["shape"]))
def test_a_run_that_loses_step_starts_over(told: dict[str, Any]) -> None:
    assert kept_step(told) == (True, False)


def test_ends_that_differ_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the check, NPUs that would be late are assumed to keep pace, and the result differs."""
    monkeypatch.setattr(work, "check_together", lambda ends: None)
    result, _, kept = simulated(LOST[0])
    assert kept
    assert differences(result, run({**LOST[0], "run": {"skip": False}}))


@pytest.mark.parametrize(
    "changes",
    [
        {"system": {"stragglers": [{"npus": [5], "slow": 2}]}},
        {"system": {"stragglers": [{"npus": [5], "start": "50 ns"}]}},
        {"system": {"start_skew": "20 ns"}},
        {"system": {"endpoint": {"memory_bandwidth": "500 GB/s"}}},
        {"system": {"boost": True}},
        {"output": {"carry": True, "window": "500 ns", "seed": 1}},
        {"collective": {"npus": [0, 1, 2, 3]}},
        {"collective": {"dims": [0]}},
        {"collective": {"size": "65537 B"}},  # pieces that differ by a byte
        {"collective": {"kind": "broadcast"}},
        {"message": [{"src": 1, "dst": 2, "size": "1 KiB"}]},
    ],
    ids=str,
)
def test_npus_that_differ_are_all_simulated(changes: dict[str, Any]) -> None:
    changes = {**changes, "system": {**RING, **changes.get("system", {})}}
    began, kept = kept_step(experiment("torus", [4, 4], **changes))
    assert not kept
    assert not began


def test_lines_that_differ_are_all_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """One link of another line than that of NPU 0 has parameters of its own."""
    kinds = congruent_groups.wires

    def marked(links: Any) -> Any:
        table = kinds(links)
        table[17] += 1000
        return table

    monkeypatch.setattr(congruent_groups, "wires", marked)
    assert kept_step(experiment("torus", [4, 4], system=RING)) == (False, False)


def test_more_classes_than_are_simulated_start_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folded_engine, "MOST_PARTS", 1)
    assert kept_step(experiment("torus", [4, 4], system=RING)) == (True, False)


@pytest.mark.parametrize("told", [IN_STEP[1], LOST[0]], ids=["kept", "lost"])
def test_checkpoints(tmp_path: Path, told: dict[str, Any]) -> None:
    settings = load_experiment(told)
    found, boundaries = whole(prepared_of(settings), tmp_path / "whole.h5")
    for share in (0.05, 0.5, 0.9):
        left(prepared_of(settings), tmp_path / "run.checkpoint", int(share * boundaries))
        _, (prepared, _) = checkpoint_file.read(tmp_path / "run.checkpoint")
        assert_same(everything(simulate(prepared), tmp_path / "resumed.h5"), found)


def test_what_a_run_has_counted_when_it_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in lockstep: the links of all lines have what those of the first one have."""
    prepared = prepare(load_experiment(experiment("torus", [4, 4], system=RING)))
    network = prepared.network
    calls = iter(range(6))

    def tick() -> None:
        if next(calls, None) is None:
            raise KeyboardInterrupt

    monkeypatch.setattr(network, "tick", tick)
    result = complete_run(prepared, CheckpointContext()).result
    assert not result.complete
    dim, flits = result.links.dim, result.totals["flits"]
    assert flits.any()
    for each in np.unique(dim).tolist():
        assert len(np.unique(flits[dim == each])) == 1


def test_the_reasons_are_those_of_the_module() -> None:
    """Each check raises LockstepLost, and nothing else decides."""
    assert {name for name in vars(lockstep) if name.startswith("check_")} == {
        "check_options",
        "check_members",
        "check_phase",
        "check_together",
    }


@st.composite
def experiments(draw: st.DrawFn) -> dict[str, Any]:
    """Networks with all NPUs in all collectives, mostly with messages to neighbours."""
    topology, shape = draw(
        st.sampled_from(
            [
                *[("torus", [4, 2]), ("torus", [3, 3]), ("torus", [2, 2, 2]), ("torus", [5, 2]), ("mesh", [2, 2])],
                *[("fully-connected", [5]), ("torus", [4, 4]), ("switch", [6]), ("torus", [3, 2, 4])],
            ]
        )
    )
    npus = int(np.prod(shape))
    kinds = ["all-reduce", "all-gather", "reduce-scatter", "all-to-all"]
    system: dict[str, Any] = {
        "chunks": draw(st.integers(2, 5)),
        "active_chunks": draw(st.integers(1, 4)),
        "inter_dimension": draw(st.sampled_from(["ascending", "round-robin", "themis"])),
        "optimization": draw(st.sampled_from(["localBWAware", "baseline"])),
        "scheduling": draw(st.sampled_from(["LIFO", "FIFO"])),
        "endpoint_delay": draw(st.sampled_from(["1 ns", "10 ns"])),
        **{kind.replace("-", "_"): draw(st.sampled_from(["ring", "ring", "direct"])) for kind in kinds},
    }
    network: dict[str, Any] = {"router": {"vcs": draw(st.sampled_from([2, 4])), "pipeline": "booksim"}}
    network["bandwidth"] = draw(st.sampled_from(["64 GB/s", "90 GB/s", "33.3 GB/s"]))
    if topology == "torus" and draw(st.booleans()):
        network["router"]["routing"] = "bubble"
    count = draw(st.integers(1, 3))
    size = npus * 8 * draw(st.integers(5, 40)) * system["chunks"]
    collectives = [
        {"kind": draw(st.sampled_from(kinds)), "size": f"{size} B", "at": f"{draw(st.integers(0, 900))} ns"}
        for _ in range(count)
    ]
    told = experiment(topology, shape, network=network, system=system)
    output = {"window": draw(st.sampled_from(["50 ns", "500 ns", "1.3 us", "20 us"])), "seed": 1}
    return {**told, "collective": collectives, "output": output}


@pytest.mark.parametrize("at", [11, 50, 58, 90])
def test_a_window_ends_at_rest(at: int) -> None:
    """Between two episodes, when nothing but credits is under way, and later."""
    system = {"chunks": 5, "active_chunks": 1, "inter_dimension": "round-robin", **RING}
    network = {"bandwidth": "64 GB/s", "router": {"vcs": 2, "pipeline": "booksim"}}
    collective = {"kind": "all-reduce", "size": "10560 B", "at": f"{at} ns"}
    told = experiment("torus", [4, 2], system=system, network=network, collective=collective)
    assert kept_step(told) == (True, True)


@settings(max_examples=part_of(2500, usual=25), deadline=None)
@given(experiments(), st.sampled_from(BACKENDS))
def test_random_experiments(told: dict[str, Any], backend: str) -> None:
    kept_step(told, backend)
