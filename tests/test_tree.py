"""The rules of the house that a list of files can show, and that every path named in the docs is there."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest

LONGEST = 600
# Files that may be longer, each with the reason: {"path": "reason"}.
LONGER = {
    "docs/validation.md": "written by `pyxsim validate`, a line for each of its cases",
    "docs/settings.md": "written from the settings, a line for each key",
    "docs/commands.md": "tables of options are written from the commands",
    "docs/output.md": "tables of columns are written from the datasets",
    "docs/python.md": "the reference is written from the signatures and docstrings",
}
TEXTS = {".py", ".pyi", ".pyx", ".pxd", ".h", ".md", ".toml", ""}
BIGGEST = 1 << 20  # bytes; a tree is cloned more often than it is read
GENERATED = re.compile(
    r"\.(so|pyd|o|py[cod])$|^(build|dist|results)/|\.egg-info/|^pyxsim/(?!embed/c/).*\.(c|cpp|html)$"
)
# Where the tree has no git (an unpacked source archive), these are not part of it.
NOT_OURS = {".git", ".venv", "build", "dist", "results", "__pycache__"}

# A path in a text: it begins with one of the folders of the tree.
FOLDERS = (
    "pyxsim",
    "topologies",
    "patterns",
    "routings",
    "collectives",
    "inputs",
    "examples",
    "tests",
    "docs",
    "benchmarks",
    "validation",
    r"\.ci",
)
DOC_PATH = re.compile(rf"(?<![\w/.\-])((?:{'|'.join(FOLDERS)})/[\w./*\-]*)(?![\w/<{{])")
DOC_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
# Paths that exist only after an installation or a run.
ELSEWHERE = ("pyxsim/_library",)


@cache
def files(tree: Path) -> list[Path]:
    """The files of the tree, relative to it: what git tracks or would track."""
    command = ["git", "-C", str(tree), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    if (tree / ".git").exists():
        listing = subprocess.run(command, capture_output=True, check=True, text=True).stdout
        found = [Path(name) for name in listing.split("\0") if name]
        return sorted(path for path in found if (tree / path).exists() or (tree / path).is_symlink())
    everything = (path.relative_to(tree) for path in tree.rglob("*") if not path.is_dir())
    return sorted(path for path in everything if not NOT_OURS & set(path.parts) and ".egg-info" not in str(path))


def documents(tree: Path) -> list[Path]:
    return [path for path in files(tree) if path.suffix == ".md" and (len(path.parts) == 1 or path.parts[0] == "docs")]


def missing_paths(tree: Path, document: Path) -> list[str]:
    """What a document names and the tree does not have, as "file:line: name"."""
    found = []
    for number, line in enumerate((tree / document).read_text(encoding="utf-8").splitlines(), 1):
        named = {match.group(1).rstrip(".") for match in DOC_PATH.finditer(line)}
        absent = [name for name in named if not name.startswith(ELSEWHERE) and not is_there(tree, name.rstrip("/"))]
        links = [link for link in DOC_LINK.findall(line) if "://" not in link and not link.startswith("mailto:")]
        absent += [link for link in links if not (tree / document.parent / link).exists()]
        found += [f"{document}:{number}: {name}" for name in sorted(set(absent))]
    return found


def is_there(tree: Path, name: str) -> bool:
    """Whether a name is that of something in the tree, or of several: a pattern, or the prefix of traces."""
    return any(tree.glob(name)) or any(tree.glob(f"{name}.*.et"))


def test_there_are_files(tree: Path) -> None:
    assert {Path("setup.py"), Path("pyxsim/__init__.py"), Path("docs/architecture.md")} <= set(files(tree))


def test_no_symbolic_links(tree: Path) -> None:
    # Git on Windows and zip archives turn them into files of one line.
    assert [str(path) for path in files(tree) if (tree / path).is_symlink()] == []


def test_no_file_is_too_long(tree: Path) -> None:
    lengths = {str(path): length(tree / path) for path in files(tree) if path.suffix in TEXTS}
    long = {path for path, lines in lengths.items() if lines > LONGEST}
    assert long <= set(LONGER), f"over {LONGEST} lines: " + ", ".join(f"{p} ({lengths[p]})" for p in long - set(LONGER))
    assert set(LONGER) <= long, f"no exception needed any more: {set(LONGER) - long}"


def length(file: Path) -> int:
    return file.read_bytes().count(b"\n")


def test_nothing_generated_and_nothing_big_is_kept(tree: Path) -> None:
    assert [str(path) for path in files(tree) if GENERATED.search(path.as_posix())] == []
    assert [str(path) for path in files(tree) if (tree / path).stat().st_size > BIGGEST] == []


def test_every_path_in_the_docs_exists(tree: Path) -> None:
    found = [line for document in documents(tree) for line in missing_paths(tree, document)]
    assert not found, "named but not there:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("see `docs/here.md`, docs/here.md.", []),
        ("see `docs/gone.md`.", ["docs/gone.md"]),
        ("all of docs/*.md and (docs/)", []),
        ("none of `docs/*.toml`", ["docs/*.toml"]),
        ("[here](here.md#part) [out](https://example.org/docs/gone.md)", []),
        ("[gone](gone.md)", ["gone.md"]),
        ("made by the user: /home/me/docs/x.md, mine/docs/x.md, docs/<name>.md", []),
        ("the copy in the wheel, `pyxsim/_library/topologies/`", []),
    ],
)
def test_a_planted_path_is_judged(tmp_path: Path, text: str, missing: list[str]) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "here.md").write_text(f"\n{text}\n", encoding="utf-8")
    found = missing_paths(tmp_path, Path("docs/here.md"))
    assert found == [f"docs/here.md:2: {name}" for name in missing]


def test_no_test_folder_is_a_package(tree: Path) -> None:
    # An __init__.py in tests/, or a conftest.py at the top, would put folders on sys.path, and with them the
    # unbuilt pyxsim/ of the tree before an installed one.
    names = {path.as_posix() for path in files(tree)}
    assert "conftest.py" not in names
    assert [name for name in names if name.startswith("tests/") and name.endswith("__init__.py")] == []


def test_pre_commit_runs_the_pinned_linters(tree: Path) -> None:
    hooks = (tree / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    project = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = {line for line in project["optional-dependencies"]["lint"] if not line.startswith("mypy")}
    assert set(re.findall(r'additional_dependencies: \["([^"]+)"\]', hooks)) == pinned


def test_the_version_is_told_once(tree: Path) -> None:
    """pyxsim.__version__ is the version; what cannot read it must agree with it."""
    package = ast.parse((tree / "pyxsim" / "__init__.py").read_text(encoding="utf-8"))
    values = {ast.unparse(node.targets[0]): node.value for node in package.body if isinstance(node, ast.Assign)}
    version = ast.literal_eval(values["__version__"])  # as the build reads it: without an import
    citation = re.search(r"^version: (\S+)$", (tree / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert citation
    assert citation.group(1) == version
    newest = re.search(r"^## \[(\d\S+)\]", (tree / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest
    assert newest.group(1) == version
    assert "version" in tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dynamic"]
