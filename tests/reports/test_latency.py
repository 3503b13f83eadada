"""What people see of open traffic."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyxsim.reports
from pyxsim.reports.text.summary import html, text
from pyxsim.reports.text.traffic_facts import number, traffic_facts
from pyxsim.results.attribution import PARTS
from pyxsim.results.curve import Curve
from pyxsim.results.result import Result
from pyxsim.results.traffic import PERCENTILES, Traffic

assert pyxsim.reports

SUMMARY: dict[str, Any] = {
    "offered_load": 0.3,
    "generated_load": 0.301,
    "accepted_load": 0.2994,
    "accepted_load_interval": 0.0021,
    "accepted_load_min": 0.28,
    "accepted_load_max": 0.32,
    "packet_latency": 38.016,
    "packet_latency_interval": 0.2,
    **{f"packet_latency_{name}": 60.0 + i for i, name in enumerate(PERCENTILES)},
    "packet_latency_max": 90.0,
    "network_latency": 37.5,
    "network_latency_interval": 0.19,
    "hops": 5.01,
    "saturated": False,
    "steady": True,
    "stopped": "precision",
    "warmup_cycles": 300,
    "measured_cycles": 7100,
    "measured_packets": 18462,
    "zero_load_latency": 35.0,
    "latency_limit": 525.0,
}
CLASS_KEYS = (
    "accepted_load",
    "packet_latency",
    "packet_latency_interval",
    "packet_latency_p99",
    "network_latency",
    "hops",
)


def make_traffic(classes: int = 1, **changes: Any) -> Traffic:
    columns = {"name": [f"class {i}" for i in range(classes)], "measured_packets": [10] * classes}
    latency = np.arange(20, 91)
    return Traffic(
        summary={**SUMMARY, **changes},
        classes={**columns, **{key: [1.0] * classes for key in CLASS_KEYS}},
        batches={"start": np.arange(0, 7400, 100), "latency": np.full(74, 38.0)},
        latency=latency,
        packets=np.ones((classes, len(latency)), dtype=np.int64),
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (38.016, "38.02"),
        (None, "-"),
        (float("nan"), "-"),
        (123456.7, "123,457"),
        (0.00012, "0.00012"),
        (7996.3, "7,996"),
        (8148, "8,148"),
        (9999.9, "10,000"),
    ],
)
def test_numbers(value: Any, shown: str) -> None:
    assert number(value) == shown


def test_the_summary(build: Callable[..., Result]) -> None:
    lines = text(build(traffic=make_traffic(), lower_bound_ns=None, collectives=[])).splitlines()
    *words, note = lines[1].split(maxsplit=4)
    assert words == ["packet", "latency", "38.02", "cycles"]
    assert note == "+- 0.2; p50 60, p99 63, p99.9 64, max 90"
    assert any("18,462 packets, after a warm-up of 300; to the required precision" in line for line in lines)
    assert any("offered 0.3, created 0.301 flits per node and cycle" in line for line in lines)
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 100
    assert not any("\u2026" in line for line in lines), "nothing is cut off"


def test_classes_have_a_table(build: Callable[..., Result]) -> None:
    two, many = (text(build(traffic=make_traffic(count))) for count in (2, 9))
    assert "class 1" in two
    assert "and 5 more" in many
    assert "class 0" not in text(build(traffic=make_traffic(1)))


def test_what_there_is_not(build: Callable[..., Result]) -> None:
    bare = make_traffic(packet_latency=None, packet_latency_interval=None, zero_load_latency=None, batch_cycles=[7, 9])
    facts = {fact.label: fact for fact in traffic_facts(build(traffic=bare))}
    assert facts["packet latency"].value == "- cycles"
    assert facts["batch"].value == "8 cycles"
    assert facts["batch"].note == "on average, 7 to 9"
    trips = make_traffic(round_trip=80.0, round_trip_interval=1.0)
    assert any(fact.label == "round trip" for fact in traffic_facts(build(traffic=trips)))
    assert traffic_facts(build()) == []


def test_a_notebook(build: Callable[..., Result]) -> None:
    assert "packet latency" in html(build(traffic=make_traffic()))


def test_plots(build: Callable[..., Result], tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    result = build(traffic=make_traffic())
    bars = result.plot.latencies()
    heights = bars.patches[0].get_data().values
    assert heights.sum() <= 1 + 1e-9
    assert len(set(np.round(heights[heights > 0][:-1], 12))) == 1, "as many packets in every bar"
    assert "warm" not in result.plot.course().get_title()
    result.plot.figure().savefig(tmp_path / "page.png")
    for empty in (build(), build(traffic=Traffic({**SUMMARY}))):
        assert not empty.plot.latencies().axison
        assert not empty.plot.course().axison
    matplotlib.pyplot.close("all")


def test_the_course_ends_where_packets_are_still_under_way(build: Callable[..., Result]) -> None:
    """Those of the last batches that have arrived are the quick ones."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    traffic = make_traffic(warmup_cycles=1000, measured_cycles=2000, saturated=True)
    traffic.batches["latency"] = np.r_[np.linspace(10, 300, 30), np.linspace(300, 0, 44)]
    ax = build(traffic=traffic).plot.course()
    values, edges, _ = ax.patches[0].get_data()
    assert (values[-1], edges[-1]) == (300, 3000)
    assert ax.get_xlim() == (0, 7400)
    assert [text.get_text() for text in ax.texts] == ["measured", "with packets in flight"]
    (span,) = [patch for patch in ax.patches if hasattr(patch, "get_width")]
    assert (span.get_x(), span.get_width()) == (1000, 2000)
    matplotlib.pyplot.close("all")


def test_the_page_is_aligned(build: Callable[..., Result]) -> None:
    pytest.importorskip("matplotlib")
    page = build(traffic=make_traffic()).plot.figure()
    page.draw_without_rendering()
    places = {ax.get_title(loc="left"): ax.get_position() for ax in page.axes}
    above = next(place for title, place in places.items() if title.startswith("Dimensions over time"))
    assert places["Latency of the measured packets"].x0 == pytest.approx(above.x0, abs=1e-3)
    assert places["Mean packet latency over time (cycles)"].x1 == pytest.approx(above.x1, abs=1e-3)


def test_names_in_the_plots_of_curves() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    from pyxsim.reports.plots.load_latency import throughput

    tails = {0.1: 60, 0.2: 100, 0.3: 9000}
    points = [{**SUMMARY, "offered_load": load, "packet_latency_p99": tail} for load, tail in tails.items()]
    points += [{**SUMMARY, "offered_load": 0.4, "saturated": True}, {"offered_load": 0.45, "error": "deadlock"}]
    curve = Curve("a torus", points, 0.5)
    upper, lower = curve.plot(), throughput(curve)
    assert sorted(text.get_text() for text in upper.texts) == ["failed", "p99", "saturated", "throughput bound"]
    (tail,) = [text for text in upper.texts if text.get_text() == "p99"]
    assert 0.2 < tail.xy[0] < 0.3, "where the line leaves the axes"
    assert tail.xy[1] <= upper.get_ylim()[1]
    assert sorted(text.get_text() for text in lower.texts) == ["failed", "throughput bound"]
    assert lower.get_ylim()[1] > 1.1 * 0.5, "room for the name of the line"
    one = Curve("one", points[:1], 0.2).plot()
    assert [text.get_text() for text in one.texts] == ["throughput bound"]
    matplotlib.pyplot.close("all")


def test_plots_of_curves(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    from pyxsim.reports.plots.load_latency import save

    points = [{**SUMMARY, "offered_load": load, "packet_latency": 30 + 10 * load} for load in (0.1, 0.2, 0.3)]
    points.append({**SUMMARY, "offered_load": 0.4, "saturated": True})
    curve = Curve("a torus", points, 0.5)
    ax = curve.plot()
    assert ax.get_title(loc="left") == "a torus"
    save(curve, tmp_path / "curve.png")
    save(Curve("no bound", points[:1]), tmp_path / "one.svg")
    save(Curve("nothing", [{"offered_load": 0.1, "error": "deadlock"}]), tmp_path / "none.pdf")
    assert len(list(tmp_path.iterdir())) == 3
    matplotlib.pyplot.close("all")


def test_a_curve_that_knows_what_latency_is_made_of_shows_it() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    made = {f"latency_{part}": cycles for cycles, part in enumerate(PARTS)}
    points = [{**SUMMARY, **made, "offered_load": load} for load in (0.1, 0.2)]
    ax = Curve("a torus", points, 0.5).plot()
    legend = ax.get_legend()
    assert legend is not None
    # From above, as the areas are: each ends where the next one begins, the last one at the mean.
    assert [text.get_text() for text in legend.get_texts()] == ["VC" if part == "vc" else part for part in PARTS[::-1]]
    tops = [area.get_paths()[0].get_extents().y1 for area in ax.collections if area.get_label() in ("VC", *PARTS)]
    assert tops == [0, 1, 3, 6, 10, 15, 21, 28, 36]
    del points[1]["latency_source"]
    assert Curve("one that does not", points, 0.5).plot().get_legend() is None
    matplotlib.pyplot.close("all")
