"""Results of real runs, small ones, and a page as what a browser is given."""

from __future__ import annotations

import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import pyxsim
from pyxsim import library
from pyxsim.reports.html import chapters, save
from pyxsim.results.result import Result

pytest.importorskip("plotly")
pytest.importorskip("jinja2")

TORUS = {
    "network": {"topology": "torus", "shape": [4, 2], "bandwidth": "100 GB/s", "latency": "100 ns"},
    "system": {"chunks": 4},
    "collective": {"kind": "all-reduce", "size": "64 KiB"},
    "output": {"window": "100 ns", "attribution": "links"},
}


class Page(HTMLParser):
    """A page, taken apart as a browser does: figures by title, tables by caption, texts, and every tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text, self.tags, self.words = text, [], []
        self.figures: dict[str, Any] = {}
        self.tables: dict[str, list[list[str]]] = {}
        self._title = self._open = ""
        self._json: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        self.tags.append((tag, told))
        self._open = tag
        if tag == "div" and "data-figure" in told:
            self._title = str(told["aria-label"]).partition(". ")[0]
        if tag == "script":
            self._json = "" if told.get("type") == "application/json" else None
        if tag == "tr" and self.tables:
            next(reversed(self.tables.values())).append([])
        if tag in ("td", "th"):
            next(reversed(self.tables.values()))[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "script" and self._json is not None:
            found = json.loads(self._json)
            if "data" in found:
                self.figures[self._title] = found
            self._json = None
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._json is not None:
            self._json += data
        elif self._open == "caption":
            self.tables[data] = []
        elif self._open in ("td", "th"):
            next(reversed(self.tables.values()))[-1][-1] += data
        elif self._open not in ("script", "style"):
            self.words.append(data)


@pytest.fixture(scope="session")
def torus() -> Result:
    """An all-reduce on 4 x 2 NPUs."""
    library.load_all()
    return pyxsim.run(TORUS)


@pytest.fixture(scope="session")
def show(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Page]:
    """The page of results, by way of their files."""

    def page(*results: Any) -> Page:
        folder = tmp_path_factory.mktemp("page")
        paths = []
        for number, each in enumerate(results):
            paths.append(str(each) if isinstance(each, str | Path) else str(folder / f"{number}.h5"))
            if not isinstance(each, str | Path):
                each.save(paths[-1])
        save(chapters(paths), folder / "page.html")
        return Page((folder / "page.html").read_text(encoding="utf-8"))

    return page
