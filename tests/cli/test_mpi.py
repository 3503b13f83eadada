"""`mpiexec -n K pyxsim run FILE --mpi`: the result equals that of one process to the bit, and an error ends all ranks.

tests/core/test_ranks.py compares many more networks, without MPI.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import pyxsim
from pyxsim.cli.app import main
from pyxsim.errors import InputError
from pyxsim.network.packet import mpi_world
from pyxsim.runner.checkpoint.context import CheckpointContext
from pyxsim.runner.lifecycle import run_experiment
from pyxsim.runner.packet_watch import PacketWatch
from pyxsim.settings import load_experiment, resolved_toml
from tests.cli.inputs import DEADLOCK, Command

RANKS = Path(__file__).parent / "mpi_ranks.py"
MPIEXEC = shutil.which("mpiexec", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
with_mpi = pytest.mark.skipif(
    MPIEXEC is None or importlib.util.find_spec("mpi4py") is None, reason="mpi4py or mpiexec is missing"
)
PATIENCE = 120  # seconds

TORUS = {"topology": "torus", "shape": [4, 4], "bandwidth": "64 GB/s", "flit": "64 B", "packet": "320 B"}
NEAR = {
    **TORUS,
    "latency": "2 cycles",
    "router": {"pipeline": "booksim", "vcs": 4, "buffer": 8, "watchdog": 150},
}  # L = 3
FAR = {**TORUS, "latency": "50 cycles", "router": {"vcs": 2, "buffer": "auto"}}
LOAD = {"pattern": "uniform", "load": 0.3, "packet_flits": 5, "warmup": 100, "measure": 400}
WINDOW = {"output": {"window": "70 cycles"}}
EXPERIMENTS: dict[str, dict[str, Any]] = {
    "near": {"network": NEAR, "traffic": LOAD, **WINDOW},
    "far": {"network": FAR, "traffic": {**LOAD, "load": 0.1}},
    "batch": {"network": NEAR, "traffic": {"pattern": "transpose", "batch": {"size": 20}, "packet_flits": 3}},
    "ring": {"network": NEAR, "collective": {"kind": "all-reduce", "size": "8 KiB", "algorithm": "ring"}, **WINDOW},
    "background": {
        "network": NEAR,
        "traffic": {"pattern": "uniform", "load": 0.1, "packet_flits": 2},
        "collective": {"kind": "all-gather", "size": "4 KiB"},
    },
    "direct": {
        "network": FAR,
        "collective": [
            {"kind": "all-to-all", "size": "4 KiB", "algorithm": "direct"},
            {"kind": "all-gather", "size": "2 KiB", "at": "300 cycles"},
        ],
    },
}


def random_experiment(seed: int) -> dict[str, Any]:
    """A small network with options and traffic that depend on the seed."""
    draw = random.Random(seed)
    router = {
        "vcs": draw.choice([4, 6]),
        "buffer": draw.choice([6, 8]),
        "routing": draw.choice(["dimension-order", "dimension-order", "valiant"]),
        "flow_control": draw.choice(["wormhole", "wormhole", "virtual-cut-through", "store-and-forward"]),
        "vc_reuse": draw.choice(["tail", "drained"]),
        "pipeline": draw.choice(["booksim", "garnet"]),
    }
    network = {**TORUS, "topology": draw.choice(["torus", "mesh"]), "shape": draw.choice([[8], [3, 4], [2, 2, 2]])}
    network |= {"latency": draw.choice(["1 cycles", "2 cycles", "20 cycles"]), "router": router}
    if seed % 2:
        kind = draw.choice(["all-reduce", "all-gather", "all-to-all"])
        work: dict[str, Any] = {"collective": {"kind": kind, "size": draw.choice(["1 KiB", "6 KiB"])}}
    else:
        work = {"traffic": {**LOAD, "load": draw.choice([0.05, 0.2]), "packet_flits": draw.choice([1, 5])}}
    return {"network": network, "output": {"seed": seed, "window": draw.choice(["50 cycles", "1000 cycles"])}, **work}


def mpiexec(count: int, *words: str) -> subprocess.CompletedProcess[str]:
    assert MPIEXEC is not None
    command = [MPIEXEC, "-n", str(count), sys.executable, *words]
    paths = {"PYTHONPATH": os.pathsep.join([str(RANKS.parents[2]), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run(
        command, env={**os.environ, **paths}, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


@pytest.fixture(scope="module")
def experiments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with experiments, and the files of their results in one process."""
    folder = tmp_path_factory.mktemp("mpi")
    chosen = EXPERIMENTS | {f"random{seed}": random_experiment(seed) for seed in range(6)}
    for name, experiment in chosen.items():
        (folder / f"{name}.toml").write_text(resolved_toml(load_experiment(experiment)), encoding="utf-8")
    (folder / "stuck.toml").write_text(DEADLOCK, encoding="utf-8")
    for file in folder.glob("*.toml"):
        words = ["run", str(file), "--allow-deadlock", "--no-skip", "--quiet", "-o", str(file.with_suffix(".h5"))]
        assert main(words) == (3 if file.stem == "stuck" else 0), file.stem
    return folder


@with_mpi
@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_files_are_equal(experiments: Path, count: int) -> None:
    ended = mpiexec(count, str(RANKS), str(experiments))
    files = sorted(experiments.glob("*.toml"))
    assert ended.stdout.splitlines() == [f"{file.stem} {3 if file.stem == 'stuck' else 0}" for file in files], ended
    assert [line[:23] for line in ended.stderr.splitlines()] == ["pyxsim: deadlock in cyc"]
    for file in files:
        different = pyxsim.diff(file.with_suffix(".h5"), experiments / f"{file.stem}-{count}.h5")
        assert different.equal, (file.stem, different.differences[:3])


@with_mpi
def test_one_rank_prints(experiments: Path) -> None:
    ended = mpiexec(2, "-m", "pyxsim", "run", str(experiments / "near.toml"), "--mpi", "--json")
    data = json.loads(ended.stdout)
    assert (ended.returncode, ended.stderr, data["ranks"], data["threads"]) == (0, "", 2, 1)
    assert data["not_skipped"] == "open traffic does not repeat"
    ended = mpiexec(2, "-m", "pyxsim", "run", str(experiments / "absent.toml"), "--mpi")
    assert (ended.returncode, len(ended.stderr.splitlines())) == (2, 1)
    ended = mpiexec(2, "-m", "pyxsim", "run", str(experiments / "near.toml"), "--mpi", "-o", "/absent/x.h5")
    assert (ended.returncode, len(ended.stderr.splitlines())) == (2, 1)


@with_mpi
def test_one_rank_is_a_run_as_usual(experiments: Path) -> None:
    ended = mpiexec(1, "-m", "pyxsim", "run", str(experiments / "ring.toml"), "--mpi", "--json")
    data = json.loads(ended.stdout)
    assert (ended.returncode, ended.stderr, data["complete"], "ranks" in data) == (0, "", True, False)


@with_mpi
def test_too_many_ranks(experiments: Path) -> None:
    ended = mpiexec(3, "-m", "pyxsim", "run", str(experiments / "near.toml"), "--mpi", "--set", "network.shape=[2]")
    line = "pyxsim: --mpi: 3 ranks cannot divide this network; allowed: up to 2 ranks here"
    assert (ended.returncode, ended.stderr.splitlines()) == (2, [line])


@with_mpi
@pytest.mark.parametrize("failing", [0, 1])
def test_no_rank_waits_for_a_failed_one(experiments: Path, failing: int) -> None:
    begin = time.monotonic()
    ended = mpiexec(2, str(RANKS), str(experiments), str(failing))
    assert ended.returncode
    said = [line for line in ended.stderr.splitlines() if line.startswith("pyxsim: ")]
    assert said == [f"pyxsim: {'rank 1: ' if failing else ''}disk: Input/output error"]
    assert time.monotonic() - begin < PATIENCE / 2


@pytest.mark.parametrize(
    ("setting", "key"),
    [
        ("run.threads=2", "run.threads"),
        ("run.checkpoint=60 s", "run.checkpoint"),
        ("output.attribution=links", "output.attribution"),
    ],
)
def test_what_excludes_mpi(setting: str, key: str) -> None:
    with pytest.raises(InputError, match="exclude") as error:
        pyxsim.run(EXPERIMENTS["ring"], overrides=["run.mpi=true", setting])
    assert error.value.key == key


def test_other_backends_have_no_mpi() -> None:
    with pytest.raises(InputError, match=r"'flow' does not use MPI.*allowed: packet"):
        pyxsim.run(EXPERIMENTS["ring"], overrides=["run.mpi=true"], backend="flow")


def test_a_watched_packet_excludes_mpi() -> None:
    experiment = load_experiment(EXPERIMENTS["ring"], ["run.mpi=true"])
    with pytest.raises(InputError, match=r"excludes run\.mpi") as error:
        run_experiment(experiment, context=CheckpointContext(packet_watch=PacketWatch.read("3")))
    assert error.value.key == "--watch"


def test_without_mpi4py(pyxsim: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    mpi_world.mpi_world.cache_clear()
    ended = pyxsim("run", "small.toml", "--mpi")
    line = "pyxsim: --mpi: mpi4py is not installed; allowed: after pip install 'pyxsim[mpi]'"
    assert (ended.code, ended.err.splitlines()) == (2, [line])


def test_a_curve_has_no_mpi() -> None:
    with pytest.raises(InputError, match="this command does not use MPI") as error:
        pyxsim.curve(EXPERIMENTS["near"], overrides=["run.mpi=true"])
    assert error.value.key == "run.mpi"


def test_a_comparison_has_no_mpi(pyxsim: Command) -> None:
    ended = pyxsim("compare", "small.toml", "--set", "run.mpi=true")
    assert (ended.code, len(ended.err.splitlines())) == (2, 1), ended
