"""The fixed cases are what they say; each kind of case runs in a small form."""

from __future__ import annotations

import contextlib
import tomllib
from pathlib import Path
from typing import Any

import pytest

from benchmarks import cases
from benchmarks.case import Run
from benchmarks.cases import CASES, FIRST, LARGE, Tables, run_tables
from benchmarks.expect import SPEED_OF, expected, ring_visits
from benchmarks.measure import once
from benchmarks.recorded import RECORDED
from pyxsim.runner.lifecycle import run
from pyxsim.settings import load_experiment
from pyxsim.settings.types import per_dimension

# History is compared by these names.
OLD = {
    "torus8x8-uniform-0.4",
    "torus8x8-uniform-0.1",
    "torus8x8-uniform-0.2-1flit",
    "torus64x64-uniform-0.05",
    "torus4x4x4-all-reduce",
    "torus16x16x16-analytical",
    "torus16x16x16-analytical-congestion",
    "torus16x16x16-flow",
}


def rate(run: Run) -> float:
    """Router visits in a CPU second."""
    return run.work / run.cpu_s


def test_the_names_stay() -> None:
    assert set(CASES) >= OLD


def test_the_first_experiment_is_the_one_of_make_run(tree: Path) -> None:
    assert load_experiment(FIRST) == load_experiment(tree / "inputs" / "torus_all_reduce.toml")


def test_garnet_ends_in_the_same_cycle() -> None:
    """As ASTRA-sim 1 over Garnet did, where it was measured."""
    run = CASES["torus4x4x4-all-reduce-garnet"].run()
    assert run.cycles == 43_925
    assert run.work == ring_visits(64, 1 << 20)


@pytest.mark.parametrize("tables", [FIRST, cases.DIRECT, cases.LARGE])
def test_an_all_reduce_in_small(tables: Tables) -> None:
    small = {**tables, "collective": {"kind": "all-reduce", "size": "16 KiB"}}
    if tables is LARGE:
        small["network"] = {**tables["network"], "shape": [4, 4, 4]}
    run = run_tables(small)
    assert run.work > 0
    assert 0 < run.cpu_s < run.whole_cpu_s


def test_messages_without_packets() -> None:
    """In each of 4 chunks each of 64 NPUs sends 3 + 3 + 6 + 3 + 3 messages."""
    small = {**LARGE, "network": {**LARGE["network"], "shape": [4, 4, 4]}}
    for backend in ("analytical", "analytical-congestion", "flow"):
        assert run_tables(small, backend).work == 4 * 64 * 18


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("torus16")])
def test_the_settings_of_a_case_are_right(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of a case but the simulation."""
    made: list[object] = []
    monkeypatch.setattr(cases, "simulate_study", lambda prepared, **_: made.append(prepared))
    monkeypatch.setattr("benchmarks.traffic.PacketNetwork.advance", lambda *_, **__: made.append(None))
    with pytest.raises((AttributeError, TypeError)):  # there is no result
        CASES[name].run()
    assert made


@pytest.mark.parametrize("name", list(CASES))
def test_a_case_shows_what_it_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The experiment that it prints is the one that it prepares; of open traffic the network."""
    shown = load_experiment(tomllib.loads(CASES[name].show()))
    made: list[Any] = []
    real = cases.load_experiment
    monkeypatch.setattr(cases, "load_experiment", lambda *each: made.append(real(*each)) or made[-1])
    monkeypatch.setattr(cases, "prepare", lambda experiment, **_: made.append(experiment))
    monkeypatch.setattr(cases, "simulate_study", lambda prepared, **_: None)
    monkeypatch.setattr(cases, "simulate", lambda traffic: made.append(load_experiment(traffic.tables())))
    with contextlib.suppress(AttributeError):  # there is no result
        CASES[name].run()
    assert (shown.network, shown.system) == (made[-1].network, made[-1].system)
    if not name.endswith("garnet"):
        assert shown == made[-1]


def test_every_cycle_of_a_case() -> None:
    small = {
        **FIRST,
        "network": {**FIRST["network"], "shape": [4]},
        "collective": {"kind": "all-reduce", "size": "16 MiB"},
    }
    some, every = (run_tables(small, skip=skip) for skip in (True, False))
    assert (some.work, some.cycles) == (every.work, every.cycles)
    assert some.facts["skipped_cycles"] > 0 == every.facts["skipped_cycles"]


def test_the_sample_of_garnet_is_a_file(tree: Path, tmp_path: Path) -> None:
    """inputs/garnet_sample.toml is the network and the system of the case, in fewer words, and ends with it."""
    file = load_experiment(tree / "inputs" / "garnet_sample.toml")
    case = cases._garnet_experiment(str(tmp_path))
    network, wanted = (each.network.model_dump() for each in (file, case))
    for table in (network, wanted):
        table["bandwidth"] = per_dimension(table["bandwidth"], 3)
        table["router"]["serdes_credit"] = per_dimension(table["router"]["serdes_credit"], 3)
    assert network == wanted
    for key in ("compat", "chunks", "active_chunks", "scheduling", "optimization", "endpoint_delay", "reduction_delay"):
        assert getattr(file.system, key) == getattr(case.system, key), key
    assert run(tree / "inputs" / "garnet_sample.toml").time_cycles == 43_925


def test_what_is_expected_is_what_happens() -> None:
    """The closed form of router visits, against a run."""
    small = {**FIRST, "collective": {"kind": "all-reduce", "size": "512 KiB"}}
    assert run_tables(small).work == ring_visits(64, 1 << 19)
    speeds = {"torus4x4x4-all-reduce": 1e6, "torus8x8x8-all-reduce": 8e5, "torus16x16x16-all-reduce": 3e5}
    found = list(expected(speeds))
    first = found[0]
    assert (first.npus, first.size, first.router_visits) == (64, "1 MiB", 2 * 64 * 2 * 63 * 64)
    assert first.cpu_s == pytest.approx(first.router_visits / 1e6)
    of_4096 = [each for each in found if each.npus == 4096]
    assert len(of_4096) == 3
    assert all(each.cpu_s == pytest.approx(each.router_visits / 3e5) for each in of_4096)


@pytest.mark.slow
def test_expected_times_are_right_within_a_third() -> None:
    """Each shape at the speed of its own case, against runs of another size, every cycle of them."""
    speeds = {name: rate(once(name)[0]) for name in SPEED_OF.values()}
    sizes = {(4, 4, 4): "8 MiB", (8, 8, 8): "4 MiB", (16, 16, 16): "1 MiB"}
    for shape, size in sizes.items():
        run = run_tables(cases._larger(list(shape), 8, size))
        assert run.work / speeds[SPEED_OF[shape]] == pytest.approx(run.cpu_s, rel=0.4)


def test_what_is_recorded_belongs_to_a_case() -> None:
    for other in RECORDED:
        assert other.case in CASES
        assert other.source
    booksim = next(other for other in RECORDED if other.case == "torus8x8-uniform-0.4")
    # Measured: 1.056 million hops per second.
    assert 10**6 / booksim.scaled(10**6)[0] == pytest.approx(1.056e6, rel=1e-3)
