"""docs/commands.md: its commands run, and it names every command and every option."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
import typer

from pyxsim import Result
from pyxsim.cli.commands import app
from tests.cli.inputs import ASTRA_WORDS, Command

BLOCKS = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def page(tree: Path) -> str:
    return (tree / "docs" / "commands.md").read_text(encoding="utf-8")


def test_its_commands_run(pyxsim: Command, tree: Path, folder: Path) -> None:
    pytest.importorskip("matplotlib")
    shutil.copytree(tree / "inputs", folder / "inputs")
    commands = [line for block in BLOCKS.findall(page(tree)) for line in block.splitlines()]
    assert len(commands) > 8
    for line in commands:
        name, *words = shlex.split(line, comments=True)
        assert name == "pyxsim"
        ended = pyxsim(*words)
        assert ended.code == 0, f"{line}\n{ended.err}"
    for file in ("out.h5", "out.png", "torus.png", "network.svg", "mesh.graphml", "results/first.h5"):
        assert (folder / file).stat().st_size > 0


def test_it_names_every_command_and_option(tree: Path) -> None:
    sections = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", page(tree), re.MULTILINE | re.DOTALL))
    command: object = typer.main.get_command(app)
    for name, each in command.commands.items():  # type: ignore[attr-defined]
        general = page(tree).partition("\n## run\n")[0]
        for option in (word for parameter in each.params for word in parameter.opts if word.startswith("-")):
            assert option in sections[name] or option in general, f"{name} {option}"


def test_it_names_every_json_key(pyxsim: Command, tree: Path) -> None:
    known = set(re.findall(r"`(\w+)`", page(tree) + (tree / "docs" / "output.md").read_text(encoding="utf-8")))
    for words in (("run", "small.toml"), ("check", "small.toml"), ("list",), ("doctor",)):
        keys = set(json.loads(pyxsim(*words, "--json").out))
        assert keys <= known, f"{words[0]}: {keys - known}"


def test_the_experiment_in_a_result_file_runs_again(pyxsim: Command, folder: Path) -> None:
    """Also what became of ASTRA-sim's files, as the page says."""
    assert pyxsim(*ASTRA_WORDS, "-o", "first.h5").code == 0
    first = Result.load("first.h5")
    (folder / "again.toml").write_text(first.experiment_toml, encoding="utf-8")
    again = pyxsim("run", "again.toml", "--json")
    assert again.code == 0, again.err
    assert json.loads(again.out)["time_ns"] == first.time_ns
