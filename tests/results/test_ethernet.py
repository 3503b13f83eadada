"""Tables of the Ethernet backend in a result: times and slowdowns, files, JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from pyxsim.results.result import Result
from tests.results.conftest import make_backend_tables


def test_tables_and_their_way_through_a_file(build: Callable[..., Result], tmp_path: Path) -> None:
    made = build(backend_tables=make_backend_tables())
    made.save(tmp_path / "out.h5")
    for result in (made, Result.load(tmp_path / "out.h5")):
        flows = result.flows.to_pandas()
        assert flows["fct"].tolist() == [600_000, -1]
        assert flows["slowdown"][0] == 3
        assert np.isnan(flows["slowdown"][1])
        assert flows.attrs["units"]["fct"] == "ps"
        assert result.frames["flows"].attrs["left_out"] == 0
        assert result.ports.to_pandas()["pauses"].tolist() == [5, 0, 0, 0]
        windows = result.frames["port_windows"]
        assert windows.shape == {"time": 3, "link": 4}
        assert windows.to_xarray()["paused"].sel(time=100).values.tolist() == [5, 0, 0, 0]
        assert result.frames["flow_windows"].to_pandas()["rate"].tolist() == [4e10, 2e10, 4e10]
        assert result.frames["flow_windows"].attrs["window_cycles"] == 100
        assert result.frames["flow_times"].to_pandas()["network"].tolist() == [599_982, -1]
    assert "flows" not in made.tables()


def test_other_results_have_none(result: Result) -> None:
    assert not {"flows", "ports", "port_windows"} & set(result.frames)
    assert "packets_dropped" not in result.json()


def test_counts_of_packets_in_json(build: Callable[..., Result]) -> None:
    assert build(counts={"packets": 3, "packets_dropped": 1}).json()["packets_dropped"] == 1
