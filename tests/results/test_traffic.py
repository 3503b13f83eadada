"""Open traffic in the HDF5 file, and curves in theirs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from pyxsim.errors import InputError
from pyxsim.results.curve import Curve
from pyxsim.results.result import Result
from pyxsim.results.traffic import TRAFFIC_KEYS, Traffic

SUMMARY = {
    "offered_load": 0.3,
    "accepted_load": 0.29,
    "packet_latency": 30.5,
    "packet_latency_interval": None,
    "packet_latency_p999": 80.0,
    "saturated": False,
    "steady": True,
    "stopped": "precision",
    "measured_packets": 6,
    "batch_cycles": [10, 12],
    "classes": [{"name": "a"}, {"name": "b"}],
}


def make_traffic() -> Traffic:
    return Traffic(
        summary=SUMMARY,
        classes={"name": ["a", "b"], "priority": [0, 1], "packet_latency": [30.0, 31.5]},
        batches={"start": np.array([0, 100, 200]), "latency": np.array([20.0, np.nan, 30.0])},
        accepted=np.array([0.25, 0.33]),
        latency=np.array([20, 30, 80]),
        packets=np.array([[1, 2, 0], [0, 2, 1]]),
        notes=["a line"],
    )


@pytest.fixture
def file(build: Callable[..., Result], tmp_path: Path) -> Path:
    build(traffic=make_traffic()).save(tmp_path / "out.h5")
    return tmp_path / "out.h5"


def test_it_opens_in_xarray(file: Path) -> None:
    xarray = pytest.importorskip("xarray")
    with xarray.open_dataset(file, group="traffic") as data:
        assert dict(data.sizes) == {"batch": 3, "npu": 2, "class": 2, "latency": 3}
        assert data.packets.dims == ("class", "latency")
        assert data.packets.sel(latency=30).values.tolist() == [2, 2]
        assert data.class_name.values.tolist() == ["a", "b"]
        assert data.attrs["packet_latency"] == 30.5
        assert np.isnan(data.attrs["packet_latency_interval"])
        assert (data.attrs["saturated"], data.attrs["steady"]) == (0, 1)
        assert data.attrs["batch_cycles"].tolist() == [10, 12]
        for name, variable in data.variables.items():
            assert variable.attrs.get("long_name"), name
        assert data.accepted.attrs["units"] == "flits/cycle"
        assert data.class_packet_latency.attrs["units"] == "cycles"


def test_it_comes_back(file: Path) -> None:
    found, made = Result.load(file).traffic, make_traffic()
    assert found is not None
    assert found.summary == made.summary
    assert found.classes == made.classes
    assert found.notes == made.notes
    for name in ("accepted", "latency", "packets"):
        assert np.array_equal(getattr(found, name), getattr(made, name))
    assert set(found.batches) >= set(made.batches)
    np.testing.assert_array_equal(found.batches["latency"], made.batches["latency"])


def test_a_collective_has_no_such_group(build: Callable[..., Result], tmp_path: Path) -> None:
    build().save(tmp_path / "out.h5")
    with h5py.File(tmp_path / "out.h5") as group:
        assert "traffic" not in group
    assert Result.load(tmp_path / "out.h5").traffic is None


def test_the_title(build: Callable[..., Result]) -> None:
    network = '[network]\ntopology = "torus"\nshape = [4, 4]\n'
    titles = {
        '[traffic]\npattern = "tornado"\nload = 0.3\n': "torus 4x4, tornado traffic at load 0.3",
        '[traffic]\npattern = "uniform"\n[traffic.batch]\nsize = 9\n': "torus 4x4, uniform traffic, 1 x 9 packets each",
        '[traffic]\ntrace = "a.csv"\n': "torus 4x4, trace a.csv",
        "[traffic]\n[[traffic.classes]]\nload = 1\n[[traffic.classes]]\nload = 2\n": "torus 4x4, traffic of 2 classes",
    }
    for text, title in titles.items():
        assert build(experiment_toml=network + text).title == title


# -- curves --


def point(load: float, **more: Any) -> dict[str, Any]:
    return {"offered_load": load, "saturated": False, "steady": True, "packet_latency": 100 * load, **more}


def make_curve(**more: Any) -> Curve:
    points = [point(0.4, saturated=True), point(0.1, stopped="precision"), point(0.2, packet_latency=None)]
    return Curve("a torus", points, 0.5, "[network]\n", **more)


def test_points_are_in_order_and_tell_saturation() -> None:
    curve = make_curve()
    assert curve.column("offered_load").tolist() == [0.1, 0.2, 0.4]
    np.testing.assert_array_equal(curve.column("packet_latency"), [10, np.nan, 40])
    assert curve.saturation == (0.2, 0.4)
    assert Curve("", [point(0.1)]).saturation == (0.1, None)
    assert Curve("", [point(0.1, saturated=True), point(0.2)]).saturation == (None, 0.1)
    assert Curve("", [{"offered_load": 0.1, "error": "deadlock"}, point(0.2)]).saturation == (0.2, None)


def test_a_curve_opens_in_xarray(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    make_curve().save(tmp_path / "curve.h5")
    with xarray.open_dataset(tmp_path / "curve.h5", group="curve") as data:
        assert data.offered_load.values.tolist() == [0.1, 0.2, 0.4]
        assert data.packet_latency.sel(offered_load=0.4) == 40
        assert data.saturated.values.tolist() == [0, 0, 1]
        assert data.attrs["throughput_bound"] == 0.5
    with h5py.File(tmp_path / "curve.h5") as file:
        assert file.attrs["experiment"] == "[network]\n"
        assert file.attrs["complete"] == 1


def test_a_curve_as_text(tmp_path: Path) -> None:
    curve = make_curve(complete=False)
    curve.save(tmp_path / "curve.json")
    data = json.loads((tmp_path / "curve.json").read_text(encoding="utf-8"))
    assert data["points"] == curve.points
    assert (data["saturation_low"], data["saturation_high"], data["complete"]) == (0.2, 0.4, False)
    curve.save(tmp_path / "curve.csv")
    lines = (tmp_path / "curve.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "offered_load,packet_latency,saturated,steady,stopped,warnings"
    assert lines[1] == "0.1,10.0,False,True,precision,"
    assert lines[2] == "0.2,,False,True,,"


def test_failed_points_tell_why(tmp_path: Path) -> None:
    points = [point(0.1), {"offered_load": 0.2, "error": "deadlock in cycle 40: a -> b"}]
    Curve("", points).save(tmp_path / "curve.csv")
    lines = (tmp_path / "curve.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0].endswith(",error")
    assert lines[1].endswith(",")
    assert lines[2].endswith(",deadlock in cycle 40: a -> b")


def test_faults_of_curve_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a curve cannot be written as '\.txt'; allowed: \.h5, .*\.json, \.csv"):
        make_curve().save(tmp_path / "curve.txt")
    (tmp_path / "folder.h5").mkdir()
    with pytest.raises(InputError, match="it is a folder"):
        make_curve().save(tmp_path / "folder.h5")


def test_every_key_has_words() -> None:
    assert set(SUMMARY) <= set(TRAFFIC_KEYS)
    assert all(text and not text.endswith(".") for text in TRAFFIC_KEYS.values())
