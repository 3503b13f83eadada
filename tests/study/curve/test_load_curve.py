"""Curves and the search of saturation, on a network whose saturation is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pyxsim
from pyxsim.errors import InputError
from pyxsim.runner.lifecycle import run
from pyxsim.study.curve.load_curve import Points, curve, points_of, saturation

# Eight nodes on a switch, all but node 0 send to node 0: its link carries a flit per cycle, an eighth for each node.
HOT: dict[str, Any] = {
    "network": {
        "topology": "switch",
        "shape": [8],
        "bandwidth": "256 GB/s",
        "latency": "2 cycles",
        "flit": "256 B",
        "packet": "256 B",
        "router": {"vcs": 4, "buffer": 16},
    },
    "traffic": {"pattern": "hotspot", "pattern_options": {"nodes": [0]}, "load": 0.1, "precision": 0.05},
}


def points(workers: int = 1, **more: Any) -> Points:
    return points_of({**HOT, **more}, workers=workers)


def test_a_curve() -> None:
    told: list[float] = []
    source = points()
    source.tell = lambda point: told.append(point["offered_load"])
    found = curve(source, [0.02, 0.1, 0.2, 0.05, 0.1])
    assert told == [0.2, 0.1, 0.05, 0.02]
    assert found.column("offered_load").tolist() == [0.02, 0.05, 0.1, 0.2]
    assert found.column("saturated").tolist() == [0, 0, 0, 1]
    assert found.throughput_bound == pytest.approx(1 / 8)
    assert found.saturation == (0.1, 0.2)
    latencies = found.column("packet_latency")[:3]
    assert (latencies[1:] > latencies[:-1]).all()
    assert found.column("accepted_load")[3] == pytest.approx(1 / 8, rel=0.01)
    assert found.title == "switch 8, hotspot traffic"


def test_a_point_is_what_a_run_gives() -> None:
    found = curve(points(), [0.07]).points[0]
    result = run({**HOT, "traffic": {**HOT["traffic"], "load": 0.07}})
    assert result.traffic is not None
    assert {key: found[key] for key in result.traffic.summary} == result.traffic.summary


def test_parallel_points_are_the_same() -> None:
    assert _same(curve(points(2), [0.05, 0.1])) == _same(curve(points(1), [0.1, 0.05]))


def _same(found: Any) -> list[dict[str, Any]]:
    return [{key: value for key, value in point.items() if key != "sim_cpu_s"} for point in found.points]


def test_an_automatic_curve_is_closer_where_it_turns_up() -> None:
    found = curve(points())
    low, high = found.saturation
    assert low is not None
    assert high is not None
    assert found.column("offered_load")[0] == pytest.approx(0.02 / 8)
    assert 0.1 < low < high <= 0.125
    assert high - low < 0.01


def test_an_interrupted_search_keeps_what_it_found() -> None:
    source, seen = points(), []

    def tell(point: dict[str, Any]) -> None:
        seen.append(point["offered_load"])
        if len(seen) == 3:
            raise KeyboardInterrupt

    source.tell = tell
    found = saturation(source, 0.005)
    assert not found.curve.complete
    assert seen == [0.125, 0.0625, 0.09375]
    assert (found.low, found.high) == (0.0625, 0.125)
    assert found.curve.column("offered_load").tolist() == sorted(seen)


def test_saturation() -> None:
    found = saturation(points(), 0.005)
    assert found.high is not None
    assert 0.115 < found.low < 1 / 8 + 0.002
    assert found.high - found.low <= 0.005
    assert found.json()["saturation_high"] == found.high


def test_a_network_that_takes_everything() -> None:
    network = {**HOT["network"], "topology": "fully-connected", "shape": [2]}
    traffic = {"load": 0.1, "pattern": "neighbor", "precision": 0.05}
    found = saturation(points_of({"network": network, "traffic": traffic}, workers=1))
    assert (found.low, found.high) == (1.0, None)


def test_a_point_that_fails_does_not_take_the_others_with_it() -> None:
    # A ring without datelines, run all the same: at a high load it locks up.
    network = {**HOT["network"], "topology": "garnet-torus", "shape": [8, 1, 1], "packet": "4 KiB"}
    network["router"] = {"vcs": 1, "buffer": 4, "routing": "ring"}
    source = {"network": network, "traffic": {"load": 0.1, "packet_flits": 4, "precision": 0.05, "max_cycles": 50_000}}
    found = curve(points_of(source, allow_deadlock=True, workers=1), [0.01, 2.0])
    assert "error" not in found.points[0]
    assert "deadlock" in found.points[1]["error"]


def test_traffic_without_a_load() -> None:
    with pytest.raises(InputError, match="a batch or a trace has no load"):
        points_of({**HOT, "traffic": {"batch": {"size": 3}}})
    with pytest.raises(InputError, match=r"the table \[traffic\] is missing"):
        points_of({"network": HOT["network"], "collective": {"kind": "all-reduce", "size": "1 KiB"}})


def test_warnings_are_in_every_output_of_a_curve(tmp_path: Path) -> None:
    network = {"topology": "ring", "shape": [4], "latency": "3.1 ns"}
    traffic = {"pattern": "uniform", "packet_flits": 4, "load": 0.1, "warmup": 50, "measure": 100}
    rounded = "network.latency: 3.1 ns is simulated as 4 cycles of the 1 GHz clock"
    found = pyxsim.curve({"network": network, "traffic": traffic}, [0.1, 0.2], workers=1)
    assert found.warnings == [rounded]
    assert found.json()["warnings"] == [rounded]
    found.save(tmp_path / "curve.h5")
    assert pyxsim.load(tmp_path / "curve.h5").warnings == [rounded]
    found.save(tmp_path / "curve.csv")
    rows = (tmp_path / "curve.csv").read_text(encoding="utf-8").splitlines()
    assert rows[0].endswith(",warnings")
    assert rows[1].endswith(rounded)
    assert found.to_pandas()["warnings"].tolist() == [rounded] * 2
    pyxsim.report(tmp_path / "curve.h5", tmp_path / "page.html")
    assert f"warning: {rounded}" in (tmp_path / "page.html").read_text(encoding="utf-8")
    searched = pyxsim.saturation({"network": network, "traffic": traffic}, 0.2, workers=1)
    assert searched.json()["warnings"] == [rounded]
