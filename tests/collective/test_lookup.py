"""Names of algorithms: windows, ASTRA-sim's spellings, and what is said when a name or its algorithm is wrong."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.custom.compile_program import compile_program
from pyxsim.collective.kinds import KINDS
from pyxsim.collective.lookup import get_algorithm, get_schedule, located
from pyxsim.collective.schedule import Schedule
from pyxsim.errors import InputError
from pyxsim.registry import collectives


@pytest.mark.parametrize(
    ("name", "proper", "number", "over_all"),
    [
        ("ring", "ring", None, False),
        ("direct", "direct", None, False),
        ("direct:4", "direct:4", 4, False),
        ("direct4", "direct:4", 4, False),
        ("halving-doubling", "halving-doubling", None, False),
        ("halvingDoubling", "halving-doubling", None, False),
        ("oneRing", "one-ring", None, True),
        ("one-ring", "one-ring", None, True),
        ("oneDirect16", "one-direct:16", 16, True),
        ("one-direct:16", "one-direct:16", 16, True),
        ("oneHalvingDoubling", "one-halving-doubling", None, True),
        ("one-halvingDoubling", "one-halving-doubling", None, True),
    ],
)
def test_names(name: str, proper: str, number: int | None, over_all: bool) -> None:
    algorithm = get_algorithm(name)
    assert (algorithm.name, algorithm.number, algorithm.over_all) == (proper, number, over_all)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("rnig", "unknown collective algorithm 'rnig'.*did you mean 'ring'"),
        ("", "unknown collective algorithm ''"),
        ("one", "unknown collective algorithm 'one'"),
        ("halving-doubling:4", "halving-doubling takes no number; allowed: halving-doubling"),
        ("direct:0", "'direct:0': window is 0; allowed: direct:1 or more"),
        ("direct:x", "unknown collective algorithm 'direct:x'.*did you mean 'direct'"),
    ],
)
def test_wrong_names(name: str, problem: str) -> None:
    with pytest.raises(InputError, match=f"^system.all_reduce: {problem}"):
        get_algorithm(name, key="system.all_reduce")


def test_what_an_algorithm_cannot_do() -> None:
    with pytest.raises(InputError, match="halving-doubling does not support all-to-all; allowed: all-reduce, "):
        get_schedule("all-to-all", "halving-doubling", 4)


def test_schedules_are_built_once() -> None:
    assert get_schedule("all-reduce", "direct:4", 8) is get_schedule("all-reduce", "direct4", 8)
    assert get_schedule("all-reduce", "oneRing", 8) is get_schedule("all-reduce", "ring", 8)
    assert get_schedule("all-reduce", "direct:4", 8) is not get_schedule("all-reduce", "direct:3", 8)
    assert str(get_schedule("all-reduce", "direct:4", 8)) == "direct:4 all-reduce on 8 ranks"


@pytest.fixture
def mine() -> Iterator[None]:
    """Algorithms of a user's: one whose name ends with a digit, and three that go wrong."""

    @collectives.register("mine2")
    def mine2(kind: str, n: int) -> Schedule:
        return Schedule(kind, n)

    @collectives.register("cut")
    def cut(kind: str, n: int, segments: int = 1) -> Schedule:
        return Schedule(kind, n, blocks=segments * n)

    @collectives.register("fails")
    def fails(kind: str, n: int) -> Schedule:
        schedules: dict[str, Schedule] = {}
        return schedules[kind]

    @collectives.register("other")
    def other(kind: str, n: int) -> Schedule:
        return Schedule("all-gather", n + 1)

    @collectives.register("nothing")
    def nothing(kind: str, n: int) -> None:
        return None

    yield
    collectives.discard(__name__)


@pytest.mark.usefixtures("mine")
def test_a_registered_name_means_itself() -> None:
    assert get_algorithm("mine2").name == "mine2"
    assert get_algorithm("mine2").kinds == tuple(KINDS)


@pytest.mark.usefixtures("mine")
def test_a_number_goes_to_the_third_parameter_whatever_its_name() -> None:
    assert get_schedule("all-reduce", "cut:3", 4).blocks == 12
    assert get_schedule("all-reduce", "oneCut2", 4).blocks == 8
    with pytest.raises(InputError, match="'cut:0': segments is 0; allowed: cut:1 or more"):
        get_algorithm("cut:0")


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("fails", r"test_lookup.py:\d+: the collective algorithm 'fails' failed for all-reduce on 4 ranks: KeyError"),
        ("other", r"'other' should return all-reduce on 4 ranks, but returned all-gather on 5"),
        ("nothing", r"'nothing' returned NoneType; allowed: a Schedule"),
    ],
)
def test_algorithms_that_go_wrong(name: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        get_schedule("all-reduce", name, 4)


STAR = """
from pyxsim.collective.schedule import Schedule
{decorator}
def star(kind, n, blocks=1):
    s = Schedule(kind, n, blocks=blocks)
    for rank in range(1, n):
        s.send(rank, 0, range(blocks), reduce=True)
    for rank in range(1, n):
        s.send(0, rank, range(blocks))
    return s
"""
REGISTERED = """
from pyxsim.registry import collectives
@collectives.register("ring", kinds=("all-reduce",))"""


def put(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_a_python_file_is_an_algorithm(tmp_path: Path) -> None:
    path = put(tmp_path, "my.py", STAR.format(decorator=""))
    for name in (path, f"{path}:star", f"one-{path}", f"one-{path}:star"):
        algorithm = get_algorithm(name)
        assert algorithm.name == name
        assert algorithm.over_all == name.startswith("one-")
        assert len(get_schedule("all-reduce", name, 5)) == 8
    assert get_schedule("all-reduce", f"{path}:star:3", 5).blocks == 3
    assert get_schedule("all-reduce", f"{path}:2", 5).blocks == 2
    assert get_schedule("all-reduce", path, 5) is get_schedule("all-reduce", path, 5)


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    path = put(tmp_path, "my.py", STAR.format(decorator=""))
    assert get_schedule("all-reduce", path, 5).blocks == 1
    put(tmp_path, "my.py", STAR.format(decorator="").replace("blocks=1", "blocks=2"))
    os.utime(path, ns=(1, 1))
    assert get_schedule("all-reduce", path, 5).blocks == 2


def test_what_a_file_registers_is_its_own_affair(tmp_path: Path) -> None:
    path = put(tmp_path, "my.py", STAR.format(decorator=REGISTERED.replace("ring", "my-ring")))
    assert get_algorithm(path).kinds == ("all-reduce",)
    assert get_algorithm(f"{path}:my-ring").kinds == ("all-reduce",)
    assert "my-ring" not in collectives
    with pytest.raises(InputError, match=r"my\.py does not support all-gather; allowed: all-reduce with"):
        get_schedule("all-gather", path, 4)


@pytest.mark.parametrize(
    ("text", "part", "problem"),
    [
        (None, "", r"my.py: no such file; did you mean 'me.py'"),
        ("", "", r"my.py: has no functions, and the name does not select one; allowed: a function\(kind, n\)"),
        (
            STAR + "def other(kind, n): ...",
            "",
            r"has 2 functions, and the name does not select one; .* one of star, other",
        ),
        (STAR, ":sta", r"has no function 'sta'; allowed: star; did you mean 'star'"),
        ("def f(kind, n): ...", ":f:4", r"f takes no number"),
        ("import nothing_there", "", r"my.py:1: cannot be loaded: ModuleNotFoundError"),
        ("a = 1\nb = (", "", r"my.py:2: not valid Python"),
        (REGISTERED + "\ndef ring(kind, n): ...", "", r"my.py:3: .* 'ring' .* is already registered"),
    ],
)
def test_wrong_files(tmp_path: Path, text: str | None, part: str, problem: str) -> None:
    put(tmp_path, "me.py", "")
    if text is not None:
        put(tmp_path, "my.py", text.format(decorator=""))
    with pytest.raises(InputError, match=problem):
        get_algorithm(f"{tmp_path}/my.py{part}")


def test_the_key_and_the_line_of_the_file_are_told(tmp_path: Path) -> None:
    path = put(tmp_path, "my.py", "a = 1\nb = (")
    with pytest.raises(InputError, match=r"^system.all_reduce: /.*my.py:2: not valid Python"):
        get_algorithm(path, key="system.all_reduce")


def test_a_function_that_fails_is_told_with_its_line(tmp_path: Path) -> None:
    path = put(tmp_path, "my.py", "def f(kind, n):\n    return {}[kind]\n")
    with pytest.raises(InputError, match=r"my.py:2: the collective algorithm '.*my.py' failed for all-reduce"):
        get_schedule("all-reduce", path, 4)


def test_paths_are_made_absolute_and_names_stay() -> None:
    folder = Path("/a/b")
    assert located("ring", folder) == "ring"
    assert located("direct:4", folder) == "direct:4"
    assert located("x.py", folder) == "/a/b/x.py"
    assert located("one-c/x.py:f:3", folder) == "one-/a/b/c/x.py:f:3"
    assert located("/x.py:f", folder) == "/x.py:f"
    assert located("~/x.py", folder) == f"{Path.home()}/x.py"


@pytest.mark.parametrize(
    ("limit", "most", "text"),
    [
        ("MOST_MB", 20.0, "more than 20 MB of memory"),
        ("MOST_CPU_SECONDS", 0.2, "more than 0 CPU seconds"),
        ("MOST_SECONDS", 0.2, "more than 0 seconds"),
    ],
)
@pytest.mark.parametrize("rank", ["", ", rank"])
def test_an_algorithm_that_never_ends_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: float, text: str, rank: str
) -> None:
    monkeypatch.setattr(f"pyxsim.collective.build_limit.{limit}", most)
    file = tmp_path / "endless.py"
    body = {"MOST_MB": "rows.append(bytearray(10**5))", "MOST_CPU_SECONDS": "pass", "MOST_SECONDS": "time.sleep(0.01)"}
    last = "yield" if rank else "return"
    file.write_text(
        f"import time\ndef run(kind, n{rank}):\n    rows = []\n    while True:\n        {body[limit]}\n    {last}\n",
        encoding="utf-8",
    )
    with pytest.raises(InputError) as caught:
        get_schedule("all-reduce", f"{file}:run", 4)
    message = str(caught.value)
    assert f"took {text} for all-reduce on 4 ranks; allowed: an algorithm that ends" in message
    assert message.startswith((f"{file}:4: ", f"{file}:5: "))
    assert len(message.splitlines()) == 1


def test_the_time_of_pyxsim_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(*arguments: Any) -> CompiledSchedule:
        time.sleep(0.5)
        return compile_program(*arguments)

    monkeypatch.setattr("pyxsim.collective.custom.rank_generators.compile_program", slowly)
    monkeypatch.setattr("pyxsim.collective.build_limit.MOST_SECONDS", 0.2)
    source = Path("inputs/collectives/exchange.py").read_text(encoding="utf-8")
    assert get_schedule("all-reduce", put(tmp_path, "exchange.py", source), 4).n == 4
