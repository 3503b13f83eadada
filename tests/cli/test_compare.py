"""`pyxsim compare`: what it prints, what it writes, how it ends."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import h5py
import pytest

from tests.cli.inputs import SMALL, Command, Start, wait_for

OTHERS = ("analytical", "analytical-congestion", "flow")
STUDY = (
    SMALL
    + """
[sweep]
"collective.size" = ["16 KiB", "64 KiB"]

[[variant]]
name = "torus"
set = {}

[[variant]]
name = "switch"
set = { "network.topology" = "switch", "network.shape" = [4], "system.all_reduce" = "direct" }
"""
)


@pytest.fixture
def study(folder: Path) -> Path:
    path = folder / "four_points.toml"
    path.write_text(STUDY, encoding="utf-8")
    return path


def table(text: str) -> list[list[str]]:
    """The first table of a Markdown page, its titles first."""
    lines = text[text.index("|") :].split("\n\n")[0].strip().splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if not set(line) <= set("|-: ")]


def test_one_experiment(pyxsim: Command) -> None:
    ended = pyxsim("compare", "small.toml")
    assert (ended.code, ended.out) == (0, "")
    assert ended.lines[0].startswith("torus 2x2, all-reduce of 64 KiB")
    assert max(map(len, ended.lines)) <= 100
    for name in ("packet", *OTHERS, "links", "busiest link"):
        assert re.search(rf"^{name} +[\d.]+ [num]s ", ended.err, re.MULTILINE), name
    for name in OTHERS:
        assert re.search(rf"^{name}: (not )?safe within 10%, [\d.]+% too (short|long)", ended.err, re.MULTILINE), name
    assert "judged by the waiting of packets alone" in ended.err
    assert "the chain of" in ended.err


def test_json(pyxsim: Command, study: Path) -> None:
    ended = pyxsim("compare", study.name, "--json", "--within", "20 %")
    assert (ended.code, ended.err) == (0, "")
    data = json.loads(ended.out)
    assert (data["within"], data["complete"], data["title"]) == (0.2, True, "four points")
    assert [point["label"] for point in data["points"]] == [
        f"{name}, size={size}" for name in ("torus", "switch") for size in ("16 KiB", "64 KiB")
    ]
    for point in data["points"]:
        times = {row["backend"]: row["time_ns"] for row in point["backends"]}
        assert set(times) == {"packet", *OTHERS}
        assert point["lower_bound_ns"] <= times["packet"]
        assert {each["backend"] for each in point["verdicts"]} == set(OTHERS)
        for each in point["verdicts"]:
            error = times[each["backend"]] / times["packet"] - 1
            assert each["error"] == pytest.approx(error)
            assert each["says"] == ("safe" if abs(error) <= 0.2 else "not safe")
        assert sum(point["chain"]["spent_ns"].values()) == pytest.approx(times["packet"])
        assert point["from_waiting"]["says"] == point["verdicts"][0]["says"]
        assert set(point["collectives"][0]["end_ns"]) == {"packet", *OTHERS}
        for link in point["links"]:
            assert sum(link["causes"].values()) == link["cycles"] == sum(link["victims"].values())


def test_files(pyxsim: Command, study: Path) -> None:
    files = ("all.md", "all.json", "all.h5", "all.svg")
    ended = pyxsim("compare", study.name, *(word for name in files[:3] for word in ("-o", name)), "--plot", files[3])
    assert ended.code == 0
    assert ended.lines[-1] == "wrote " + " and ".join(files)
    told = json.loads((study.parent / "all.json").read_text(encoding="utf-8"))
    titles, *rows = table((study.parent / "all.md").read_text(encoding="utf-8"))
    assert titles[:4] == ["point", "packet", "analytical", "analytical / packet"]
    assert [row[0] for row in rows] == [point["label"] for point in told["points"]]
    for row, point in zip(rows, told["points"], strict=True):
        parts = {each["backend"]: each["to_packet"] for each in point["backends"]}
        assert float(row[titles.index("flow / packet")]) == pytest.approx(parts["flow"], abs=6e-4)
    with h5py.File(study.parent / "all.h5") as file:
        assert file["compare/time_ns"].shape == (4, 4)
        assert set(file["points"]) == {point["label"] for point in told["points"]}
    assert (study.parent / "all.svg").stat().st_size > 10_000


def test_without_packets(pyxsim: Command, study: Path) -> None:
    words = [word for name in OTHERS for word in ("--backend", name)]
    ended = pyxsim("compare", study.name, *words, "--json")
    assert ended.code == 0
    for point in json.loads(ended.out)["points"]:
        assert [row["backend"] for row in point["backends"]] == list(OTHERS)
        assert point["chain"] is None
        assert all(each["by"] == "beforehand" for each in point["verdicts"])
    assert "cannot tell" in ended.out or "safe" in ended.out
    assert pyxsim("compare", study.name, *words).code == 0


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--within", "ten"), "--within: 'ten' is not a fraction; allowed: between 0 and 1, such as 10% or 0.1"),
        (("--within", "100%"), "--within: '100%' is not a fraction"),
        (("--backend", "flows"), "--backend: unknown backend 'flows'; allowed: analytical, analytical-congestion"),
        (
            ("-o", "all.csv"),
            "all.csv: a comparison cannot be written as '.csv'; allowed: .h5, .hdf5, .nc, .json",
        ),
        (("-o", "four_points.toml.md", "--plot", "x.pgn"), "x.pgn: '.pgn' is not a format of a picture"),
        (("--set", "network.shap=[4]"), "--set: network.shap: unknown key"),
        (("--set", "network.shape=[4, 4, 4]"), ": network.shape: "),
    ],
)
def test_faults(pyxsim: Command, study: Path, words: tuple[str, ...], line: str) -> None:
    ended = pyxsim("compare", study.name, *words)
    assert ended.code == 2
    assert line in ended.err
    assert not list(study.parent.glob("all.*"))


def test_a_fault_of_a_point_is_placed(pyxsim: Command, study: Path) -> None:
    study.write_text(STUDY.replace('"network.shape" = [4]', '"network.shape" = [4, 4]'), encoding="utf-8")
    ended = pyxsim("compare", study.name, "--set", "system.chunks=1")
    assert ended.code == 2
    # Once, although two points have it.
    assert len(ended.lines) == 1
    assert 'four_points.toml: variant[1].set."network.shape": [4, 4] has 2 dimensions' in ended.lines[0]


def test_the_experiment_is_not_overwritten(pyxsim: Command, folder: Path) -> None:
    (folder / "small.md").symlink_to(folder / "small.toml")
    ended = pyxsim("compare", "small.toml", "-o", "small.md")
    assert (ended.code, "it is an input of this run" in ended.err) == (2, True)


@pytest.mark.parametrize("second", ["all.md", "./all.md", "link.md"])
def test_no_output_takes_the_place_of_another(pyxsim: Command, folder: Path, second: str) -> None:
    (folder / "link.md").symlink_to(folder / "all.md")
    ended = pyxsim("compare", "small.toml", "-o", "all.md", "-o", second)
    line = f"pyxsim: {second}: cannot be written, because it is also another output of this run; allowed: another name"
    assert (ended.code, ended.lines) == (2, [line])
    assert not (folder / "all.md").exists()


def test_run_and_check_tell_whose_file_that_is(pyxsim: Command, study: Path) -> None:
    for command in ("run", "check"):
        ended = pyxsim(command, study.name)
        assert ended.code == 2
        assert "the file defines several experiments; allowed: `pyxsim sweep`" in ended.err


def test_quiet(pyxsim: Command) -> None:
    ended = pyxsim("compare", "small.toml", "--quiet")
    assert (ended.code, ended.out, ended.err) == (0, "", "")


def test_ctrl_c_keeps_what_was_compared(start: Start, folder: Path) -> None:
    (folder / "long.toml").write_text(
        SMALL + '[sweep]\n"collective.size" = ["4 KiB", "100 GiB", "8 KiB"]\n', encoding="utf-8"
    )
    words = ("-o", "all.json", "-o", "all.h5", "--set", "network.packet=64 KiB", "--no-skip")
    process = start("compare", "long.toml", *words, told=folder / "begun")
    wait_for((folder / "begun").exists, "the simulation of the second point")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "interrupted; the completed points are in all.json and all.h5" in err
    told: dict[str, Any] = json.loads((folder / "all.json").read_text(encoding="utf-8"))
    assert told["complete"] is False
    assert [point["label"] for point in told["points"]] == ["size=4 KiB", "size=100 GiB"]
    assert all(row["time_ns"] for row in told["points"][0]["backends"])
    with h5py.File(folder / "all.h5") as file:
        assert file.attrs["complete"] == 0
