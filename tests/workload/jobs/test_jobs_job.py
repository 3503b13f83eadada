"""Several jobs: alone equals solo, jobs that share no link do not meet, and interference adds up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyxsim
from pyxsim.errors import InputError
from pyxsim.results.attribution import WAITING
from pyxsim.results.result import Result

BACKENDS = ("packet", "analytical-congestion")
NETWORK = {
    "topology": "torus",
    "shape": [4, 4],
    "bandwidth": "50 GB/s",
    "latency": "20 ns",
    "flit": "256 B",
    "packet": "1 KiB",
    "router": {"vcs": 4, "buffer": "auto"},
}
ALL_REDUCE = {"kind": "all-reduce", "size": "64 KiB"}
ALL_TO_ALL = {"kind": "all-to-all", "size": "48 KiB"}
TRAINING = {"model": "llama2-7b", "tensor": 4, "pipeline": 2, "batch": 16, "micro_batch": 1, "sequence_length": 64}


def run(work: dict[str, Any], backend: str = "packet", **tables: Any) -> Result:
    return pyxsim.run({"network": NETWORK, **work, **tables}, backend=backend)


def job(name: str, *collectives: dict[str, Any], **settings: Any) -> dict[str, Any]:
    return {"name": name, "collective": list(collectives), **settings}


def times(result: Result) -> dict[str, tuple[int, int]]:
    return {row["name"]: (row["start"], row["end"]) for row in result.jobs}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("collectives", "system"),
    [
        ([ALL_REDUCE], {"chunks": 4, "endpoint_delay": "10 ns"}),
        ([{**ALL_REDUCE, "at": "3 us"}, ALL_TO_ALL], {"chunks": 3, "start_skew": "200 ns"}),
        ([{"kind": "broadcast", "size": "16 KiB", "root": 5}, {"kind": "barrier", "at": "1 us"}], {}),
        ([{**ALL_REDUCE, "npus": [0, 1, 2, 3], "algorithm": "ring"}, {**ALL_TO_ALL, "npus": [9, 4, 6]}], {}),
        ([{"kind": "all-gather", "size": "4 KiB", "algorithm": ["ring", "direct"]}], {"inter_dimension": "themis"}),
    ],
)
def test_a_job_alone_is_its_collectives_at_the_top_level(
    backend: str, collectives: list[dict[str, Any]], system: dict[str, Any]
) -> None:
    solo = run({"collective": collectives}, backend, system=system, run={"skip": False})
    alone = run({"job": [job("a", *collectives, npus=16)]}, backend, system=system, run={"skip": False})
    assert [row["end"] for row in alone.collectives] == [row["end"] for row in solo.collectives]
    assert alone.time_cycles == solo.time_cycles == alone.jobs[0]["end"]
    assert np.array_equal(alone.totals["flits"], solo.totals["flits"])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_job_that_arrives_later_is_later_by_as_much(backend: str) -> None:
    work = [{**ALL_REDUCE, "at": "1 us"}, ALL_TO_ALL]
    early, late = (
        run({"job": [job("a", *work, npus=8, placement="scattered", at=at)]}, backend) for at in ("0 ns", "7 us")
    )
    cycles = int(early.clock_hz * 7 / 10**6)
    assert times(late)["a"] == tuple(time + cycles for time in times(early)["a"])
    assert late.jobs[0]["time"] == early.jobs[0]["time"]
    assert late.jobs[0]["at"] == cycles


@pytest.mark.parametrize("backend", BACKENDS)
def test_jobs_on_rows_of_a_torus_do_not_change_each_other(backend: str) -> None:
    jobs = [
        job("a", ALL_REDUCE, {**ALL_TO_ALL, "at": "500 ns"}, npus=4),
        job("b", {**ALL_TO_ALL, "size": "1 MiB"}, npus=4, at="100 ns"),
        job("c", {"kind": "reduce", "size": "20 KiB", "root": 2}, placement=[15, 12, 13, 14]),
    ]
    together = run({"job": jobs}, backend)
    homes = [[0, 1, 2, 3], [4, 5, 6, 7], [15, 12, 13, 14]]
    for one, npus in zip(jobs, homes, strict=True):
        alone = {**{key: value for key, value in one.items() if key != "npus"}, "placement": npus}
        assert times(run({"job": [alone]}, backend))[one["name"]] == times(together)[one["name"]]


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_messages_over_one_link_take_as_long_as_the_link_needs(backend: str) -> None:
    line = {**NETWORK, "topology": "mesh", "shape": [4]}
    size = 1 << 20
    send = {"kind": "broadcast", "size": size, "algorithm": "direct"}
    jobs = [job("a", send, placement=[0, 2]), job("b", send, placement=[1, 3])]  # both over the link from 1 to 2
    together = pyxsim.run({"network": line, "job": jobs}, backend=backend)
    alone = pyxsim.run({"network": line, "job": jobs[:1]}, backend=backend)
    cycles = size / 256 * float(together.links.s_num[0] / together.links.s_den[0])
    assert cycles <= alone.jobs[0]["time"] <= 1.05 * cycles
    assert 2 * cycles <= together.time_cycles <= 2.05 * cycles


def test_interference_of_four_jobs_adds_up_to_their_waits() -> None:
    jobs = [job(name, ALL_TO_ALL, ALL_REDUCE, npus=4, placement="scattered", at=f"{i} us") for i, name in enumerate("abcd")]
    result = run({"job": jobs}, output={"attribution": "messages"})
    table = result.to_xarray("interference")
    assert table["victim"].values.tolist() == list("abcd")
    assert table["culprit"].values.tolist() == [*"abcd", "nobody"]
    cycles = table["cycles"].values
    # The stays of packets are other records: a row per packet and buffer, without culprits.
    traffic = np.zeros(int(max(result.latency["message"])) + 1, np.int64)
    traffic[result.latency["message"]] = result.latency["traffic"]
    waited = sum(np.asarray(result.stays[part]) for part in WAITING)
    rows = [int(waited[traffic[result.stays["message"]] == number].sum()) for number in range(4)]
    assert cycles.sum(axis=1).tolist() == rows
    assert cycles[:, :4].sum() > np.trace(cycles[:, :4]) > 0  # of others, and of themselves
    assert result.json()["interference"]["b"]["a"] == cycles[1, 0] > 0


def test_jobs_that_share_no_link_wait_for_themselves_only() -> None:
    jobs = [job(name, ALL_TO_ALL, npus=4) for name in "ab"]
    result = run({"job": jobs}, output={"attribution": "links"})
    cycles = np.asarray(result.interference["cycles"])
    assert cycles[0, 0] > 0
    assert cycles[0, 1] == cycles[1, 0] == 0


def test_background_traffic_is_a_culprit() -> None:
    jobs = [job("a", ALL_TO_ALL, npus=8, placement="scattered"), job("b", ALL_REDUCE, npus=8)]
    traffic = {"pattern": "uniform", "load": 0.2, "packet_flits": 4}
    result = run({"job": jobs}, output={"attribution": "links"}, traffic=traffic)
    table = result.to_xarray("interference")
    assert table["culprit"].values.tolist() == ["a", "b", "background", "nobody"]
    assert table["cycles"].sel(culprit=table["culprit"] == "background").sum() > 0


def test_the_tables_of_jobs_are_read_back(tmp_path: Path) -> None:
    result = run({"job": [job("a", ALL_TO_ALL, npus=8), job("b", ALL_REDUCE, npus=8)]}, output={"attribution": "links"})
    result.save(tmp_path / "jobs.h5")
    loaded = Result.load(tmp_path / "jobs.h5")
    assert [dict(row) for row in loaded.jobs][0]["end"] == result.jobs[0]["end"]
    assert np.array_equal(loaded.interference["cycles"], result.interference["cycles"])
