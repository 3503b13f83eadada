"""Reports of the Ethernet backend: lines of the summary, plots and panels show what the tables hold."""

from __future__ import annotations

import numpy as np
import pytest

from pyxsim.network.protocol import BackendTable
from pyxsim.reports.html.elements import Detail
from pyxsim.reports.html.panels import flows as panels
from pyxsim.reports.plots.flow_plots import FlowPoints, PauseTree, QueueMap, slowdown_classes
from pyxsim.reports.text.flow_facts import facts
from pyxsim.reports.text.summary import text
from pyxsim.results.result import Result
from tests.results.conftest import make_backend_tables, make_result

COUNTS = {"packets_dropped": 2, "packets_trimmed": 0, "packets_resent": 3, "packets_marked": 0}


@pytest.fixture
def ethernet() -> Result:
    return make_result(backend_tables=make_backend_tables(), counts=COUNTS)


def test_lines_of_the_summary(ethernet: Result) -> None:
    lines = {fact.label: (fact.value, fact.note) for fact in facts(ethernet)}
    assert lines == {
        "message time": ("600 ns", "median, p99 600 ns, longest 600 ns; slowdown 3/3/3"),
        "dropped": ("2", "packets, 0 trimmed, 3 sent again"),
        "pauses": ("5", "of 1 link (PFC); longest 5 ps in all: d0+:(0)->(1)"),
        "pause root": ("100%", f"of the paused time is due to {ethernet.links.name[2]}"),
        "victims": ("1", "messages waited behind pauses whose cause they do not use; longest 4 ps"),
    }
    assert "message time" in text(ethernet)


def test_parts_of_messages_are_called_flows(ethernet: Result) -> None:
    ethernet.backend_tables["flows"].columns["message"] = np.zeros(2, int)
    assert "flow time" in {fact.label for fact in facts(ethernet)}


def test_other_backends_have_no_such_lines() -> None:
    assert facts(make_result()) == []


def test_points_keep_the_slowest_message() -> None:
    tables = make_backend_tables()
    columns = {name: np.repeat(column[:1], 100) for name, column in tables["flows"].columns.items()}
    columns["end"] = columns["start"] + np.where(np.arange(100) == 57, 900_000, 600_000)
    result = make_result(backend_tables={"flows": BackendTable(columns)})
    points = FlowPoints.of(result, 10)
    assert points.left_out == 89
    assert (points.unit, points.time.max(), points.slowdown.max()) == ("ns", 900, 4.5)
    ((label, values),) = slowdown_classes(result)
    assert (label, len(values), values[-1]) == ("4 KiB", 100, 4.5)


def test_queues_are_the_deepest_and_spans_have_their_maximum(ethernet: Result) -> None:
    depth = ethernet.backend_tables["port_windows"].columns["depth"]
    depth[:] = [[2048, 0, 1024, 0], [0, 512, 4096, 0], [1024, 0, 0, 0]]
    shown = QueueMap.of(ethernet, links=2, columns=2)
    assert shown.links.tolist() == [0, 2]
    assert shown.depth.tolist() == [[2, 4], [1, 0]]
    assert (shown.starts.tolist(), shown.left_out) == ([0, 2], 1)


def test_pauses_are_a_tree(ethernet: Result) -> None:
    """Link 1 waits for link 2, and link 0 for link 1; link 3, with the shortest pause, is left out."""
    ports = ethernet.backend_tables["ports"].columns
    ports["pauses"][:], ports["paused"][:] = [1, 7, 0, 2], [10, 250_000 // 2, 0, 5]
    ports["cause"][:], ports["caused"][:] = [1, 2, -1, 1], [0, 10, 30, 0]
    shown = PauseTree.of(ethernet, 2)
    assert (shown.links.tolist(), shown.depth.tolist(), shown.left_out) == ([2, 1, 0], [0, 1, 2], 1)
    assert (shown.count.tolist(), shown.share[1]) == ([0, 7, 1], 0.5)
    assert shown.notes() == ["root of 75%", "7 x, root of 25%", "1 x"]
    assert [len(name) - len(name.lstrip()) for name in shown.names(ethernet)] == [0, 3, 6]


def test_causes_in_a_cycle_are_shown_once(ethernet: Result) -> None:
    ports = ethernet.backend_tables["ports"].columns
    ports["pauses"][:], ports["paused"][:], ports["cause"][:] = 1, [4, 3, 2, 1], [1, 2, 0, 0]
    assert PauseTree.of(ethernet).links.tolist() == [2, 1, 0, 3]


@pytest.mark.parametrize("name", ["fct", "slowdown", "queues", "pauses"])
def test_plots(name: str, ethernet: Result) -> None:
    pytest.importorskip("matplotlib")
    assert getattr(ethernet.plot, name)().get_title(loc="left")
    assert not getattr(make_result().plot, name)().axison


def test_panels_have_the_data(ethernet: Result) -> None:
    detail = Detail()
    times, slowdowns = panels.flows(ethernet, detail)
    assert np.asarray(times.figure["data"][0]["y"]).tolist() == [600]
    assert np.asarray(slowdowns.figure["data"][0]["x"]).tolist() == [3]
    assert np.asarray(panels.queues(ethernet, detail).figure["data"][0]["z"]).shape == (1, 3)
    assert np.asarray(panels.pauses(ethernet, detail).figure["data"][0]["text"]).tolist() == ["root of 100%", "5 x"]
