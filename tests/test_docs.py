"""What the pages tell a user to type works: every `sh`, `python` and `toml` block of README.md and docs/ is run.

The blocks of one page run in order in one folder, with a copy of inputs/. Blocks marked `console` are not run: they
set up an environment or run these tests.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from pyxsim.settings.points import points

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Their blocks are pieces of files; tests/shelf puts the files together and runs them.
ASSEMBLED = {"extending.md", "extending_collective.md", "collectives.md"}


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(m[1], m[2], text[: m.start()].count("\n") + 2) for m in BLOCK.finditer(text)]


def runnable(page: Path) -> list[Block]:
    """Without the pages of studies: what their commands print is compared with the page by tests/test_studies.py."""
    return [block for block in blocks(page) if block.language in ("sh", "python") and page.parent.name != "studies"]


@pytest.mark.parametrize("page", [p for p in PAGES if p.name not in ASSEMBLED and runnable(p)], ids=lambda p: p.name)
def test_blocks_run(page: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "inputs", tmp_path / "inputs")
    commands = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}", "MPLBACKEND": "agg"}
    for block in runnable(page):
        shell = ["bash", "-euo", "pipefail", "-c", block.text]
        command = shell if block.language == "sh" else [sys.executable, "-c", block.text]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, f"{page.name}:{block.line}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_experiments_in_pages_are_right(page: Path, tmp_path: Path) -> None:
    for block in blocks(page):
        if block.language == "toml" and "[network]" in block.text and "[collective]" in block.text:
            path = tmp_path / f"{page.stem}_{block.line}.toml"
            path.write_text(block.text, encoding="utf-8")
            assert points(path)


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page.name}: {target}")
    assert not broken


def test_the_index_has_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    missing = [p.name for p in (ROOT / "docs").glob("*.md") if p.name != "index.md" and f"({p.name})" not in index]
    assert not missing
