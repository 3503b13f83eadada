"""docs/commands.md has every command, its options as they are, and every JSON key (tests/test_docs.py runs them)."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

from pyxsim import Result
from pyxsim.cli.page import EVERYWHERE, TABLE, commands, table, updated
from tests.cli.inputs import ASTRA_WORDS, Command


def page(tree: Path) -> str:
    return (tree / "docs" / "commands.md").read_text(encoding="utf-8")


def test_its_options_are_those_of_the_commands(tree: Path) -> None:
    assert page(tree) == updated(page(tree)), "out of date: python -m pyxsim.cli.page docs/commands.md"


def test_it_has_every_command_once(tree: Path) -> None:
    assert Counter(TABLE.findall(page(tree))) == Counter([EVERYWHERE, *commands()])


def test_an_option_is_told_as_it_is() -> None:
    """A row of its own, or a name among those that many commands have; a default where there is one."""
    assert "| `--size SIZE` | Size of the collective. Default: `1 MiB`. |" in table("collective")
    assert "| `--npus N` | Number of NPUs in the group; 8 by default, or those of --on. |" in table("collective")
    assert "| `-q`, `--quiet` | Print errors only. |" in table(EVERYWHERE)
    assert "| <code>--threads N&#124;auto</code> |" in table(EVERYWHERE)
    assert "Print errors only" not in table("run")
    assert "`--quiet`" in table("run")
    assert table("doctor") == "[Shared options](#shared-options): `--json`."


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
