"""`pyxsim collective`: the shelf, and one algorithm step by step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyxsim.collective.kinds import KINDS
from tests.cli.inputs import Command

WRONG = """
from pyxsim.collective.schedule import Schedule
from pyxsim.registry import collectives


@collectives.register("hasty", kinds=("all-reduce",))
def hasty(kind, n):
    s = Schedule(kind, n, blocks=1)
    for rank in range(1, n):
        s.send(rank, 0, 0, reduce=True)
        s.send(0, rank, 0)
    return s
"""


def test_the_shelf(pyxsim: Command) -> None:
    ended = pyxsim("collective")
    assert (ended.code, ended.out) == (0, "")
    for part in ("ring", "direct:WINDOW", "double-binary-tree:SEGMENTS", "hierarchical:GROUP", "barrier"):
        assert part in ended.err
    items = {item["name"]: item for item in json.loads(pyxsim("collective", "--json").out)["algorithms"]}
    assert items["ring"] == {"name": "ring", "aliases": [], "kinds": list(KINDS), "parameter": None}
    assert items["multi-ring"]["parameter"] == "rings"
    assert items["double-binary-tree"]["aliases"] == ["doubleBinaryTree"]


def test_one_algorithm_in_words(pyxsim: Command) -> None:
    ended = pyxsim("collective", "ring", "--npus", "4", "--size", "4 KiB")
    assert (ended.code, ended.out) == (0, "")
    for part in (
        "ring: all-reduce on 4 NPUs, of 4 KiB",
        "correct for every order of arrival",
        "6 messages in sequence",
        "24; the data are divided into 4 blocks, at most 1 of a rank in flight",
        "6,144 bytes by each rank",
        "0  added   0>1: 3   1>2: 0   2>3: 1   3>0: 2",
        "5  stored  0>1: 2   1>2: 3   2>3: 0   3>0: 1",
    ):
        assert part in ended.err
    assert "times the least" not in ended.err


def test_long_ones_are_cut(pyxsim: Command) -> None:
    ended = pyxsim("collective", "ring", "--npus", "30")
    assert "and 18 more" in ended.err
    assert "and 18 more steps; --json has all of them" in ended.err
    assert "1-7 by 2" in pyxsim("collective", "halving-doubling").err


def test_one_algorithm_in_json(pyxsim: Command) -> None:
    ended = pyxsim("collective", "binomial-tree", "--kind", "scatter", "--npus", "5", "--size", "10 B", "--json")
    assert ended.err == ""
    data = json.loads(ended.out)
    rows = data.pop("schedule")
    assert rows == [
        {"step": 0, "src": 0, "dst": 4, "blocks": [4], "bytes": 2, "reduce": False},
        {"step": 0, "src": 0, "dst": 2, "blocks": [2, 3], "bytes": 4, "reduce": False},
        {"step": 0, "src": 0, "dst": 1, "blocks": [1], "bytes": 2, "reduce": False},
        {"step": 1, "src": 2, "dst": 3, "blocks": [3], "bytes": 2, "reduce": False},
    ]
    assert data == {
        "name": "binomial-tree",
        "kind": "scatter",
        "npus": 5,
        "size": 10,
        "steps": 2,
        "messages": 4,
        "blocks": 5,
        "window": None,
        "sent": [8, 0, 2, 0, 0],
        "received": [0, 2, 4, 2, 2],
        "least": 8.0,
        "proved": True,
        "unproved": "",
        "on": None,
        "file": None,
    }


def test_a_file_that_says_how_large_its_messages_are(pyxsim: Command, tree: Path) -> None:
    words = ("collective", str(tree / "inputs" / "collectives" / "ring.*.et"), "--npus", "4")
    data = json.loads(pyxsim(*words, "--json").out)
    assert (data["size"], data["least"], data["proved"], data["sent"]) == (None, None, False, [1572864] * 4)
    ended = pyxsim(*words)
    assert "Chakra traces contain the sizes of messages" in ended.err
    assert "all-reduce on 4 NPUs\n" in "\n".join(line.rstrip() for line in ended.err.splitlines()) + "\n"
    assert "0>1: 256 KiB" in ended.err


def test_the_kind_is_one_that_it_can_do(pyxsim: Command) -> None:
    assert json.loads(pyxsim("collective", "pairwise", "--json").out)["kind"] == "all-to-all"
    barrier = json.loads(pyxsim("collective", "bruck", "--kind", "barrier", "--npus", "3", "--json").out)
    assert (barrier["size"], barrier["sent"]) == (1, [2, 2, 2])


def test_a_picture(pyxsim: Command, folder: Path) -> None:
    pytest.importorskip("matplotlib")
    ended = pyxsim("collective", "bidirectional-ring", "--plot", "steps.png")
    assert ended.code == 0
    assert "wrote steps.png" in ended.err
    assert (folder / "steps.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("rnig",), "unknown collective algorithm 'rnig'"),
        (("ring", "--kind", "barier"), "--kind: unknown collective 'barier'"),
        (("bruck", "--kind", "gather"), "--kind: bruck does not support gather; allowed: all-reduce"),
        (("ring", "--npus", "0"), "--npus: 0 is out of range; allowed: a whole number from 1"),
        (("ring", "--size", "3 q"), "--size: 'q' in '3 q' is not a unit of size"),
        (("ring", "--plot", "ring.foo"), "ring.foo: '.foo' is not a format of a picture"),
        (("--plot", "ring.png"), "--plot: needs the name of an algorithm"),
        (("hierarchical:3",), "8 ranks cannot be divided into groups of 3; allowed: 1, 2, 4, 8"),
    ],
)
def test_faults(pyxsim: Command, words: tuple[str, ...], said: str) -> None:
    ended = pyxsim("collective", *words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"pyxsim: {said}")
    assert ended.err.count("\n") == 1


STAR = """
from pyxsim.collective.custom import Receive, Send


def star(kind, n, rank):
    if rank:
        yield Send(0, range(n))
        yield Receive(0, range(n))
        return
    for peer in range(1, n):
        yield Receive(peer, range(n), reduce=True)
    for peer in range(1, n):
        yield Send(peer, range(n))
"""


def test_a_program_for_one_rank(pyxsim: Command, folder: Path) -> None:
    (folder / "mine.py").write_text(STAR, encoding="utf-8")
    ended = pyxsim("collective", "mine.py", "--npus", "3")
    assert "0  added   1>0: 0-2   2>0: 0-2" in ended.err
    assert "1  stored  0>1: 0-2   0>2: 0-2" in ended.err
    rows = json.loads(pyxsim("collective", "mine.py", "--npus", "3", "--json").out)["schedule"]
    assert [row["reduce"] for row in rows] == [True, True, False, False]
    wrong = pyxsim("collective", "mine.py:stra").err
    assert wrong == f"pyxsim: {folder / 'mine.py'}: has no function 'stra'; allowed: star; did you mean 'star'?\n"


def test_a_wrong_algorithm_is_refused(pyxsim: Command, folder: Path) -> None:
    file = folder / "mine" / "collectives" / "hasty.py"
    file.parent.mkdir(parents=True)
    file.write_text(WRONG, encoding="utf-8")
    ended = pyxsim("collective", "hasty", "--library", "mine")
    assert ended.code == 2
    assert "rank 1 ends without the contributions of ranks 2, 3, 4, 5, 6, 7 in block 0" in ended.err
