"""Tables, words and pictures of a comparison."""

from __future__ import annotations

import io
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import matplotlib as mpl
import pytest
from rich.console import Console

import pyxsim
from pyxsim.errors import InputError
from pyxsim.reports.plots.backend_ratios import figure, phases, ratios, save, times
from pyxsim.reports.text import comparison_tables as tables
from pyxsim.reports.text import verdict_tables
from pyxsim.reports.text.text_table import Sheet
from pyxsim.reports.text.text_width import room
from pyxsim.results.comparison import PACKET, Comparison, Entry
from pyxsim.results.result import Result
from pyxsim.study.compare import compare

mpl.use("Agg")

WIRES = {"bandwidth": "64 GB/s", "flit": "64 B", "latency": "200 ns"}
STUDY: dict[str, Any] = {
    "network": {"topology": "switch", "shape": [6], **WIRES},
    "collective": [{"kind": "all-reduce", "size": "8 KiB", "name": "gradients"}],
    "message": [{"src": src, "dst": 0, "size": "32 KiB", "name": "checkpoint"} for src in (1, 2, 3)],
    "sweep": {"network.router.buffer": [8, 512]},
}


@pytest.fixture(scope="module")
def two() -> Comparison:
    return compare(STUDY)


@pytest.fixture(scope="module")
def one() -> Comparison:
    return compare({key: value for key, value in STUDY.items() if key != "sweep"})


def shown(table: Any, width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO())
    console.print(table)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def column(sheet: Sheet, title: str) -> list[str]:
    return [row[list(sheet.head).index(title)] for row in sheet.rows]


def test_a_sheet_is_shown_alike_on_a_terminal_and_in_a_page() -> None:
    sheet = Sheet(("name", "a", "b"), [("x|y", "1", "two"), ("*", "10", "t")], words=("b",))
    assert sheet.markdown().splitlines() == [
        "| name | a | b |",
        "| --- | --: | --- |",
        "| x\\|y | 1 | two |",
        "| \\* | 10 | t |",
    ]
    assert [line.split() for line in shown(sheet.rich(1), 60)] == [
        ["name", "a", "b"],
        ["x|y", "1", "two"],
        ["and", "1", "more"],
    ]


def test_numbers_are_never_cut_off() -> None:
    sheet = Sheet(("name", "number"), [("n" * 80, "123456789")])
    assert shown(sheet.rich(width=30), 30)[1].endswith("n\u2026  123456789")


def test_a_file_has_whole_names() -> None:
    sheet = Sheet(("name", "number", "for"), [("n" * 120, "123456789", "a text of some words")], words=("for",))
    table = sheet.rich(width=None)
    console = Console(file=io.StringIO())
    console.width = room(console, [table])
    console.print(table)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "n" * 120 in printed
    assert "123456789" in printed


def test_texts_go_on_in_the_next_line() -> None:
    sheet = Sheet(("name", "number", "for"), [("n", "123456789", "buffer full 60, uninterrupted 20")], words=("for",))
    lines = shown(sheet.rich(width=30), 30)
    assert lines[1].split() == ["n", "123456789", "buffer", "full"]
    assert "".join(lines[2:]).replace(" ", "") == "60,uninterrupted20"


def test_a_comparison_is_read_back_as_it_was(two: Comparison, one: Comparison, tmp_path: Path) -> None:
    """All that scripts and people are told of it, of packets, chains, waiting and verdicts, is the same."""
    for number, each in enumerate((two, one)):
        each.save(tmp_path / f"{number}.h5")
        again = pyxsim.load(tmp_path / f"{number}.h5")
        assert isinstance(again, Comparison)
        assert tables.comparison_json(again) == tables.comparison_json(each)
        assert tables.page(again) == tables.page(each)
        assert again.provenance == each.provenance
        assert again.to_pandas().equals(each.to_pandas())
        assert again.points[0].estimate == each.points[0].estimate


@pytest.mark.parametrize("name", ["all.json", "all.md"])
def test_what_cannot_be_read_back_says_what_can(one: Comparison, tmp_path: Path, name: str) -> None:
    one.save(tmp_path / name)
    with pytest.raises(
        InputError, match=r"cannot load a \.\w+ file; allowed: the \.h5 file that the same command writes$"
    ):
        pyxsim.load(tmp_path / name)
    with pytest.raises(InputError, match="no such file"):
        pyxsim.load(tmp_path / "none.json")


def test_it_is_not_the_result_of_a_run(one: Comparison, tmp_path: Path) -> None:
    one.save(tmp_path / "all.h5")
    problem = r"all\.h5: a comparison, not the result of a run; allowed: a file written by `pyxsim run -o`$"
    with pytest.raises(InputError, match=problem):
        Result.load(tmp_path / "all.h5")
    with pytest.raises(InputError, match=r"Is a directory; allowed: a file written by `pyxsim run -o`$"):
        Result.load(tmp_path)


def test_a_comparison_of_another_version(one: Comparison, tmp_path: Path) -> None:
    one.save(tmp_path / "all.h5")
    with h5py.File(tmp_path / "all.h5", "r+") as file:
        del file["points"]
    with pytest.raises(InputError, match=r"all\.h5: not a comparison that this version of pyxsim can read"):
        pyxsim.load(tmp_path / "all.h5")


def test_the_overview_has_a_row_for_each_point(two: Comparison) -> None:
    sheet = tables.overview(two)
    labels = ["buffer=8", "buffer=512"]
    traffics = ("", ": gradients", ": checkpoint")
    assert column(sheet, "point") == [f"{label}{traffic}" for label in labels for traffic in traffics]
    for number, point in zip((0, 3), two.points, strict=True):
        packet = point.cycles(PACKET) or 0
        last = max(tables.ends(point), key=lambda row: row["end_ns"][PACKET])
        assert [
            cell for row in sheet.rows[number + 1 : number + 3] for cell in row[1:2] if cell == sheet.rows[number][1]
        ]
        assert last["end_ns"][PACKET] == point.ns(packet)
        for name in ("analytical", "flow"):
            part = float(column(sheet, f"{name} / packet")[number])
            assert part == pytest.approx((point.cycles(name) or 0) / packet, abs=6e-4)
            place = (number, list(sheet.head).index(f"{name} / packet"))
            assert (place in sheet.marked) == (abs(part - 1) > 0.1)
    short = tables.overview(two, short=True)
    assert short.head == ["point", "packet", "analytical", "congestion", "flow", "links", "within 10%"]
    assert column(short, "flow") == column(sheet, "flow / packet")


def test_a_small_buffer_is_told_as_one(two: Comparison) -> None:
    """8 flits, and more than 400 cycles until a credit is back: credit loops; with 512 there are none."""
    small, large = two.points
    link = next(
        link for link in verdict_tables.hottest(small) if verdict_tables.LOOP in verdict_tables.causes(small, link)
    )
    assert sum(verdict_tables.causes(small, link).values()) == link.cycles
    sentences = [verdict_tables.sentence(small, each) for each in verdict_tables.hottest(small)]
    assert any("credits were on their way back (its VCs hold 8 flits, " in text for text in sentences), sentences
    assert not any(verdict_tables.LOOP in verdict_tables.causes(large, each) for each in verdict_tables.hottest(large))
    assert float(column(verdict_tables.sheet(small), "at a time")[0]) > 0


def test_who_waited_for_whom_is_told(two: Comparison) -> None:
    told = " ".join(verdict_tables.sentence(two.points[1], each) for each in verdict_tables.hottest(two.points[1]))
    assert "packets of " in told
    assert "gradients" in told
    assert "because of checkpoint" in told


def test_each_traffic_has_its_end_on_each_backend(one: Comparison) -> None:
    sheet = tables.collectives(one.points[0])
    assert column(sheet, "traffic") == ["gradients", *["checkpoint"] * 3]
    assert list(sheet.head[2:]) == [PACKET, "analytical", "analytical-congestion", "flow"]
    assert all(cell.endswith("s") for row in sheet.rows for cell in row[1:])


def test_what_the_time_was_spent_on_is_all_of_it(one: Comparison) -> None:
    sheet = tables.spent(one.points[0])
    shares = [float(cell.rstrip(" %")) for cell in column(sheet, "share")]
    assert sum(shares) == pytest.approx(100, abs=0.1 * len(shares))


def test_the_page_holds_all_points_and_their_links(two: Comparison) -> None:
    page = tables.page(two)
    assert page.count("\n## ") == 2
    assert page.index("| point |") < page.index("## buffer=8") < page.index("## buffer=512")
    for point in two.points:
        for link in verdict_tables.hottest(point):
            assert f"- {verdict_tables.sentence(point, link)}\n" in page
    assert "Interrupted" in tables.page(replace(two, complete=False))


def test_a_point_that_could_not_be_run_is_told(one: Comparison) -> None:
    point = replace(one.points[0], entries=[Entry(PACKET, reason="no such machine"), *one.points[0].entries[:2]])
    sheet = tables.times(point, 0.1)
    assert (column(sheet, "time")[0], column(sheet, "note")[0]) == ("-", "no such machine")
    assert tables.said(point, 0.1)
    found = replace(one, points=[point])
    assert column(tables.overview(found), "analytical / packet") == ["-"] * 3
    assert figure(found).axes


def test_the_ratios_are_where_they_belong(two: Comparison) -> None:
    ax = ratios(two)
    drawn = {line.get_label(): line.get_xdata() for line in ax.get_lines()}
    for number, point in enumerate(two.points):
        assert drawn["packet"][number] == 1  # type: ignore[index]
        assert drawn["flow"][number] == pytest.approx(1 + (point.error("flow") or 0))  # type: ignore[index]
        assert drawn["links"][number] == pytest.approx(float(point.lower_bound) / (point.cycles(PACKET) or 0))  # type: ignore[index]
    labels = [text.get_text() for text in ax.get_yticklabels()]
    assert labels == ["buffer=8", "buffer=512"]
    mpl.pyplot.close("all")


def test_the_bar_of_the_packets_is_their_time(one: Comparison) -> None:
    point = one.points[0]
    ax = times(point)
    (first,) = {round(bar.get_y(), 3) for bar in ax.patches if bar.get_y() < 0}
    stacked = sum(bar.get_width() for bar in ax.patches if round(bar.get_y(), 3) == first)
    assert stacked == pytest.approx(point.ns(point.cycles(PACKET) or 0))
    assert phases(point).get_title(loc="left")
    mpl.pyplot.close("all")


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_pictures(two: Comparison, suffix: str, tmp_path: Any) -> None:
    save(two, tmp_path / f"all.{suffix}")
    assert (tmp_path / f"all.{suffix}").stat().st_size > 10_000


def test_twenty_points_and_none_at_all(two: Comparison) -> None:
    many = [replace(two.points[0], label=f"point {number}", variant=str(number // 5)) for number in range(20)]
    page = figure(replace(two, points=many))
    labels = page.axes[0].get_yticklabels()
    page.draw_without_rendering()
    tops = sorted(label.get_window_extent().y0 for label in labels)
    apart = min(b - a for a, b in pairwise(tops))
    assert apart > max(label.get_window_extent().height for label in labels), "labels lie on each other"
    assert figure(replace(two, points=[])) is not None
    bare = [replace(point, entries=[each for each in point.entries if each.backend != PACKET]) for point in two.points]
    assert figure(replace(two, points=bare, backends=["analytical", "flow"])).axes
