"""`pyxsim report` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.inputs import Command

pytest.importorskip("plotly")


@pytest.fixture
def result(pyxsim: Command, folder: Path) -> Path:
    assert pyxsim("run", "small.toml", "-o", "small.h5", "-q").code == 0
    return folder / "small.h5"


def test_a_page_stands_beside_its_file(pyxsim: Command, folder: Path, result: Path) -> None:
    ended = pyxsim("report", "small.h5")
    assert ended.code == 0
    assert ended.err.startswith("wrote small.html (")
    assert (folder / "small.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_json_tells_where_it_is(pyxsim: Command, folder: Path, result: Path) -> None:
    (folder / "sub").mkdir()
    ended = pyxsim("report", "small.h5", "-o", "sub/page.html", "--json")
    told = json.loads(ended.out)
    assert told["report"] == "sub/page.html"
    assert told["bytes"] == (folder / "sub" / "page.html").stat().st_size
    assert not ended.err


def test_faults_are_lines(pyxsim: Command, folder: Path, result: Path) -> None:
    (folder / "text.h5").write_text("no result")
    ended = pyxsim("report", "text.h5", "missing.h5", "-o", "page.pdf")
    assert ended.code == 2
    page, text, missing = (line.removeprefix("pyxsim: ") for line in ended.err.splitlines())
    assert page == "page.pdf: a page cannot be written as '.pdf'; allowed: .html, .htm"
    assert text == "text.h5: not a readable HDF5 file; allowed: a file written by `pyxsim run -o`"
    assert missing == "missing.h5: no such file"
    assert not list(folder.glob("*.html"))


def test_a_result_is_not_written_over(pyxsim: Command, folder: Path, result: Path) -> None:
    result.rename(folder / "result.html")
    ended = pyxsim("report", "result.html")
    assert ended.code == 2
    assert "it is an input of this run" in ended.err
