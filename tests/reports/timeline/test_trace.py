"""Traces as files, read by other means and compared with HDF5."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.reports.timeline import View, build, check_timeline, write
from pyxsim.reports.timeline.trace_model import lanes
from pyxsim.results import Result
from tests.reports.timeline.read import Event, Told
from tests.results.conftest import make_backend_tables


def told(result: Result | Path, folder: Path, view: View | None = None, name: str = "trace.json") -> Told:
    if not isinstance(result, Result):
        result = Result.load(result)
    write(build(result, view), folder / name)
    return Told(folder / name)


def by_npu(trace: Told) -> dict[str, list[Event]]:
    found = defaultdict(list)
    for event in trace.of("chunk"):
        found[trace.processes[event["pid"]]].append(event)
    return found


# Slices


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_every_npu_has_a_slice_for_each_chunk_and_phase(torus: Path, tmp_path: Path, name: str) -> None:
    # Two dimensions: reduce-scatter in the first, all-reduce in the second, all-gather in the first. Eight chunks.
    npus = by_npu(told(torus, tmp_path, name=name))
    assert {npu: len(slices) for npu, slices in npus.items()} == {f"NPU {npu}": 3 * 8 for npu in range(8)}
    kinds = [Counter(event["name"].split(",")[0] for event in slices) for slices in npus.values()]
    assert kinds == [{"reduce-scatter": 8, "all-reduce": 8, "all-gather": 8}] * 8


def test_slices_are_rows_of_the_file(torus: Path, tmp_path: Path) -> None:
    npus = by_npu(told(torus, tmp_path))
    with h5py.File(torus) as file:
        rows = {name: file["chunks"][name][()].tolist() for name in file["chunks"]}
        assert file.attrs["clock_hz"] == 10**9  # a cycle is a nanosecond
    names = ("rank", "chunk", "phase", "start", "end", "bytes", "messages")
    expected = sorted(zip(*(rows[name] for name in names), strict=True))
    found = [
        (
            int(npu.removeprefix("NPU ")),
            *(event["args"][key] for key in ("chunk", "phase")),
            *(event["begin"], event["end"]),
            *(event["args"][key] for key in ("bytes", "messages")),
        )
        for npu, slices in npus.items()
        for event in slices
    ]
    assert sorted(found) == expected


def test_threads_are_dimensions(torus: Path, tmp_path: Path) -> None:
    trace = told(torus, tmp_path)
    dims = {(trace.threads[each["tid"]].split(" (")[0], each["args"]["phase"]) for each in trace.of("chunk")}
    assert dims == {("dim 0: ring 4", 0), ("dim 1: ring 2", 1), ("dim 0: ring 4", 2)}


def test_dimensions_that_the_result_has_no_names_for(build: Callable[..., Result], tmp_path: Path) -> None:
    result = build()
    result.chunks["dimension"][:] = [-1, 7, 7, -1]  # of NPUs 0, 1, 0, 1
    trace = told(result, tmp_path)
    threads = Counter((trace.processes[each["pid"]], trace.threads[each["tid"]]) for each in trace.of("chunk"))
    assert threads == {(f"NPU {npu}", dim): 1 for npu in (0, 1) for dim in ("several dimensions", "dim 7")}


@pytest.mark.parametrize("which", ["torus", "workload"])
def test_nothing_overlaps_on_a_thread(which: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    trace = told(request.getfixturevalue(which), tmp_path)
    threads = defaultdict(list)
    for event in trace.slices:
        threads[event["tid"]].append(event)
    for events in threads.values():
        assert all(one["end"] <= next_["begin"] for one, next_ in pairwise(events))
    assert len(threads) > len(trace.processes)  # several chunks at a time have lanes


@pytest.mark.parametrize("which", ["torus", "workload"])
def test_events_are_in_the_order_of_time(which: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    events = told(request.getfixturevalue(which), tmp_path).events
    timed = [event["ph"] != "M" for event in events]
    assert timed == sorted(timed)  # names first
    times = [event["ts"] for event in events if event["ph"] != "M"]
    assert times == sorted(times)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 12)), max_size=40))
def test_lanes_are_as_few_as_can_be(rows: list[tuple[int, int, int]]) -> None:
    group, begin, length = np.array(rows, np.int64).reshape(-1, 3).T
    end = begin + np.maximum(length, 1)  # a row without length is told as one of one
    lane = lanes(group, begin, begin + length)
    for each in np.unique(group):
        mine = group == each
        for time in range(44):
            busy = lane[mine & (begin <= time) & (time < end)]
            assert len(busy) == len(set(busy.tolist()))
        most = max(int((mine & (begin <= time) & (time < end)).sum()) for time in range(44))
        assert int(lane[mine].max()) + 1 == most


def test_what_did_not_end_goes_on_until_the_end(build: Callable[..., Result], tmp_path: Path) -> None:
    result = build(complete=False, failure="deadlock in cycle 250")
    result.chunks["end"][3] = -1
    result.chunks["start"][2] = result.chunks["end"][2] = -1  # has not begun
    trace = told(result, tmp_path)
    slices = trace.of("chunk")
    assert trace.file["otherData"]["failure"] == "deadlock in cycle 250"
    assert len(slices) == 3
    assert [(each["begin"], each["end"]) for each in slices if each["args"].get("unfinished")] == [(120, 250)]


def test_a_clock_that_is_no_whole_number_of_nanoseconds(build: Callable[..., Result], tmp_path: Path) -> None:
    slices = told(build(clock_hz=Fraction(3 * 10**9)), tmp_path).of("chunk")
    assert len(slices) == 4
    for each in slices:
        assert each["begin"] == each["args"]["begin_cycle"] // 3
        assert each["end"] == each["args"]["end_cycle"] // 3
    assert sorted(each["args"]["end_cycle"] for each in slices) == [100, 110, 240, 250]


def test_a_clock_of_many_digits(build: Callable[..., Result], tmp_path: Path) -> None:
    # 10**15 cycles times 10**9 is more than 64 bits hold.
    result = build(clock_hz=Fraction(1_234_567_891), time_cycles=10**15)
    result.chunks["end"][:] = 10**15
    assert {each["end"] for each in told(result, tmp_path).of("chunk")} == {10**15 * 10**9 // 1_234_567_891}


# Counters


def staircase(samples: dict[int, Any], times: list[int]) -> list[Any]:
    """The value at each time: the last one that was told."""
    return [samples[max(told for told in samples if told <= time)] for time in times]


@pytest.mark.parametrize("counter", ["flits", "busy", "stall_credit", "stall_vc", "stall_arbitration", "stall_serial"])
def test_counters_of_links_are_those_of_the_file(torus: Path, tmp_path: Path, counter: str) -> None:
    counters = told(torus, tmp_path, View(links=["all"], counters=[counter])).counters
    with h5py.File(torus) as file:
        links = file["links"]
        times, names = links["time"][()].tolist(), links["name"].asstr()[()].tolist()
        table = links[counter][()]
        assert table.shape == (len(times), len(names))
    for link, name in enumerate(names):
        samples = counters["links", name, counter]
        assert staircase(samples, times) == table[:, link].tolist()
        assert samples[max(samples)] == 0  # the run is over
    if counter == "flits":
        assert staircase(counters["network", "all links", "flits"], times) == table.sum(axis=1).tolist()


def test_counters_of_ethernet(build: Callable[..., Result], tmp_path: Path) -> None:
    result = build(backend_tables=make_backend_tables())
    name = result.links.name[0]
    counters = told(result, tmp_path, View(links=["all"], counters=["depth", "paused"])).counters
    times = result.windows.start.tolist()
    for counter in ("depth", "paused"):
        assert staircase(counters["links", name, counter], times) == [0, 5, 0]
    assert staircase(counters["network", "deepest queue", "depth"], times) == [0, 5, 0]
    assert staircase(counters["network", "all links", "pauses"], times) == [0, 5, 0]
    assert list(counters["flows", "flow 0, NPU 0 to 1", "rate"].values()) == [4e10, 2e10]
    assert list(counters["flows", "flow 1, NPU 1 to 0", "window"]) == [200]


def test_a_counter_of_another_backend_is_refused(build: Callable[..., Result], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the backend 'packet' has no counter 'depth'"):
        told(build(), tmp_path, View(counters=["depth"]))


def test_utilization_is_busy_cycles_of_a_window(torus: Path, tmp_path: Path) -> None:
    counters = told(torus, tmp_path, View(links=["all"])).counters
    with h5py.File(torus) as file:
        times, busy = file["links"]["time"][()].tolist(), file["links"]["busy"][()].astype(np.float64)
        names, end = file["links"]["name"].asstr()[()].tolist(), int(file["links_total"].attrs["cycles"])
    length = np.diff([*times, end])
    share = 100 * (busy / length[:, np.newaxis])
    for link, name in enumerate(names):
        found = [float(value) for value in staircase(counters["links", name, "utilization"], times)]
        assert found == share[:, link].tolist()
    mean = [float(value) for value in staircase(counters["network", "all links", "utilization"], times)]
    assert mean == pytest.approx(share.mean(axis=1).tolist(), rel=1e-12)


def test_the_busiest_links(torus: Path, tmp_path: Path) -> None:
    counters = told(torus, tmp_path, View(links=["3"])).counters
    found = [name for process, name, _ in counters if process == "links"]
    with h5py.File(torus) as file:
        busy = dict(zip(file["links_total"]["name"].asstr()[()], file["links_total"]["busy"][()].tolist(), strict=True))
    assert sorted(busy[name] for name in found) == sorted(busy.values())[-3:]


def test_links_by_name(torus: Path, tmp_path: Path) -> None:
    counters = told(torus, tmp_path, View(links=["d1+:*", "d0-:(0,0)->(3,0)"], counters=["flits", "busy"])).counters
    names = Counter(name for process, name, _ in counters if process == "links")
    assert set(names.values()) == {2}
    with h5py.File(torus) as file:
        known = file["links"]["name"].asstr()[()].tolist()
    assert set(names) == {name for name in known if name.startswith("d1+:")} | {"d0-:(0,0)->(3,0)"}


# Arrows


def test_arrows_go_from_phase_to_phase(torus: Path, tmp_path: Path) -> None:
    chains = told(torus, tmp_path).chains
    assert len(chains) == 8 * 8  # chunks and NPUs
    for chain in chains:
        assert [each["args"]["phase"] for each in chain] == [0, 1, 2]
        assert len({(each["pid"], each["args"]["chunk"]) for each in chain}) == 1
        ends = [(each.get("flow_in", False), each.get("flow_out", False)) for each in chain]
        assert ends == [(False, True), (True, True), (True, False)]


def test_arrows_of_tasks_come_from_their_causes(workload: Path, tmp_path: Path) -> None:
    trace = told(workload, tmp_path)
    arrows = trace.arrows
    tasks = {each["args"]["task"]: each for each in trace.of("work")}
    with h5py.File(workload) as file:
        table = file["tasks"]
        causes = dict(enumerate(table["cause"][()].tolist()))
        kinds = table["kind_name"].asstr()[()][table["kind"][()]].tolist()
    assert len(tasks) == len(causes)
    found = {(one["args"]["task"], two["args"]["task"]) for one, two in arrows if two["cat"] == "work"}
    apart = {(cause, task) for task, cause in causes.items() if cause >= 0 and kinds[cause] != kinds[task]}
    # All-gathers and reduce-scatters are on one thread.
    together = {"all-gather", "reduce-scatter"}
    assert found == {(one, two) for one, two in apart if {kinds[one], kinds[two]} != together}
    for one, two in arrows:
        assert one["end"] == two["begin"] if two["cat"] == "work" else one["begin"] == two["begin"]


def test_arrows_go_from_a_collective_of_an_npu_to_its_chunks(workload: Path, tmp_path: Path) -> None:
    trace = told(workload, tmp_path)
    started = [(one, two) for one, two in trace.arrows if two["cat"] == "chunk"]
    first = [each for each in trace.of("chunk") if each["args"]["phase"] == 0]
    assert sorted(two["tid"] for _, two in started) == sorted(each["tid"] for each in first)
    for one, two in started:
        assert one["pid"] == two["pid"]
        assert two["name"].startswith(f"{one['name']}: ")


# Workloads


def test_npus_compute_load_and_communicate(workload: Path, tmp_path: Path) -> None:
    trace = told(workload, tmp_path)
    threads = Counter(trace.threads[each["tid"]].split(" (")[0] for each in trace.of("work"))
    # Four layers on eight NPUs: each is computed, loaded and gathered twice, scattered and stored once.
    assert threads == {"compute": 8 * 8, "memory": 12 * 8, "communication": 12 * 8}


def test_the_critical_path_has_no_gaps(workload: Path, tmp_path: Path) -> None:
    steps = told(workload, tmp_path).of("critical")
    assert steps[0]["begin"] == 0
    assert all(one["end"] == next_["begin"] for one, next_ in pairwise(steps))
    assert steps[-1]["end"] == Result.load(workload).time_cycles


def test_stretches_where_there_are_no_tasks(build: Callable[..., Result], tmp_path: Path) -> None:
    from tests.results.conftest import make_work

    result = build(work=make_work(tasks=False))
    trace = told(result, tmp_path)
    found = {(trace.processes[each["pid"]], each["name"], each["begin"], each["end"]) for each in trace.of("work")}
    # By make_graph: computing 0..50 and 20..100, communicating 50..220 and 100..215, memory 220..250.
    assert found == {
        ("NPU 0", "compute", 0, 50),
        ("NPU 1", "compute", 20, 100),
        ("NPU 0", "communication", 50, 220),
        ("NPU 1", "communication", 100, 215),
        ("NPU 0", "memory", 220, 250),
    }


def test_layers_stand_above_their_tasks(build: Callable[..., Result], tmp_path: Path) -> None:
    from tests.results.conftest import make_work

    layers = told(build(work=make_work()), tmp_path).of("layer")
    assert {(each["name"], each["begin"], each["end"]) for each in layers} == {
        ("embedding é, weight gradient", 0, 50),
        ("embedding é, weight gradient", 20, 100),
    }


# What is shown


def test_a_range_of_time(torus: Path, tmp_path: Path) -> None:
    whole = told(torus, tmp_path)
    end = Result.load(torus).time_cycles
    first, last = end // 3, end // 2
    some = told(torus, tmp_path, View(begin=f"{first} ns", end=f"{last} ns"), "some.json")
    key = ("name", "begin", "end")
    inside = [each for each in whole.of("chunk") if each["begin"] < last and each["end"] > first]
    assert 0 < len(inside) < len(whole.of("chunk"))
    found = [(some.processes[each["pid"]], *(each[name] for name in key)) for each in some.of("chunk")]
    assert sorted(found) == sorted((whole.processes[each["pid"]], *(each[name] for name in key)) for each in inside)
    times = [time for samples in some.counters.values() for time in samples]
    assert min(times) <= first
    assert max(times) >= last


def test_npus_that_are_asked_for(torus: Path, tmp_path: Path) -> None:
    assert set(by_npu(told(torus, tmp_path, View(npus="1-2, 7")))) == {"NPU 1", "NPU 2", "NPU 7"}


@pytest.mark.parametrize("most", [100, 150, 250, 1000])
@pytest.mark.parametrize("which", ["torus", "workload"])
def test_no_more_events_than_asked_for(which: str, most: int, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    path = request.getfixturevalue(which)
    whole, trace = told(path, tmp_path), told(path, tmp_path, View(most_events=most), "some.json")
    assert len(whole.events) > 1000
    assert most / 4 < len(trace.events) <= most
    # What is missing is told in the file and by the slice of the run, and is missing.
    (run,) = trace.of("run")
    assert run["args"]["left_out"] == trace.file["otherData"]["left_out"]
    assert "left_out" not in whole.of("run")[0]["args"]
    shown = {name for name in trace.processes.values() if name.startswith("NPU")}
    assert shown
    told_of = "all 8" if len(shown) == 8 else f"{8 - len(shown)} of 8 NPUs"
    assert (told_of in run["args"]["left_out"]) == (len(shown) < 8)


@pytest.mark.parametrize("which", ["torus", "workload"])
def test_as_many_as_there_may_be_stay_below_50_mb(which: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    trace = told(request.getfixturevalue(which), tmp_path)
    assert (tmp_path / "trace.json").stat().st_size / len(trace.events) * View.most_events < 50e6


def test_fewer_npus_are_shown_whole(torus: Path, tmp_path: Path) -> None:
    npus = by_npu(told(torus, tmp_path, View(most_events=400)))
    assert 1 < len(npus) < 8
    assert {len(slices) for slices in npus.values()} == {24}
    assert {"NPU 0", "NPU 7"} <= set(npus)  # from the first to the last


def test_what_was_run_is_told(torus: Path, tmp_path: Path) -> None:
    trace = told(torus, tmp_path)
    (run,) = trace.of("run")
    result = Result.load(torus)
    assert (run["begin"], run["end"], run["name"]) == (0, result.time_cycles, result.title)
    assert run["args"]["backend"] == "packet"
    assert run["args"]["npus"] == "8 of 8"
    assert [each["args"]["kind"] for each in trace.of("collective")] == ["all-reduce"]


# Little to see


def test_open_traffic_has_counters(traffic: Result, tmp_path: Path) -> None:
    trace = told(traffic, tmp_path)
    assert {each["cat"] for each in trace.slices} == {"run"}
    assert sum(1 for process, *_ in trace.counters if process == "links") == len(traffic.links)


def test_nothing_at_all(empty: Result, tmp_path: Path) -> None:
    trace = told(empty, tmp_path)
    assert [(each["cat"], each["begin"], each["end"]) for each in trace.slices] == [("run", 0, 0)]
    assert not trace.counters


def test_messages_between_npus(build: Callable[..., Result], tmp_path: Path) -> None:
    (message,) = told(build(), tmp_path).of("message")
    assert (message["name"], message["begin"], message["end"]) == ("hello: 0 -> 1", 5, 25)


def test_the_same_result_makes_the_same_file(torus: Path, tmp_path: Path) -> None:
    for name in ("a.json.gz", "b.json.gz"):
        write(build(Result.load(torus)), tmp_path / name)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


# Faults


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (View(begin="1 s"), "begin: '1 s' is after the end of the run"),
        (View(begin="2 us", end="1 us"), "end: '1 us' is not after begin '2 us'"),
        (View(begin="3"), "begin: '3' has no unit"),
        (View(npus="8"), "npus: there is no NPU 8; allowed: 0 to 7"),
        (View(npus="a-b"), "npus: 'a-b' is not a list of NPUs"),
        (View(npus="-"), "npus: '-' is not a list of NPUs"),
        (View(npus="99999999999"), "npus: there is no NPU 99999999999"),
        (View(links=["d9"]), "links: there is no link 'd9'"),
        (View(counters=["flit"]), "did you mean 'flits'?"),
        (View(most_events=5), "most_events: 5 events are too few"),
    ],
)
def test_views_that_make_no_sense(torus: Path, view: View, words: str) -> None:
    with pytest.raises(InputError) as fault:
        build(Result.load(torus), view)
    assert words in str(fault.value)


def test_faults_of_a_view_come_together() -> None:
    with pytest.raises(InputError) as fault:
        View(begin="3", npus="x", counters=["y"], most_events=1).check()
    assert all(key in str(fault.value) for key in ("begin", "npus", "counters", "most_events"))


@pytest.mark.parametrize("name", ["trace", "trace.h5", "trace.csv.gz"])
def test_the_name_tells_the_format(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.json, \.json\.gz"):
        check_timeline(tmp_path / name)
