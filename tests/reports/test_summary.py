from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from pyxsim import library
from pyxsim.reports.text.facts import (
    dimensions,
    equals,
    facts,
    hottest,
    link_name,
    link_title,
    percent,
    plural,
    rounded,
)
from pyxsim.reports.text.summary import Summary, bar, html, print_summary, text
from pyxsim.results.result import Result
from pyxsim.topology import build as build_topology


@pytest.mark.parametrize(
    ("value", "unit", "base", "shown"),
    [
        (0, "B", 1024, "0 B"),
        (528, "B/s", 1000, "528 B/s"),
        (999.6, "B/s", 1000, "1.00 kB/s"),
        (8.49e9, "B/s", 1000, "8.49 GB/s"),
        (1e11, "B/s", 1000, "100 GB/s"),
        (2**20, "B", 1024, "1 MiB"),
        (1.5 * 2**30, "B", 1024, "1.50 GiB"),
        (4.5e18, "B/s", 1000, "4500 PB/s"),
    ],
)
def test_rounded(value: float, unit: str, base: int, shown: str) -> None:
    assert rounded(value, unit, base) == shown


def test_words() -> None:
    assert percent(0.4567) == "45.7 %"
    assert plural(1, "link") == "1 link"
    assert plural(2000, "link") == "2,000 links"


def test_facts(result: Result) -> None:
    told = {fact.label: (fact.value, fact.note) for fact in facts(result)}
    assert told["time"] == ("250 ns", "250 cycles at 1 GHz")
    assert told["lower bound"] == ("200 ns", "for its bytes on these links; the run took 1.250 times as long")
    # 1024 bytes in 250 ns are 4.096 GB/s
    assert told["bandwidth"] == ("4.10 GB/s", "algorithm bandwidth; bus bandwidth 4.10 GB/s (as nccl-tests)")
    assert told["delivered"] == ("33 KiB", "4 messages, 8 packets, 132 flits")
    assert told["network"] == ("2 NPUs", "4 links, 132 flit hops")
    # busy 172, 7, 0, 60 of 250 cycles: on average 239 / 1000
    assert told["links busy"] == ("23.9 %", "on average; busiest link 68.8 %")
    # 264 visits in half a second
    assert told["simulated in"] == ("0.50 s CPU", "528 router visits/s, 0.75 s in all, peak memory 42 MB")


def test_hottest_links_and_their_cause(result: Result) -> None:
    links = hottest(result, 3)
    assert [link.name for link in links] == ["d0+:(0)->(1)", "d0-:(1)->(0) é", "d0-:(0)->(1)"]
    assert [link.cause for link in links] == ["a credit (1.2 % of the time)", "nothing", "a credit (2.8 % of the time)"]
    assert links[0].mean == 172 / 250


def test_links_as_busy_as_the_last_shown(result: Result) -> None:
    result.totals["flits"][:] = [9, 5, 5, 12]  # 22, 12, 12 and 12 cycles
    assert equals(result, 1) == 0
    assert equals(result, 2) == 2
    assert equals(result, 4) == 0
    result.totals["flits"][:] = 0
    assert equals(result) == 0


def test_dimension(result: Result) -> None:
    (dim,) = dimensions(result)
    assert dim.name == "0: 2 NPUs"
    assert dim.links == 4
    assert dim.mean == pytest.approx(239 / 1000)
    assert dim.most == 172 / 250
    # 3 and 7 cycles of stall_credit over 4 links of 250 cycles
    assert dim.stalls == pytest.approx((10 / 1000, 0, 0, 0))


def test_text(result: Result) -> None:
    shown = text(result)
    lines = shown.splitlines()
    assert lines[0].startswith("ring 2, all-reduce of 1 KiB ")
    assert lines[0].endswith("packet, seed 7")
    # The share of the busiest link belongs to "busy", not to what was waited for.
    assert re.search(
        r"^dimension +links +bandwidth +busy +\(most\) +waited: credit +VC +arbitration +link$", shown, re.M
    )
    assert re.search(r"^0: 2 NPUs +4 +100 GB/s 23\.9 % 68\.8 % +1\.0 %", shown, re.MULTILINE)
    assert "warning: latency rounded up: 0.5 ns is 1 cycle" in lines
    assert "interrupted" not in shown


@pytest.mark.parametrize("width", [60, 80, 100, None])
def test_a_gap_divides_title_and_backend(build: Callable[..., Result], width: int | None) -> None:
    """The title leaves exactly the columns of the right part, or fewer."""
    wide = 100 - len("pyxsim 0.1.0, packet, seed 7")
    result = build(experiment_toml=f'network.name = "{"x" * wide}"')
    out = io.StringIO()
    print_summary(result, Console(file=out, width=width, force_terminal=width is not None, color_system=None))
    assert re.search(r"x…?  pyxsim", out.getvalue().splitlines()[0])


def test_incomplete_is_said_and_not_judged(build: Callable[..., Result]) -> None:
    shown = text(build(complete=False))
    assert "interrupted" in shown
    assert "times as long" not in shown
    assert "bandwidth; bus" not in shown


def test_a_failure_is_said(build: Callable[..., Result]) -> None:
    result = build(complete=False, failure="deadlock in cycle 40: all wait")
    for shown in (text(result), html(result)):
        assert "the simulated system failed" in shown
        assert "interrupted" not in shown


def test_links_have_kinds(build: Callable[..., Result]) -> None:
    """Where the kinds of links are not the dimensions, their names are told and no numbers of dimensions."""
    result = build(link_kinds=["local", "global"])
    result.links.dim[:] = [0, 0, 1, 1]
    assert [use.name for use in dimensions(result)] == ["local", "global"]
    assert [link_name(result, kind) for kind in (0, 1)] == ["local", "global"]
    assert link_title(result, 1) == "global"
    shown = text(result)
    assert re.search(r"^kind +links", shown, re.MULTILINE)
    assert re.search(r"^local +2 ", shown, re.MULTILINE)
    assert "2 NPUs " not in shown.partition("kind ")[2]


def test_dimensions_have_numbers(build: Callable[..., Result]) -> None:
    library.load_all()
    result = build(topology=build_topology("torus", [2, 3]), dimension_names=[])
    assert result.link_kinds == []
    assert [link_name(result, dim) for dim in (0, 1)] == ["dim 0", "dim 1"]
    assert link_title(result, 1) == "dim 1: ring 3"
    options = {"p": 1, "a": 2, "h": 1, "g": 3}
    assert build(topology=build_topology("dragonfly", options=options)).link_kinds == ["local", "global"]


def test_empty(empty: Result) -> None:
    shown = text(empty)
    assert "0 NPUs" in shown
    assert "busiest" not in shown


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_fits_the_page(build: Callable[..., Result], encoding: str) -> None:
    """Many dimensions, long names, many warnings: still 45 lines of 100 columns; and ASCII where there is no more."""
    dims = ", ".join('{block = "fully-connected", npus = 1024}' for _ in range(8))
    result = build(
        warnings=[f"warning {i}" for i in range(9)],
        experiment_toml=f'network.dims = [{dims}]\ncollective = {{kind = "all-reduce", size = "1 GiB"}}',
    )
    result.counts["not_skipped"] = "nothing was found to repeat within the run"
    result.links.dim[:] = [0, 1, 2, 7]
    result.links.name[0] = "x" * 200
    result.links.name[3] = "[bold]no markup[/bold]"
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace")
    Console(file=out, width=100, legacy_windows=False).print(Summary(result))
    out.seek(0)
    lines = out.read().splitlines()
    assert len(lines) <= 45
    assert all(len(line) <= 100 for line in lines)
    assert any("and 7 more warnings" in line for line in lines)
    assert any("[bold]no markup[/bold]" in line for line in lines)
    if encoding == "ascii":
        assert any("##########" in line for line in lines)
        table = [line for line in lines if "\u2026" not in line]
        assert all(line.isascii() for line in table)


def test_bar() -> None:
    assert bar(0.5, 20) == "\u2588" * 10
    assert bar(1 / 16, 2) == "\u258f"
    assert bar(2.0, 4) == "\u2588" * 4
    assert bar(0.5, 20, plain=True) == "#" * 10


def test_print_goes_to_stderr(result: Result, capsys: pytest.CaptureFixture[str]) -> None:
    print_summary(result)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "all-reduce of 1 KiB" in captured.err
    assert max(len(line) for line in captured.err.splitlines()) == 100


LONG = (
    "4.10 M router visits/s (6.15 M with those skipped), resumed 12 times, 1234567.85 s in all, peak memory 123456 MB"
)


def test_a_file_has_every_line_whole(
    build: Callable[..., Result], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever COLUMNS say: they are of a terminal. On one, what is too long gives way."""
    counts = {"router_visits": 61_500_000, "skipped_visits": 20_500_000, "resumed": 12}
    result = build(counts=counts, sim_cpu_s=10.0, total_cpu_s=1234567.85, peak_rss_mb=123456)
    for columns in ("80", "40"):
        monkeypatch.setenv("COLUMNS", columns)
        print_summary(result)
        assert any(line.endswith(LONG) for line in capsys.readouterr().err.splitlines())
    assert any(line.endswith(LONG) for line in text(result).splitlines())
    for width, whole in ((80, False), (100, False), (180, True)):
        out = io.StringIO()
        print_summary(result, console := Console(file=out, width=width, force_terminal=True, color_system=None))
        assert console.width == width
        assert (LONG in out.getvalue()) == whole
        assert all(len(line) <= width for line in out.getvalue().splitlines())


TOLD = {"threads_why": "only one core is idle", "threads": 1}


@pytest.mark.parametrize(
    ("counts", "cpu", "routers", "told"),
    [
        ({**TOLD, "threads": 2}, 0.1, 2, "2"),
        ({**TOLD, "threads_asked": 2}, 0.1, 2, "1"),
        (TOLD, 0.1, 2, None),
        (TOLD, 10.0, 2, "1"),
        (TOLD, 0.1, 256, "1"),
        (TOLD, 0.1, 255, None),
        ({**TOLD, "threads_asked": 1}, 10.0, 256, None),
        ({"threads": 1}, 10.0, 256, None),  # a backend that has no threads
    ],
)
def test_threads_are_told_where_one_may_expect_them(
    build: Callable[..., Result], counts: dict[str, Any], cpu: float, routers: int, told: str | None
) -> None:
    result = build(counts=counts, sim_cpu_s=cpu)
    result.links.dst[0] = routers - 1
    found = [(fact.value, fact.note) for fact in facts(result) if fact.label == "threads"]
    assert found == ([] if told is None else [(told, "only one core is idle")])


def test_html(build: Callable[..., Result]) -> None:
    result = build(experiment_toml='collective = {kind = "<b>", size = 1}')
    page = html(result)
    assert "&lt;b&gt; of 1 B" in page
    assert "d0+:(0)-&gt;(1)" in page
    assert "warning: latency" in page
    assert result._repr_html_() == page


def test_html_of_nothing(empty: Result) -> None:
    assert "busiest" not in html(empty)


@pytest.mark.parametrize("width", [None, 140, 100, 80])
def test_names_are_never_cut(build: Callable[..., Result], width: int | None) -> None:
    """In a file they are whole; on a terminal they go on in the next line. Numbers are whole in both."""
    names = [f"phase of a collective with a long name {number}" for number in range(3)]
    count = np.arange(3)
    phases = {"kind": np.array(names, dtype=object), "phase": count, "collective": 0 * count, "dimension": 0 * count}
    phases |= dict.fromkeys(("start", "end", "time", "queueing", "network"), count * 1_234_567)
    phases |= {"npus": count, "chunks": count}
    result = build(phases=phases, point_to_point=[])
    out = io.StringIO(text(result) if width is None else "")
    if width is not None:
        print_summary(result, Console(file=out, width=width, force_terminal=True, color_system=None))
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    begin = next(number for number, line in enumerate(lines) if line.startswith("phase "))
    table = lines[begin : lines.index("", begin)] if "" in lines[begin:] else lines[begin:]
    assert "\u2026" not in "".join(table)
    assert all(len(line) <= (width or 1000) for line in table)
    number = re.compile(r"  +\d.*")  # and what is behind it
    told = " ".join(" ".join(number.sub("", line).split()) for line in table)
    for number, name in enumerate(names):
        assert f"{number}: {name} in" in told
    if width is None:
        assert [line.split("  ")[0] for line in table[1:]] == [
            f"{n}: {name} in 0: 2 NPUs" for n, name in enumerate(names)
        ]
    assert any(line.count("2.469 ms") == 5 for line in table)
