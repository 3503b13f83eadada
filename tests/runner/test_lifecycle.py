"""From an experiment to its Result: how a run can end, and what is known then."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pyxsim.errors import DeadlockError, InputError
from pyxsim.results.result import Result
from pyxsim.runner.lifecycle import Progress, run, simulate
from pyxsim.runner.prepare import prepare
from pyxsim.runner.prepared import Prepared
from pyxsim.settings import load_experiment
from pyxsim.study.compare import compare
from pyxsim.study.curve.load_curve import points_of
from pyxsim.study.sweep import sweep
from tests import fork_server
from tests.examples import part_of

SMALL: dict[str, Any] = {
    # A flit per cycle.
    "network": {
        "topology": "torus",
        "shape": [2, 3],
        "flit": "64 B",
        "packet": "512 B",
        "bandwidth": "64 GB/s",
        "latency": "40 ns",
    },
    "system": {"chunks": 4, "endpoint_delay": "10 ns"},
    "collective": {"kind": "all-reduce", "size": "50 kB"},
}


def test_what_a_result_says() -> None:
    result = run(SMALL)
    assert result.complete
    assert result.time_ns == result.time_cycles > 0
    assert result.backend == "packet"
    assert result.seed == 1
    assert result.warnings == []
    assert result.counts["npus"] == 6
    assert result.counts["bytes_delivered"] == 2 * 5 * 50_000
    (row,) = result.collectives
    assert row["kind"] == "all-reduce"
    assert (row["start"], row["end"], row["bytes"]) == (0, result.time_cycles, 50_000)
    assert row["ratio"] == pytest.approx(row["end"] / row["lower_bound"])
    assert result.lower_bound_ns == pytest.approx(row["lower_bound"])
    links = result.links
    assert len(links) == 24
    assert set(links.bandwidth.tolist()) == {64e9}
    assert set(links.latency.tolist()) == {40}


@pytest.fixture
def thawed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without what tests/conftest.py has put away, and no run has seen it."""
    gc.unfreeze()
    untouched = SimpleNamespace(by_program=False, by_run=False)
    monkeypatch.setattr(sys.modules["pyxsim.garbage"], "_frozen", untouched)
    yield
    gc.collect()
    gc.freeze()


@pytest.mark.usefixtures("thawed")
@pytest.mark.parametrize("before", [False, True])
def test_the_collector_is_left_as_it_was(before: bool) -> None:
    """During a run what was there before is not looked through; after it, it is again, also when it was interrupted.
    What the program has put away before stays there."""
    seen: list[int] = []

    def stop() -> None:
        seen.append(gc.get_freeze_count())
        raise KeyboardInterrupt

    if before:
        gc.freeze()
    for _ in range(2):
        ready = prepare(load_experiment(SMALL))
        ready.network.tick = stop
        assert not simulate(ready).complete
        assert seen.pop() > 0
        assert (gc.get_freeze_count() > 0) == before
        assert gc.isenabled()


def test_a_clock_of_its_own() -> None:
    result = run(SMALL, overrides=["network.clock=3 GHz"])
    assert result.time_ns == pytest.approx(result.time_cycles / 3)
    assert result.lower_bound_ns == pytest.approx(result.collectives[0]["lower_bound"] / 3)


def test_from_a_file_and_overridden(tmp_path: Path) -> None:
    first = run(SMALL)
    (tmp_path / "again.toml").write_text(first.experiment_toml, encoding="utf-8")
    assert run(tmp_path / "again.toml").time_cycles == first.time_cycles
    assert run(str(tmp_path / "again.toml"), overrides=["system.chunks=1"]).time_cycles != first.time_cycles


def test_one_npu_has_nothing_to_send() -> None:
    result = run(SMALL | {"network": {"topology": "ring", "shape": [1]}})
    assert result.complete
    assert (result.time_cycles, result.counts["flits"], len(result.windows.start)) == (0, 0, 0)


# -- interrupted -------------------------------------------------------------------------------------------------------


def consistent(prepared: Prepared, result: Result) -> None:
    """Everything that an incomplete result counts fits together."""
    engine, counts = prepared.network.engine, result.counts
    engine.check()
    assert not result.complete
    delivered = [m for m in range(engine.totals()["messages"]) if engine.message_times(m)[2] >= 0]
    assert counts["messages"] == len(delivered)
    assert counts["bytes_delivered"] == sum(prepared.network._bytes[m] for m in delivered)
    assert counts["flit_hops"] == int(result.totals["flits"].sum())
    for name, total in result.totals.items():
        assert result.windows.counts[name].sum(axis=0).tolist() == total.tolist()
    assert result.time_cycles == prepared.network.now
    chunks = result.chunks
    begun = chunks["start"] >= 0
    assert (chunks["ready"][begun] >= 0).all()
    assert (chunks["start"][chunks["end"] >= 0] >= 0).all()
    assert chunks["end"].max() <= result.time_cycles


@pytest.mark.parametrize("after", [1, 2, 10, 57, 90])
@pytest.mark.parametrize("router", [{}, {"output_queue": True, "pipeline": "garnet"}], ids=["default", "queued"])
def test_interrupted_at_any_tick(after: int, router: dict[str, Any]) -> None:
    ticks = iter(range(after))

    def tick() -> None:
        if next(ticks, None) is None:
            raise KeyboardInterrupt

    tables = SMALL | {"network": SMALL["network"] | {"router": router}, "output": {"window": "7 cycles"}}
    prepared = prepare(load_experiment(tables))
    prepared.network.tick = tick
    result = simulate(prepared)
    consistent(prepared, result)
    (row,) = result.collectives
    assert row["end"] == -1
    assert np.isnan(row["ratio"])


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer that sends signals")
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_by_a_signal(end: signal.Signals) -> None:
    """Ctrl-C strikes anywhere, mostly when the engine comes back: before anybody has heard what it brought. So does
    SIGTERM where somebody made it the same."""

    def strike(number: int, frame: object) -> None:
        signal.raise_signal(end)

    # Many windows: to be interrupted while they are written would tear the statistics.
    # And long enough: without skipping what repeats itself.
    tables = SMALL | {"collective": {"kind": "all-reduce", "size": "4 MB"}, "output": {"window": "20 cycles"}}
    tables |= {"run": {"skip": False}}
    before = signal.signal(signal.SIGVTALRM, strike)
    ours = signal.signal(end, signal.default_int_handler)  # ignored in a background job of a script
    incomplete = 0
    try:
        for delay in range(1, 60, 60 // part_of(60)):
            prepared = prepare(load_experiment(tables))
            gc.collect()  # what was made there, which would else take the time before the run
            signal.setitimer(signal.ITIMER_VIRTUAL, delay / 2000)
            result = simulate(prepared)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            if not result.complete:
                consistent(prepared, result)
                incomplete += 1
            assert signal.getsignal(end) is signal.default_int_handler
        assert incomplete
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        signal.signal(end, ours)


def test_sigterm_ends_python_where_nobody_asked_for_more(tmp_path: Path) -> None:
    """As it does without a simulation: the handler of whoever calls is left as it is."""
    script = f"""
import signal
import pyxsim
def progress(now):
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    signal.raise_signal(signal.SIGTERM)
from pyxsim.runner import hooks
hooks.INTERVAL = 0.0  # at once
pyxsim.run({SMALL!r}, progress=progress)
print("not reached")
"""
    words = [sys.executable, "-c", script]
    done = fork_server.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGTERM, "", "")
    assert not list(tmp_path.iterdir())


def test_interrupted_by_the_progress_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress comes every tenth of a second: a clock that jumps makes it come at once."""
    clock = iter(range(10_000_000))
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    seen: list[Progress] = []

    def progress(now: Progress) -> None:
        seen.append(now)
        if len(seen) == 10:
            raise KeyboardInterrupt

    result = run(SMALL, progress=progress)
    assert not result.complete
    assert len(seen) == 10
    assert seen[-1].bytes_total == 2 * 5 * 50_000
    assert [p.cycle for p in seen] == sorted(p.cycle for p in seen)
    assert seen[-1].bytes_delivered == result.counts["bytes_delivered"]
    assert seen[-1].router_visits == result.counts["router_visits"]


def test_progress_changes_nothing() -> None:
    assert run(SMALL, progress=lambda now: None).time_cycles == run(SMALL).time_cycles


# -- failed ------------------------------------------------------------------------------------------------------------

RISKY: dict[str, Any] = {
    "network": {
        "topology": "garnet-torus",
        "shape": [6, 1, 1],
        "latency": "4 ns",
        "router": {"routing": "ring", "vcs": 1, "buffer": 2},
    },
    "system": {"all_to_all": "direct"},
    "collective": {"kind": "all-to-all", "size": "120 kB"},
}


def test_routes_that_can_deadlock_are_refused() -> None:
    with pytest.raises(DeadlockError, match=r"6 channels can form a cycle.*allow_deadlock=True runs it until"):
        run(RISKY)


def test_a_deadlock_ends_the_run_with_what_there_is() -> None:
    prepared = prepare(load_experiment(RISKY), allow_deadlock=True)
    assert any("the run starts nevertheless" in line for line in prepared.warnings)
    with pytest.raises(DeadlockError) as caught:
        simulate(prepared)
    result = caught.value.result  # type: ignore[attr-defined]
    consistent(prepared, result)
    assert f"deadlock in cycle {result.time_cycles}" in str(caught.value)
    assert len(caught.value.cycle) == 6


def test_an_algorithm_of_neighbours_is_safe_on_the_same_ring() -> None:
    assert run(RISKY | {"system": {"all_to_all": "ring"}}).complete


# -- refused -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"network.shape": "[2, 3, 4]", "system.queues": "[1, 2]"}, "system.queues: the list has 2 entries, but the"),
        ({"network.topology": "tours"}, "network.topology: .*'tours'.*did you mean 'torus'"),
        ({"network.router.routing": "ring"}, "network.router.routing: torus has no routing 'ring'"),
        ({"network.router.vcs": "1"}, "network.router.vcs: 1 VCs per link are too few"),
        ({"network.options": "{ bidirectionl = true }"}, "network.options.bidirectionl: unknown option"),
        ({"system.all_reduce": "rign"}, "system.all_reduce: .*'rign'.*did you mean 'ring'"),
        ({"collective.size": "2000 PB"}, "collective.size: all-reduce of .* exceeds the range of the counters"),
    ],
)
def test_what_cannot_be_prepared(changes: dict[str, str], told: str) -> None:
    with pytest.raises(InputError, match=told):
        run(SMALL, overrides=[f"{key}={value}" for key, value in changes.items()])


def test_another_backend() -> None:
    with pytest.raises(InputError, match=r"backend: unknown backend 'packets'.*did you mean 'packet'"):
        run(SMALL, backend="packets")


def test_several_experiments_are_no_single_run() -> None:
    with pytest.raises(InputError, match=r"^sweep: the source defines several experiments; allowed: .*compare"):
        run(SMALL | {"sweep": {"system.chunks": [1, 2]}})


def test_a_library_of_ones_own(tmp_path: Path) -> None:
    """An algorithm from a folder of the user: a schedule that computes nothing is refused before it is run."""
    folder = tmp_path / "mine" / "collectives"
    folder.mkdir(parents=True)
    (folder / "wrong_ring.py").write_text(
        "from pyxsim.collective.schedule import Schedule\n"
        "from pyxsim.registry import collectives\n\n"
        '@collectives.register("wrong-ring", kinds=("all-gather",))\n'
        "def wrong_ring(kind, n):\n"
        "    s = Schedule(kind, n)\n"
        "    for rank in range(n):\n"
        "        s.send(rank, (rank + 1) % n, [rank])\n"
        "    return s\n",
        encoding="utf-8",
    )
    tables = SMALL | {"system": {"all_gather": "wrong-ring"}, "collective": {"kind": "all-gather", "size": "1 kB"}}
    with pytest.raises(InputError, match="wrong-ring all-gather on 3 ranks: rank"):
        run(tables, libraries=[tmp_path / "mine"])


# -- before the run ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("router", "told"),
    [
        ({"buffer": "auto"}, None),
        ({"buffer": 10_000}, None),
        # The loop on a link of 40 cycles with the default pipeline is 3 + 80 = 83 cycles; 2 VCs of a class of 4.
        ({"buffer": 42}, None),
        ({"buffer": 20}, "20 flits x 2 VCs (of a class) cover 48% of the credit loop of dimension 0 (83 cycles)"),
        ({"buffer": 20}, "42 flits cover it"),
        # A packet of 8 waits for 2 credits, and nobody goes before it: 8 flits every 83 + 2 cycles.
        ({"buffer": 6, "ordered": True}, "6 flits x 2 VCs (of a class) cover 9%"),
        ({"buffer": 8, "ordered": True}, "8 flits x 2 VCs (of a class) cover 19%"),
    ],
)
def test_buffers_that_starve_a_link_are_told(router: dict[str, Any], told: str | None) -> None:
    warnings = prepare(load_experiment(SMALL | {"network": SMALL["network"] | {"router": router}})).warnings
    if told is None:
        assert warnings == []
    else:
        assert any(told in line for line in warnings), warnings


def test_what_a_run_will_cost() -> None:
    prepared = prepare(load_experiment(SMALL))
    assert prepared.router_visits == simulate(prepared).counts["router_visits"]


def test_rounding_is_told() -> None:
    warnings = prepare(load_experiment(SMALL | {"system": {"endpoint_delay": "1.2 ns"}})).warnings
    assert warnings == ["system.endpoint_delay: 1.2 ns is simulated as 2 cycles of the 1 GHz clock"]


def test_one_word_is_a_list_of_one(tmp_path: Path) -> None:
    """And not one of its letters."""
    assert run(SMALL, overrides="system.chunks=1").time_cycles == run(SMALL, overrides=["system.chunks=1"]).time_cycles
    (tmp_path / "topologies").mkdir()
    assert run(SMALL, libraries=tmp_path).complete  # type: ignore[arg-type]
    assert compare(SMALL, backends="flow", libraries=str(tmp_path)).backends == ["flow"]
    for each in (tmp_path / "nothing", str(tmp_path / "nothing")):
        with pytest.raises(InputError, match=r"nothing: libraries: no such folder$"):
            run(SMALL, libraries=each)  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [0, -1, "two", 1.5])
def test_no_number_of_workers(tmp_path: Path, workers: Any) -> None:
    problem = r"^workers: .* is not a number of workers; allowed: a whole number from 1$"
    with pytest.raises(InputError, match=problem):
        sweep(SMALL, tmp_path / "points", workers=workers)
    traffic = {"network": SMALL["network"], "traffic": {"pattern": "uniform", "load": 0.1}}
    with pytest.raises(InputError, match=problem):
        points_of(traffic, workers=workers)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("within", [-1, 0, 1, float("nan")])
def test_no_share_within(within: float) -> None:
    with pytest.raises(InputError, match=r"within: .* is not a fraction; allowed: between 0 and 1"):
        compare(SMALL, within=within)
