"""The fixed cases are what they say; each kind of case runs in a small form."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyxsim.bench import cases
from pyxsim.bench.case import Run
from pyxsim.bench.cases import CASES, FIRST, LARGE, Tables, run_tables
from pyxsim.bench.expect import SPEED_OF, expected, ring_visits
from pyxsim.bench.measure import once
from pyxsim.bench.recorded import RECORDED
from pyxsim.settings import load_experiment

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
    monkeypatch.setattr("pyxsim.bench.traffic.PacketNetwork.advance", lambda *_, **__: made.append(None))
    with pytest.raises((AttributeError, TypeError)):  # there is no result
        CASES[name].run()
    assert made


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
