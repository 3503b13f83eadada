"""`pyxsim timeline` as it is typed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.cli.inputs import Command


@pytest.fixture
def out(pyxsim: Command, folder: Path) -> Path:
    assert pyxsim("run", "small.toml", "-o", "out.h5", "--quiet", "--set", "system.chunks=2").code == 0
    return folder / "out.h5"


@pytest.mark.usefixtures("out")
def test_it_writes_beside_the_result(pyxsim: Command, folder: Path) -> None:
    ended = pyxsim("timeline", "out.h5")
    assert (ended.code, ended.out) == (0, "")
    assert ended.lines[-1].startswith("wrote out.trace.json.gz (")
    events = json.loads(gzip.decompress((folder / "out.trace.json.gz").read_bytes()))["traceEvents"]
    # Four NPUs, three phases, two chunks.
    assert sum(event.get("cat") == "chunk" for event in events) == 4 * 3 * 2


@pytest.mark.usefixtures("out")
def test_what_it_says_to_scripts(pyxsim: Command, folder: Path) -> None:
    ended = pyxsim("timeline", "out.h5", "-o", "t.json", "--json", "--links", "2", "--npus", "1,3")
    told = json.loads(ended.out)
    assert (ended.code, ended.err) == (0, "")
    assert told["bytes"] == (folder / "t.json").stat().st_size
    assert (told["npus"], told["links"], told["left_out"], told["complete"]) == ("2 of 4", "2 of 16", [], True)
    events = json.loads((folder / "t.json").read_text(encoding="utf-8"))["traceEvents"]
    assert told["slices"] == sum(event["ph"] == "X" for event in events)
    assert told["samples"] == sum(event["ph"] == "C" for event in events)


@pytest.mark.usefixtures("out")
def test_what_is_left_out_is_said_in_one_line(pyxsim: Command) -> None:
    ended = pyxsim("timeline", "out.h5", "-o", "t.json", "--max-events", "100")
    assert ended.code == 0
    (line,) = [line for line in ended.lines if line.startswith("left out, for --max-events 100: ")]
    assert "links, namely the least busy" in line


def test_a_result_with_little_to_tell_says_so(pyxsim: Command, folder: Path) -> None:
    alone = '[network]\ntopology = "torus"\nshape = [1]\n[collective]\nkind = "all-reduce"\nsize = "1 KiB"\n'
    (folder / "alone.toml").write_text(alone, encoding="utf-8")
    assert pyxsim("run", "alone.toml", "-o", "alone.h5", "--quiet").code == 0
    ended = pyxsim("timeline", "alone.h5")
    assert ended.code == 0
    assert ended.lines[-1].startswith("wrote alone.trace.json.gz")


@pytest.mark.usefixtures("out")
@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["nowhere.h5"], "pyxsim: nowhere.h5: no such file"),
        (["small.toml"], "pyxsim: small.toml: looks like an experiment file, not a result"),
        (["."], "pyxsim: .: Is a directory"),
        (["out.h5", "-o", "t.txt"], "pyxsim: t.txt: '.txt' is not a trace format; allowed: .json, .json.gz"),
        (["out.h5", "--links", "d7"], "pyxsim: --links: there is no link 'd7'"),
        (["out.h5", "--npus", "4"], "pyxsim: --npus: there is no NPU 4; allowed: 0 to 3"),
        (["out.h5", "--max-events", "many"], None),
        ([], None),
    ],
)
def test_what_is_wrong_is_one_line(pyxsim: Command, words: list[str], line: str | None) -> None:
    ended = pyxsim("timeline", *words)
    assert ended.code == 2
    assert len(ended.lines) == 1
    assert line is None or ended.lines[0].startswith(line)


def test_several_faults_come_together(pyxsim: Command) -> None:
    ended = pyxsim("timeline", "nowhere.h5", "-o", "t.csv", "--from", "4", "--counter", "flit")
    assert ended.code == 2
    assert len(ended.lines) == 4


def test_a_folder_is_not_written_over(pyxsim: Command, out: Path) -> None:
    (out.parent / "t.json").mkdir()
    ended = pyxsim("timeline", "out.h5", "-o", "t.json")
    assert ended.code == 2
    assert [line.partition(";")[0] for line in ended.lines] == ["pyxsim: t.json: cannot be written: it is a folder"]


def test_the_result_is_not_written_over(pyxsim: Command, out: Path) -> None:
    out.rename(out.with_name("out.json"))
    ended = pyxsim("timeline", "out.json", "-o", "out.json")
    assert ended.code == 2
    assert "it is the result" in ended.lines[0]
