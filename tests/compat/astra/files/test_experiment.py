"""Whole experiments from ASTRA-sim's files."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from pyxsim.compat.astra.files import astra_experiment, network_tables, read_astra, system_tables
from pyxsim.compat.astra.files.dimensions import yaml_tables
from pyxsim.compat.astra.files.hierarchical import hierarchical_tables
from pyxsim.errors import InputError
from pyxsim.network.backends import by_cost
from pyxsim.results.result import Result
from pyxsim.runner.lifecycle import run
from tests.compat.astra.files.files import (
    HIERARCHICAL,
    SWITCH,
    SYSTEM,
    SYSTEM_2,
    TORUS,
    YAML,
    Write,
    WriteJson,
    write_text,
)

FILES = Path(__file__).resolve().parents[4] / "inputs" / "astra"


@pytest.mark.parametrize("network", ["torus", "switch"])
@pytest.mark.parametrize("workload", ["all_reduce", "all_to_all"])
def test_the_files_of_the_tree_run(network: str, workload: str) -> None:
    files = [FILES / f"{network}_network.txt", FILES / f"{network}_system.txt", FILES / f"micro_{workload}.txt"]
    result = run(astra_experiment(*files))
    assert result.complete
    assert result.warnings == []
    assert result.lower_bound_ns is not None
    assert result.lower_bound_ns < result.time_ns
    again = run(astra_experiment(*files, passes=2))
    assert again.counts["bytes_delivered"] == 2 * result.counts["bytes_delivered"]
    assert len(again.collectives) == 2
    assert again.time_ns > result.time_ns


@pytest.mark.parametrize("network", ["torus_network.json", "torus_network.txt"])
def test_scales_and_overrides(tmp_path: Path, network: str) -> None:
    workload = tmp_path / "workload.txt"
    workload.write_text("MICRO\n1\nlayer -1 0 NONE 0 0 NONE 0 0 ALLREDUCE 35110 5\n", encoding="utf-8")
    settings: dict[str, Any] = {"comm_scale": "0.7", "compute_scale": 2, "overrides": ("network.router.vcs=8",)}
    experiment = astra_experiment(FILES / network, FILES / "torus_system.txt", workload, **settings)
    assert experiment.network.router.vcs == 8
    assert experiment.workload is not None
    assert experiment.workload.compute_scale == 2
    # The original has the scale in single precision, which is less than seven tenths: a byte is cut off. (Measured on
    # its analytical network: 40 bytes take what 27 do, where doubles would make 28 of them.)
    assert run(experiment, backend="analytical").collectives[0]["bytes"] == 24576 == 35110 * 7 // 10 - 1


# -- the analytical backends -------------------------------------------------------------------------------------------

# All-reduce of 1 MiB, four chunks, on a ring of eight: 4 * ((2n-1) * 10 + 2(n-1) * 1110 + 3(n-1) * (32768 / 1600)).
RING_ALL_REDUCE = 4 * (15 * 10 + 14 * 1110 + 3 * 7 * 20)

THIRTY = Fraction(30, 10**9)  # what a reduction costs over Garnet
ONE_RING = {"scheduling-policy": "LIFO", "preferred-dataset-splits": "7", "all-reduce-implementation": "ring"}


def workload(folder: Path, collective: str, size: int) -> Path:
    """A workload of one collective, without times of its own."""
    path = folder / "workload.txt"
    path.write_text(f"MICRO\n1\nlayer -1 0 NONE 0 0 NONE 0 0 {collective} {size} 0\n", encoding="utf-8")
    return path


def test_version_2(tmp_path: Path) -> None:
    read = read_astra(FILES / "ring_network.yml", FILES / "ring_system.json", workload(tmp_path, "ALLREDUCE", 2**20))
    assert (read.backend, read.experiment.system.compat, read.warnings) == ("analytical", "astra-sim-2", [])
    result = run(read.experiment, backend=read.backend)
    assert result.time_ns == RING_ALL_REDUCE
    assert result.warnings == []


def test_a_system_file_in_an_experiment() -> None:
    ring = {"block": "ring", "npus": 8, "bandwidth": "50 GiB/s", "latency": "500 ns"}
    experiment: dict[str, Any] = {
        "network": {"dims": [ring]},
        "system": {"file": str(FILES / "ring_system.json")},
        "collective": {"kind": "all-reduce", "size": "1 MiB"},
    }
    assert run(experiment, backend="analytical").time_ns == RING_ALL_REDUCE
    # Keys beside the file override it.
    experiment["system"] |= {"local_memory_bandwidth": "800 GB/s"}
    assert run(experiment, backend="analytical").time_ns == 4 * (15 * 10 + 14 * 1110 + 3 * 7 * 40)


def test_congestion(tmp_path: Path) -> None:
    # Direct over a ring: neighbours' links carry what goes further, so that it takes longer.
    files = FILES / "ring_network.yml", FILES / "ring_system.json", workload(tmp_path, "ALLTOALL", 2**26)
    times = []
    for backend in (None, "analytical-congestion"):
        read = read_astra(*files, backend=backend)
        times.append(run(read.experiment, backend=read.backend).time_ns)
    # Reference: ASTRA-sim 518bd51, congestion-unaware and congestion-aware.
    assert times == [164328, 1566560]


def test_the_switch_of_the_tutorial() -> None:
    """ASPLOS 2023: 633.217 us where messages never meet, 40 008.217 us where they queue: 39 375 us of bytes later."""
    files = FILES / "switch_network.yml", FILES / "switch_system.json", FILES / "micro_all_reduce_large.txt"
    found = []
    for backend in ("analytical", "analytical-congestion"):
        read = read_astra(*files, backend=backend)
        found.append(run(read.experiment, backend=read.backend).time_ns)
    assert found == [633_217, 40_008_217]
    # What an NPU sends, over its link.
    assert found[1] - found[0] == 2 * 63 * 2**24 * Fraction(10**9, 50 * 2**30)


def test_version_1(tmp_path: Path) -> None:
    files = FILES / "torus_network.json", FILES / "torus_system.txt", workload(tmp_path, "ALLREDUCE", 2**20)
    read = read_astra(*files)
    assert (read.backend, read.experiment.system.compat) == ("analytical", "astra-sim-1")
    # Dimension 0 is always busy: 4 chunks, 2 phases of 4 endpoint delays of 10 and 3 hops of 1 + 65536 / 68.72.
    assert run(read.experiment, backend=read.backend).time_ns == 4 * 2 * (4 * 10 + 3 * 954)


@pytest.mark.parametrize(
    ("options", "table"),
    [
        ({}, {"endpoint_delay": "10 ns", "queues": None}),
        ({"injection_scale": "2.55"}, {"endpoint_delay": "25 ns"}),
        ({"injection_scale": 0}, {"endpoint_delay": "0 ns"}),
        ({"queues": 3}, {"queues": 3}),
    ],
)
def test_options_of_the_command_line(options: dict[str, Any], table: dict[str, Any], tmp_path: Path) -> None:
    files = FILES / "ring_network.yml", FILES / "ring_system.json", workload(tmp_path, "ALLREDUCE", 2**20)
    system = read_astra(*files, **options).experiment.system.model_dump()
    assert {key: system[key] for key in table} == table


def test_another_backend(tmp_path: Path) -> None:
    files = FILES / "ring_network.yml", FILES / "ring_system.json", workload(tmp_path, "ALLREDUCE", 2**20)
    read = read_astra(*files, backend="packet")
    assert read.backend == "packet"
    # Packets overlap on their way, but the routers are there, too.
    assert run(read.experiment, backend="packet").time_ns == pytest.approx(RING_ALL_REDUCE, rel=0.1)


def test_systems_go_with_any_network(tmp_path: Path, write_object: WriteJson) -> None:
    job = workload(tmp_path, "ALLREDUCE", 2**20)
    text = read_astra(FILES / "torus_network.txt", FILES / "torus_system.txt", job).experiment.system
    assert (text.compat, text.reduction_delay) == ("astra-sim-1", THIRTY)
    newer = write_object(SYSTEM_2 | {"all-gather-implementation": ["ring"] * 3, "local-mem-bw": 0})
    garnet = read_astra(FILES / "torus_network.txt", newer, job).experiment.system
    assert (garnet.compat, garnet.reduction_delay, garnet.chunks) == ("astra-sim-1", THIRTY, 5)
    older = read_astra(FILES / "ring_network.yml", write_text(tmp_path / "older.txt", ONE_RING), job).experiment.system
    assert (older.compat, older.reduction_delay, older.chunks) == ("astra-sim-2", 0, 7)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"injection_scale": "fast"}, "injection_scale: 'fast' is not a scale"),
        ({"injection_scale": -1}, "injection_scale: '-1' is not a scale"),
        ({"queues": 0}, "system.queues: 0 is too small"),
    ],
)
def test_faults_of_options(options: dict[str, Any], told: str, tmp_path: Path) -> None:
    files = FILES / "ring_network.yml", FILES / "ring_system.json", workload(tmp_path, "ALLREDUCE", 2**20)
    with pytest.raises(InputError, match=told):
        read_astra(*files, **options)


def test_traces(tmp_path: Path) -> None:
    """The prefix of version 2, with groups and without; what is not needed for them is not written."""
    (tmp_path / "trace.0.et").write_bytes(b"")
    files = FILES / "ring_network.yml", FILES / "ring_system.json", tmp_path / "trace"
    read = read_astra(*files, groups="groups.json").experiment.workload
    assert read is not None
    assert (read.file, read.groups) == (str(tmp_path / "trace"), "groups.json")
    assert read_astra(*files, groups="empty").experiment.workload == read.model_copy(update={"groups": None})


def test_names_without_their_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As scripts of version 1 write them; gem5 has a folder for networks."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "network_inputs").mkdir()
    for name, place in (("torus_network", "network_inputs"), ("torus_system", "."), ("micro_all_reduce", ".")):
        (tmp_path / place / f"{name}.txt").write_bytes((FILES / f"{name}.txt").read_bytes())
    read = read_astra("torus_network", "torus_system", "micro_all_reduce")
    with_ends = read_astra(*(FILES / f"{name}.txt" for name in ("torus_network", "torus_system", "micro_all_reduce")))
    assert read.experiment.network == with_ends.experiment.network
    assert read.experiment.system == with_ends.experiment.system
    assert read.experiment.workload is not None
    assert read.experiment.workload.file == "micro_all_reduce.txt"


def test_lists_of_the_command_line(tmp_path: Path) -> None:
    """In place of those of the network JSON of version 1, and of nothing else."""
    files = FILES / "torus_network.json", FILES / "torus_system.txt", FILES / "micro_all_reduce.txt"
    given = {"units-count": "2,3,5", "link-bandwidth": "0.5,1,2", "links-count": "2,2,4", "link-latency": "1,2,3.5"}
    dims = read_astra(*files, dimensions=given).experiment.network.dims
    assert dims is not None
    assert [dim.npus for dim in dims] == [2, 3, 5]
    assert [dim.bandwidth for dim in dims] == [2**30, 2**31, 2**33]  # all links that lead its way: 2 x 0.5 GB/s
    for key, words, told in (
        ("units-count", "2,3", "--units-count: units-count: the list has 2 entries; allowed: 3 entries"),
        ("units-count", "2,3,x", "--units-count: units-count: 'x' is not allowed"),
        ("link-latency", "", "--link-latency: link-latency: the list has 1 entries"),
    ):
        with pytest.raises(InputError, match=told):
            read_astra(*files, dimensions={key: words})
    with pytest.raises(InputError, match="--units-count: replaces a key of a network JSON of version 1"):
        read_astra(FILES / "torus_network.txt", *files[1:], dimensions=given)


@pytest.mark.parametrize(("trace", "exact"), [("all_reduce", True), ("iteration", False)])
def test_the_traces_that_ship(trace: str, exact: bool) -> None:
    """The all-reduce is 4 chunks after each other: 15 endpoint delays, 14 messages, 7 additions each."""
    files = FILES / "ring_network.yml", FILES / "ring_system.json", FILES / f"{trace}_8npus" / trace
    result = run(read_astra(*files, memory=FILES / "remote_memory.json").experiment, backend="analytical")
    assert result.complete
    if exact:
        message = 500 + int(2**18 / 8 / (50 * 2**30 / 10**9))
        assert result.time_ns == 4 * (15 * 10 + 14 * message + 7 * 3 * int(2**18 / 8 / 1600))


@pytest.mark.parametrize("backend", by_cost())
def test_everything_in_a_trace_on_every_backend(tmp_path: Path, backend: str) -> None:
    """Process groups, CPU, memory, messages, a barrier; a broadcast is a pause; and all goes into a file."""
    files = FILES / "ring_network.yml", FILES / "ring_system.json", FILES / "iteration_8npus" / "iteration"
    result = run(read_astra(*files, memory=FILES / "remote_memory.json").experiment, backend=backend)
    result.save(tmp_path / "out.h5")
    again = Result.load(tmp_path / "out.h5")
    assert [each["kind"] for each in again.collectives] == ["all-reduce", "barrier", "all-reduce"]
    assert len(again.point_to_point) == 8


# -- the page ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def page() -> str:
    return (Path(__file__).resolve().parents[4] / "docs" / "formats_astra.md").read_text(encoding="utf-8")


def known(read: Callable[[Path], object], path: Path) -> Sequence[str]:
    """The keys that a reader knows: the fault of an unknown key tells them."""
    with pytest.raises(InputError) as caught:
        read(path)
    assert caught.value.problem == "unknown key"
    assert isinstance(caught.value.allowed, tuple)
    return caught.value.allowed


def test_the_page_has_every_key_of_texts(write: Write, page: str) -> None:
    for pairs, read in ((TORUS, network_tables), (SWITCH, network_tables), (SYSTEM, system_tables)):
        missing = [key for key in known(read, write(pairs | {"nonsense": "1"})) if f"`{key}`" not in page]
        assert missing == []


def test_the_page_has_every_key_of_objects(write_object: WriteJson, page: str) -> None:
    for pairs, read in ((HIERARCHICAL, hierarchical_tables), (SYSTEM_2, system_tables)):
        missing = [key for key in known(read, write_object(pairs | {"nonsense": 1})) if f"`{key}`" not in page]
        assert missing == []


def test_the_page_has_every_key_of_yaml(tmp_path: Path, page: str) -> None:
    path = tmp_path / "file.yml"
    path.write_text(f"{YAML}nonsense: 1\n", encoding="utf-8")
    assert [key for key in known(yaml_tables, path) if f"`{key}`" not in page] == []


@pytest.mark.parametrize(("memory", "time"), [(10**9, 628), (50, 658), (5, 928), (1, 2128)])
def test_the_shared_bus_of_version_2(tmp_path: Path, memory: int, time: int) -> None:
    """Measured on the original: a reduce-scatter of 1000 bytes by two NPUs, with a latency of 10 ns on either bus."""
    system = {"model-shared-bus": 1, "L": 10, "endpoint-delay": 10, "preferred-dataset-splits": 1}
    system |= {"collective-optimization": "baseline", "local-mem-bw": memory}
    texts = {
        "net.yml": "topology: [Ring]\nnpus_count: [2]\nbandwidth: [50]\nlatency: [500]\n",
        "system.json": json.dumps(system | {"reduce-scatter-implementation": ["ring"]}),
        "work.txt": "MICRO\n1\nlayer -1 0 NONE 0 0 NONE 0 0 REDUCESCATTER 1000 0\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    read = read_astra(*(tmp_path / name for name in texts))
    assert run(read.experiment, backend=read.backend).time_ns == time
