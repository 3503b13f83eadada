"""Where the time went, for people: tables and plots. The numbers are those of tests/results/conftest.py."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

import numpy as np
import pytest
from rich.console import Console

from pyxsim.reports.text.attribution_tables import blame, rows
from pyxsim.reports.text.summary import html, print_summary, text
from pyxsim.results.attribution import BLAME, PARTS, Attribution
from pyxsim.results.result import Result
from tests.results.conftest import make_attribution

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")

SPACES = re.compile(r" {2,}")


@pytest.fixture
def told(build: Callable[..., Result]) -> Result:
    return build(attribution=make_attribution())


def crowd(traffics: int, links: int = 12) -> Attribution:
    """Traffic i waits i + 1 cycles for each other one, and i for nobody, everywhere."""
    names = [f"the traffic with number {i}" for i in range(traffics)]
    grid = np.meshgrid(range(links), range(traffics), range(-1, traffics), [4], indexing="ij")
    link, victim, culprit, cause = (axis.ravel() for axis in grid)
    cycles = np.where(culprit < 0, victim, victim + 1)
    columns = (link, victim, culprit, cause, cycles, np.ones_like(link))
    parts = np.zeros((traffics, len(PARTS)), np.int64)
    parts[:, 4] = np.bincount(victim, cycles)
    table = dict(zip(BLAME, columns, strict=True))
    places = [f"a link with a rather long name {i}" for i in range(links)]
    return Attribution(names, places, np.full(traffics, 7), parts, table)


def on_terminal(result: Result) -> str:
    """The summary on a terminal of 100 columns."""
    out = io.StringIO()
    print_summary(result, Console(file=out, width=100, force_terminal=True, color_system=None))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def lines(result: Result, head: str, shown_by: Callable[[Result], str] = text) -> list[list[str]]:
    """The rows of a table of the summary, cell by cell, from the one with this head on."""
    shown = shown_by(result).splitlines()
    begin = next(i for i, line in enumerate(shown) if line.startswith(head))
    end = next((i for i in range(begin, len(shown)) if not shown[i]), len(shown))
    return [SPACES.split(line.replace(" %", "%")) for line in shown[begin:end]]


def test_all_traffics_together_come_first(told: Result) -> None:
    assert told.attribution is not None
    both, gradients, hot = rows(told.attribution)
    assert (both.name, both.messages, both.latency) == ("all", 3, 90)
    assert (gradients.name, gradients.latency) == ("gradients", 90)
    assert sum(gradients.shares) == pytest.approx(1)
    assert hot.shares == tuple(cycles / 90 for cycles in (20, 0, 40, 5, 0, 0, 15, 10, 0))


def test_the_parts_on_the_terminal(told: Result) -> None:
    head, both, _, hot = (" ".join(cells).split() for cells in lines(told, "where the time went"))
    assert head[4:] == ["cycles", *("VC" if part == "vc" else part for part in PARTS if part != "fault")]
    assert both == ["all", "90", "9.3%", "22.2%", "51.9%", "1.9%", "3.7%", "1.9%", "5.6%", "3.7%"]
    assert hot == ["hot", "90", "22.2%", "-", "44.4%", "5.6%", "-", "-", "16.7%", "11.1%"]


def test_the_hot_links_on_the_terminal(told: Result) -> None:
    _, first, second = lines(told, "packets waited most at")
    # 30 and 15 of 250 cycles
    assert " ".join(first) == "d0+:(0)->(1) 1 0.12 68.8% arbitration 50, credit 33 hot 67 gradients 67"
    assert " ".join(second) == "ejection lane of NPU 1 1 0.06 queue 67, link 33 hot 67 gradients 67"


def test_links_that_are_alike_are_one_line(build: Callable[..., Result]) -> None:
    told = crowd(2)
    result = build(attribution=told)
    # The first four are network links, the others are not. At each traffic 0 waits 1 + 1 cycles for somebody, traffic 1
    # 2 + 2, and 1 for nobody: 7 of 250.
    told.blame["cycles"][told.blame["link"] == 7] *= 100
    _, one, four, others = (" ".join(cells) for cells in lines(result, "packets waited most at"))
    whose = "the traffic with number 1 71 the traffic with number 0 43"
    assert one == f"a link with a rather long name 7 1 2.8 credit 100 {whose}"
    assert four == f"a link with a rather long name 0 4 0.028 68.8% credit 100 {whose}"
    assert others.startswith("a link with a rather long name 4 7 0.028")
    _, one, four, _ = (" ".join(cells) for cells in lines(result, "packets waited most at", on_terminal))
    assert one == "a link with a rather lon… 1 2.8 credit 100 the traff… 71 the traff… 43"
    assert four == "a link with a rather lon… 4 0.028 68.8% credit 100 the traff… 71 the traff… 43"
    ax = result.plot.waits()
    assert [tick.get_text() for tick in ax.get_yticklabels()][1] == "a link with a rather long name 0 (+3)"
    matplotlib.pyplot.close("all")


def test_who_waited_for_whom_on_the_terminal(told: Result) -> None:
    table = [" ".join(cells).split() for cells in lines(told, "delays by traffic")]
    assert table[0][3:] == ["cycles", "hot", "gradients", "none"]
    assert table[1:] == [["hot", "30", "-", "100.0%", "-"], ["gradients", "15", "33.3%", "-", "66.7%"]]


def test_culprits_that_are_too_many_are_one() -> None:
    victims, culprits, cycles = blame(crowd(9))
    assert victims == [f"the traffic with number {i}" for i in (8, 7, 6, 5, 4, 3)]
    assert culprits == [f"the traffic with number {i}" for i in (8, 7, 6, 5)] + ["others", "none"]
    assert cycles[0].tolist() == [12 * 9] * 4 + [12 * 9 * 5, 12 * 8]


@pytest.mark.parametrize("traffics", [1, 9, 32])
def test_the_summary_has_its_size_whatever_there_is_to_tell(build: Callable[..., Result], traffics: int) -> None:
    result = build(attribution=crowd(traffics))
    shown = on_terminal(result).splitlines()
    more = len(shown) - len(on_terminal(build()).splitlines())
    assert len(text(result).splitlines()) == len(shown)  # the same lines, as wide as they are
    assert more <= 31
    assert max(map(len, shown)) <= 100
    assert "and 3 more" in text(build(attribution=crowd(9)))


def test_without_attribution_nothing_is_said(result: Result) -> None:
    assert "where the time went" not in text(result)
    assert "where the time went" not in html(result)


def test_a_notebook(build: Callable[..., Result]) -> None:
    shown = html(build(attribution=make_attribution(traffic_names=["<b>", "hot"])))
    assert "<td style='text-align:left'>hot</td><td>90</td><td>22.2 %</td><td>-</td><td>44.4 %</td>" in shown
    assert "&lt;b&gt;" in shown
    assert shown.count("<tr>") == shown.count("</tr>")


def test_a_run_in_which_nobody_waited_says_what_there_is(build: Callable[..., Result]) -> None:
    told = make_attribution()
    calm = {name: values[told.blame["cause"] < 3] for name, values in told.blame.items()}
    result = build(attribution=make_attribution(blame=calm))
    assert "where the time went" in text(result)
    assert "waited most at" not in text(result)
    assert result.plot.waits().texts[0].get_text() == "no packet waited"
    assert result.plot.culprits().texts[0].get_text() == "no packet waited"
    matplotlib.pyplot.close("all")


def test_plots_show_the_numbers(told: Result) -> None:
    parts = told.plot.parts()
    assert [tick.get_text() for tick in parts.get_yticklabels()] == ["all", "gradients", "hot"]
    assert len(parts.containers) == len(PARTS) - 1
    widths = np.array([[bar.get_width() for bar in part] for part in parts.containers])
    assert widths.sum(axis=0) == pytest.approx([1, 1, 1])
    assert widths[0] == pytest.approx([25 / 270, 5 / 180, 20 / 90])
    waits = told.plot.waits()
    assert [tick.get_text() for tick in waits.get_yticklabels()] == ["d0+:(0)->(1)", "ejection lane of NPU 1"]
    assert sum(bar.get_width() for part in waits.containers for bar in part) == pytest.approx(45 / 250)
    culprits = told.plot.culprits()
    assert culprits.images[0].get_array().tolist() == [[0, 1, 0], [1 / 3, 0, 2 / 3]]
    assert {label.get_text() for label in culprits.texts} == {"100.0 %", "33.3 %", "66.7 %"}
    matplotlib.pyplot.close("all")


def test_the_page_grows_by_what_there_is_to_tell(told: Result, result: Result) -> None:
    page, plain = told.plot.figure(), result.plot.figure()
    assert page.get_figheight() > plain.get_figheight()
    titles = [ax.get_title(loc="left") for part in page.subfigs for ax in part.axes]
    assert {"Where the time went, of 3 messages", "Delays by traffic"} <= set(titles)


def test_plots_without_attribution_say_so(result: Result) -> None:
    for plot in (result.plot.parts, result.plot.waits, result.plot.culprits):
        assert plot().texts[0].get_text().startswith("no attribution")
    matplotlib.pyplot.close("all")
