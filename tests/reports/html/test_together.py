"""Several files on a page: results side by side, curves, comparisons, sweeps; and what is none of these."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import pyxsim
from pyxsim.errors import InputError
from pyxsim.reports.html import chapters, of_results, save, sweep_chapter
from pyxsim.reports.html.elements import Detail
from pyxsim.reports.html.side_by_side import flattened, names_of
from pyxsim.results import comparison_file
from pyxsim.results.curve import Curve
from pyxsim.results.result import Result
from pyxsim.results.sweep import read
from pyxsim.study.compare import compare, plan_of
from pyxsim.units import time_unit
from tests.reports.html.conftest import TORUS, Page
from tests.reports.html.test_network import numbers


@pytest.fixture(scope="module")
def slower() -> Result:
    """The torus with links of half the bandwidth."""
    return pyxsim.run(TORUS, overrides=["network.bandwidth=50 GB/s"])


@pytest.fixture(scope="module")
def both(torus: Result, slower: Result, show: Callable[..., Any]) -> Any:
    return show(torus, slower)


def test_what_differs_stands_out(both: Any, torus: Result, slower: Result) -> None:
    rows = {row[0]: row[1:] for row in both.tables["Side by side"][1:]}
    assert rows["network"] == ["8 NPUs", "8 NPUs"]
    assert rows["of the lower bound"] == [f"{result.ratio:.3f} x" for result in (torus, slower)]
    assert both.tables["Settings that differ"] == [["", "0.h5", "1.h5"], ["network.bandwidth", "100 GB/s", "50 GB/s"]]
    marked = [attrs for tag, attrs in both.tags if tag == "td" and "marked" in str(attrs.get("class"))]
    assert marked
    text = " ".join(both.words)
    assert f"1.h5 took {slower.time_ns / torus.time_ns:.3f} times as long." in text


def test_lines_of_all_files_have_one_axis(both: Any, torus: Result, slower: Result) -> None:
    lines = both.figures["All links over time"]["data"]
    for line, result in zip(lines, (torus, slower), strict=True):
        x, y = numbers(line["x"]), numbers(line["y"])
        assert x[-1] == pytest.approx(result.time_ns / 1000)
        # The area below is all that was sent.
        assert (np.diff(x) * y[:-1]).sum() * 1000 == pytest.approx(result.busy.sum() / len(result.links))


def test_networks_stand_side_by_side(both: Any, torus: Result) -> None:
    for name, figure in both.figures.items():
        if name.endswith(".h5"):
            assert "frames" not in figure or not figure["frames"]
            assert len(figure["data"][0]["geojson"]["features"]) == len(torus.links)


def test_the_same_twice(torus: Result, show: Callable[..., Any]) -> None:
    shown = show(torus, torus)
    text = " ".join(shown.words)
    assert "All took the same time." in text
    assert "None; the experiments are the same." in text


def test_several_may_be_fastest(torus: Result, slower: Result, show: Callable[..., Any]) -> None:
    text = " ".join(show(torus, slower, torus).words)
    times = slower.time_ns / torus.time_ns
    assert f"0.h5, 2.h5 were fastest, in the same time; 1.h5 took {times:.3f} times as long." in text


def test_results_in_memory_have_names(torus: Result, slower: Result, tmp_path: Path) -> None:
    save(of_results({"quick": torus, "slow": slower}), tmp_path / "page.html")
    shown = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert shown.tables["Settings that differ"][0] == ["", "quick", "slow"]
    (alone,) = of_results({"quick": torus})
    assert alone.title == torus.title


def test_an_interrupted_one_is_named(torus: Result, build: Callable[..., Result], show: Callable[..., Any]) -> None:
    shown = show(torus, build(complete=False))
    assert any("1.h5 is incomplete" in word for word in shown.words)


def test_latencies_are_shares_that_took_no_longer(show: Callable[..., Any]) -> None:
    settings = {
        "network": {"topology": "mesh", "shape": [3, 3], "flit": "64 B", "bandwidth": "64 GB/s", "latency": "2 ns"},
        "traffic": {"pattern": "uniform", "load": 0.1, "packet_flits": 3, "warmup": 100, "measure": 500},
    }
    runs = [pyxsim.run(settings), pyxsim.run(settings, overrides=["traffic.load=0.3"])]
    lines = show(*runs).figures["Latency of packets"]["data"]
    for line, result in zip(lines, runs, strict=True):
        assert result.traffic is not None
        counts = result.traffic.packets.sum(axis=0)
        for cycles, share in zip(numbers(line["x"]), numbers(line["y"]), strict=True):
            assert share == pytest.approx(counts[result.traffic.latency <= cycles].sum() / counts.sum())


def test_settings_by_their_key_path() -> None:
    found = flattened({"a": {"b": 1, "c": [{"d": 2}, {"d": 3}]}, "e": [1, 2], "f": {}})
    assert found == {"a.b": "1", "a.c[0].d": "2", "a.c[1].d": "3", "e": "[1, 2]", "f": "{}"}


def test_names_tell_files_apart() -> None:
    assert names_of(["a/x.h5", "a/y.h5"]) == ["x.h5", "y.h5"]
    assert names_of(["a/x.h5", "b/x.h5"]) == ["a/x.h5", "b/x.h5"]
    assert names_of(["x.h5", "x.h5"]) == ["x.h5 (1)", "x.h5 (2)"]
    assert names_of(["x.h5"]) == ["x.h5"]


def test_units_of_times() -> None:
    assert [time_unit(ns)[0] for ns in (0, 999, 1000, 1e6, 2e9)] == ["ns", "ns", "us", "ms", "s"]


POINTS = [
    {"offered_load": 0.1, "packet_latency": 20.0, "packet_latency_interval": 0.5, "accepted_load": 0.1},
    {"offered_load": 0.2, "packet_latency": 30.0, "packet_latency_interval": 0.5, "accepted_load": 0.2},
    {"offered_load": 0.3, "packet_latency": 900.0, "packet_latency_interval": 99.0, "accepted_load": 0.22},
]
POINTS = [{**point, "saturated": point["offered_load"] > 0.25, "steady": True} for point in POINTS]
FAILED = {"offered_load": 0.4, "error": "deadlock"}


@pytest.fixture
def curve(tmp_path: Path) -> Path:
    Curve("a mesh", [*POINTS, FAILED], 0.5, "seed = 1\n").save(tmp_path / "curve.h5")
    return tmp_path / "curve.h5"


def test_a_curve_comes_back(curve: Path) -> None:
    found = Curve.load(curve)
    assert found.title == "a mesh"
    assert found.throughput_bound == 0.5
    assert found.saturation == (0.2, 0.3)
    assert [point.get("packet_latency") for point in found.points] == [20.0, 30.0, 900.0, None]
    assert ["error" in point for point in found.points] == [False, False, False, True]
    assert found.complete


def test_no_curve(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.h5: no such file$"):
        Curve.load(tmp_path / "missing.h5")
    (tmp_path / "text.h5").write_text("no curve")
    with pytest.raises(InputError, match="not a readable HDF5 file; allowed: a file written by `pyxsim curve -o`"):
        Curve.load(tmp_path / "text.h5")
    h5py.File(tmp_path / "other.h5", "w").close()
    with pytest.raises(InputError, match="not a readable load-latency curve"):
        Curve.load(tmp_path / "other.h5")


def test_a_curve_has_its_wall(curve: Path, show: Callable[..., Any]) -> None:
    shown = show(curve)
    figure = shown.figures["Latency against load"]
    mean = next(trace for trace in figure["data"] if trace["name"] == "mean")
    np.testing.assert_array_equal(numbers(mean["y"]), [20, 30, np.nan, np.nan])
    marks = {trace["name"]: numbers(trace["x"]).tolist() for trace in figure["data"] if trace["mode"] == "markers"}
    assert marks == {"saturated": [0.3], "failed": [0.4]}
    (shade,) = [shape for shape in figure["layout"]["shapes"] if shape["type"] == "rect"]
    assert shade["x0"] == 0.3
    states = [row[-1] for row in shown.tables["Every load"][1:]]
    assert states == ["taken", "taken", "saturated", "failed"]


def test_a_comparison_of_models(show: Callable[..., Any], tmp_path: Path) -> None:
    experiment = tmp_path / "small.toml"
    experiment.write_text(
        '[network]\ntopology = "ring"\nshape = [4]\nbandwidth = "100 GB/s"\nlatency = "100 ns"\n'
        '[collective]\nkind = "all-reduce"\nsize = "16 KiB"\n'
    )
    found = compare(plan_of(str(experiment), backends=["packet", "analytical"]))
    comparison_file.save(found, tmp_path / "found.h5")
    shown = show(tmp_path / "found.h5")
    (point,) = found.points
    bars = {trace["name"]: trace["x"][0] for trace in shown.figures["Times"]["data"]}
    for entry in point.entries:
        assert bars[entry.backend] == pytest.approx(point.ns(entry.cycles or 0))  # nanoseconds: below one us
    assert {row[0] for row in shown.tables["Side by side"][1:]} > {"time", "lower bound"}
    assert shown.tables["Side by side"][0] == ["", "packet", "analytical"]


@pytest.fixture(scope="module")
def sweep(torus: Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sizes by three values of a number; one point failed, one was not run."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "points").mkdir()
    points = []
    for number, (size, chunks) in enumerate((size, chunks) for size in ("1 KiB", "2 KiB") for chunks in (1, 2, 4)):
        key = f"{number:064x}"
        points.append(
            {"key": key, "changed": {"system.chunks": chunks, "collective.size": size}, "label": f"p{number}"}
        )
        if number < 4:
            replace(torus, time_cycles=torus.time_cycles + number, windows=torus.windows).save(
                folder / f"points/{key}.h5"
            )
        elif number == 4:
            failure = {"reason": "deadlock of <b>all</b>", "kind": "SimulationError", "tries": 2}
            (folder / f"points/{key}.json").write_text(json.dumps(failure))
    manifest = {
        "format": 1,
        "title": "a sweep",
        "axes": {"system.chunks": [1, 2, 4], "collective.size": ["1 KiB", "2 KiB"]},
        "points": points,
        "experiment": torus.experiment_toml,
        "backend": "packet",
        "goal": {},
        "answers": [],
        "provenance": {"version": "0"},
    }
    (folder / "sweep.json").write_text(json.dumps(manifest))
    return folder


def test_a_sweep_shows_its_points_and_what_is_missing(sweep: Path, show: Callable[..., Any], torus: Result) -> None:
    shown = show(sweep)
    text = " ".join(shown.words)
    assert "1 of 6 points have not run yet" in text
    assert "1 of 6 points failed" in text
    assert shown.tables["Failures"][1:] == [["p4", "deadlock of <b>all</b>"]]
    figure = shown.figures["Numbers against the swept settings"]
    lines = {trace["name"]: (list(numbers(trace["x"])), list(numbers(trace["y"]))) for trace in figure["data"]}
    first = torus.time_ns
    assert lines == {"size 1 KiB": ([1, 2, 4], [first, first + 1, first + 2]), "size 2 KiB": ([1], [first + 3])}
    states = [row[-1] for row in shown.tables["Every point"][1:]]
    assert states == ["done"] * 4 + ["failed", "missing"]


def test_the_menu_of_a_sweep_has_the_values_of_each_number(sweep: Path) -> None:
    found = read(sweep)
    made = [s for s in sweep_chapter.chapter(found, "x").make(Detail()) if s.key == "curves"]
    (panel,) = made[0].panels
    for button in panel.figure.layout.updatemenus[0].buttons:
        ys, axis = button.args
        told = [value for line in ys["y"] for value in line]
        assert told == [float(point.values[button.label]) for point in found.points if point.state == "done"]
        assert axis == {"yaxis.title.text": button.label}


def test_a_sweep_over_loads_has_curves(tmp_path: Path, show: Callable[..., Any], sweep: Path) -> None:
    """Each line of the curve is one of the other axes; loads that are not taken are crosses."""
    (tmp_path / "points").mkdir()
    points = []
    for number, point in enumerate(POINTS):
        key = f"{number:064x}"
        points.append({"key": key, "changed": {"traffic.load": point["offered_load"], "network.router.vcs": 2}})
        with h5py.File(tmp_path / f"points/{key}.h5", "w") as file:
            file.attrs["summary"] = json.dumps(point)
    manifest = json.loads((sweep / "sweep.json").read_text())
    axes = {"traffic.load": [0.1, 0.2, 0.3], "network.router.vcs": [2]}
    (tmp_path / "sweep.json").write_text(json.dumps({**manifest, "axes": axes, "points": points}))
    figure = show(tmp_path).figures["Latency against load"]
    marks = {trace["name"]: numbers(trace["x"]).tolist() for trace in figure["data"] if trace["mode"] == "markers"}
    assert marks == {"saturated": [0.3]}


def test_folders_and_files_that_are_nothing(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file.attrs["title"] = "somebody else's"
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError) as caught:
        chapters([str(tmp_path / "other.h5"), str(tmp_path / "empty")])
    other, folder = str(caught.value).splitlines()
    assert "cannot be shown; allowed: a result" in other
    assert "does not contain a sweep" in folder


def test_a_damaged_comparison(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "bad.h5", "w") as file:
        file.attrs["comparison"] = json.dumps({"points": [{"label": "x"}]})
    with pytest.raises(InputError, match="is a comparison of another version"):
        chapters([str(tmp_path / "bad.h5")])
