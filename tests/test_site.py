"""The site of the docs (`make docs`): every page is in it, every link leads somewhere, and nothing is fetched."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# What a browser loads of its own accord: not a link that a reader follows.
LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?([^\"' >]+)"
    r"|<link\b(?=[^>]*rel=[\"']?(?:stylesheet|icon|preload|preconnect))[^>]*\bhref=[\"']?([^\"' >]+)"
    r"|@import\s+[\"'(]*([^\"')]+)|url\([\"']?([^\"')]+)"
)


def test_the_list_of_pages_is_the_nav() -> None:
    """docs/index.md tells what each page is for, mkdocs.yml what it is called: the same pages in the same order."""
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    named = [page for page in re.findall(r"[\w/]+\.md", nav) if page != "index.md"]
    named = [page for page in named if page == "studies/index.md" or not page.startswith("studies/")]
    links = re.findall(r"\]\(([\w./]+\.(?:md|ipynb))\)", (DOCS / "index.md").read_text(encoding="utf-8"))
    listed = [link.replace("../", "tree/").replace(".ipynb", ".md") for link in links]
    assert list(dict.fromkeys(listed)) == named


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built, which is a test by itself: a page that the nav does not name, and a link to nowhere, are errors."""
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_there_and_can_be_found(site: Path) -> None:
    pages = {
        path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*") if path.suffix in (".md", ".ipynb")
    }
    assert {path for path in pages if not (site / path).exists()} == set()
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {Path(entry["location"].partition("#")[0]) for entry in index["docs"]}
    assert pages <= found


def test_a_file_outside_of_the_docs_is_shown(site: Path) -> None:
    """studies/hotspot.md links ../../inputs/studies/hotspot.toml."""
    page = (site / "studies" / "hotspot.html").read_text(encoding="utf-8")
    assert "../tree/inputs/studies/hotspot.toml.html" in page
    shown = (site / "tree" / "inputs" / "studies" / "hotspot.toml.html").read_text(encoding="utf-8")
    first = (ROOT / "inputs" / "studies" / "hotspot.toml").read_text(encoding="utf-8").splitlines()[0]
    assert first in shown


def test_nothing_is_fetched(site: Path) -> None:
    files = [path for path in site.rglob("*") if path.suffix in (".html", ".css")]
    loaded = {(f.name, next(filter(None, m.groups()))) for f in files for m in LOADED.finditer(f.read_text("utf-8"))}
    assert len(loaded) > len(files)  # scripts, style sheets, pictures: the pattern does find them
    assert {(name, what) for name, what in loaded if re.match(r"(\w+:)?//", what)} == set()


def test_no_list_or_table_is_swallowed(site: Path) -> None:
    """Here, not on git hosts, they want an empty line before them, or they end up in the paragraph above."""
    swallowed = re.compile(r"<p>(?:(?!</p>|<pre).)*?\n(?:- |\d+\. |\| ).{0,60}", re.DOTALL)
    found = [(f.name, m[0][-80:]) for f in site.rglob("*.html") for m in swallowed.finditer(f.read_text("utf-8"))]
    assert not found


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium")
def test_the_search_works_from_a_disk(site: Path) -> None:
    """Asked through the address, the page must have the answers in it when its scripts have run."""
    words = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={site.parent / 'browser'}"]
    asked = [*words, "--virtual-time-budget=10000", "--dump-dom", f"{(site / 'index.html').as_uri()}?q=saturation"]
    page = subprocess.run(asked, capture_output=True, text=True, timeout=120, check=True).stdout
    assert re.search(r"\d+ matching documents", page)
    assert "traffic.html?h=saturation" in page
