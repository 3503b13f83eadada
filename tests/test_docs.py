"""What the pages tell a user to type works: every `sh`, `python` and `toml` block of README.md and docs/ is run.

The blocks of one page run in order in one folder, with copies of inputs/ and examples/. A block with `title="FILE"` is
that file; one with `title="output"` is what the block before it prints, where `...` stands for anything. Blocks
marked `console` are not run: they set up an environment or run these tests.

Here the commands of pyxsim are carried out in this process: to start one takes longer than what most of them do. The
lines between them go to a shell; with --slow whole blocks do, as a user types them.
"""

from __future__ import annotations

import inspect
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, fields, replace
from itertools import groupby
from pathlib import Path
from subprocess import PIPE, STDOUT

import pytest

from pyxsim.cli.app import main
from pyxsim.settings.points import plan_of
from pyxsim.study.sweep import Standing
from pyxsim.traffic import PatternContext
from pyxsim.workload.graph import GraphBuilder

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r'^```(\w+)(?: title="([^"\n]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
# Their blocks are pieces of files; tests/shelf puts the files together and runs them.
ASSEMBLED = {"extending_topology.md", "extending_collective.md", "collectives.md"}


@dataclass(frozen=True)
class Block:
    language: str
    title: str | None
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(m[1], m[2], m[3], text[: m.start()].count("\n") + 2) for m in BLOCK.finditer(text)]


def runnable(page: Path) -> list[Block]:
    """Without the pages of studies: what their commands print is compared with the page by tests/test_studies.py."""
    return [b for b in blocks(page) if (b.title or b.language in ("sh", "python")) and page.parent.name != "studies"]


RUNNABLE = [page for page in PAGES if page.name not in ASSEMBLED and runnable(page)]
each_page = pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.name)

# Long, and where a shorter one of the same kind runs: these are for --slow, and so is what they print.
LONG = {
    "pyxsim curve inputs/torus_uniform.toml --loads 0.1:0.5:0.1 -o curve.png": "docs/commands.md",
    "pyxsim saturation inputs/torus_uniform.toml --resolution 0.1 --set traffic.precision=0.05": "tests/cli/"
    "test_traffic.py",
    "pyxsim compare inputs/studies/two_jobs.toml -o results/two_jobs.md -o results/two_jobs.h5 --plot "
    "results/two_jobs.png": "docs/commands.md",
    "pyxsim run inputs/torus_all_reduce.toml --set 'collective.size=64 MiB'": "docs/fast_forward.md",
    "pyxsim bench torus4x4x4-all-reduce --repeat 1": "tests/cli/test_bench.py",
    "pyxsim check inputs/training/llama3.toml --backend analytical --set workload.micro_batch=4 --set "
    "workload.batch=64 --allow-oom": "docs/training.md, without --set",
    "pyxsim curve inputs/torus_uniform.toml --loads 0.1:0.2:0.1 --plot curve.png --json": "docs/booksim.md",
    "pyxsim sweep buffers.toml -o results/buffers": "docs/sweep.md",
    "pyxsim sweep inputs/studies/ethernet/incast.toml --backend ethernet -o incast_sweep": "tests/"
    "test_ethernet_studies.py",
    "pyxsim sweep inputs/studies/ethernet/load_balancing.toml --backend ethernet -o load_balancing_sweep": "tests/"
    "test_ethernet_studies.py",
    "pyxsim sweep inputs/studies/ethernet/failed_link.toml --backend ethernet -o failed_link_sweep": "tests/"
    "test_ethernet_studies.py",
    "pyxsim sweep chords.toml --library mylib -o results/chords": "tests/study/sweep/test_run.py",
    "pyxsim sweep chunks.toml -o chunks --library mylib --backend fixed-latency --quiet": "tests/study/sweep/"
    "test_run.py",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, as a user has it who has fetched the tree. Figures that a block leaves open go with it."""
    for name in ("inputs", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("MPLBACKEND", "agg")
    yield tmp_path
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def words_of(line: str) -> tuple[list[str], str] | None:
    """Of a command of pyxsim its words, without the first, and the file that it prints into, or ""; None where it takes
    a shell to understand a line."""
    command, _, file = line.partition(" > ")
    if any(sign in command + file for sign in "|<>$;&"):
        return None
    words = shlex.split(command, comments=True) if command.startswith("pyxsim ") else []
    return (words[1:], file.strip()) if words[1:] else None


def steps(text: str) -> Iterator[tuple[list[str], str] | str]:
    """A block in its order: each command of pyxsim as `words_of` has it, and the lines between them, for a shell."""
    lines = text.replace("\\\n", " ").splitlines(keepends=True)
    for command, same in groupby(lines, key=words_of):
        if command is None:
            yield "".join(same)
        else:
            yield from (command for _ in same)


Run = Callable[[Block], tuple[int, str | None]]  # exit code; what was printed, None if something was left out


def in_a_process(block: Block) -> tuple[int, str | None]:
    shell = ["bash", "-euo", "pipefail", "-c", block.text]
    words = shell if block.language == "sh" else [sys.executable, "-c", block.text]
    done = subprocess.run(words, stdout=PIPE, stderr=STDOUT, text=True, timeout=120, check=False)
    return done.returncode, done.stdout


def here(block: Block) -> tuple[int, str | None]:
    left_out = False
    with io.StringIO() as said, redirect_stdout(said), redirect_stderr(said):
        if block.language == "python":
            exec(compile(block.text, f"line {block.line}", "exec"), {"__name__": "__main__"})
            return 0, said.getvalue()
        for step in steps(block.text):
            if isinstance(step, str):
                code, text = in_a_process(replace(block, text=step))
                said.write(text or "")
            elif shlex.join(["pyxsim", *step[0]]) in LONG:
                code, left_out = 0, True
            elif step[1]:
                with Path(step[1]).open("w", encoding="utf-8") as file, redirect_stdout(file):
                    code = main(step[0])
            else:
                code = main(step[0])
            if code:
                return code, said.getvalue()
        return 0, None if left_out else said.getvalue()


def follow(page: Path, run: Run) -> None:
    """Do what a page says from its beginning to its end, in the current folder."""
    said: str | None = ""
    for block in runnable(page):
        where = f"{page.name}:{block.line}"
        if block.title == "output":
            if said is not None and not re.fullmatch(pattern(block.text), plain(said)):
                pytest.fail(f"{where}: this is what is printed:\n{plain(said)}")
        elif block.title:
            Path(block.title).parent.mkdir(parents=True, exist_ok=True)
            Path(block.title).write_text(block.text, encoding="utf-8")
        else:
            code, said = run(block)
            assert code == 0, f"{where}: {said}"


# What a sweep or search says every ten seconds where there is no terminal: whether it comes is up to the machine.
PROGRESS = re.compile(r"(\w+: )?\d+ of \d+ points(, .*)?|checking every point")


def plain(text: str) -> str:
    """Without blanks at the ends of lines, without empty lines around, and without lines that tell how far it is."""
    lines = (line.rstrip() for line in text.splitlines())
    return "\n".join(line for line in lines if not PROGRESS.fullmatch(line)).strip("\n") + "\n"


def pattern(text: str) -> str:
    """What a block of output stands for: `...` is any text of a line, or any lines."""
    lines = (re.escape(line).replace(r"\.\.\.", ".*") + r"\n" for line in plain(text).splitlines())
    return "".join(r"(?:.*\n)*?" if line == r".*\n" else line for line in lines)


@each_page
def test_blocks_run(page: Path, folder: Path) -> None:
    follow(page, here)


@pytest.mark.parametrize("checking", [False, True])
def test_progress_is_no_part_of_what_is_printed(checking: bool) -> None:
    told = Standing(200, done=120, failed=2, running={"a": 0.0}, seconds=100.0, checking=checking).line
    assert plain(f"{told}\nring 8\n") == "ring 8\n"


@pytest.mark.slow
@each_page
def test_blocks_run_as_they_are_typed(page: Path, folder: Path) -> None:
    follow(page, in_a_process)


def test_what_is_long_is_there() -> None:
    """Nothing else is left out by the list."""
    typed_in = [b for page in RUNNABLE for b in runnable(page) if b.language == "sh" and not b.title]
    typed = {shlex.join(["pyxsim", *step[0]]) for b in typed_in for step in steps(b.text) if not isinstance(step, str)}
    assert set(LONG) <= typed


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_experiments_in_pages_are_right(page: Path, tmp_path: Path) -> None:
    for block in blocks(page):
        if block.language == "toml" and "[network]" in block.text and "[collective]" in block.text:
            path = tmp_path / f"{page.stem}_{block.line}.toml"
            path.write_text(block.text, encoding="utf-8")
            assert plan_of(path).points


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


def test_limits_are_found_by_their_words() -> None:
    page = (ROOT / "docs/limits.md").read_text(encoding="utf-8")
    words = ("failures", "congestion control", "energy", "retransmission", "PFC", "ECN", "NIC", "memory", "DVFS")
    assert [word for word in words if word not in page] == []
    assert [name for name in ("packet", "analytical", "analytical-congestion", "flow") if f"`{name}`" not in page] == []


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("extending_pattern.md", [field.name for field in fields(PatternContext)]),
        ("extending_reader.md", list(inspect.signature(GraphBuilder.task).parameters)[1:]),
        ("extending_backend.md", ["default of `cost` is 0"]),
    ],
)
def test_pages_on_extensions_name_every_argument(page: str, names: list[str]) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    tables = "".join(re.findall(r"^\|.*|^`builder.task\(.*|.*default of.*", text, re.MULTILINE))
    assert [name for name in names if not re.search(rf"\b{name}\b", tables)] == []
