from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import h5py
import numpy as np
import pytest

from pyxsim.errors import InputError
from pyxsim.registry import datasets
from pyxsim.results import check_writable, hdf5_check
from pyxsim.results.hdf5 import ENDS, put_file
from pyxsim.results.provenance import settings_sha256
from pyxsim.results.result import COUNTERS, Result
from pyxsim.results.sweep import read_summary

xr = pytest.importorskip("xarray")

ENGINES = ("h5netcdf", "netcdf4", None)
GROUPS = ("links", "links_total", "chunks", "collectives")
MORE = ("point_to_point", "dimensions", "phases")  # only there when there is something in them


@pytest.fixture
def saved(result: Result, tmp_path: Path) -> Path:
    path = tmp_path / "out.h5"
    result.save(path)
    return path


@pytest.mark.parametrize("engine", ENGINES)
def test_links_open_in_xarray(saved: Path, result: Result, engine: str | None) -> None:
    with xr.open_dataset(saved, group="links", engine=engine) as links:
        assert links.sizes == {"time": 3, "link": 4}
        assert int(links.flits.sum()) == result.counts["flit_hops"] == 132
        assert set(links.coords) == {
            *("time", "link", "name", "src", "dst", "dim", "bandwidth", "latency", "cycles_per_flit")
        }
        assert links.time.dtype == np.int64  # cycles, not dates
        assert links.time.values.tolist() == [0, 100, 200]
        assert links.name.values.tolist() == result.links.name
        assert links.latency.values.tolist() == [500] * 4
        assert links.stall_credit.sel(time=0).values.tolist() == [0, 7, 0, 0]
        assert links.buffer_max.values.tolist() == [4, 1, 0, 32]
        assert links.flits.attrs["units"] == "flits"
        assert links.attrs["window_cycles"] == 100
        assert int(links.busy.sel(link=3).sum()) == 60


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("which", ["result", "empty"])
def test_every_group_is_what_the_result_shows(
    which: str, group: str, engine: str | None, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    result: Result = request.getfixturevalue(which)
    result.save(tmp_path / "out.h5")
    expected = datasets.get(group).table(result).to_xarray()
    with xr.open_dataset(tmp_path / "out.h5", group=group, engine=engine) as dataset:
        xr.testing.assert_equal(dataset.load(), expected)
        for name, variable in dataset.variables.items():
            assert variable.attrs == expected[name].attrs
            assert variable.dtype.kind == expected[name].dtype.kind or variable.dtype.kind in "OTU"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("which", ["result", "empty"])
def test_datatree(which: str, engine: str | None, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(which).save(tmp_path / "out.h5")
    with xr.open_datatree(tmp_path / "out.h5", engine=engine) as tree:
        assert set(tree.children) == {*GROUPS, *(MORE if which == "result" else ())}
        assert tree["links_total"].sizes["link"] == tree["links"].sizes["link"]


def test_links_to_xarray_is_the_group(saved: Path, result: Result) -> None:
    with xr.open_dataset(saved, group="links") as links:
        xr.testing.assert_equal(links.load(), result.links.to_xarray())


def test_layers_only_when_there_are(build: Callable[..., Result], tmp_path: Path) -> None:
    result = build(layers={"forward": np.array([3, 4]), "name": np.array(["a", "b"], dtype=object)})
    result.save(tmp_path / "out.h5")
    with xr.open_dataset(tmp_path / "out.h5", group="layers") as layers:
        assert layers.forward.values.tolist() == [3, 4]
    loaded = Result.load(tmp_path / "out.h5")
    assert loaded.layers["forward"].tolist() == [3, 4]
    assert loaded.layers["name"].tolist() == ["a", "b"]


def test_root_attributes(saved: Path, result: Result) -> None:
    with h5py.File(saved) as file:
        attrs = dict(file.attrs)
    assert attrs["Conventions"] == "CF-1.11"
    assert attrs["source"] == f"pyxsim {attrs['version']}"
    assert attrs["experiment"] == result.experiment_toml
    assert attrs["sha256"] == settings_sha256(result.experiment_toml)
    assert attrs["seed"] == 7
    assert attrs["clock_hz"] == 10**9
    assert attrs["complete"] == 1
    assert attrs["created"].endswith("+00:00")
    assert json.loads(attrs["summary"]) == result.json()
    assert json.loads(attrs["warnings"]) == result.warnings
    with xr.open_dataset(saved, engine="netcdf4") as root:
        assert root.attrs["complete"] == 1


def test_storage(build: Callable[..., Result], tmp_path: Path) -> None:
    """No NumPy bool (an enum in HDF5), chunks (1024, 64), gzip 4 with shuffle from 1 KiB, scales everywhere."""
    rows, links = 1500, 4
    flits = np.ones((rows, links), dtype=np.uint64)
    base = build()
    windows = type(base.windows)(np.arange(rows) * 10, 10, {"flits": flits})
    build(time_cycles=rows * 10, windows=windows, totals={"flits": flits.sum(axis=0)}).save(tmp_path / "out.h5")
    found, sizes = [], set()

    def look(name: str, item: h5py.Dataset | h5py.Group) -> None:
        if isinstance(item, h5py.Dataset):
            found.append(name)
            assert h5py.check_enum_dtype(item.dtype) is None
            if not item.is_scale:
                assert all(len(dim) == 1 for dim in item.dims)
            if item.dtype.kind != "O":
                storage = ("gzip", 4, True) if item.nbytes > 1024 else (None, None, False)
                assert (item.compression, item.compression_opts, item.shuffle) == storage
                sizes.add(item.nbytes > 1024)

    with h5py.File(tmp_path / "out.h5") as file:
        file.visititems(look)
        assert file["links/flits"].chunks == (1024, 4)
        assert file["links/flits"].dtype == np.uint32
        assert not any(isinstance(value, np.bool_) for value in file.attrs.values())
    assert len(found) > 40
    assert sizes == {True, False}


def test_counts_beyond_32_bits(build: Callable[..., Result], tmp_path: Path) -> None:
    base = build()
    flits = base.windows.counts["flits"] + np.uint64(2**40)
    windows = type(base.windows)(base.windows.start, 100, {"flits": flits})
    result = build(windows=windows, totals={"flits": flits.sum(axis=0)})
    result.save(tmp_path / "out.h5")
    assert Result.load(tmp_path / "out.h5").windows.counts["flits"].tolist() == flits.tolist()


@pytest.mark.parametrize("which", ["result", "empty"])
def test_load_gives_back_what_was_saved(which: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    result: Result = request.getfixturevalue(which)
    result.save(tmp_path / "out.h5")
    loaded = Result.load(tmp_path / "out.h5")
    assert loaded.json() == result.json()
    assert loaded.clock_hz == result.clock_hz
    assert loaded.complete == result.complete
    assert loaded.title == result.title
    assert loaded.dimension_names == result.dimension_names
    assert loaded.counts == result.counts
    assert loaded.collectives == result.collectives
    assert loaded.warnings == result.warnings
    assert loaded.provenance == result.provenance
    assert loaded.links.name == result.links.name
    for column in ("src", "dst", "dim", "bandwidth", "latency", "s_num", "s_den"):
        assert getattr(loaded.links, column).tolist() == getattr(result.links, column).tolist()
    for name in COUNTERS:
        assert loaded.totals[name].tolist() == result.totals[name].tolist()
        assert loaded.windows.counts[name].tolist() == result.windows.counts[name].tolist()
        assert loaded.windows.counts[name].dtype == np.uint64
    assert loaded.busy.tolist() == result.busy.tolist()
    assert {n: c.tolist() for n, c in loaded.chunks.items()} == {n: c.tolist() for n, c in result.chunks.items()}


def test_odd_numbers_survive(build: Callable[..., Result], tmp_path: Path) -> None:
    """A clock that is no integer, no bound, a seed of more than 64 bits, an interrupted run."""
    row = {"start": 0, "end": 5, "bytes": 1, "lower_bound": None, "ratio": None}
    result = build(clock_hz=Fraction(10**9, 3), lower_bound_ns=None, seed=2**70, complete=False, collectives=[row])
    result.save(tmp_path / "out.h5")
    loaded = Result.load(tmp_path / "out.h5")
    assert loaded.clock_hz == Fraction(10**9, 3)
    assert loaded.time_ns == 750
    assert loaded.lower_bound_ns is None
    assert loaded.seed == 2**70
    assert loaded.complete is False
    assert loaded.collectives == [row]
    with xr.open_dataset(tmp_path / "out.h5", group="collectives") as table:
        assert np.isnan(table.lower_bound.values).all()


def test_long_experiment(build: Callable[..., Result], tmp_path: Path) -> None:
    """HDF5 limits an attribute to 64 KiB where it is stored in the wrong way."""
    text = "# long\n" * 20000
    build(experiment_toml=text).save(tmp_path / "out.h5")
    assert Result.load(tmp_path / "out.h5").experiment_toml == text
    with xr.open_dataset(tmp_path / "out.h5", engine="netcdf4") as root:
        assert len(root.attrs["experiment"]) == len(text)


def test_save_replaces_in_one_step(saved: Path, build: Callable[..., Result]) -> None:
    with h5py.File(saved) as old:  # a reader keeps what it has opened
        build(seed=8).save(saved)
        assert old.attrs["seed"] == 7
    assert Result.load(saved).seed == 8
    assert os.listdir(saved.parent) == ["out.h5"]


def test_save_follows_a_link(result: Result, tmp_path: Path) -> None:
    (tmp_path / "link.h5").symlink_to("real.h5")
    result.save(tmp_path / "link.h5")
    assert (tmp_path / "link.h5").is_symlink()
    assert (tmp_path / "real.h5").is_file()


def test_missing_folder_is_told_and_not_made(result: Result, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "link.h5").symlink_to("gone/real.h5")
    for name, missing, near in (
        ("reslts/out.h5", "reslts", "; did you mean 'results'?"),
        ("a/b/out.h5", "a/b", ""),
        ("link.h5", "gone", ""),
    ):
        path = tmp_path / name
        for attempt in (check_writable, result.save):
            with pytest.raises(InputError) as caught:
                attempt(path)
            told = str(caught.value)
            assert told.endswith(f"there is no folder '{tmp_path / missing}'; allowed: an existing folder{near}")
            assert told.partition(": ")[0] in (str(path), str(tmp_path / missing / "real.h5"))
    assert sorted(os.listdir(tmp_path)) == ["link.h5", "results"]


@pytest.mark.parametrize("end", ENDS)
def test_endings_of_hdf5(result: Result, tmp_path: Path, end: str) -> None:
    for name in (f"out{end}", f"OUT{end.upper()}"):
        result.save(tmp_path / name)
        assert Result.load(tmp_path / name).seed == 7


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("out.txt", "a result cannot be written as '.txt'; allowed: .h5, .hdf5, .nc"),
        ("out.JSON", "a result cannot be written as '.JSON'; allowed: .h5, .hdf5, .nc"),
        ("out.hdf", "; allowed: .h5, .hdf5, .nc; did you mean '.hdf5'?"),
        ("load-0.5", "a result cannot be written as '.5'"),
        ("out", "the file name of a result has no extension; allowed: .h5, .hdf5, .nc"),
    ],
)
def test_other_endings_are_refused(result: Result, tmp_path: Path, name: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        result.save(tmp_path / name)
    assert says in str(caught.value)
    assert os.listdir(tmp_path) == []


def test_unwritable_paths(result: Result, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    for path, text in [
        (tmp_path, "it is a folder"),
        (tmp_path / "file" / "out.h5", "cannot be written"),
        (Path("/dev/null"), "not a regular file"),
        (tmp_path / ("x" * 300), "cannot be written"),
        (tmp_path / "file" / "out.h5", "is not a folder; allowed: an existing folder"),
    ]:
        for attempt in (check_writable, result.save):
            with pytest.raises(InputError, match=text) as caught:
                attempt(path)
            assert str(path) in str(caught.value)
            assert "\n" not in str(caught.value)
    assert (tmp_path / "file").read_text() == "no folder"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_protected_paths(result: Result, tmp_path: Path) -> None:
    (tmp_path / "out.h5").touch(0o400)
    with pytest.raises(InputError, match="write-protected"):
        result.save(tmp_path / "out.h5")
    (tmp_path / "folder").mkdir(0o500)
    with pytest.raises(InputError, match="denied"):
        result.save(tmp_path / "folder" / "out.h5")


def test_the_next_writer_replaces_what_a_killed_one_left(tmp_path: Path) -> None:
    target = tmp_path / "out.h5"
    pid = os.fork()
    if pid == 0:
        os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
        put_file(target, b"longer than the second one")
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert len(os.listdir(tmp_path)) == 1
    put_file(target, b"second")
    assert os.listdir(tmp_path) == ["out.h5"]
    assert target.read_bytes() == b"second"


@pytest.mark.parametrize("ends", [True, False])
def test_writers_of_one_file_do_not_disturb_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    """A second one writes while the first one is about to rename; `ends`: the first one succeeds."""
    target, replace = tmp_path / "out.h5", os.replace

    def slow(part: Path, path: Path) -> None:
        monkeypatch.setattr(os, "replace", replace)
        put_file(target, b"second")
        if not ends:
            raise OSError(errno.ENOSPC, "full")
        replace(part, path)

    monkeypatch.setattr(os, "replace", slow)
    if ends:
        put_file(target, b"first")
    else:
        with pytest.raises(InputError, match="cannot be written"):
            put_file(target, b"first")
    assert os.listdir(tmp_path) == ["out.h5"]
    assert target.read_bytes() == (b"first" if ends else b"second")


def test_full_disk_is_one_line_and_leaves_the_old_file(saved: Path, tmp_path: Path) -> None:
    """A limit on file size stands for a full disk: both are errors of write(2). In a process of its own, because the
    limit cannot be lifted again and HDF5 must also get through its clean-up at exit."""
    program = f"""
import resource, signal, sys
from pyxsim.errors import InputError
from pyxsim.results import Result
result = Result.load({str(saved)!r})
result.experiment_toml = "#" * 1_000_000
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    result.save({str(saved)!r})
except InputError as error:
    print(error)
    sys.exit(2)
"""
    # Without coverage, which writes its data at exit and would hit the limit, too.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "cannot be written" in done.stdout
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
    assert Result.load(saved).seed == 7
    assert os.listdir(tmp_path) == ["out.h5"]


def test_the_structure_is_checked_in_a_fork(
    forked_checks: None, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a file on which the library crashes, or never returns, is one line."""
    assert Result.load(saved).seed == 7
    with h5py.File(tmp_path / "linked.h5", "w") as file:
        file["x"] = h5py.ExternalLink(str(saved), "/links")
    with pytest.raises(InputError, match=r"linked\.h5: damaged: /x is an external or soft link"):
        Result.load(tmp_path / "linked.h5")
    monkeypatch.setattr(hdf5_check, "SECONDS", 0.2)
    ends = {"crashes": lambda _: os.kill(os.getpid(), signal.SIGKILL), "cannot be read in": lambda _: signal.pause()}
    for problem, end in ends.items():
        monkeypatch.setattr(hdf5_check, "inspect", end)
        saved = saved.rename(saved.with_stem(problem.split()[0]))  # not the file that is known to be sound
        with pytest.raises(InputError, match=problem):
            Result.load(saved)


def test_load_refuses_other_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.h5: no such file"):
        Result.load(tmp_path / "none.h5")
    (tmp_path / "text.h5").write_text("hello")
    with pytest.raises(InputError, match="not a readable HDF5"):
        Result.load(tmp_path / "text.h5")
    with pytest.raises(InputError):
        Result.load(tmp_path)
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = 1
    with pytest.raises(InputError, match="not a result that this version of pyxsim can read"):
        Result.load(tmp_path / "other.h5")


def test_kinds_and_failures_come_back(build: Callable[..., Result], tmp_path: Path) -> None:
    build(link_kinds=["local", "global"], complete=False, failure="deadlock in cycle 40").save(tmp_path / "out.h5")
    back = Result.load(tmp_path / "out.h5")
    assert (back.link_kinds, back.failure) == (["local", "global"], "deadlock in cycle 40")


def test_files_with_the_former_names_of_the_lower_bound_load(saved: Path, result: Result) -> None:
    with h5py.File(saved, "r+") as file:
        file["collectives"].move("lower_bound", "bound")
        for name in ("record", "summary"):
            file.attrs[name] = file.attrs[name].replace('"lower_bound_ns"', '"bound_ns"')
    loaded = Result.load(saved)
    assert loaded.lower_bound_ns == result.lower_bound_ns == 200
    assert loaded.collectives[0]["lower_bound"] == 200
    assert read_summary(saved)["lower_bound_ns"] == 200
