"""A run that was left at any boundary and taken up again, by another process, ends as one that was not: to the bit."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.results.result import HOW_IT_RAN, Result
from pyxsim.runner.checkpoint import checkpoint_file as file
from pyxsim.runner.checkpoint.writer import CheckpointWriter
from pyxsim.runner.hooks import ProgressHooks
from pyxsim.runner.lifecycle import simulate
from pyxsim.runner.prepare import prepare
from pyxsim.settings import load_experiment
from tests import fork_server
from tests.examples import part_of
from tests.runner.experiments import networks

TREE = Path(__file__).parents[3]
TORUS = {"topology": "torus", "shape": [2, 4], "flit": "64 B", "packet": "256 B", "latency": "20 ns"}
CLASSES = [
    {"name": "few", "load": 0.05, "priority": 1, "packet_flits": [1, 9], "packet_weights": [3, 1]},
    {"name": "asked", "load": 0.02, "pattern": "hotspot", "pattern_options": {"nodes": [0, 3]}, "replies": {}},
]
VERSION_2 = {"compat": "astra-sim-2", "endpoint_delay": "10 ns"}


def collective(kind: str, size: str, **more: Any) -> dict[str, Any]:
    return {"collective": {"kind": kind, "size": size}, **more}


def traffic(**table: Any) -> dict[str, Any]:
    return {"traffic": {"pattern": "uniform", "load": 0.2, "packet_flits": 3, "warmup": 200, "measure": 600, **table}}


# What is run: tables beside [network], or with one of their own; and the backend.
PACKETS: dict[str, dict[str, Any]] = {
    "skips": collective("all-reduce", "256 KiB"),
    "all cycles": collective("all-to-all", "16 KiB", run={"skip": False}),
    "threads": collective("all-to-all", "16 KiB", run={"threads": 2}),
    "links": collective("all-reduce", "16 KiB", output={"attribution": "links"}),
    "messages": collective("all-reduce", "8 KiB", output={"attribution": "messages"}),
    "carried": collective("all-gather", "2 KiB", output={"carry": True}),
    "chunks": collective("all-reduce", "32 KiB", system={"chunks": 5, "active_chunks": 2, "inter_dimension": "themis"}),
    "engines": collective(
        "all-reduce",
        "32 KiB",
        system={"chunks": 3, "endpoint": {"memory_bandwidth": "200 GB/s", "offload": "engine"}},
    ),
    "late": collective(
        "all-reduce",
        "16 KiB",
        system={
            "chunks": 2,
            "shared_bus": {"L": "5 ns", "o": "2 ns", "g": "3 ns", "G": "1 ns"},
            "start_skew": "100 ns",
            "stragglers": [{"npus": [1], "start": "50 ns", "slow": 2}],
        },
    ),
    "version 1": collective("all-reduce", "16 KiB", system={"compat": "astra-sim-1", "chunks": 4, "active_chunks": 2}),
    "version 1, buses": collective(
        "all-reduce", "8 KiB", system={"compat": "astra-sim-1", "chunks": 2, "shared_bus": {"L": "9 ns", "G": "1 ns"}}
    ),
    "version 2": collective("all-to-all", "16 KiB", system={**VERSION_2, "chunks": 3, "rendezvous": True}),
    "version 2, custom": collective("broadcast", "8 KiB", system=VERSION_2),
    "others": {
        "network": {
            **TORUS,
            "router": {"va_allocator": "wavefront", "sa_allocator": "islip:2", "routing": "minimal-adaptive"},
        },
        **collective("all-to-all", "16 KiB"),
    },
    "queues": {
        "network": {**TORUS, "router": {"pipeline": "garnet", "output_queue": True, "vc_reuse": "drained"}},
        **collective("all-reduce", "16 KiB"),
    },
    "pool": {
        "network": {**TORUS, "router": {"internal_speedup": 2, "shared_buffer": 8, "buffer": 4}},
        **collective("all-reduce", "16 KiB"),
    },
    "mixed": {
        "collective": [
            {"kind": "all-reduce", "size": "8 KiB", "npus": [0, 1, 5]},
            {"kind": "reduce", "size": "4 KiB", "at": "300 ns", "root": 2},
        ],
        "message": [{"src": 0, "dst": 7, "size": "10 KiB", "at": "10 ns"}],
    },
    "uniform": traffic(),
    "until sure": {**traffic(warmup="auto", measure="auto", precision=0.2), "output": {"attribution": "links"}},
    "bursts": traffic(injection={"process": "on-off", "alpha": 0.02, "r1": 0.9}),
    "valiant": {"network": {**TORUS, "router": {"routing": "valiant"}}, **traffic(measure="auto", precision=0.2)},
    "replies": {
        "network": {**TORUS, "router": {"virtual_networks": [2, 2]}},
        "traffic": {"classes": CLASSES, "warmup": 100, "measure": 500},
    },
    "batches": {"traffic": {"batch": {"size": 8, "count": 3, "outstanding": 2}}},
}
WORKLOADS = (
    "inputs/memory/zero_infinity.toml",
    "inputs/memory/in_switch.toml",
    "inputs/collectives/exchange.toml",
    "inputs/cost/torus_energy.toml",
    "inputs/serving/disaggregated.toml",
    "inputs/serving/experts.toml",
)
DELAYS = ("analytical", "analytical-congestion", "flow")


def experiment_of(name: str) -> Any:
    tables = PACKETS[name]
    output = {"window": "100 ns", **tables.get("output", {})}
    return load_experiment({"network": TORUS, **tables, "output": output})


def prepared_of(experiment: Any, backend: str = "packet", folder: Path = TREE) -> Any:
    return prepare(experiment, folder=folder, backend=backend)


def everything(result: Result, path: Path) -> dict[str, Any]:
    """All datasets and attributes of the file, but for what tells how the result was computed."""
    result.save(path)
    return everything_in(path)


def everything_in(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def note(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = item[()]
        for key, value in item.attrs.items():
            if key in ("record", "summary"):
                value = json.dumps(without_how(json.loads(value)))
            if key not in HOW_IT_RAN | {"created", "DIMENSION_LIST", "REFERENCE_LIST"}:
                found[f"{name}@{key}"] = value

    with h5py.File(path) as data:
        note("", data)
        data.visititems(note)
    return found


def without_how(told: Any) -> Any:
    if not isinstance(told, dict):
        return told
    return {key: without_how(value) for key, value in told.items() if key not in HOW_IT_RAN | {"created"}}


def assert_same(mine: dict[str, Any], other: dict[str, Any]) -> None:
    assert mine.keys() == other.keys()
    for name, values in mine.items():
        np.testing.assert_array_equal(values, other[name], err_msg=name)


class Boundaries:
    """Counts them; the run is to be left at one, if one is told."""

    def __init__(self, at: int = -1) -> None:
        self.at = at
        self.count = 0

    def __call__(self) -> bool:
        self.count += 1
        return self.count - 1 == self.at


def left(prepared: Any, path: Path, at: int, backend: str = "packet") -> None:
    """Run it to a boundary, where it is left: the checkpoint is there."""
    writer = CheckpointWriter(str(path), math.inf, stop_requested=Boundaries(at), warn=pytest.fail)
    assert not simulate(prepared, backend=backend, hooks=ProgressHooks(checkpoints=writer)).complete
    assert writer.written == 1


def whole(prepared: Any, path: Path, backend: str = "packet") -> tuple[dict[str, Any], int]:
    """(everything of the result, boundaries)."""
    boundaries = Boundaries()
    result = simulate(
        prepared,
        backend=backend,
        hooks=ProgressHooks(checkpoints=CheckpointWriter("", math.inf, stop_requested=boundaries)),
    )
    assert result.complete
    return everything(result, path), boundaries.count


RESUME = """
import sys
from pyxsim.runner.lifecycle import simulate
from pyxsim.runner.checkpoint import checkpoint_file as file
for path, backend in zip(sys.argv[1::2], sys.argv[2::2]):
    _, (prepared, _) = file.read(path)
    simulate(prepared, backend=backend).save(path + ".h5")
"""


def resumed(*paths: tuple[Path, str]) -> None:
    """Resume checkpoints, each on its backend, in a new process; their results lie beside them."""
    words = [str(word) for path in paths for word in path]
    fork_server.run([sys.executable, "-c", RESUME, *words], check=True, cwd="/")


def test_every_kind_of_run_in_another_process(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    runs = [(name, experiment_of(name), TREE, "packet") for name in PACKETS]
    for name in WORKLOADS:
        runs.append((name, load_experiment(TREE / name), (TREE / name).parent, "flow"))
    for backend in DELAYS:
        runs.append((f"chunks {backend}", experiment_of("chunks"), TREE, backend))
    runs.append(("version 1 delays", experiment_of("version 1"), TREE, "analytical"))
    runs.append(("version 2 delays", experiment_of("version 2, custom"), TREE, "analytical"))
    wanted, files = [], []
    for number, (_, experiment, folder, backend) in enumerate(runs):
        found, count = whole(prepared_of(experiment, backend, folder), tmp_path / "whole.h5", backend)
        path = tmp_path / f"{number}.checkpoint"
        left(prepared_of(experiment, backend, folder), path, int(rng.integers(count)), backend)
        wanted.append(found)
        files.append((path, backend))
    resumed(*files)
    for (name, *_), found, (path, _) in zip(runs, wanted, files, strict=True):
        try:
            assert_same(everything_in(Path(f"{path}.h5")), found)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


@st.composite
def experiments(draw: st.DrawFn) -> dict[str, Any]:
    system: dict[str, Any] = {
        "chunks": draw(st.integers(1, 4)),
        "active_chunks": draw(st.integers(1, 2)),
        "intra_dimension": draw(st.sampled_from(["FIFO", "RG", "smallest-first", "fewest-phases-first"])),
        "endpoint_delay": f"{draw(st.integers(0, 20))} ns",
    }
    tables: dict[str, Any] = {"network": draw(networks(most=8, dims=2)), "output": {"window": "50 ns"}}
    kind = draw(st.sampled_from(["all-reduce", "all-gather", "all-to-all", "reduce-scatter"]))
    tables |= collective(kind, f"{draw(st.integers(1, 600))} B", system=system)
    tables["output"]["attribution"] = draw(st.sampled_from(["off", "links", "messages"]))
    return tables


@settings(max_examples=part_of(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(experiments(), st.sampled_from(["packet", *DELAYS]), st.integers(0, 2**20), st.integers(0, 2**20))
def test_random_experiments_left_twice(
    tmp_path: Path, tables: dict[str, Any], backend: str, first: int, second: int
) -> None:
    if backend != "packet":
        tables["output"].pop("attribution")
    experiment = load_experiment(tables)
    found, count = whole(prepared_of(experiment, backend), tmp_path / "whole.h5", backend)
    path = tmp_path / "run.checkpoint"
    left(prepared_of(experiment, backend), path, first % count, backend)
    _, (prepared, _) = file.read(path)
    boundaries = Boundaries(second % count)
    again = simulate(
        prepared,
        backend=backend,
        hooks=ProgressHooks(checkpoints=CheckpointWriter(str(path), math.inf, stop_requested=boundaries)),
    )
    if not again.complete:  # left a second time
        _, (prepared, _) = file.read(path)
        again = simulate(prepared, backend=backend)
    assert_same(everything(again, tmp_path / "again.h5"), found)


@pytest.mark.parametrize("name", ["skips", "messages", "version 1", "replies"])
def test_two_checkpoints_of_one_state_are_equal(tmp_path: Path, name: str) -> None:
    left(prepared_of(experiment_of(name)), tmp_path / "one", 7)
    _, (prepared, _) = file.read(tmp_path / "one")
    for copy in ("two", "three"):
        writer = CheckpointWriter(str(tmp_path / copy), math.inf, warn=pytest.fail)
        writer.start(prepared)
        writer.write()
    two, three = (run_of(tmp_path / copy) for copy in ("two", "three"))
    assert two == three


def run_of(path: Path) -> bytes:
    """The bytes of the run alone: the head has the time."""
    data = path.read_bytes()
    begin, size = file.LENGTHS.unpack(data[len(file.MAGIC) : file.BEGIN])
    return data[file.BEGIN + begin : file.BEGIN + begin + size]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checkpoint") / "run.checkpoint"
    left(prepared_of(experiment_of("all cycles")), path, 5)
    return path


def test_what_the_head_tells(checkpoint: Path) -> None:
    head, (prepared, _) = file.read(checkpoint)
    assert head["cycle"] == prepared.network.now
    assert 'kind = "all-to-all"' in head["experiment"]
    assert prepared.resume_info.resumed == 0
    assert not file.part_of(checkpoint).exists()


@settings(max_examples=part_of(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1, exclude_max=True), bits=st.integers(1, 255))
def test_a_damaged_byte_is_refused(checkpoint: Path, tmp_path: Path, place: float, bits: int) -> None:
    data = bytearray(checkpoint.read_bytes())
    data[int(place * len(data))] ^= bits
    (tmp_path / "damaged").write_bytes(data)
    with pytest.raises(InputError, match=r"damaged|not a checkpoint|the end of the checkpoint is missing"):
        file.read(tmp_path / "damaged")


@pytest.mark.parametrize("share", [0.0, 0.00001, 0.01, 0.5, 0.999999])
def test_a_truncated_one_is_refused(checkpoint: Path, tmp_path: Path, share: float) -> None:
    data = checkpoint.read_bytes()
    (tmp_path / "short").write_bytes(data[: int(share * len(data))])
    with pytest.raises(InputError, match=r"not a checkpoint|the end of the checkpoint is missing"):
        file.read(tmp_path / "short")


def test_of_another_build(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "build", lambda: "another")
    with pytest.raises(InputError, match=r"it was written by pyxsim .*, build \w+, but this is .*build another"):
        file.read(checkpoint)


def test_of_other_files_on_the_shelves(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "shelves", lambda libraries: "others")
    with pytest.raises(InputError, match="a file of the shelves has changed since"):
        file.read(checkpoint)


def test_a_run_that_cannot_be_written_goes_on(tmp_path: Path) -> None:
    prepared, told = prepared_of(experiment_of("links")), []
    writer = CheckpointWriter(str(tmp_path / "run"), 0, context=lambda: None, warn=told.append)
    assert simulate(prepared, hooks=ProgressHooks(checkpoints=writer)).complete
    assert len(told) == 1
    assert "this run writes no checkpoints" in told[0]
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, told = tmp_path / "run", []
    left(prepared_of(experiment_of("links")), path, 3)
    before = path.read_bytes()
    _, (prepared, _) = file.read(path)
    monkeypatch.setattr(file.os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    writer = CheckpointWriter(str(path), math.inf, warn=told.append)
    writer.start(prepared)
    writer.write()
    assert told == [f"{path}: the checkpoint cannot be written: No space left on device"]
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["run"]


@pytest.mark.slow
def test_killed_at_random_times_by_the_system(tmp_path: Path) -> None:
    tables = 'topology = "torus"\nshape = [4, 4, 4]\nlatency = "100 ns"\n[collective]\nkind = "all-reduce"'
    (tmp_path / "big.toml").write_text(f'[network]\n{tables}\nsize = "64 MiB"\n[run]\nskip = false\n')
    command = [sys.executable, "-m", "pyxsim"]
    run = [*command, "run", "big.toml", "--quiet", "--checkpoint", "0.2 s", "-o"]

    def begin(words: list[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(words, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(TREE)})

    assert begin([*run, "whole.h5"]).wait() == 0
    rng, words, kills = np.random.default_rng(5), [*run, "out.h5"], 0
    while True:
        process = begin(words)
        try:
            assert process.wait(timeout=2 + rng.random() + 0.2 * kills) == 0  # longer: it must come to an end
            break
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
        if (tmp_path / "out.h5.checkpoint").exists():
            words = [*command, "resume", "out.h5.checkpoint", "--quiet"]
    assert kills > 1
    assert_same(everything_in(tmp_path / "out.h5"), everything_in(tmp_path / "whole.h5"))
    assert {each.name for each in tmp_path.iterdir()} == {"big.toml", "whole.h5", "out.h5"}
