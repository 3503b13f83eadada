"""The panels and the summary lines of faults and retry show what the tables hold."""

from __future__ import annotations

from typing import Any

import pytest

import pyxsim
from pyxsim.reports.html.elements import Detail
from pyxsim.reports.html.panels.reroutes import MOST_ROWS, reroutes
from pyxsim.reports.html.panels.retries import faults
from pyxsim.reports.text.summary import text
from pyxsim.results.result import Result

LINE: dict[str, Any] = {
    "network": {"topology": "mesh", "shape": [3], "bandwidth": "64 GB/s", "flit": "64 B", "retry": {}},
    "message": [{"src": 0, "dst": 2, "size": "64 KiB"}],
    "output": {"window": "200 ns"},
}
LINK = "d0+:(0)->(1)"


@pytest.fixture(scope="module")
def result() -> Result:
    errors = {"link": LINK, "both_directions": False, "bit_error_rate": 1e-5}
    return pyxsim.run({**LINE, "faults": [errors]})


def test_the_panel_shows_the_links_with_errors(result: Result) -> None:
    resent, buffers, numbers = faults(result, Detail())
    columns = result.backend_tables["link_faults"].columns
    windows = result.backend_tables["link_fault_windows"].columns
    number = list(result.links.name).index(LINK)
    assert resent.figure is not None
    assert sum(resent.figure["data"][0]["y"]) == columns["resent"][number] == windows["resent"][:, number].sum() > 0
    assert buffers.figure is not None
    assert list(buffers.figure["data"][0]["y"]) == windows["replay_mean"][:, number].tolist()
    assert numbers.sheet is not None
    assert numbers.sheet.rows[0][0] == LINK
    assert numbers.sheet.rows[0][1] == f"{columns['errors'][number]:,}"


def test_occupancy_by_windows_adds_up_to_that_of_the_run(result: Result) -> None:
    columns = result.backend_tables["link_faults"].columns
    windows = result.backend_tables["link_fault_windows"].columns
    whole, means, last = columns["replay_mean"][:2], windows["replay_mean"][:, :2], int(windows["time"][-1])
    # The last window lasts until the last answer, which both links give the same time.
    ends = (200 * means[:-1].sum(axis=0) - means[-1] * last) / (whole - means[-1])
    assert ends[0] == pytest.approx(ends[1])
    assert result.time_cycles < ends[0] < result.time_cycles + 1000
    assert (means <= columns["replay_max"][:2]).all()


def test_the_summary_counts_what_is_sent_again(result: Result) -> None:
    resent = int(result.backend_tables["link_faults"].columns["resent"].sum())
    (line,) = [line for line in text(result).splitlines() if line.startswith("sent again")]
    assert line.split()[2] == f"{resent:,}"


def test_no_panel_without_errors() -> None:
    assert not faults(pyxsim.run({**LINE, "message": [{"src": 0, "dst": 1, "size": "64 B"}]}), Detail())


@pytest.mark.parametrize("repeated", [False, True])
def test_the_panel_of_routes_has_a_row_for_each_epoch(repeated: bool) -> None:
    fault: dict[str, Any] = {"link": LINK, "at": "100 ns", "for": "10 ns", "down": True}
    if repeated:
        fault["up"] = "10 ns"
    network = {**LINE["network"], "topology": "ring", "shape": [4], "reroute": {"reaction": "0 ns"}}
    result = pyxsim.run({**LINE, "network": network, "faults": [fault]})
    (panel,) = reroutes(result, Detail())
    epochs = result.backend_tables["route_epochs"].columns
    assert panel.sheet is not None
    rows = panel.sheet.rows
    assert len(rows) == min(MOST_ROWS, len(epochs["changed"]))
    assert rows[1][:3] == ["100", f"{epochs['used'][1]:,}" if epochs["used"][1] >= 0 else "not used", "2"]
    assert (f"The first {MOST_ROWS} of" in panel.text) == repeated
