"""docs/commands.md names every command, option and JSON key. (tests/test_docs.py runs its commands.)"""

from __future__ import annotations

import json
import re
from pathlib import Path

import typer

from pyxsim import Result
from pyxsim.cli.commands import app
from tests.cli.inputs import ASTRA_WORDS, Command


def page(tree: Path) -> str:
    return (tree / "docs" / "commands.md").read_text(encoding="utf-8")


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
