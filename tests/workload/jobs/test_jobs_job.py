"""Several jobs: alone equals solo, jobs that share no link do not meet, and interference adds up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyxsim
from pyxsim.errors import InputError
from pyxsim.results.attribution import WAITING
from pyxsim.results.result import Result
from tests.examples import part_of

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
SMALL_MODEL = str(Path(__file__).with_name("small_model.toml"))
NPU = {"npu": {"device": "h100", "efficiency": 0.5}}


def training(npus: int) -> dict[str, Any]:
    """Some steps of a small model, by data and tensor parallelism."""
    parallelism = {"tensor": 4, "data": npus // 4, "zero": 3}
    return {"model": SMALL_MODEL, "batch": npus // 4, "micro_batch": 1, "sequence": 8, "parallelism": parallelism}


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
    send = {"kind": "broadcast", "size": "1 MiB", "algorithm": "direct"}
    jobs = [job("a", send, placement=[0, 2]), job("b", send, placement=[1, 3])]  # both over the link from 1 to 2
    together = pyxsim.run({"network": line, "job": jobs}, backend=backend)
    alone = pyxsim.run({"network": line, "job": jobs[:1]}, backend=backend)
    cycles = size / 256 * float(together.links.s_num[0] / together.links.s_den[0])
    assert cycles <= alone.jobs[0]["time"] <= 1.05 * cycles
    assert 2 * cycles <= together.time_cycles <= 2.05 * cycles


def test_interference_of_four_jobs_adds_up_to_their_waits() -> None:
    jobs = [job(name, ALL_TO_ALL, ALL_REDUCE, npus=4, placement="random", seed=3) for name in "abcd"]
    result = run({"job": jobs}, output={"attribution": "messages"})
    table = result.to_xarray("interference")
    assert table["victim"].values.tolist() == list("abcd")
    assert table["culprit"].values.tolist() == [*"abcd", "none"]
    cycles = table["cycles"].values
    # The stays of packets are other records: a row per packet and buffer, without culprits.
    traffic = np.zeros(int(max(result.latency["message"])) + 1, np.int64)
    traffic[result.latency["message"]] = result.latency["traffic"]
    waited = sum(np.asarray(result.stays[part]) for part in WAITING)
    rows = [int(waited[traffic[result.stays["message"]] == number].sum()) for number in range(4)]
    assert cycles.sum(axis=1).tolist() == rows
    assert cycles[:, :4].sum() > np.trace(cycles[:, :4]) > 0  # of others, and of themselves
    assert result.json()["interference"]["c"]["b"] == cycles[2, 1] > 0


def test_jobs_that_share_no_link_wait_for_themselves_only() -> None:
    # No grids, so each is one group; routes go along rows first, and stay in rows 0 and 1, and 2 and 3.
    work = {"kind": "all-to-all", "size": "512 KiB", "algorithm": "direct"}
    jobs = [job("a", work, placement=[0, 1, 2, 5, 6, 7]), job("b", work, placement=[8, 9, 10, 13, 14, 15])]
    result = run({"job": jobs}, output={"attribution": "links"})
    cycles = np.asarray(result.interference["cycles"])
    assert cycles[0, 0] > 0
    assert cycles[0, 1] == cycles[1, 0] == 0


def test_background_traffic_is_a_culprit() -> None:
    jobs = [job("a", ALL_TO_ALL, npus=8, placement="scattered"), job("b", ALL_REDUCE, npus=8)]
    traffic = {"pattern": "uniform", "load": 0.2, "packet_flits": 4}
    result = run({"job": jobs}, output={"attribution": "links"}, traffic=traffic)
    table = result.to_xarray("interference")
    assert table["culprit"].values.tolist() == ["a", "b", "background", "none"]
    assert table["cycles"].sel(culprit=table["culprit"] == "background").sum() > 0


def test_the_tables_of_jobs_are_read_back(tmp_path: Path) -> None:
    result = run({"job": [job("a", ALL_TO_ALL, npus=8), job("b", ALL_REDUCE, npus=8)]}, output={"attribution": "links"})
    result.save(tmp_path / "jobs.h5")
    loaded = Result.load(tmp_path / "jobs.h5")
    assert loaded.jobs[0]["end"] == result.jobs[0]["end"]
    assert np.array_equal(loaded.interference["cycles"], result.interference["cycles"])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_training_job_alone_is_the_workload_at_the_top_level(backend: str) -> None:
    solo = run({"workload": training(16)}, backend, system=NPU)
    alone = run({"job": [{"name": "t", "npus": 16, "shape": [4, 4], "workload": training(16)}]}, backend, system=NPU)
    assert alone.time_cycles == solo.time_cycles > 0
    assert [row["end"] for row in alone.collectives] == [row["end"] for row in solo.collectives]
    assert np.array_equal(alone.totals["flits"], solo.totals["flits"])
    assert np.array_equal(alone.npus["compute"], solo.npus["compute"])


def test_two_training_jobs_on_halves_of_a_torus_are_each_as_alone() -> None:
    work = {"workload": training(8), "npus": 8, "shape": [4, 2]}
    both = run({"job": [{"name": "a", **work}, {"name": "b", "at": "5 us", **work}]}, system=NPU)
    first, second = both.jobs
    assert first["time"] == second["time"] > 0
    assert second["end"] == first["end"] + second["at"]


def test_traces_and_texts_run_as_jobs(tmp_path: Path) -> None:
    text = "DATA\n1\nlayer -1 100 NONE 0 100 NONE 0 100 ALLREDUCE 65536 50\n"
    (tmp_path / "loop.txt").write_text(text)
    file = str(tmp_path / "loop.txt")
    solo = run({"workload": {"file": file}})
    alone = run({"job": [{"name": "t", "npus": 16, "shape": [4, 4], "workload": {"file": file}}]})
    assert alone.time_cycles == solo.time_cycles > 0
    mixed = run({"job": [{"name": "t", "npus": 4, "workload": {"file": file}}, job("c", ALL_REDUCE, npus=4)]})
    assert all(row["end"] > 0 for row in mixed.jobs)


def test_a_workload_for_another_number_of_npus_is_refused(tmp_path: Path) -> None:
    (tmp_path / "micro.txt").write_text("MICRO\n1\nx 0 0 ALLREDUCE 1024\n")
    with pytest.raises(InputError, match=r"job\[0\].workload.file"):
        run({"job": [{"name": "t", "npus": 4, "workload": {"file": str(tmp_path / "micro.txt")}}]})
    with pytest.raises(InputError, match=r"job\[0\].workload"):
        run({"job": [{"name": "t", "npus": 6, "workload": training(8)}]}, system=NPU)


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        ("hierarchical2", r"job\[0\].collective.algorithm: .*cannot be divided"),
        (["ring", "ring", "ring"], r"job\[0\].collective.algorithm: the list has 3 entries"),
        ("rung", r"job\[0\].collective.algorithm: .*did you mean 'ring'"),
    ],
)
def test_a_fault_of_an_algorithm_names_the_setting_of_the_job(algorithm: Any, message: str) -> None:
    one = {"name": "a", "npus": 3, "collective": {**ALL_REDUCE, "algorithm": algorithm}}
    with pytest.raises(InputError, match=message):
        run({"job": [one]})


@st.composite
def several_jobs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Jobs on lists of NPUs of the torus that do not overlap, each with some collectives."""
    npus = draw(st.permutations(range(16)))
    jobs, begin = [], 0
    for number in range(draw(st.integers(1, 4))):
        count = draw(st.integers(2, 4))
        kinds = draw(st.lists(st.sampled_from(["all-reduce", "all-to-all", "all-gather"]), min_size=1, max_size=2))
        times = [f"{draw(st.integers(0, 800))} ns" for _ in kinds]
        works = [
            {"kind": kind, "size": f"{draw(st.integers(1, 20000))} B", "at": at}
            for kind, at in zip(kinds, times, strict=True)
        ]
        at = f"{draw(st.integers(0, 1500))} ns"
        jobs.append(job(f"j{number}", *works, placement=npus[begin : begin + count], at=at))
        begin += count
    return jobs


@settings(max_examples=part_of(15))
@given(several_jobs(), st.sampled_from(BACKENDS))
def test_jobs_together_are_their_collectives_at_the_top_level(jobs: list[dict[str, Any]], backend: str) -> None:
    collectives = [
        {**each, "npus": one["placement"], "at": f"{_ns(one) + _ns(each)} ns"}
        for one in jobs
        for each in one["collective"]
    ]
    together, expected = run({"job": jobs}, backend), run({"collective": collectives}, backend)
    ends = [row["end"] for row in expected.collectives]
    assert [row["end"] for row in together.collectives] == ends
    assert [row["end"] for row in together.jobs] == [max(ends.pop(0) for _ in one["collective"]) for one in jobs]


def _ns(table: dict[str, Any]) -> int:
    return int(table["at"].removesuffix(" ns"))
