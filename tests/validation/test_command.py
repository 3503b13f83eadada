"""`pyxsim validate` and `pyxsim booksim` as they are typed."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from pyxsim.cli.app import main

CONFIG = """
topology = torus; k = 4; n = 2; // small
routing_function = dim_order;
num_vcs = 4; sample_period = 200;
injection_rate = 0.1;
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "torus.cfg").write_text(CONFIG, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_validate(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "ring/kinds", "--workers", "1", "-o", "out", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["holds"], told["cases"][0]["measured"]) == (True, 0)
    assert (folder / "out" / "ring--kinds.svg").is_file()
    assert json.loads((folder / "out" / "results.json").read_text(encoding="utf-8"))["cases"] == told["cases"]


def test_validate_lists(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--list", "ring", "--json"]) == 0
    names = [case["name"] for case in json.loads(capsys.readouterr().out)["cases"]]
    assert "ring/kinds" in names
    assert not list(folder.glob("results"))


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["rings"], "did you mean 'ring'"),
        (["ring", "--write", "torus.cfg"], "the page is about all cases"),
        (["--write", "nothing.md"], "no such page"),
        (["ring/kinds", "--workers", "0"], "--workers: 0 is out of range; allowed: a whole number from 1"),
        (["ring/kinds", "--workers", "1025"], "--workers: 1025 processes; allowed: from 1 to 1024"),
        (["ring/kinds", "-o", "torus.cfg/out"], "'torus.cfg' is not a folder"),
        (["ring/kinds", "-o", "torus.cfg"], "torus.cfg: -o: is a file; allowed: the name of a folder"),
        (["ring/kinds", "-o", "a/b"], "a/b: -o: cannot be written: there is no folder 'a'"),
    ],
)
def test_validate_refuses(words: list[str], text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", *words]) == 2
    assert text in capsys.readouterr().err


def test_a_case_that_does_not_hold_ends_with_3(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("validation.case.Outcome.holds", False)
    assert main(["validate", "switch/1MiB", "--workers", "1", "-o", "out"]) == 3
    assert "1 cases do not hold: switch/1MiB" in capsys.readouterr().err


def test_booksim(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["booksim", "torus.cfg", "injection_rate=0.2", "--set", "output.seed=3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["offered_load"], told["seed"], told["npus"]) == (0.2, 3, 16)


def test_booksim_tells_what_booksim_tells(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["booksim", "torus.cfg", "alloc_iters=3"]) == 0
    text = capsys.readouterr().err
    for what in ("packet latency", "network latency", "routers visited", "flits per node and cycle: stable"):
        assert what in text
    assert "alloc_iters: changes nothing" in text


def test_booksim_from_stdin_shows_an_experiment(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(CONFIG))
    assert main(["booksim", "-", "--show"]) == 0
    (folder / "torus.toml").write_text(capsys.readouterr().out, encoding="utf-8")
    assert main(["run", "torus.toml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["offered_load"] == 0.1


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["nothing.cfg"], 2, "nothing.cfg: no such file"),
        (["torus.cfg", "num_vc=4"], 2, "num_vc: unknown key"),
        (["torus.cfg", "num_vcs"], 2, "'num_vcs' is not an assignment"),
        (["torus.cfg", "num_vcs=1"], 2, "num_vcs: "),
        (["torus.cfg", "alloc_iters=3", "--strict"], 2, "alloc_iters: changes nothing"),
        (["torus.cfg", "routing_function=min_adapt", "packet_size=5", "--strict"], 3, "can deadlock"),
    ],
)
def test_booksim_refuses(
    words: list[str], code: int, text: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["booksim", *words]) == code
    assert text in capsys.readouterr().err
