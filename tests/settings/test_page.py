"""The page docs/settings.md: its list of keys is the one of the code, and its examples run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyxsim.errors import PyxsimError
from pyxsim.settings import Experiment, load_experiment
from pyxsim.settings.page import MARK, every_key, main
from pyxsim.settings.points import points

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def test_the_page_lists_every_key_as_it_is() -> None:
    _, _, listed = PAGE.read_text(encoding="utf-8").partition(MARK)
    assert listed.strip() == every_key().strip(), (
        "docs/settings.md is out of date: python -m pyxsim.settings.page docs/settings.md"
    )


def test_the_page_is_updated_below_its_mark_only(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"prose\n{MARK}\nold keys\n", encoding="utf-8")
    main(page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"prose\n{MARK}")
    assert "old keys" not in text
    assert "| `vcs` | a whole number from 1 to 1024 | `4` |" in text


def test_the_examples_of_the_page_are_experiments(tmp_path: Path) -> None:
    examples = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) >= 2
    for number, example in enumerate(examples):
        path = tmp_path / f"{number}.toml"
        path.write_text(example, encoding="utf-8")
        assert all(isinstance(point.experiment, Experiment) for point in points(path))


def test_the_faults_that_the_page_shows_are_those_that_a_user_sees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PyxsimError, "in_command", True)
    # The page shows a faulty file, then what is said about it.
    match = re.search(r"```\n(# exp\.toml\n.*?)```\n.*?```\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert match is not None
    path = tmp_path / "exp.toml"
    path.write_text(match[1], encoding="utf-8")
    told = ""
    try:
        load_experiment(path, ["network.router.vcs=0"])
    except ValueError as error:
        told = str(error).replace(f"{tmp_path}/", "")
    assert told.splitlines() == match[2].splitlines()
