"""`pyxsim new`: every command of every written README runs; nothing is overwritten."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest

import pyxsim as face
from pyxsim.study.new_project import TEMPLATES
from tests.cli.inputs import Command

COMMANDS = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_command_of_a_project_runs(
    pyxsim: Command, template: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = pyxsim("new", "project", "--template", template, "--json")
    assert ended.code == 0, ended.err
    written = json.loads(ended.out)["files"]
    assert sorted(written) == sorted(str(p.relative_to("project")) for p in Path("project").rglob("*") if p.is_file())
    monkeypatch.chdir(folder / "project")
    blocks = COMMANDS.findall(Path("README.md").read_text(encoding="utf-8"))
    lines = [shlex.split(line) for block in blocks for line in block.splitlines()]
    assert {word for words in lines for word in words} >= set(TEMPLATES[template])
    for words in lines:
        ended = pyxsim(*words[1:])
        assert ended.code == 0, f"{words}: {ended.err}"


def test_nothing_is_overwritten(pyxsim: Command, folder: Path) -> None:
    (folder / "mine").mkdir()
    (folder / "mine" / "thesis.tex").write_text("all of it")
    (folder / "note").write_text("a file")
    ended = pyxsim("new", "mine")
    assert ended.code == 2
    assert "mine: folder: is a folder that contains files; allowed: a new or an empty folder" in ended.err
    assert [path.name for path in (folder / "mine").iterdir()] == ["thesis.tex"]
    assert "note: folder: is a file" in pyxsim("new", "note").err
    ended = pyxsim("new", "other", "--template", "tori")
    assert "template: unknown template 'tori'; allowed: torus, fat-tree, training, traffic" in ended.err
    assert not (folder / "other").exists()


def test_the_function_returns_what_the_command_prints(pyxsim: Command, folder: Path) -> None:
    printed = json.loads(pyxsim("new", "a", "--json").out)
    assert face.new("b").json() == {**printed, "folder": "b"}


def test_all_has_every_extra_of_a_user(tree: Path) -> None:
    extras = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    (names,) = extras["all"]
    assert set(names.removeprefix("pyxsim[").removesuffix("]").split(",")) == {
        "report", "xarray", "notebook", "dask", "parquet", "yaml", "design"
    }  # fmt: skip
