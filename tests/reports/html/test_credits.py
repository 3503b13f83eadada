"""The panels and the summary lines of credits as messages show what the tables hold."""

from __future__ import annotations

from typing import Any

import pytest

import pyxsim
from pyxsim.reports.html.elements import Detail
from pyxsim.reports.html.panels.credits import credits
from pyxsim.reports.text.summary import text
from pyxsim.results.result import Result

LINE: dict[str, Any] = {
    "network": {
        "topology": "mesh",
        "shape": [3],
        "bandwidth": "64 GB/s",
        "flit": "64 B",
        "credits": {"size": "16 B", "return": "piggyback", "counters": "incremental", "resync": "1 us"},
    },
    "message": [{"src": 0, "dst": 2, "size": "64 KiB"}, {"src": 2, "dst": 1, "size": "16 KiB"}],
    "faults": [{"link": "d0-:(1)->(0)", "both_directions": False, "bit_error_rate": 1e-4}],
    "output": {"window": "200 ns"},
}
FORTH, BACK = "d0+:(0)->(1)", "d0-:(1)->(0)"


@pytest.fixture(scope="module")
def result() -> Result:
    return pyxsim.run(LINE)


def test_the_panel_shows_the_links_that_carry_credits(result: Result) -> None:
    share, numbers = credits(result, Detail())
    columns = result.backend_tables["link_credits"].columns
    windows = result.backend_tables["link_credit_windows"].columns
    back = list(result.links.name).index(BACK)
    assert share.figure is not None
    assert share.figure["data"][0]["name"] == BACK.replace(">", "&gt;")
    assert list(share.figure["data"][0]["y"]) == windows["share"][:, back].tolist()
    assert numbers.sheet is not None
    rows = {row[0]: row for row in numbers.sheet.rows}
    forth = list(result.links.name).index(FORTH)
    assert rows[FORTH][2] == f"{columns['messages'][forth]:,}"
    assert rows[FORTH][6] == f"{columns['lost'][forth]:,}"
    assert rows[BACK][1] == f"{100 * columns['share'][back]:.2f} %"


def test_the_summary_counts_messages_and_losses(result: Result) -> None:
    columns = result.backend_tables["link_credits"].columns
    lines = [line.split() for line in text(result).splitlines() if line.startswith("credits")]
    assert lines[0][1] == f"{columns['messages'].sum():,}"
    assert lines[1][2] == f"{columns['lost'].sum():,}"
    assert columns["riding"].sum() > 0


def test_no_panel_without_messages() -> None:
    plain = {**LINE, "network": {**LINE["network"], "credits": None}, "faults": []}
    plain["network"].pop("credits")
    assert "link_credits" not in pyxsim.run(plain).backend_tables
