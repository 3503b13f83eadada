"""The page as a whole: what it shows, that it is safe, that it is never too large, and what it is not made of."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyxsim.errors import InputError
from pyxsim.reports.html import chapters, check_page, render, save
from pyxsim.reports.html.elements import Detail, cut, sheet_of
from pyxsim.reports.html.plotly_style import plain, unlike
from pyxsim.reports.html.result_chapter import sections
from pyxsim.reports.text.facts import facts
from pyxsim.results.links import LinkTable
from pyxsim.results.provenance import settings_sha256
from pyxsim.results.result import STALLS, Result
from tests.reports.html.test_network import numbers

EVIL = '<script>alert("1")</script></script><img src=x onerror=alert(2)>'


@pytest.fixture(scope="module")
def page(torus: Result, show: Callable[..., Any]) -> Any:
    return show(torus)


def test_sections_of_a_collective(page: Any) -> None:
    titles = [attrs["id"] for tag, attrs in page.tags if tag == "section"]
    assert titles[0] == "network"
    assert titles[-1] == "settings"
    links = {str(attrs["href"]).removeprefix("#") for tag, attrs in page.tags if tag == "a"}
    assert links == set(titles)


def test_numbers_are_those_of_the_result(torus: Result, page: Any) -> None:
    assert page.tables["Summary"][1:] == [[fact.label, fact.value, fact.note] for fact in facts(torus)]
    text = " ".join(page.words)
    assert f"{torus.ratio:.3f} x" in text
    assert f"The run took {torus.ratio:.3f} times the lower bound" in text
    rows = dict(row[:2] for row in page.tables["Provenance"][1:])
    assert rows["sha256 of the settings"] == settings_sha256(torus.experiment_toml)
    assert rows["seed"] == str(torus.seed)
    assert torus.experiment_toml in "".join(page.words)


def test_lines_over_time_are_means_over_links(torus: Result, page: Any) -> None:
    figure = page.figures["Dimensions over time"]
    means = [trace for trace in figure["data"] if "hovertemplate" in trace]
    assert len(means) == 2
    for dim, trace in enumerate(means):
        mine = torus.utilization[:, torus.links.dim == dim].mean(axis=1)
        np.testing.assert_allclose(numbers(trace["y"])[:-1], mine)


def test_heat_map_of_links_has_every_value(torus: Result, page: Any) -> None:
    (heat,) = page.figures["Every link over time"]["data"]
    assert numbers(heat["z"]).sum() == pytest.approx(torus.utilization.sum(), rel=1e-5)


def test_waiting_is_what_was_counted(torus: Result, page: Any) -> None:
    traces = page.figures["What flits waited for"]["data"]
    for name, trace in zip(STALLS, traces, strict=True):
        share = torus.totals[name] / torus.time_cycles
        np.testing.assert_allclose(trace["x"], [share[torus.links.dim == dim].mean() for dim in (0, 1)])
    queues = page.figures["Queues"]["data"]
    assert sum(int(np.sum(numbers(trace["y"]))) for trace in queues) == len(torus.links)


def test_busiest_links_first(torus: Result, page: Any) -> None:
    head, *rows = page.tables["The busiest links"]
    assert head[:2] == ["link", "routers"]
    names = torus.links.name
    shares = [torus.link_utilization[names.index(row[0])] for row in rows]
    assert shares == sorted(torus.link_utilization, reverse=True)[: len(shares)]


def test_a_page_holds_all_it_needs(page: Any) -> None:
    for tag, attrs in page.tags:
        assert "src" not in attrs, tag
        assert tag not in ("link", "iframe", "img", "object")
    (policy,) = [attrs["content"] for tag, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert len(page.text.encode()) <= render.MOST_BYTES


def test_words_of_users_stay_words(torus: Result, build: Callable[..., Result], show: Callable[..., Any]) -> None:
    """Names of links, of a collective, of the file; settings and warnings: nothing of them becomes a tag."""
    links = LinkTable([f"{i} {EVIL}" for i in range(4)], *_columns(build().links))
    evil = build(
        links=links,
        warnings=[EVIL],
        dimension_names=[EVIL],
        experiment_toml=f"# {EVIL}\n[workload]\nfile = '{EVIL}'",
        failure=EVIL,
        complete=False,
    )
    shown = show(evil)
    assert [tag for tag, _ in shown.tags].count("script") == [tag for tag, _ in show(build()).tags].count("script")
    assert not any("onerror" in attrs for _, attrs in shown.tags)
    assert EVIL in shown.tables["Warnings"][1]
    assert not re.search(r"<img", shown.text)


def _columns(links: LinkTable) -> list[Any]:
    return [links.src, links.dst, links.dim, links.bandwidth, links.latency, links.s_num, links.s_den]


def test_texts_for_plotly_have_no_tags() -> None:
    assert plain("<b>&amp;</b>\n") == "&lt;b&gt;&amp;amp;&lt;/b&gt;\ufffd"


def test_names_that_are_the_same_stay_two() -> None:
    names = unlike(["a", "b", "a", "a"])
    assert len(set(names)) == 4
    assert [name.replace("\u200b", "") for name in names] == ["a", "b", "a", "a"]


def test_an_interrupted_run_says_so(build: Callable[..., Result], show: Callable[..., Any]) -> None:
    shown = show(build(complete=False))
    (alarm,) = [attrs for tag, attrs in shown.tags if attrs.get("role") == "alert"]
    assert alarm["class"] == "alarm"
    assert any("interrupted" in text for text in shown.words)


def test_one_npu_without_links(empty: Result, show: Callable[..., Any]) -> None:
    shown = show(empty)
    assert not shown.figures
    assert "Summary" in shown.tables


def test_less_detail_gives_a_smaller_page(torus: Result, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever the limit is, the page is made again until it fits, and says what was left out."""
    torus.save(tmp_path / "torus.h5")
    found = chapters([str(tmp_path / "torus.h5")])
    whole = render.page(found)
    monkeypatch.setattr(render, "MOST_BYTES", len(whole.encode()) - 1)
    smaller = render.page(found)
    assert len(smaller.encode()) < len(whole.encode())
    assert smaller.count("Shortened") > whole.count("Shortened")


def test_what_cannot_be_made_small_enough_is_refused(
    torus: Result, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    torus.save(tmp_path / "torus.h5")
    monkeypatch.setattr(render, "LEAST_SHARE", 0.6)
    monkeypatch.setattr(render, "MOST_BYTES", 2_000_000)
    with pytest.raises(InputError, match="the page would have more than 2 MB; allowed: fewer files at a time"):
        render.page(chapters([str(tmp_path / "torus.h5")]))


def test_sections_without_data_are_not_there(build: Callable[..., Result]) -> None:
    keys = [section.key for section in sections(build(), Detail())]
    assert "network" not in keys  # of a network that is on no shelf
    assert "attribution" not in keys
    assert all(section.panels for section in sections(build(), Detail()))


def test_tables_of_the_terminal() -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table()
    table.add_column("name")
    table.add_column("number", justify="right")
    table.add_column("why")
    table.add_row(Text("a[b]"), "1")
    sheet = sheet_of(table)
    assert list(sheet.head) == ["name", "number", "why"]
    assert sheet.rows == [["a[b]", "1", ""]]
    assert list(sheet.words) == ["why"]


def test_long_names_keep_their_ends() -> None:
    assert cut("x" * 80) == "x" * 80
    assert len(cut("a" * 100 + "b" * 100)) == 80
    assert cut("a" * 100 + "b" * 100).startswith("aaa")
    assert cut("a" * 100 + "b" * 100).endswith("bbb")


def test_files_that_are_no_results(tmp_path: Path) -> None:
    text, missing = tmp_path / "text.h5", tmp_path / "missing.h5"
    text.write_text("not HDF5")
    with pytest.raises(InputError) as caught:
        chapters([str(text), str(missing)])
    assert "not a readable HDF5 file" in str(caught.value)
    assert "no such file" in str(caught.value)


def test_a_page_is_html(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a page cannot be written as '\.pdf'; allowed: \.html, \.htm"):
        check_page(tmp_path / "page.pdf")


def test_a_truncated_file(torus: Result, tmp_path: Path) -> None:
    torus.save(tmp_path / "whole.h5")
    data = (tmp_path / "whole.h5").read_bytes()
    (tmp_path / "half.h5").write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match="not a readable HDF5 file"):
        chapters([str(tmp_path / "half.h5")])


def test_a_folder_that_cannot_be_written(torus: Result, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    torus.save(tmp_path / "torus.h5")
    with pytest.raises(InputError, match="cannot be written"):
        save(chapters([str(tmp_path / "torus.h5")]), tmp_path / "file" / "page.html")
