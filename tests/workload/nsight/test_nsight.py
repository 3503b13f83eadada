"""Exports of Nsight Systems: recorded times are kept, collectives with known bytes are simulated."""

from __future__ import annotations

import sqlite3
import struct
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim.cli.workload_traces import no_experiment
from pyxsim.errors import InputError
from pyxsim.runner.lifecycle import run
from pyxsim.workload.graph import Kind, check
from pyxsim.workload.nsight import graph_of, is_nsight
from tests.examples import part_of

TABLES = """
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
    globalPid INTEGER, shortName INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
    globalPid INTEGER, bytes INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, text TEXT, textId INTEGER, globalTid INTEGER, binaryData TEXT);
CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES (schemaId INTEGER, name TEXT, "offset" INTEGER);
"""
NAMES = ["gemm", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "ncclDevKernel_SendRecv"]
NETWORK = {"topology": "ring", "shape": [2], "bandwidth": "50 GB/s", "latency": "500 ns", "clock": "1 GHz"}


def export(path: Path, kernels: list[tuple[int, ...]], calls: list[tuple[int, int, int]] | None = None) -> Path:
    """An export. `kernels`: start, end, device, stream, name; `calls`: start, device, bytes of all-reduces. A process
    for each device."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as file:
        file.executescript(TABLES)
        file.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(NAMES))
        rows = [(start, end, device, stream, (device + 7) << 24, name) for start, end, device, stream, name in kernels]
        file.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?, ?, ?)", rows)
        entries = [(5, "NCCL communicator ID", None), (5, "Message size [bytes]", 8)]
        file.executemany("INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES VALUES (?, ?, ?)", entries)
        for start, device, size in calls or []:
            blob = struct.pack("<4Q2Q", 1, 5, 16, 32, 99, size)
            event = (start, start + 1, "ncclAllReduce", None, (device + 7) << 24 | 3, blob)
            file.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?, ?, ?)", event)
        file.commit()
    return path


def time_of(path: Path) -> float:
    return float(run({"network": NETWORK, "workload": {"file": str(path)}}, backend="analytical-congestion").time_ns)


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 90), st.integers(0, 1), st.integers(1, 3)), min_size=1))
@settings(max_examples=part_of(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_without_collectives_the_trace_is_replayed(tmp_path: Path, found: list[tuple[int, int, int, int]]) -> None:
    """Every activity begins and ends when it did, whatever overlaps in different streams."""
    free: dict[tuple[int, int], int] = {}
    kernels = []
    for start, length, device, stream in sorted(found):
        begin = max(start, free.get((device, stream), 0))
        free[device, stream] = begin + length
        kernels.append((begin, begin + length, device, stream, 2 if length % 5 == 1 else 0))
    path = export(tmp_path / "a.sqlite", kernels)
    assert time_of(path) == max(kernel[1] for kernel in kernels) - min(kernel[0] for kernel in kernels)


def test_a_collective_is_simulated(tmp_path: Path) -> None:
    """Device 0 waits for device 1, which computes longer. The first message of device 0 is there when it begins; so the
    two messages of device 1 follow one another."""
    kernels = [
        (0, 1000, 0, 7, 0),
        (1000, 9000, 0, 8, 1),
        (0, 3000, 1, 7, 0),
        (3200, 9000, 1, 8, 1),
        (9100, 9500, 0, 7, 0),
    ]
    path = export(tmp_path / "a.sqlite", kernels, [(10, 0, 1 << 20), (20, 1, 1 << 20)])
    graph = graph_of(str(path), 2)
    check(graph)
    assert [(call.kind, call.size, call.members) for call in graph.calls] == [("all-reduce", 1 << 20, (0, 1))]
    ring = 2 * (1 << 19) / 50 + 500
    assert time_of(path) == pytest.approx(3200 + ring + 100 + 400, abs=4)
    scaled = {"file": str(path), "compute_scale": "2", "comm_scale": "0.5"}
    result = run({"network": NETWORK, "workload": scaled}, backend="analytical-congestion")
    assert result.time_ns == pytest.approx(6000 + 200 + 2 * (1 << 18) / 50 + 500 + 100 + 800, abs=4)


def test_what_is_not_known_takes_its_time(tmp_path: Path) -> None:
    kernels = [(0, 1000, 0, 7, 1), (0, 1000, 1, 7, 1)]
    for calls in ([], [(0, 0, 64)], [(0, 0, 64), (0, 1, 65)], [(0, 0, 0), (0, 1, 0)]):
        graph = graph_of(str(export(tmp_path / "a.sqlite", kernels, calls)), 2)
        assert graph.calls == []
        assert (graph.kind == Kind.MARK).all()


def test_faults(tmp_path: Path) -> None:
    path = export(tmp_path / "a.sqlite", [(0, 5, 0, 7, 0), (0, 5, 1, 7, 0), (0, 5, 2, 7, 0)])
    assert is_nsight(str(path))
    with pytest.raises(InputError, match="has 3 GPUs; allowed: up to 2"):
        graph_of(str(path), 2)
    with pytest.raises(InputError, match="an activity from 9 to 5 ns"):
        graph_of(str(export(path, [(9, 5, 0, 7, 0)])), 2)
    with pytest.raises(InputError, match="values that are not numbers"):
        graph_of(str(export(path, [(0, "x", 0, 7, 0)])), 2)  # type: ignore[list-item]
    with pytest.raises(InputError, match="has no activity"):
        graph_of(str(export(path, [])), 2)
    with pytest.raises(InputError, match="no such file"):
        graph_of(str(tmp_path / "none.sqlite"), 2)
    with closing(sqlite3.connect(tmp_path / "b.sqlite")) as file:
        file.execute("CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT 1 AS start")
        file.execute("CREATE TABLE StringIds (id, value)")
    with pytest.raises(InputError, match="has no tables CUPTI_ACTIVITY_KIND_KERNEL"):
        graph_of(str(tmp_path / "b.sqlite"), 2)


@pytest.mark.parametrize("processes", [1, 20_000])
def test_time_and_memory_are_linear_in_the_devices(tmp_path: Path, processes: int) -> None:
    """A damaged file may name tens of thousands of processes and devices."""
    path = export(tmp_path / "a.sqlite", [], [(0, 0, 64)])
    with closing(sqlite3.connect(path)) as file:
        rows = [(at, at + 1, at, 0, at % processes << 24, 0) for at in range(20_000)]
        file.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?, ?, ?)", rows)
        file.commit()
    with pytest.raises(InputError, match="has 20000 GPUs"):
        graph_of(str(path), 2)
    assert graph_of(str(path), 20_000).calls == []


def test_commands_of_traces_name_an_export(tmp_path: Path) -> None:
    path = export(tmp_path / "a.sqlite", [(0, 5, 0, 7, 0)])
    with pytest.raises(InputError, match="is an export of Nsight Systems; allowed: traces"):
        no_experiment(str(path))


def test_rows_without_end_are_refused(tmp_path: Path) -> None:
    """Where the pages of a damaged file are shared, a table has more rows than the file has bytes."""
    path = export(tmp_path / "a.sqlite", [(0, 5, 0, 7, 0)] * 2000)
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[16:18], "big")
    with closing(sqlite3.connect(path)) as file:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'CUPTI_ACTIVITY_KIND_KERNEL'"
        [[page]] = file.execute(query).fetchall()
    root = (page - 1) * size
    assert data[root] == 5  # an interior page: its cells name the pages of rows
    first = data[root + 12 : root + 14]  # where its first cell is
    many = (size - 8) // 6 - 1  # cells, as many as SQLite allows
    data[root + 3 : root + 5] = many.to_bytes(2, "big")
    data[root + 12 : root + 12 + 2 * many] = first * many
    path.write_bytes(data)
    with pytest.raises(InputError, match="has more rows than fit into the file"):
        graph_of(str(path), 2)


CHANGES: Any = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=6)


@given(CHANGES)
@settings(max_examples=part_of(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_mutations_raise_input_errors_only(tmp_path: Path, changes: list[tuple[int, int]]) -> None:
    path = tmp_path / "good.sqlite"
    if not path.exists():
        export(path, [(0, 5, 0, 7, 1), (0, 5, 1, 7, 1), (6, 9, 0, 7, 0)], [(0, 0, 64), (0, 1, 64)])
    data = bytearray(path.read_bytes())
    used = [place for place, value in enumerate(data) if value]
    for place, value in changes:
        data[used[place % len(used)]] = value
    (tmp_path / "m.sqlite").write_bytes(bytes(data))
    with suppress(InputError):
        check(graph_of(str(tmp_path / "m.sqlite"), 2))
