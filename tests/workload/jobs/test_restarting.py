"""Jobs that end when an NPU stops, and start again from their last checkpoint."""

from __future__ import annotations

import pickle
from math import ceil, exp, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyxsim
from pyxsim.errors import InputError, SimulationError
from pyxsim.network.fault_times import NEVER, RandomTimes
from pyxsim.results.result import Result
from pyxsim.runner.prepare import prepare
from pyxsim.settings import load_experiment
from tests.examples import part_of
from validation.families.jobs import NETWORK, account

BACKENDS = ("packet", "analytical-congestion")
ALL_REDUCE = {"kind": "all-reduce", "size": "64 KiB"}


def job(name: str = "a", work: dict[str, Any] | None = None, npus: int = 8, **restart: Any) -> dict[str, Any]:
    return {"name": name, "npus": npus, "restart": restart, **(work or {"collective": [ALL_REDUCE]})}


def run(*jobs: dict[str, Any], faults: Any = (), backend: str = "analytical-congestion", **more: Any) -> Result:
    tables = {"network": NETWORK, "job": list(jobs), "faults": list(faults), **more}
    return pyxsim.run(tables, backend=backend, allow_oom=True)


def stop(npu: int, at: int, length: int | None = 1) -> dict[str, Any]:
    ends = {} if length is None else {"for": f"{length} ns"}
    return {"npu": npu, "at": f"{at} ns", "stop": True, **ends}


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=part_of(15), deadline=None)
@given(data=st.data())
def test_a_schedule_of_failures_gives_the_closed_form_to_the_cycle(backend: str, data: st.DataObject) -> None:
    iterations, every = data.draw(st.integers(1, 9)), data.draw(st.integers(0, 4))
    write = data.draw(st.integers(0, 3000)) if every else 0
    after = data.draw(st.integers(3000, 9000))  # longer than messages need to drain
    step = run(job(iterations=1), backend=backend).jobs[0]["time"]
    last = iterations * (step + write)
    cycles = data.draw(st.lists(st.integers(1, last), max_size=3, unique=True))
    hit = [stop(data.draw(st.integers(0, 7)), cycle) for cycle in cycles]
    kept = {"checkpoint_every": every, "checkpoint_time": f"{write} ns"} if every else {}
    result = run(job(iterations=iterations, after=f"{after} ns", **kept), faults=hit, backend=backend)
    end, spent = account(step, iterations, every, write, after, cycles)
    row = result.job_restarts[0]
    assert result.jobs[0]["end"] == end
    assert {name: row[name] for name in spent} == spent
    assert row["work"] == iterations * step
    assert row["goodput"] == pytest.approx(row["work"] / end)
    assert sum(failure["lost"] for failure in result.job_failures) == spent["lost"]
    assert sum(failure["down"] for failure in result.job_failures) == spent["down"]


def test_checkpoints_after_a_time_are_written_at_the_next_end_of_an_iteration() -> None:
    step = run(job(iterations=1)).jobs[0]["time"]
    interval = 2 * step + 1
    result = run(job(iterations=10, checkpoint_interval=f"{interval} ns", checkpoint_time="100 ns"))
    row = result.job_restarts[0]
    every = ceil(interval / step)  # iterations, which end one by one
    assert row["written"] == (10 - 1) // every
    assert result.jobs[0]["end"] == 10 * step + 100 * row["written"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_without_failures_iterations_follow_each_other(backend: str) -> None:
    once = run(job(iterations=1), backend=backend)
    tenfold = run(job(iterations=10), backend=backend)
    assert tenfold.jobs[0]["end"] == 10 * once.jobs[0]["end"]
    assert tenfold.job_restarts[0]["goodput"] == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_iteration_is_the_job_without_restart(backend: str) -> None:
    plain = {"name": "a", "npus": 8, "collective": [ALL_REDUCE, {"kind": "all-to-all", "size": "8 KiB", "at": "1 us"}]}
    with_restart = {**plain, "restart": {"iterations": 1}}
    first, second = (run(each, backend=backend, system={"start_skew": "100 ns"}) for each in (plain, with_restart))
    assert (first.jobs[0]["start"], first.jobs[0]["end"]) == (second.jobs[0]["start"], second.jobs[0]["end"])
    assert np.array_equal(first.totals["flits"], second.totals["flits"])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_spare_replaces_an_npu_that_stops_for_good(backend: str) -> None:
    result = run(
        job(iterations=4, after="5 us", spares=2),
        faults=[stop(3, 4000, None), stop(8, 4000, None)],  # the first spare has stopped, too
        backend=backend,
    )
    (failure,) = result.job_failures
    assert (failure["npu"], failure["spare"], failure["at"]) == (3, 9, 4000)
    assert result.job_restarts[0]["done"] == 4
    ranks = set(np.unique(result.chunks["rank"]).tolist())
    assert ranks == {0, 1, 2, 3, 4, 5, 6, 7, 9}


def test_a_repaired_npu_serves_as_a_spare() -> None:
    hits = [stop(3, 4000, 2000), stop(8, 20_000, None)]  # 2 us, longer than `after`
    result = run(job(iterations=12, after="1 us", spares=1), faults=hits)
    assert [(row["npu"], row["spare"]) for row in result.job_failures] == [(3, 8), (8, 3)]


def test_without_a_spare_the_job_waits_for_the_repair() -> None:
    result = run(job(iterations=3, after="1 us"), faults=[stop(3, 1000, 7000)])
    (failure,) = result.job_failures
    assert failure["down"] == 7000  # longer than `after`
    assert result.jobs[0]["end"] == 8000 + result.job_restarts[0]["work"]


def test_an_npu_that_has_stopped_when_the_job_arrives() -> None:
    late = {**job(iterations=1), "at": "1 us"}
    waits = run(late, faults=[stop(2, 500, 2000)])
    assert waits.job_restarts[0]["down"] == 1500
    assert waits.jobs[0]["start"] == 2500
    assert not waits.job_failures
    replaced = run({**job(iterations=1, spares=[12]), "at": "1 us"}, faults=[stop(2, 500, None)])
    assert replaced.jobs[0]["start"] == 1000
    assert 12 in replaced.chunks["rank"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_job_that_cannot_start_again_ends_the_run_and_others_finish(backend: str) -> None:
    other = {"name": "b", "npus": 4, "collective": [{"kind": "all-reduce", "size": "2 MiB"}]}
    with pytest.raises(SimulationError, match="job 'a' cannot start: NPU 3 has stopped") as caught:
        run(job(iterations=4), other, faults=[stop(3, 4000, None)], backend=backend)
    result = caught.value.result
    assert not result.complete
    assert result.jobs[0]["end"] == -1
    assert result.jobs[1]["end"] > 4000
    assert result.job_failures[0]["down"] == -1
    assert (
        sum(result.job_restarts[0][name] for name in ("work", "checkpoints", "lost", "down")) == result.jobs[1]["end"]
    )


def test_a_job_gives_up_after_too_many_failures() -> None:
    fault = {"npu": 0, "stop": True, "for": "1 ns", "every": "2 us"}
    with pytest.raises(SimulationError, match=r"has failed 6 times \(job\[0\].restart.most_failures = 5\)") as caught:
        run(job(iterations=4, after="100 ns", most_failures=5), faults=[fault])
    assert len(caught.value.result.job_failures) == 6


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_a_failed_job_has_sent_is_delivered_and_ignored(backend: str) -> None:
    """With no time between, old messages are still on their way: they delay the new ones, and change nothing else."""
    large = {"collective": [{"kind": "all-to-all", "size": "1 MiB"}]}
    once = run(job(work=large, iterations=1), backend=backend)
    step = once.jobs[0]["time"]
    result = run(job(work=large, iterations=1), faults=[stop(3, step // 2)], backend=backend)
    end = result.jobs[0]["end"]
    assert step // 2 + step < end <= 3 * step  # the first half is in the way at most
    assert result.counts["bytes_delivered"] > once.counts["bytes_delivered"]


def test_a_failure_before_any_message_sends_nothing_twice() -> None:
    """All NPUs compute as one stops: the bytes are those of a run without failure."""
    training = {"model": "gpt3-13b", "batch": 8, "micro_batch": 1, "sequence": 8, "parallelism": {"data": 8}}
    system = {"npu": {"device": "h100", "efficiency": 0.5}}
    work = {"workload": training}
    once = run(job(work=work, iterations=1), system=system)
    again = run(job(work=work, iterations=1, after="1 us"), system=system, faults=[stop(5, 100)])
    assert again.counts["bytes_delivered"] == once.counts["bytes_delivered"]
    assert again.jobs[0]["end"] == once.jobs[0]["end"] + 100 + 1000
    assert len(again.job_failures) == 1
    assert once.work is not None
    assert again.work is not None
    extra = {name: again.work.npus[name] - once.work.npus[name] for name in ("compute", "communication")}
    assert extra["compute"].tolist() == [100] * 8 + [0] * 8  # what the failure undid
    assert not extra["communication"].any()


@pytest.mark.parametrize("backend", BACKENDS)
def test_jobs_on_other_links_do_not_notice(backend: str) -> None:
    other = {"name": "b", "npus": 4, "placement": [12, 13, 14, 15], "collective": [ALL_REDUCE]}
    failing = {**job(iterations=5, after="3 us"), "placement": list(range(8))}
    alone = run(other, backend=backend)
    together = run(failing, other, faults=[stop(3, 1500)], backend=backend)
    assert together.jobs[1]["end"] == alone.jobs[0]["end"]
    assert len(together.job_failures) == 1


def test_a_fault_after_the_end_changes_nothing() -> None:
    first = run(job(iterations=3), backend="packet")
    second = run(job(iterations=3), faults=[stop(3, 10**6)], backend="packet")
    assert second.time_cycles == first.time_cycles
    assert all(np.array_equal(first.totals[name], second.totals[name]) for name in first.totals)


def test_the_state_of_a_run_can_be_stored() -> None:
    tables = {
        "network": NETWORK,
        "job": [job(iterations=6, after="2 us", checkpoint_every=2, checkpoint_time="1 us", spares=1)],
        "faults": [stop(3, 9000, None)],
    }
    prepared = prepare(load_experiment(tables), backend="analytical-congestion")
    copy = pickle.loads(pickle.dumps((prepared.system, prepared.job)))
    for system, work in ((prepared.system, prepared.job), copy):
        system.run()
        assert work.restarts()[0]["failures"] == 1
    assert prepared.job.end == copy[1].end


def test_random_failures_are_exponential_and_repeat_with_their_seed() -> None:
    times = RandomTimes(0, 10, 0, NEVER, 1000.0, (7, 3))
    begins, cycle = [], 0
    for _ in range(2000):
        cycle = times.following(cycle)
        assert times.active(cycle)
        begins.append(cycle)
        cycle = times.following(cycle)
        assert not times.active(cycle)
        assert cycle == begins[-1] + 10
    waits = np.diff([-10, *begins]) - 10
    assert waits.mean() == pytest.approx(1000, rel=3 / sqrt(2000))
    assert np.mean(waits > 1000) == pytest.approx(exp(-1), abs=3 * sqrt(0.25 / 2000))
    again = RandomTimes(0, 10, 0, NEVER, 1000.0, (7, 3))
    assert again.following(begins[500]) == begins[500] + 10  # in any order of the questions
    assert again.begins[:501] == begins[:501]
    assert RandomTimes(0, 10, 0, NEVER, 1000.0, (7, 4)).following(0) != begins[0]


def goodput(every: int, seed: int, *, mttf: int, write: int, after: int, iterations: int) -> float:
    fault = {"npu": "*", "stop": True, "for": "1 ns", "mttf": f"{mttf} ns", "seed": seed}
    restart = {
        "iterations": iterations,
        "checkpoint_every": every,
        "checkpoint_time": f"{write} ns",
        "after": f"{after} ns",
        "most_failures": 10**6,
    }
    result = run(job(work={"collective": [{"kind": "all-reduce", "size": "4 KiB"}]}, **restart), faults=[fault])
    return float(result.job_restarts[0]["goodput"])


@pytest.mark.slow
def test_the_best_interval_between_checkpoints_is_that_of_young_and_daly() -> None:
    """Daly, A higher order estimate of the optimum checkpoint interval, FGCS 2006: with exponential failures of mean M,
    checkpoints of length c after work t and restarts of length r, the time per work t is
    M exp(r/M) (exp((t + c)/M) - 1), whose optimum is near Young's sqrt(2 c M) - c."""
    step = run(job(work={"collective": [{"kind": "all-reduce", "size": "4 KiB"}]}, iterations=1)).jobs[0]["time"]
    mean, write, after, iterations = 40 * step, step, 2 * step, 1000

    def of_daly(every: int) -> float:
        work = every * step
        return work / (mean * exp(after / mean) * (exp((work + write) / mean) - 1))

    def measured(every: int) -> float:
        options = {"mttf": 8 * mean, "write": write, "after": after, "iterations": iterations}
        return float(np.mean([goodput(every, seed, **options) for seed in range(3)]))

    found = {every: measured(every) for every in (2, 8, 32)}  # Young: sqrt(2 * 40) = 8.9 iterations
    for every, share in found.items():  # three times 30 failures or more, which cost some 6 iterations of 1,400 each
        assert share == pytest.approx(of_daly(every), rel=0.06), every
    assert max(found, key=lambda each: found[each]) == 8


@pytest.mark.parametrize(
    ("restart", "faults", "message"),
    [
        ({"iterations": 0}, [], "restart.iterations: 0"),
        ({"iterations": 2, "checkpoint_time": "1 us"}, [], "checkpoint_time"),
        ({"iterations": 2, "checkpoint_every": 1, "checkpoint_interval": "1 us"}, [], "checkpoint_interval"),
        ({"iterations": 2, "spares": 9}, [], "restart.spares: job 'a' needs 9 spare NPUs, but only 8 of 16 are free"),
        ({"iterations": 2, "spares": [3]}, [], "NPU 3 already belongs to job 'a'"),
        ({"iterations": 2, "spares": [16]}, [], "there is no NPU 16"),
        ({"iterations": 2, "spares": "x"}, [], "restart.spares"),
        ({"iterations": 2}, [{"npu": 0, "stop": True, "mttf": "1 us"}], "a repeating fault needs a duration"),
    ],
)
def test_wrong_settings_get_one_line(restart: dict[str, Any], faults: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(InputError) as caught:
        run(job(**restart), faults=faults)
    assert message in str(caught.value)


def test_algorithms_per_dimension_exclude_spares() -> None:
    work = {"collective": [{"kind": "all-reduce", "size": "4 KiB", "algorithm": ["ring", "direct"]}]}
    with pytest.raises(InputError, match=r"job\[0\].restart.spares: with spares, NPUs may form no grid"):
        run(job(work=work, iterations=2, spares=1))
    assert run(job(work=work, iterations=2)).complete


def test_the_accounts_are_in_the_file_and_in_json(tmp_path: Path) -> None:
    result = run(job(iterations=3, after="2 us"), faults=[stop(3, 1500)])
    result.save(tmp_path / "a.h5")
    loaded = pyxsim.load(tmp_path / "a.h5")
    assert list(loaded.job_restarts) == list(result.job_restarts)
    assert list(loaded.job_failures) == list(result.job_failures)


@pytest.mark.parametrize("read_back", [False, True])
def test_the_report_of_both_kinds_of_jobs(read_back: bool, tmp_path: Path) -> None:
    other = {"name": "b", "npus": 4, "collective": [ALL_REDUCE]}
    result = run(job(iterations=3, after="2 us"), other, faults=[stop(3, 1500)])
    if read_back:
        result.save(tmp_path / "a.h5")
        result = pyxsim.load(tmp_path / "a.h5")
    pyxsim.report([result], tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "Checkpoints and restarts" in page
    assert "Failures of jobs" in page
    assert "a: all-reduce, 4 calls" in page


@pytest.mark.parametrize("threads", [1, 2])
def test_waits_add_up_and_threads_do_not_matter(threads: int) -> None:
    large = {"collective": [{"kind": "all-to-all", "size": "256 KiB"}]}
    other = {"name": "b", "npus": 8, "placement": "packed", **large}
    first = {**job(work=large, iterations=2), "placement": "scattered"}
    result = run(
        first,
        other,
        faults=[stop(4, 3000)],
        backend="packet",
        output={"attribution": "messages"} if threads == 1 else {},
        run={"threads": threads},
    )
    assert result.job_failures[0]["lost"] == 3000
    plain = run(first, other, faults=[stop(4, 3000)], backend="packet")
    assert result.jobs[0]["end"] == plain.jobs[0]["end"]
    assert np.array_equal(result.totals["flits"], plain.totals["flits"])
    if threads == 1:
        attribution = result.attribution
        assert attribution is not None
        total = int((attribution.latency["arrived"] - attribution.latency["sent"]).sum())
        assert sum(attribution.of_messages.values()) == total
        assert result.interference["cycles"].sum() > 0


def test_a_job_alone_has_the_same_spares() -> None:
    other = {"name": "b", "npus": 4, "collective": [ALL_REDUCE]}  # NPUs 8 to 11, so that the spare is 12
    tables = {
        "network": NETWORK,
        "job": [job(iterations=4, after="2 us", spares=1), other],
        "faults": [stop(3, 4000, None)],
    }
    result = pyxsim.jobs(tables, backend="analytical-congestion")
    assert result.job_failures[0]["spare"] == 12
    assert result.jobs[0]["slowdown"] == 1
