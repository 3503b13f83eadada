"""Tables as xarray, pandas and polars: the same numbers, whoever shows them."""

from __future__ import annotations

import copy
import json
import pickle
import sys
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import pyxsim
from pyxsim.errors import InputError
from pyxsim.registry import datasets
from pyxsim.results import Result
from pyxsim.results.comparison import Compared, Comparison, Entry
from pyxsim.results.curve import Curve
from pyxsim.results.sweep import Point, Sweep
from pyxsim.results.table import Table, Texts, Variable, column
from tests.results.conftest import (
    make_attribution,
    make_backend_tables,
    make_detail,
    make_energy,
    make_failures,
    make_jobs,
    make_layers,
    make_memory,
    make_restarts,
    make_serving,
    make_training,
    make_work,
)


@pytest.fixture
def full(build: Callable[..., Result]) -> Result:
    """A result with every table but that of open traffic."""
    return build(
        attribution=make_attribution(),
        work=make_work(),
        layers=make_layers(),
        chunk_delays=make_detail(),
        memory=make_memory(),
        backend_tables=make_backend_tables(),
        serving=make_serving(),
        jobs=make_jobs(),
        job_restarts=make_restarts(),
        job_failures=make_failures(),
        **make_energy(),
        **make_training(),
    )


# The tables of a result


def test_every_table_is_there(full: Result) -> None:
    assert set(full.frames) == set(datasets) - {"traffic"}
    assert len(full.frames) == len(list(full.frames))
    assert "links" in full.frames
    assert "traffic" not in full.frames


@pytest.mark.parametrize("name", sorted(set(datasets) - {"traffic"}))
def test_pandas_and_polars_say_the_same(full: Result, name: str) -> None:
    frame, other = full.to_pandas(name), full.to_polars(name)
    assert list(frame.columns) == other.columns
    assert len(frame) == len(other) > 0
    for title in other.columns:
        mine = [None if value != value else value for value in frame[title].tolist()]
        theirs = [None if value != value else value for value in other[title].to_list()]
        assert mine == theirs


@pytest.mark.parametrize("name", sorted(set(datasets) - {"traffic"}))
def test_pandas_has_what_xarray_has(full: Result, name: str) -> None:
    """Every column, read off the Dataset place by place."""
    frame, data = full.to_pandas(name), full.to_xarray(name)
    dims = full.frames[name].kind_of_rows()
    assert len(frame) == int(np.prod([data.sizes[dim] for dim in dims]))
    for title in frame.columns:
        if isinstance(frame[title].dtype, pd.CategoricalDtype):
            continue  # below
        for row, place in enumerate(np.ndindex(*(data.sizes[dim] for dim in dims))):
            at = {dim: index for dim, index in zip(dims, place, strict=True) if dim in data[title].dims}
            expected = data[title].isel(at).item()
            assert frame[title].iloc[row] == expected or expected != expected


def test_links_have_a_row_for_each_window_and_link(result: Result) -> None:
    frame = result.links.to_pandas()
    assert len(frame) == 3 * 4
    row = frame[(frame["time"] == 100) & (frame["name"] == "d0-:(1)->(0) é")]
    # The second window of make_result.
    assert row[["flits", "src", "dst", "stall_credit"]].to_numpy().tolist() == [[20, 1, 0, 0]]
    assert frame.groupby("name")["flits"].sum()["d0+:(0)->(1)"] == 39 + 20 + 10
    assert "buffer_max" not in frame  # of the link, not of a window: is a second task of links_total
    assert result.to_pandas("links_total")["buffer_max"].tolist() == [4, 1, 0, 32]


def test_attributes_of_a_result_are_tables(full: Result) -> None:
    frames: dict[str, Any] = {
        "chunks": full.chunks,
        "collectives": full.collectives,
        "point_to_point": full.point_to_point,
        "layers": full.layers,
        "phases": full.phases,
        "dimensions": full.dimensions,
        "npus": full.npus,
        "critical_path": full.critical_path,
        "tasks": full.tasks,
        "blame": full.blame,
        "latency": full.latency,
        "stays": full.stays,
        "links": full.links,
    }
    for name, columns in frames.items():
        pd.testing.assert_frame_equal(columns.to_pandas(), full.to_pandas(name))
        assert columns.to_polars().equals(full.to_polars(name), null_equal=True)
        assert columns.to_xarray().identical(full.to_xarray(name))
        assert columns._repr_html_() == full.frames[name]._repr_html_()


def test_links_say_how_many_they_are(result: Result) -> None:
    assert repr(result.links) == "LinkTable(4 links)"


def test_they_stay_what_they_were(full: Result) -> None:
    assert isinstance(full.chunks, Mapping)
    assert full.chunks["end"].tolist() == [100, 110, 250, 240]
    assert isinstance(full.collectives, list)
    assert json.loads(json.dumps(full.point_to_point)) == full.point_to_point


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda result: pickle.loads(pickle.dumps(result))])
def test_a_copy_has_tables_of_its_own(full: Result, again: Callable[[Result], Result]) -> None:
    twin = again(full)
    twin.chunks["bytes"] = twin.chunks["bytes"] + 1
    twin.collectives.append({**twin.collectives[0], "start": 17})
    assert twin.chunks.to_pandas()["bytes"].tolist() == [1025, 1025, 513, 513]
    assert full.chunks.to_pandas()["bytes"].tolist() == [1024, 1024, 512, 512]
    assert twin.collectives.to_pandas()["start"].tolist() == [0, 17]


def test_numbers_that_stand_for_texts_are_texts(full: Result) -> None:
    path = full.critical_path.to_pandas()
    # By make_graph: NPU 0 computes, communicates, saves.
    told = list(zip(path["npu"], path["name"], path["kind"], strict=True))
    assert told[-1] == (0, "save", "memory")
    assert {"compute", "all-reduce", "memory"} <= set(path["kind"])
    assert path["layer"].isna().any()  # saving is in no layer
    blame = full.blame.to_pandas()
    names = full.attribution
    assert names is not None
    row = blame.iloc[3]
    # The fourth row of WAITS: link 5, victim 0, culprit 0, cause 1.
    assert (row["link"], row["victim"], row["culprit"]) == (names.link_names[5], "gradients", "gradients")
    assert row["cause"] == "serialisation"
    assert blame["culprit"].isna().sum() == 1  # nobody


def test_units_come_along(result: Result) -> None:
    frame = result.chunks.to_pandas()
    assert frame.attrs["units"]["end"] == "cycles"
    assert frame.attrs["units"]["bytes"] == "bytes"
    assert frame.attrs["long_name"]["rank"] == "NPU"
    assert frame.attrs["clock_hz"] == 1e9
    assert result.to_xarray("chunks")["end"].attrs["units"] == "cycles"


def test_rows_of_several_kinds_must_be_named() -> None:
    run = {"network": {"topology": "ring", "shape": [4]}, "traffic": {"load": 0.1, "warmup": 50, "measure": 200}}
    result = pyxsim.run(run)
    with pytest.raises(InputError, match="traffic has rows of more than one kind; allowed: batch, npu, class x"):
        result.to_pandas("traffic")
    assert result.to_pandas("traffic", "npu")["npu"].tolist() == [0, 1, 2, 3]
    many = result.to_polars("traffic", ("latency", "class"))
    assert many["packets"].sum() == result.traffic.summary["measured_packets"]  # type: ignore[union-attr]
    assert many["class_name"].n_unique() == 1
    with pytest.raises(InputError, match=r"no row of traffic is a classs; .*did you mean 'class'"):
        result.to_pandas("traffic", "classs")
    assert "several" not in result.frames.traffic._repr_html_()


def test_all_of_it_as_a_tree(full: Result, tmp_path: Path) -> None:
    xr = pytest.importorskip("xarray")
    tree = full.frames.to_xarray()
    full.save(tmp_path / "out.h5")
    with xr.open_datatree(tmp_path / "out.h5", engine="h5netcdf") as file:
        assert set(tree.children) == set(file.children)
        assert file["chunks"].end.values.tolist() == tree["chunks"].end.values.tolist()


def test_names_are_completed(full: Result) -> None:
    assert {"links", "chunks", "critical_path"} <= set(dir(full.frames))
    assert "traffic" not in dir(full.frames)
    assert full.frames.chunks.name == "chunks"
    with pytest.raises(AttributeError, match="no table 'chunk'"):
        _ = full.frames.chunk
    with pytest.raises(InputError, match=r"unknown table 'chunk'.*did you mean 'chunks'"):
        full.to_pandas("chunk")


@pytest.mark.parametrize("library", ["pandas", "polars", "xarray"])
def test_a_library_that_is_not_there(result: Result, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(InputError, match=rf"to_{library} needs {library}: pip install pyxsim\[notebook\]"):
        getattr(result.chunks, f"to_{library}")()


@pytest.mark.parametrize("name", ["links", "links_total", "chunks", "collectives"])
def test_nothing_at_all(empty: Result, name: str) -> None:
    assert len(empty.to_pandas(name)) == len(empty.to_polars(name)) == 0
    assert empty.frames[name]._repr_html_().startswith("<div>")


# In a notebook


def test_what_a_notebook_shows_is_escaped(build: Callable[..., Result]) -> None:
    result = build()
    result.links.name[0] = "<script>alert(1)</script>"
    result.point_to_point[0]["name"] = "<b>&</b>"
    for html in (result._repr_html_(), result.links._repr_html_(), result.point_to_point._repr_html_()):
        assert "<script>" not in html
        assert "<b>&</b>" not in html
    assert "&lt;b&gt;&amp;&lt;/b&gt;" in result.point_to_point._repr_html_()


def test_what_a_notebook_shows_has_the_colours_of_the_page(full: Result) -> None:
    for html in (
        full._repr_html_(),
        full.frames._repr_html_(),
        *(table._repr_html_() for table in full.frames.values()),
    ):
        assert "color" not in html
        assert "background" not in html


def test_a_long_table_is_cut(result: Result) -> None:
    html = result.links._repr_html_()
    assert "3 time × 4 link" in html
    assert "and 4 more rows" in html
    assert html.count("<tr>") == 2 + 8  # names, units, rows


def test_long_texts_are_cut(build: Callable[..., Result]) -> None:
    result = build()
    result.point_to_point[0]["name"] = "x" * 100
    assert "x" * 39 + "\u2026" in result.point_to_point._repr_html_()
    assert "x" * 40 not in result.point_to_point._repr_html_()


def test_what_a_result_shows_says_how_to_go_on(full: Result) -> None:
    html = full._repr_html_()
    assert all(f"<code>{name}</code>" in html for name in (*full.frames, "utilization", "gantt"))
    assert all(callable(getattr(full.plot, name)) for name in dir(full.plot) if f"<code>{name}</code>" in html)


# Sweeps, curves, comparisons


def sweep(axes: dict[str, list[Any]], points: list[dict[str, Any]], **values: list[Any]) -> Sweep:
    made = []
    for row, changed in enumerate(points):
        mine = {name: column[row] for name, column in values.items() if column[row] is not None}
        made.append(Point(f"{row:064}", changed, "done" if mine else "missing", mine))
    return Sweep(Path("sweep"), "a sweep", axes, made)


AXES: dict[str, list[Any]] = {"traffic.load": [0.1, 0.2], "network.shape": [[4, 4], [8, 8], [2]]}
PRODUCT = [{"traffic.load": load, "network.shape": shape} for shape in AXES["network.shape"] for load in (0.1, 0.2)]


def test_a_sweep_of_all_combinations_is_a_grid() -> None:
    data = sweep(AXES, PRODUCT, time_ns=[1, 2, 3, 4, None, 6], saturated=[True] * 6).to_xarray()
    assert dict(data.sizes) == {"traffic.load": 2, "network.shape": 3}
    assert data["network.shape"].values.tolist() == ["[4, 4]", "[8, 8]", "[2]"]
    assert data["time_ns"].sel({"traffic.load": 0.2, "network.shape": "[8, 8]"}).item() == 4
    assert np.isnan(data["time_ns"].sel({"traffic.load": 0.1, "network.shape": "[2]"}).item())
    assert data["saturated"].dtype == bool


@pytest.mark.parametrize("points", [PRODUCT[:5], [*PRODUCT[:5], PRODUCT[0]]])
def test_other_sweeps_are_rows(points: list[dict[str, Any]]) -> None:
    told = sweep(AXES, points, time_ns=list(range(1, len(points) + 1)))
    assert dict(told.to_xarray().sizes) == {"point": len(points)}
    assert told.to_pandas()["time_ns"].tolist() == list(range(1, len(points) + 1))


def test_a_sweep_without_points() -> None:
    assert dict(sweep(AXES, []).to_xarray().sizes) == {"point": 0}
    assert len(sweep({}, []).to_pandas()) == 0


def test_a_sweep_as_a_frame() -> None:
    told = sweep(AXES, PRODUCT, time_ns=[1, 2, 3, 4, None, 6])
    frame, other = told.to_pandas(), told.to_polars()
    assert frame.columns.tolist()[:4] == ["point", "traffic.load", "network.shape", "state"]
    assert frame["traffic.load"].tolist() == [0.1, 0.2] * 3
    assert frame["state"].tolist() == ["done"] * 4 + ["missing", "done"]
    assert other["time_ns"].is_nan().to_list() == frame["time_ns"].isna().tolist() == [False] * 4 + [True, False]
    assert "missing" in told._repr_html_()


def test_a_curve() -> None:
    points = [{"offered_load": load, "packet_latency": 10 / (1 - load), "saturated": False} for load in (0.4, 0.1)]
    curve = Curve("a <curve>", [*points, {"offered_load": 0.9, "error": "deadlock"}], throughput_bound=0.5)
    frame = curve.to_pandas()
    assert frame["offered_load"].tolist() == [0.1, 0.4, 0.9]
    assert frame["packet_latency"].tolist()[:2] == [10 / 0.9, 10 / 0.6]
    assert frame["error"].tolist() == ["", "", "deadlock"]
    assert frame.attrs["throughput_bound"] == 0.5
    assert curve.to_xarray()["packet_latency"].sel(offered_load=0.4).item() == 10 / 0.6
    assert isinstance(curve.to_polars(), pl.DataFrame)
    assert "deadlock" in curve._repr_html_()


def test_a_comparison(result: Result, build: Callable[..., Result]) -> None:
    entries = [Entry("packet", result), Entry("flow", build(time_cycles=300)), Entry("analytical", None, "no way")]
    point = Compared("one", "title", Fraction(10**9), Fraction(200), entries, {"system.chunks": 4})
    told = Comparison("title", ["packet", "flow", "analytical"], [point])
    frame = told.to_pandas()
    assert frame["backend"].tolist() == ["packet", "flow", "analytical"]
    assert frame["time_ns"].tolist()[:2] == [250, 300]
    assert frame["time_ns"].isna().tolist() == [False, False, True]
    assert frame["error"].tolist()[:2] == [0, pytest.approx(300 / 250 - 1)]
    assert frame["to_lower_bound"].tolist()[:2] == [1.25, 1.5]
    assert frame["system.chunks"].tolist() == [4, 4, 4]
    assert told.to_xarray()["time_ns"].sel(point="one", backend="flow").item() == 300
    assert "flow" in told._repr_html_()


def test_plots_of_them_take_and_return_axes(result: Result, build: Callable[..., Result]) -> None:
    import matplotlib.pyplot as plt

    entries = [Entry("packet", result), Entry("flow", build(time_cycles=300))]
    comparison = Comparison(
        "title", ["packet", "flow"], [Compared("one", "title", Fraction(10**9), Fraction(200), entries)]
    )
    figure, ax = plt.subplots()
    assert comparison.plot(ax) is ax
    plt.close(figure)


# Values


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([1, 2], "i", [1, 2]),
        ([1, None, 2.5], "f", [1, None, 2.5]),
        ([True, False], "b", [True, False]),
        ([True, None], "f", [1, None]),
        (["a", None, 3], "O", ["a", "", "3"]),
        ([2**70, 1], "f", [float(2**70), 1]),
        ([], "f", []),
    ],
)
def test_columns_of_any_values(values: list[Any], kind: str, expected: list[Any]) -> None:
    found = column(values)
    assert found.dtype.kind == kind
    assert [None if value != value else value for value in found.tolist()] == expected


def test_texts_that_come_twice_are_told_apart() -> None:
    listed = Variable(("kind_name",), np.array(["a", "b", "a"], dtype=object), {})
    codes = Variable(("row",), np.array([2, 0, -1, 1]), {}, labels="kind_name")
    row = Variable(("row",), np.arange(4), {})
    table = Table({"row": row, "kind": codes, "kind_name": listed})
    assert table.to_pandas()["kind"].tolist()[:2] == ["a (2)", "a"]
    assert Texts(codes.data, ["a", "b", "a"]).decoded() == ["a", "a", None, "b"]


# Files


def test_a_result_is_loaded(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path / "out.h5")
    loaded = pyxsim.load(tmp_path / "out.h5")
    assert isinstance(loaded, Result)
    pd.testing.assert_frame_equal(loaded.chunks.to_pandas(), result.chunks.to_pandas())


def test_a_curve_is_loaded(tmp_path: Path) -> None:
    Curve("a curve", [{"offered_load": 0.25, "packet_latency": 12.5, "saturated": False}]).save(tmp_path / "curve.h5")
    loaded = pyxsim.load(tmp_path / "curve.h5")
    assert isinstance(loaded, Curve)
    assert loaded.to_pandas()["packet_latency"].tolist() == [12.5]


def test_a_sweep_is_loaded(tmp_path: Path) -> None:
    experiment = {"network": {"topology": "ring", "shape": [2]}, "collective": {"kind": "all-reduce", "size": "1 KiB"}}
    ran = pyxsim.sweep({**experiment, "sweep": {"system.chunks": [1, 2]}}, tmp_path / "points", workers=1)
    loaded = pyxsim.load(tmp_path / "points")
    assert isinstance(loaded, Sweep)
    times = loaded.to_xarray()["time_ns"]
    single = [pyxsim.run(experiment, overrides=[f"system.chunks={chunks}"]).time_ns for chunks in (1, 2)]
    assert times.sel({"system.chunks": [1, 2]}).values.tolist() == ran.column("time_ns") == single


def test_what_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        pyxsim.load(tmp_path / "nothing.h5")
    with pytest.raises(InputError, match="does not contain a sweep"):
        pyxsim.load(tmp_path)
