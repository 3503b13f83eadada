"""Where the time went, as data: sums, the hottest links, the file, JSON. The numbers are those of conftest.py."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

import pyxsim
from pyxsim.errors import InputError
from pyxsim.results.attribution import BLAME, PARTS, Attribution
from pyxsim.results.result import Result
from tests.results.conftest import make_attribution

xr = pytest.importorskip("xarray")


@pytest.fixture
def told(build: Callable[..., Result]) -> Result:
    return build(attribution=make_attribution())


def parts(*cycles: int) -> dict[str, int]:
    return dict(zip(PARTS, cycles, strict=True))


def test_sums_over_messages_and_over_packets_are_the_same_where_each_is_one_packet(told: Result) -> None:
    assert told.attribution is not None
    assert told.attribution.of_messages == parts(25, 60, 140, 5, 10, 5, 15, 10, 0)
    assert told.attribution.of_packets == told.attribution.of_messages
    assert sum(told.attribution.of_packets.values()) == 100 + 80 + 90


def test_congestion_adds_up_the_culprits(told: Result) -> None:
    assert told.attribution is not None
    cycles, packets = told.attribution.congestion(), told.attribution.congestion("packets")
    assert cycles.shape == packets.shape == (8, 2, 9)
    assert cycles.sum() == told.blame["cycles"].sum() == 270
    assert cycles[0, 1].tolist() == [0, 0, 40, 5, 0, 0, 15, 0, 0]
    assert packets.sum() == len(told.blame["link"]) == 12


def test_who_made_whom_wait(told: Result) -> None:
    assert told.attribution is not None
    # The wait at the source is none of the network: of 45 cycles waited in it, 10 were for nobody.
    assert told.attribution.matrix.tolist() == [[0, 5, 10], [30, 0, 0]]


def test_the_hottest_links(told: Result) -> None:
    first, second = told.hot_links()
    assert (first.name, first.link, first.cycles) == ("d0+:(0)->(1)", 0, 30)
    assert first.causes == {"arbitration": 15, "credit": 10, "vc": 5}
    assert list(first.causes) == ["arbitration", "credit", "vc"]  # the most first
    assert first.victims == {"hot": 20, "gradients": 10}
    assert first.culprits == {"gradients": 20, "none": 10}
    assert first.busy == told.link_utilization[0]
    assert (second.name, second.cycles, second.culprits) == (
        "ejection lane of NPU 1",
        15,
        {"gradients": 10, "hot": 5},
    )
    assert np.isnan(second.busy)
    assert [each.name for each in told.hot_links(1)] == [first.name]


def test_json(told: Result) -> None:
    found = told.json()["attribution"]
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["messages"] == found["packets"] == parts(25, 60, 140, 5, 10, 5, 15, 10, 0)
    assert found["traffic"][1] == {"name": "hot", "messages": 1, **parts(20, 0, 40, 5, 0, 0, 15, 10, 0)}
    assert found["blame"] == [
        {"victim": "hot", "culprit": "gradients", "cycles": 30},
        {"victim": "gradients", "culprit": "none", "cycles": 10},
        {"victim": "gradients", "culprit": "hot", "cycles": 5},
    ]
    assert [each["link"] for each in found["links"]] == ["d0+:(0)->(1)", "ejection lane of NPU 1"]
    assert found["links"][1]["busy"] is None


def test_without_attribution_there_is_nothing(result: Result) -> None:
    assert result.json()["attribution"] is None
    assert result.hot_links() == []
    assert result.congestion == result.blame == result.latency == result.stays == {}
    assert result.traffic_names == []
    with pytest.raises(InputError, match=r"no table 'congestion', which exists only with `\[output\] attribution"):
        result.to_xarray("congestion")


@pytest.mark.parametrize("engine", ["h5netcdf", "netcdf4"])
def test_the_file_in_xarray(told: Result, tmp_path: Path, engine: str) -> None:
    told.save(tmp_path / "out.h5")
    with xr.open_dataset(tmp_path / "out.h5", group="congestion", engine=engine) as table:
        assert table.cycles.dims == ("link", "victim", "cause")
        assert int(table.cycles.sel(victim="hot", cause="arbitration").sum()) == 15
        lane = table.cycles.sel(link=table.name == "ejection lane of NPU 1").sum("link")
        assert lane.sel(cause="queue").values.tolist() == [0, 10]
        assert table.parts.sel(victim="gradients").values.tolist() == [5, 60, 100, 0, 10, 5, 0, 0, 0]
        assert table.messages.values.tolist() == [2, 1]
        xr.testing.assert_identical(table.load(), told.to_xarray("congestion"))
    with xr.open_dataset(tmp_path / "out.h5", group="blame", engine=engine) as table:
        rows = table.where(table.culprit == -1, drop=True)
        assert rows.cycles.values.tolist() == [10]
        assert table.traffic_name.values[table.culprit.values].tolist().count("none") == 1
    with xr.open_dataset(tmp_path / "out.h5", group="latency", engine=engine) as table:
        assert (sum(table[part] for part in PARTS) == table.arrived - table.sent).all()
    with xr.open_dataset(tmp_path / "out.h5", group="stays", engine=engine) as table:
        assert table.sizes == {"row": 3}


def test_a_file_in_which_no_culprit_is_nobody(told: Result, tmp_path: Path) -> None:
    """As earlier versions wrote it."""
    told.save(tmp_path / "out.h5")
    with h5py.File(tmp_path / "out.h5", "r+") as file:
        names = file["blame/traffic_name"]
        assert names[-1] == b"none"
        names[-1] = b"nobody"
    old = pyxsim.load(tmp_path / "out.h5")
    assert old.attribution is not None
    assert old.hot_links()[0].culprits == {"gradients": 20, "none": 10}


def test_a_file_of_a_version_without_faults(told: Result, tmp_path: Path) -> None:
    told.save(tmp_path / "out.h5")
    with h5py.File(tmp_path / "out.h5", "r+") as file:
        for name in ("latency", "stays"):
            del file[name]["fault"]
        for name in ("cause", "cycles", "packets", "parts"):
            values = file["congestion"][name][..., :8]
            del file["congestion"][name]
            file["congestion"][name] = values
    old = pyxsim.load(tmp_path / "out.h5")
    assert old.attribution is not None
    assert old.attribution.of_messages == parts(25, 60, 140, 5, 10, 5, 15, 10, 0)
    assert old.latency["fault"].tolist() == old.stays["fault"].tolist() == [0, 0, 0]
    assert old.latency["queue"].tolist() == [0, 0, 10]


def test_what_is_read_is_what_was_written(told: Result, tmp_path: Path) -> None:
    assert told.attribution is not None
    told.attribution.left_out = {"latency": 7}
    told.save(tmp_path / "out.h5")
    again = Result.load(tmp_path / "out.h5")
    assert again.json() == told.json()
    assert again.traffic_names == told.traffic_names
    for one, other in ((told.latency, again.latency), (told.stays, again.stays), (told.blame, again.blame)):
        assert list(one) == list(other)
        assert all((one[name] == other[name]).all() for name in one)


def test_tables_of_other_columns_are_refused() -> None:
    blame = {name: np.zeros(2 if name == "link" else 3, np.int64) for name in BLAME}
    for wrong in (blame, {}):
        with pytest.raises(ValueError, match="blame requires the columns link, victim, culprit, cause"):
            make_attribution(blame=wrong)
    with pytest.raises(ValueError, match=r"\(3,\) messages"):
        make_attribution(messages=np.zeros(3, np.int64))


def test_a_run_in_which_nothing_arrived_has_no_rows(build: Callable[..., Result], tmp_path: Path) -> None:
    none = {name: np.zeros(0, np.int64) for name in BLAME}
    nothing = Attribution(["a"], ["l"] * 8, np.zeros(1, np.int64), np.zeros((1, 9), np.int64), none)
    result = build(attribution=nothing)
    assert result.hot_links() == []
    assert result.json()["attribution"]["blame"] == []
    result.save(tmp_path / "out.h5")
    assert Result.load(tmp_path / "out.h5").json() == result.json()
