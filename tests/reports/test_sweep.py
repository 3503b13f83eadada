"""The picture of a sweep: which lines, where, under which names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyxsim.errors import InputError
from pyxsim.results.sweep import Point, Sweep

pytest.importorskip("matplotlib")

import pyxsim.reports  # noqa: F401
from pyxsim.reports.plots.sweep_lines import Scale, file_name, label_of, save

LOADS, VCS = [0.1, 0.2, 0.3], [1, 2, 4]


def made(axes: dict[str, list[Any]], value: Any) -> Sweep:
    """The product of two or three axes; `value` makes the numbers of a point."""
    changed: list[dict[str, Any]] = [{}]
    for name, values in axes.items():
        changed = [{**one, name: each} for one in changed for each in values]
    return Sweep(Path(), "ring 4", axes, [Point(str(k), one, "done", value(one)) for k, one in enumerate(changed)])


def latency(one: dict[str, Any]) -> dict[str, Any]:
    return {"packet_latency": 10 * one["traffic.load"] + one["router.vcs"], "saturated": one["traffic.load"] > 0.25}


def test_a_line_for_each_value() -> None:
    sweep = made({"router.vcs": VCS, "traffic.load": LOADS}, latency)
    ax = sweep.plot("load", "packet_latency", "vcs")
    assert [line.get_label() for line in ax.lines] == ["1", "2", "4"]
    for vcs, line in zip(VCS, ax.lines, strict=True):
        assert line.get_xdata().tolist() == [0.1, 0.2]  # what is saturated is left out, and said
        assert line.get_ydata().tolist() == [10 * x + vcs for x in LOADS[:2]]
    assert [text.get_text() for text in ax.texts] == ["saturated: 3 points left out"]
    assert ax.get_xlabel() == "offered load (flits per node and cycle)"
    assert ax.get_ylabel() == "packet latency (cycles)"
    assert ax.get_legend().get_title().get_text() == "router.vcs"
    assert ax.get_title(loc="left") == "ring 4"


def test_other_axes_are_a_range() -> None:
    sweep = made({"output.seed": [1, 2], "n": [1, 2, 3]}, lambda one: {"time_ns": one["n"] * one["output.seed"]})
    ax = sweep.plot("n", "time_ns")
    assert ax.lines[0].get_ydata().tolist() == [1.5, 3.0, 4.5]
    assert len(ax.collections) == 1
    assert ax.texts[0].get_text() == "mean and range over seed"
    assert ax.get_legend() is None


def test_a_zipped_axis_is_no_range() -> None:
    pairs = [{"tensor": tensor, "data": 8 // tensor} for tensor in (1, 2, 4)]
    points = [Point(str(k), one, "done", {"time_ns": k}) for k, one in enumerate(pairs)]
    ax = Sweep(Path(), "ring 8", {"tensor": [1, 2, 4], "data": [8, 4, 2]}, points).plot("tensor", "time_ns")
    assert list(ax.texts) == []


def test_times_have_the_unit_of_the_longest() -> None:
    sweep = made({"n": [1, 2, 3]}, lambda one: {"time_ns": one["n"] * 10**6, "cycles": one["n"] * 10**6})
    ax = sweep.plot("n", "time_ns")
    assert ax.get_ylabel() == "simulated time (ms)"
    assert ax.lines[0].get_ydata().tolist() == [1e6, 2e6, 3e6]
    assert ax.yaxis.get_major_formatter()(2_500_000, 0) == "2.5"
    assert sweep.plot("n", "cycles").get_ylabel() == "simulated time (cycles)"


def test_sizes_are_shown_in_logarithms() -> None:
    sizes = ["64 KiB", "1 MiB", "16 MiB"]
    sweep = made({"collective.size": sizes}, lambda one: {"time_ns": 10 ** (3 * sizes.index(one["collective.size"]))})
    ax = sweep.plot("size", "time_ns")
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert ax.lines[0].get_xdata().tolist() == [64, 1024, 16384]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == sizes


def test_many_lines_have_shades_and_names_beside_the_axes() -> None:
    sweep = made({"a": list(range(12)), "b": [1, 2]}, lambda one: {"time_ns": one["a"]})
    ax = sweep.plot("b", "time_ns", "a")
    assert len({line.get_color() for line in ax.lines}) == 12
    assert ax.get_legend().get_bbox_to_anchor().x0 > ax.bbox.x1


@pytest.mark.parametrize(
    ("values", "geometric", "places"),
    [
        ([1, 2, 4, 8], True, [1.0, 2.0, 4.0, 8.0]),
        ([0.1, 0.2, 0.3, 0.9], False, [0.1, 0.2, 0.3, 0.9]),
        ([1, 2], False, [1.0, 2.0]),
        ([0, 1, 10, 100], False, [0.0, 1.0, 10.0, 100.0]),
        (["ring", "torus"], False, [0.0, 1.0]),
        ([[4], [8, 8]], False, [0.0, 1.0]),
        ([True, False], False, [0.0, 1.0]),
        (["1 us", "500 ns"], False, [1.0, 0.5]),
        (["1 us", "ring"], False, [0.0, 1.0]),
    ],
)
def test_where_values_stand(values: list[Any], geometric: bool, places: list[float]) -> None:
    scale = Scale.of(values)
    assert (scale.geometric, [scale.at(value) for value in values]) == (geometric, places)


def test_names() -> None:
    sweep = made({"router.vcs": VCS, "other.vcs": [1], "traffic.load": LOADS}, latency)
    with pytest.raises(InputError, match=r"no point has a column 'vcs'; allowed: router\.vcs, other\.vcs, traffic"):
        sweep.plot("load", "packet_latency", "vcs")
    with pytest.raises(InputError, match=r"'saturated' is not a swept key; allowed: router\.vcs, other\.vcs, load"):
        sweep.plot("saturated", "packet_latency")
    with pytest.raises(InputError, match="did you mean 'packet_latency'"):
        sweep.plot("load", "packet_latenci")
    assert file_name(("traffic.load", "time_ns", None)) == "time_ns-over-load.png"
    assert file_name(("a.x[0]", "b/c", "d.e")) == "b_c-over-x_0_-by-e.png"
    assert label_of("warmup_cycles") == "warmup cycles"


def test_where_there_is_nothing_to_draw(tmp_path: Path) -> None:
    sweep = made({"router.vcs": VCS, "traffic.load": [0.9]}, latency)
    assert sweep.plot("load", "packet_latency", "vcs").texts[0].get_text() == "every point is saturated"
    save(sweep, tmp_path / "empty.png", "load", "packet_latency")
    assert (tmp_path / "empty.png").read_bytes().startswith(b"\x89PNG")
