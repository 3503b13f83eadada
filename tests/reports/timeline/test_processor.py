"""Traces in Perfetto's own trace processor: what it makes of them is what HDF5 says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import h5py
import pytest

from pyxsim.reports.timeline import View, write
from pyxsim.reports.timeline import build as build_trace
from pyxsim.results import Result
from tests.reports.timeline.processor import Processor

SLICES = """
    select s.id, s.ts, s.dur, s.name, s.category, s.depth, p.name as process, t.name as thread, s.track_id
    from slice s join thread_track on s.track_id = thread_track.id
    join thread t using (utid) join process p using (upid)
"""
COUNTERS = """
    select c.ts, c.value, t.name, p.name as process
    from counter c join process_counter_track t on c.track_id = t.id join process p using (upid) order by c.ts
"""
FLOWS = """
    select f.id, a.ts + a.dur as left, b.ts as came, a.category as one, b.category as two, b.id as into_
    from flow f join slice a on f.slice_out = a.id join slice b on f.slice_in = b.id
"""


def opened(path: Path, folder: Path, name: str, view: View | None = None) -> Processor:
    write(build_trace(Result.load(path), view), folder / name)
    return Processor((folder / name).read_bytes())


@pytest.fixture(scope="module", params=[pytest.param("trace.json", marks=pytest.mark.slow), "trace.json.gz"])
def torus_trace(
    torus: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Processor]:
    view = View(links=["all"], counters=["flits"])
    with opened(torus, tmp_path_factory.mktemp("trace"), request.param, view) as trace:
        yield trace


@pytest.fixture(scope="module")
def workload_trace(workload: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processor]:
    with opened(workload, tmp_path_factory.mktemp("trace"), "trace.json") as trace:
        yield trace


def test_every_npu_has_a_slice_for_each_chunk_and_phase(torus: Path, torus_trace: Processor) -> None:
    slices = [row for row in torus_trace.query(SLICES) if row["category"] == "chunk"]
    assert Counter(row["process"] for row in slices) == {f"NPU {npu}": 3 * 8 for npu in range(8)}
    with h5py.File(torus) as file:
        columns = [file["chunks"][name][()].tolist() for name in ("rank", "start", "end")]
    expected = Counter((f"NPU {rank}", start, end - start) for rank, start, end in zip(*columns, strict=True))
    assert Counter((row["process"], row["ts"], row["dur"]) for row in slices) == expected


def test_counters_are_those_of_the_file(torus: Path, torus_trace: Processor) -> None:
    samples: dict[str, dict[int, float]] = {}
    for row in torus_trace.query(COUNTERS):
        if row["process"] == "links":
            samples.setdefault(row["name"], {})[row["ts"]] = row["value"]
    with h5py.File(torus) as file:
        links = file["links"]
        times, names, flits = links["time"][()].tolist(), links["name"].asstr()[()].tolist(), links["flits"][()]
    assert set(samples) == {f"{name} flits" for name in names}
    for link, name in enumerate(names):
        told = samples[f"{name} flits"]
        assert [told[max(at for at in told if at <= time)] for time in times] == flits[:, link].tolist()


def test_arrows_join_the_phases_of_a_chunk(torus_trace: Processor) -> None:
    flows = torus_trace.query(FLOWS)
    assert len(flows) == 2 * 8 * 8  # from each phase but the last, of each chunk, on each NPU
    assert all(row["left"] <= row["came"] for row in flows)


def test_it_finds_nothing_to_complain_of(torus_trace: Processor, workload_trace: Processor) -> None:
    complain_of(torus_trace)
    complain_of(workload_trace)


def complain_of(trace: Processor) -> None:
    assert trace.query("select name, value from stats where value > 0 and severity != 'info'") == []
    slices = trace.query(f"{SLICES} order by s.track_id, s.ts")
    assert {row["depth"] for row in slices} == {0}  # none is inside of another one
    for one, after in pairwise(slices):
        assert one["track_id"] != after["track_id"] or one["ts"] + one["dur"] <= after["ts"]


def test_a_phase_that_takes_no_time(build: Callable[..., Result], tmp_path: Path) -> None:
    result = build()
    # On NPU 0 the first phase begins and ends in cycle 105, where the second one begins.
    result.chunks["start"][0] = result.chunks["end"][0] = 105
    write(build_trace(result), tmp_path / "trace.json")
    with Processor((tmp_path / "trace.json").read_bytes()) as trace:
        complain_of(trace)
        slices = [(row["ts"], row["dur"]) for row in trace.query(SLICES) if row["process"] == "NPU 0"]
        assert sorted(slices) == [(105, 0), (105, 145)]
        # Perfetto has no arrows at slices without length; that of the other NPU is there.
        assert [(row["left"], row["came"]) for row in trace.query(FLOWS)] == [(110, 120)]


def test_what_a_slice_tells(torus_trace: Processor) -> None:
    args = torus_trace.query(
        "select extract_arg(arg_set_id, 'args.chunk') as chunk, extract_arg(arg_set_id, 'args.bytes') as bytes, name"
        " from slice where category = 'chunk'"
    )
    assert {int(row["name"].rpartition(" ")[2]) for row in args} == set(range(8))
    assert all(int(row["name"].rpartition(" ")[2]) == row["chunk"] for row in args)
    # 64 KiB in 8 chunks; a quarter of each after a reduce-scatter over four.
    assert {row["bytes"] for row in args} == {8192, 2048}
    (run,) = torus_trace.query("select extract_arg(arg_set_id, 'args.backend') as it from slice where category = 'run'")
    assert run["it"] == "packet"


def test_arrows_of_tasks(workload: Path, workload_trace: Processor) -> None:
    flows = Counter((row["one"], row["two"]) for row in workload_trace.query(FLOWS))
    with h5py.File(workload) as file:
        phases, chunks = file["chunks"]["phase"][()], file["tasks"]
        first = int((phases == 0).sum())
        kind = chunks["kind_name"].asstr()[()][chunks["kind"][()]]
        cause = chunks["cause"][()]
    thread = {"compute": "compute", "memory": "memory"}
    where = [thread.get(each, "communication") for each in kind.tolist()]
    across = sum(1 for task, each in enumerate(cause.tolist()) if each >= 0 and where[each] != where[task])
    assert flows == {("chunk", "chunk"): len(phases) - first, ("work", "chunk"): first, ("work", "work"): across}


def test_npus_are_in_order(torus_trace: Processor) -> None:
    rows = torus_trace.query("select name, pid from process where pid > 0 order by pid")
    assert [row["name"] for row in rows] == ["run", "collectives", "network", "links", *(f"NPU {n}" for n in range(8))]
