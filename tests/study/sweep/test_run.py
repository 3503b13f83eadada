"""A sweep runs every point once, whoever runs it, and however often it is broken off."""

from __future__ import annotations

import os
import signal
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

import pyxsim
from pyxsim.errors import InputError
from pyxsim.results.result import HOW_IT_RAN
from pyxsim.results.sweep import Sweep, read
from pyxsim.study.sweep import Standing, sweep
from pyxsim.study.sweep.folder import Folder
from tests import fork_server
from tests.study.sweep.small import LOAD, LOADS, RING, SWEEP, TEXT, VCS, ended, keys, started

# A network that ends its process when it is built: the first `times` times, as told by a file.
BOMB = """
import os, signal
from pathlib import Path
from pyxsim.errors import InputError
from pyxsim.registry import topologies
from pyxsim_library.topologies.ring import ring_network

@topologies.register("bomb")
def bomb(shape, number=0, times=0, refuse=False):
    if refuse:
        raise InputError("is not to be built", key="network.options.refuse", allowed="false")
    count = Path(__file__).parents[2] / f"count{number}"
    with count.open("a") as file:
        file.write("x")
    if count.stat().st_size <= times:
        os.kill(os.getpid(), signal.SIGKILL)
    return ring_network(shape)
"""


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """Run by one process, at once."""
    return sweep(SWEEP, tmp_path_factory.mktemp("sweep") / "once", workers=1)


def table(found: Sweep) -> bytes:
    return (found.folder / "table.csv").read_bytes()


def test_a_typed_experiment_sweeps_nothing_until_its_tables_do(tmp_path: Path) -> None:
    """It warns and runs its one point; docs/python.md says how to sweep it."""
    experiment = pyxsim.Experiment(
        network=pyxsim.Torus([4, 2]), collective=pyxsim.Collective(kind="all-reduce", size="1 KiB")
    )
    with pytest.warns(RuntimeWarning, match="only one point: the experiment sweeps nothing"):
        assert len(sweep(experiment, tmp_path / "one", workers=1)) == 1
    tables = {**tomllib.loads(experiment.to_toml()), "sweep": {"system.chunks": [1, 2]}}
    points = sweep(tables, tmp_path / "two", workers=1).points
    expected = [pyxsim.run(experiment, overrides=[f"system.chunks={chunks}"]).time_ns for chunks in (1, 2)]
    assert [point.result().time_ns for point in points] == expected


def test_a_point_is_what_run_gives(once: Sweep) -> None:
    assert once.complete
    assert [dict(point.changed) for point in once.points] == [{VCS: v, LOAD: x} for v in (2, 4) for x in LOADS]
    for point in once.points[1::9]:
        alone = pyxsim.run(RING, overrides=[f"{name}={value}" for name, value in point.changed.items()])
        numbers = {name: value for name, value in alone.json().items() if isinstance(value, int | float)}
        assert point.values == {name: value for name, value in numbers.items() if name not in HOW_IT_RAN}
        assert point.result().totals["flits"].tolist() == alone.totals["flits"].tolist()


def test_the_table_does_not_depend_on_who_runs_it(once: Sweep, tmp_path: Path, new_workers: None) -> None:
    both = sweep(SWEEP, tmp_path / "both", workers=2)
    assert table(both) == table(once)
    assert ended(both.folder) == started(both.folder) == dict.fromkeys(keys(both.folder), 1)


def test_what_is_there_is_not_run_again(once: Sweep) -> None:
    seen: list[Standing] = []
    before = started(once.folder), table(once)
    again = sweep(SWEEP, once.folder, workers=2, progress=seen.append)
    assert (started(again.folder), table(again)) == before
    assert [(standing.done, standing.before) for standing in seen] == [(24, 24)]


def test_more_and_fewer_points(once: Sweep, tmp_path: Path) -> None:
    folder = tmp_path / "begun"
    sweep(SWEEP, folder, workers=1, overrides=[f"{VCS}=2"])
    seen: list[Standing] = []
    found = sweep({**SWEEP, "sweep": {VCS: [2, 4], LOAD: [0.02]}}, folder, workers=1, progress=seen.append)
    assert [point.changed[VCS] for point in found.points] == [2, 4]
    assert (seen[-1].before, seen[-1].unwanted, seen[-1].done) == (1, 11, 2)
    assert table(sweep(SWEEP, folder, workers=1)) == table(once)
    assert set(started(folder).values()) == {1}


def test_the_same_settings_are_run_once(tmp_path: Path) -> None:
    twice = sweep({**RING, "sweep": {"points": [{LOAD: 0.2}, {LOAD: 0.20}]}}, tmp_path / "t", workers=2)
    assert len(twice.points) == 2
    assert twice.complete
    assert sum(started(twice.folder).values()) == 1


def test_a_failure_of_the_system_is_kept_and_the_rest_goes_on(tmp_path: Path) -> None:
    """On a ring without datelines only messages to neighbours are safe."""
    network = {"topology": "garnet-torus", "shape": [4, 1, 1], "router": {"vcs": 1, "buffer": 2, "routing": "ring"}}
    collective = {"kind": "all-reduce", "size": "1 MiB"}
    source = {"network": network, "collective": collective, "sweep": {"system.all_reduce": ["direct", "ring"]}}
    found = sweep(source, tmp_path / "s", workers=1)
    failed, done = found.points
    assert (failed.state, done.state, found.complete) == ("failed", "done", False)
    assert failed.reason.startswith("the routes can deadlock")
    sweep(source, tmp_path / "s", workers=1)
    assert started(tmp_path / "s") == {failed.key: 1, done.key: 1}  # it would fail again
    allowed = sweep(source, tmp_path / "s", workers=1, allow_deadlock=True)
    assert allowed.points[0].reason.startswith("deadlock in cycle")
    assert allowed.points[0].key != failed.key


@pytest.fixture
def library(tmp_path: Path) -> Path:
    shelf = tmp_path / "library" / "topologies"
    shelf.mkdir(parents=True)
    (shelf / "bomb.py").write_text(BOMB)
    return shelf.parent


def bombs(*times: int) -> dict[str, Any]:
    options = [{"number": number, "times": each} for number, each in enumerate(times)]
    network = {**RING["network"], "topology": "bomb"}
    return {**RING, "network": network, "sweep": {"network.options": options, LOAD: [0.1]}}


def test_a_point_whose_process_dies_is_tried_again_and_the_others_go_on(tmp_path: Path, library: Path) -> None:
    # Preparing it beforehand is the first time, the run the second, the retry the third.
    source = bombs(0, 2, 99)
    found = sweep(source, tmp_path / "s", workers=2, libraries=[str(library)])
    assert [point.state for point in found.points] == ["done", "done", "failed"]
    assert found.points[2].reason == "its process was killed, probably because memory ran out"
    assert [started(found.folder)[point.key] for point in found.points] == [1, 2, 2]
    (tmp_path / "count2").write_text("x" * 99)  # now there is room: an accident is tried again
    again = sweep(source, tmp_path / "s", workers=2, libraries=[str(library)])
    assert again.complete
    assert not list((tmp_path / "s" / "points").glob("*.json"))
    assert [started(found.folder)[point.key] for point in found.points] == [1, 2, 3]


def test_what_cannot_be_built_is_told_before_anything_is_run(tmp_path: Path, library: Path) -> None:
    network = {**RING["network"], "topology": "bomb"}
    table = {"network.options": [{}, {"refuse": True}], "network.shape": [[4], [0.5]]}
    with pytest.raises(InputError, match=r'sweep\."network\.shape"\[1\]\[0\]: 0\.5 is not a whole number'):
        sweep({**RING, "network": network, "sweep": table}, tmp_path / "s", libraries=[str(library)])
    table["network.shape"] = [[4], [8]]
    with pytest.raises(InputError, match="is not to be built; allowed: false") as caught:
        sweep({**RING, "network": network, "sweep": table}, tmp_path / "s", workers=2, libraries=[str(library)])
    assert 'sweep."network.options"[1].refuse' in str(caught.value)
    assert not started(tmp_path / "s")


def test_two_sweeps_do_not_share_a_folder(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "s")
    with pytest.raises(InputError, match="another sweep is running in this folder"):
        sweep(SWEEP, tmp_path / "s", workers=1)
    folder.close()
    Folder(tmp_path / "s").close()


def test_a_folder_of_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("all of it")
    with pytest.raises(InputError, match="is a folder with other files, and does not contain a sweep"):
        sweep(SWEEP, tmp_path)
    with pytest.raises(InputError, match="is a file; a sweep writes a folder"):
        sweep(SWEEP, tmp_path / "thesis.tex")
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.tex"]


# The command `pyxsim`, which keeps so many results and then stands still: who means to end it is not too late, however
# long his signal takes.
HELD = """
import sys, time
from pyxsim.cli.app import main
from pyxsim.study.sweep.folder import Folder
left, settle = [None] * int(sys.argv.pop(1)), Folder.settle
def held(*words):
    left.pop() if left else time.sleep(600)
    settle(*words)
Folder.settle = held
sys.exit(main())
"""


class Begun:
    """`pyxsim sweep` as a user begins it, in a process group of its own. It does not get further than ten points."""

    def __init__(self, path: Path, folder: Path) -> None:
        words = ["sweep", str(path), "-o", str(folder), "--workers", "1", "--quiet"]
        words = [sys.executable, "-c", HELD, "10", *words]
        self.folder = folder
        self.process = fork_server.Popen(words, start_new_session=True, stderr=fork_server.PIPE, text=True)

    def at(self, points: int) -> None:
        """Wait until so many points are done."""
        end = time.monotonic() + 60
        while len(ended(self.folder)) < points and self.process.poll() is None:
            assert time.monotonic() < end
            time.sleep(0.002)

    def stop(self, number: int) -> tuple[int, str]:
        os.killpg(self.process.pid, number)
        said = self.process.communicate(timeout=60)[1]
        return self.process.returncode, said


def test_killed_twice_and_resumed(once: Sweep, tmp_path: Path) -> None:
    path, folder = tmp_path / "ring.toml", tmp_path / "killed"
    path.write_text(TEXT)
    assert len(once) == 24
    there = 0
    for _ in range(2):
        begun = Begun(path, folder)
        begun.at(there + 5)
        assert begun.stop(signal.SIGKILL)[0] == -signal.SIGKILL
        there = len(ended(folder))
        assert 0 < there < 24
    begun = Begun(path, folder)
    begun.at(there + 3)
    code, said = begun.stop(signal.SIGINT)
    assert (code, said) == (
        130,
        f"pyxsim: interrupted; {folder} contains the completed points; the same command resumes the sweep\n",
    )
    found = sweep(path, folder, workers=1)
    assert table(found) == table(once)
    assert ended(folder) == dict.fromkeys(keys(folder), 1)
    # Nothing else is begun again but, after each end, the point that was being run and the one before it: the worker
    # begins a point while the result of the last one is written.
    assert sum(started(folder).values()) <= 24 + 3 * 2
    assert not list(folder.rglob("*.part"))


@pytest.mark.slow
def test_a_dask_cluster_gives_the_same_table(once: Sweep, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    found = sweep(SWEEP, tmp_path / "dask", dask="local", workers=1)
    assert table(found) == table(once)
    assert ended(found.folder) == dict.fromkeys(keys(found.folder), 1)


def test_an_address_that_is_none_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    with pytest.raises(InputError, match="dask: no scheduler at 'banana': missing port number"):
        sweep(SWEEP, tmp_path / "dask", dask="banana", workers=1)
    assert not (tmp_path / "dask").exists()


def test_a_scheduler_that_does_not_answer_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("pyxsim.study.sweep.cluster.PATIENCE", "0.2s")
    with pytest.raises(InputError, match=r"dask: no scheduler at '127\.0\.0\.1:1'"):
        sweep(SWEEP, tmp_path / "dask", dask="127.0.0.1:1", workers=1)
    assert not (tmp_path / "dask").exists()


def test_without_dask_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    for address in ("local", "tcp://node:8786"):
        with pytest.raises(InputError, match=r"^dask: a cluster requires Dask: pip install pyxsim\[dask\]$"):
            sweep(SWEEP, tmp_path / "dask", dask=address, workers=1)
    assert not (tmp_path / "dask").exists()


def test_read_sees_a_sweep_that_is_running(once: Sweep) -> None:
    assert read(once.folder).columns() == once.columns()
