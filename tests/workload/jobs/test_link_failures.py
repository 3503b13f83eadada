"""Jobs that end when links lose their messages or cut off their NPUs, and start again from their last checkpoint."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyxsim
from pyxsim.errors import SimulationError
from pyxsim.results.result import Result
from validation.families.jobs import account

ENGINES = ("packet", "reference")
ENGINES_IF_SLOW = ("packet", pytest.param("reference", marks=pytest.mark.slow))
AT, AFTER, REACTION = 4000, 5000, 1000  # ns, which are cycles
SWITCH = {
    "topology": "switch",
    "shape": [12],
    "bandwidth": "50 GB/s",
    "latency": "20 ns",
    "clock": "1 GHz",
    "flit": "256 B",
    "packet": "1 KiB",
    "router": {"vcs": 4, "buffer": "auto"},
}
TORUS = {**SWITCH, "topology": "torus", "shape": [4, 4]}
ALL_REDUCE = {"kind": "all-reduce", "size": "64 KiB"}
NPU_3 = "d0*(3)*"  # both links of the NPU


def job(name: str = "a", npus: int = 8, **restart: Any) -> dict[str, Any]:
    restart = {"iterations": 4, "after": f"{AFTER} ns", **restart}
    return {"name": name, "npus": npus, "restart": restart, "collective": [ALL_REDUCE]}


def down(link: str = NPU_3, length: int | None = None, *, mode: str = "lose") -> dict[str, Any]:
    ends = {} if length is None else {"for": f"{length} ns"}
    return {"link": link, "at": f"{AT} ns", "down": True, "in_flight": mode, **ends}


def run(
    *jobs: dict[str, Any],
    faults: Any = (),
    network: dict[str, Any] = SWITCH,
    backend: str = "packet",
    reroute: bool = False,
) -> Result:
    more = {"reroute": {"reaction": f"{REACTION} ns"}} if reroute else {}
    return pyxsim.run({"network": {**network, **more}, "job": list(jobs), "faults": list(faults)}, backend=backend)


def step(network: dict[str, Any] = SWITCH) -> int:
    return int(run(job(iterations=1), network=network).jobs[0]["time"])


@pytest.mark.parametrize("backend", ENGINES_IF_SLOW)
def test_a_lost_message_ends_the_iteration_in_that_cycle(backend: str) -> None:
    kept = job(checkpoint_every=2, checkpoint_time="700 ns")
    result = run(kept, faults=[down("*", 1)], network=TORUS, backend=backend)
    end, spent = account(step(TORUS), 4, 2, 700, AFTER, [AT])
    (failure,) = result.job_failures
    assert (failure["at"], failure["cause"], failure["npu"], failure["spare"]) == (AT, "message lost", -1, -1)
    assert result.counts["packets_lost"] > 0
    assert result.jobs[0]["end"] == end
    assert {name: result.job_restarts[0][name] for name in spent} == spent


def test_links_that_lose_nothing_do_not_end_a_job() -> None:
    drained = run(job(), faults=[down("*", 500, mode="drain")], network=TORUS)
    again = run(job(), faults=[down("*", 500)], network={**TORUS, "retry": {}})
    idle = run(job(npus=4), faults=[down("d??:(?,3)*", 500)], network=TORUS)
    assert [len(result.job_failures) for result in (drained, again, idle)] == [0, 0, 0]
    assert drained.jobs[0]["end"] > idle.jobs[0]["end"] == run(job(npus=4), network=TORUS).jobs[0]["end"]


@pytest.mark.parametrize("backend", ENGINES_IF_SLOW)
def test_a_wrong_bit_ends_the_job_as_its_packet_arrives(backend: str) -> None:
    """One flit is wrong with certainty; its packet of four flits, 5.12 cycles each, arrives at the last."""
    fault = {"link": NPU_3, "at": f"{AT} ns", "for": "6 ns", "bit_error_rate": 0.5}
    result = run(job(), faults=[fault], backend=backend)
    (failure,) = result.job_failures
    assert failure["cause"] == "message lost"
    assert AT + 20 < failure["at"] < AT + 120
    assert result.jobs[0]["end"] == failure["at"] + AFTER + 4 * step()


@pytest.mark.parametrize("backend", ENGINES)
def test_a_spare_replaces_an_npu_that_new_routes_cut_off(backend: str) -> None:
    result = run(job(spares=1), faults=[down(mode="drain")], reroute=True, backend=backend)
    (failure,) = result.job_failures
    assert (failure["at"], failure["cause"]) == (AT + REACTION, "NPU cut off")
    assert (failure["npu"], failure["spare"], failure["down"]) == (3, 8, AFTER)
    assert result.jobs[0]["end"] == AT + REACTION + AFTER + 4 * step()
    assert set(np.unique(result.chunks["rank"]).tolist()) == set(range(9))


def test_a_message_that_is_lost_before_routes_change_is_the_cause() -> None:
    result = run(job(spares=1), faults=[down()], reroute=True)
    (failure,) = result.job_failures
    assert (failure["at"], failure["cause"], failure["npu"], failure["spare"]) == (AT, "message lost", 3, 8)
    assert result.jobs[0]["end"] == AT + AFTER + 4 * step()


@pytest.mark.parametrize("mode", ["drain", "lose"])
def test_without_a_spare_the_job_waits_for_the_link(mode: str) -> None:
    result = run(job(), faults=[down(length=9000, mode=mode)], reroute=True)
    (failure,) = result.job_failures
    assert failure["at"] == AT + (REACTION if mode == "drain" else 0)
    assert failure["at"] + failure["down"] == AT + 9000 + REACTION
    assert result.jobs[0]["end"] == AT + 9000 + REACTION + 4 * step()


def test_without_other_routes_the_job_waits_until_the_link_is_up() -> None:
    result = run(job(), faults=[down(length=9000)])
    (failure,) = result.job_failures
    assert (failure["at"], failure["down"]) == (AT, 9000)
    assert result.jobs[0]["end"] >= AT + 9000 + 4 * step()


def test_the_account_of_a_job_that_hangs_counts_the_iterations_that_ended() -> None:
    with pytest.raises(SimulationError, match=r"link d0up:\(3\)->\(\*\) is down") as caught:
        run(job(iterations=10), faults=[down(mode="drain")])
    result = caught.value.result
    (row,) = result.job_restarts
    assert row["done"] == AT // step() > 0
    assert (row["work"], row["checkpoints"], row["down"]) == (row["done"] * step(), 0, 0)
    assert row["work"] + row["lost"] >= AT


def test_a_job_that_hangs_in_its_first_iteration_has_started() -> None:
    with pytest.raises(SimulationError) as caught:
        run(job(), faults=[{**down(mode="drain"), "at": "100 ns"}])
    assert (caught.value.result.jobs[0]["start"], caught.value.result.job_restarts[0]["done"]) == (0, 0)


def test_a_job_that_stays_cut_off_ends_the_run_and_others_finish() -> None:
    other = {"name": "b", "npus": 4, "collective": [{"kind": "all-reduce", "size": "1 MiB"}]}
    with pytest.raises(SimulationError, match="job 'a' cannot start: NPU 3 is cut off") as caught:
        run(job(), other, faults=[down()], reroute=True)
    jobs = caught.value.result.jobs
    assert (jobs[0]["end"], jobs[1]["end"] > AT + AFTER) == (-1, True)


def test_a_job_cut_off_at_its_arrival_begins_when_the_link_is_up() -> None:
    fault = {"link": NPU_3, "down": True, "for": "3 us"}
    result = run(job(), faults=[fault], reroute=True)
    assert not result.job_failures
    assert result.jobs[0]["start"] == 3000 + REACTION


def test_the_larger_part_of_a_network_keeps_the_job() -> None:
    """A failed spine and a failed leaf: the job moves to the spares of its other leaves."""
    tree = {**SWITCH, "topology": "leaf-spine", "options": {"npus": 4, "leaves": 4, "spines": 2}}
    del tree["shape"]
    leaf = {"router": "(1)", "at": f"{AT} ns", "down": True, "in_flight": "lose"}
    result = run(job(spares=4), faults=[leaf], network=tree, reroute=True)
    assert result.job_failures[-1]["npu"] == 4
    assert result.job_failures[-1]["spare"] == 8
    assert result.job_restarts[0]["done"] == 4
    other = {"name": "b", "placement": [12, 13], "collective": [ALL_REDUCE]}
    both = run(job(spares=4), other, faults=[leaf], network=tree, reroute=True)
    assert both.jobs[1]["end"] > 0


def test_jobs_fail_one_by_one() -> None:
    first, second = job(npus=4), job("b", npus=4)
    result = run(first, second, faults=[down(length=1)])
    assert [row["job"] for row in result.job_failures] == ["a"]
    assert result.jobs[1]["end"] == run(second).jobs[0]["end"]


def test_a_link_that_always_errs_ends_the_job_for_good() -> None:
    fault = {"link": NPU_3, "bit_error_rate": 0.5}
    with pytest.raises(SimulationError, match="job 'a' has failed 4 times") as caught:
        run(job(most_failures=3), faults=[fault])
    assert len(caught.value.result.job_failures) == 4
