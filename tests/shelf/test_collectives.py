"""The algorithms on the shelf: right for all numbers of ranks, steps, bytes and times as in closed form, quick."""

from __future__ import annotations

import inspect
import re
import sys
import time
from collections.abc import Callable, Iterator
from math import ceil, log2
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim import library
from pyxsim.collective.bounds import rounds
from pyxsim.collective.checker import prove
from pyxsim.collective.compile_schedule import compiled
from pyxsim.collective.costs import Cost, cost, pipelined
from pyxsim.collective.kinds import KINDS, get_kind
from pyxsim.collective.lookup import get_schedule
from pyxsim.collective.schedule import Schedule, ScheduleError
from pyxsim.collective.sizes import block_sizes
from pyxsim.collective.transform import rooted_at
from pyxsim.errors import InputError
from pyxsim.registry import collectives
from tests.examples import part_of
from tests.shelf.alpha_beta import simulated

library.load_all()

CASES = [
    (kind, entry.name)
    for entry in collectives.entries
    if entry.module.startswith("pyxsim_library.collectives.")
    for kind in entry.info["kinds"]
]
# Who takes a number behind the name, and which are worth a look on n ranks.
NUMBERS: dict[str, Callable[[int], list[int]]] = {
    "direct": lambda n: [1, 2, 5, max(n - 1, 1), n + 4],
    "multi-ring": lambda n: [1, 3, min(n + 1, 12)],
    "double-binary-tree": lambda n: [1, 2, 11],
    "hierarchical": lambda n: [g for g in range(1, n + 1) if n % g == 0],
    "hierarchical-3d": lambda n: [g for g in range(1, n + 1) if n % g == 0],
    "one-shot": lambda n: [1],
    "two-shot": lambda n: [1, 2],
    "multimem": lambda n: [1, 3],
}
ANSWERED = {"all-reduce", "reduce-scatter", "all-gather", "all-to-all"}


def names(kind: str, name: str, n: int) -> list[str]:
    """The algorithm without a number, and with each that is worth a look."""
    numbers = [] if name == "direct" and kind not in ANSWERED else NUMBERS.get(name, lambda n: [])(n)
    return [name, *(f"{name}:{number}" for number in numbers)]


def few(kind: str, name: str) -> bool:
    """Whether there are not so many messages that smaller groups must do."""
    return kind != "all-to-all" and name != "multi-ring"


def cost_of(kind: str, name: str, n: int, size: int) -> Cost:
    found = cost(kind, name, n, size)
    assert found is not None
    return found


def check(kind: str, name: str, n: int) -> None:
    """The proof, and the closed forms for blocks of equal size."""
    c = get_schedule(kind, name, n)
    prove(c)
    whole = 1 if kind == "barrier" else 3 * n * c.blocks
    sizes = block_sizes(c.kind, n, c.blocks, whole)
    wanted = cost_of(kind, name, n, whole // n if kind in ("all-gather", "gather") else whole)
    sent = np.where(c.local, 0, c.message_bytes(sizes))
    out, into = (np.bincount(ends, sent, n) for ends in (c.src, c.dst))
    assert max(out.max(), into.max()) == wanted.busiest
    assert sent.sum() == wanted.total
    # Steps are those of one segment: more of them wait for each other so as to take turns.
    assert rounds(c) >= wanted.steps if name.startswith("double-binary-tree") else rounds(c) == wanted.steps
    assert wanted.rounds is None or len(wanted.rounds) == wanted.steps


def test_the_shelf_is_complete() -> None:
    kinds = {name: {kind for kind, other in CASES if other == name} for _, name in CASES}
    everything, reductions = set(KINDS), {"all-reduce", "reduce-scatter", "all-gather"}
    assert kinds == {
        "ring": everything,
        "bidirectional-ring": everything,
        "multi-ring": reductions | {"broadcast", "reduce"},
        "direct": everything,
        "halving-doubling": reductions | {"broadcast", "reduce"},
        "recursive-doubling": {"all-reduce", "all-gather", "barrier"},
        "double-binary-tree": {"all-reduce", "broadcast", "reduce"},
        "binomial-tree": {"all-reduce", "broadcast", "reduce", "gather", "scatter", "barrier"},
        "bruck": reductions | {"all-to-all", "barrier"},
        "hierarchical": everything - {"barrier"},
        "hierarchical-3d": everything - {"barrier"},
        "pairwise": {"all-to-all", "reduce-scatter"},
        "in-switch": {"all-reduce", "barrier"},
        "one-shot": {"all-reduce"},
        "two-shot": reductions,
        "multimem": reductions,
    }


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_proof_bytes_and_steps(kind: str, name: str) -> None:
    for n in (1, 2, 3, 4, 6, 7, 8, 12, 13):
        for each in names(kind, name, n):
            check(kind, each, n)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_proof_bytes_and_steps_of_all(kind: str, name: str) -> None:
    for n in range(1, 34):
        for each in names(kind, name, n):
            check(kind, each, n)


@pytest.mark.parametrize(("kind", "name"), CASES)
@settings(max_examples=part_of(20))
@given(n=st.integers(2, 33), mirror=st.booleans(), data=st.data())
def test_every_number_of_ranks_and_bytes(kind: str, name: str, n: int, mirror: bool, data: st.DataObject) -> None:
    n = n if few(kind, name) else (n + 1) // 2 + 1
    c = get_schedule(kind, data.draw(st.sampled_from(names(kind, name, n))), n, mirror=mirror)
    prove(c)
    sizes = block_sizes(c.kind, n, c.blocks, 1 if kind == "barrier" else data.draw(st.integers(1, 3 * n)))
    real = c.without_empty(sizes)
    if real is not c:
        prove(real)
    assert c.keeps_empty or real.message_bytes(sizes).all()
    # Nothing is lost: what is left out is nothing.
    assert real.message_bytes(sizes).sum() == c.message_bytes(sizes).sum()


@pytest.mark.parametrize(("kind", "name"), CASES)
@settings(max_examples=part_of(15))
@given(
    n=st.integers(2, 20),
    alpha=st.integers(1, 2000),
    beta=st.integers(1, 20),
    endpoint=st.integers(0, 50),
    reduction=st.integers(0, 50),
    data=st.data(),
)
def test_times(
    kind: str, name: str, n: int, alpha: int, beta: int, endpoint: int, reduction: int, data: st.DataObject
) -> None:
    n = n if few(kind, name) else (n + 1) // 2 + 1
    chosen = data.draw(st.sampled_from(names(kind, name, n)))
    c = get_schedule(kind, chosen, n)
    whole = 1 if kind == "barrier" else 2 * n * c.blocks
    wanted = cost_of(kind, chosen, n, whole // n if kind in ("all-gather", "gather") else whole)
    lanes = {"bidirectional-ring": c.way.tolist(), "multi-ring": ((c.dst - c.src) % n).tolist()}.get(name)
    time = wanted.time(alpha, beta, endpoint=endpoint, reduction=reduction)
    if time is not None:
        sizes = block_sizes(c.kind, n, c.blocks, whole)
        delays = {"alpha": alpha, "beta": beta, "endpoint": endpoint, "reduction": reduction}
        assert simulated(c, sizes, lanes=lanes, **delays) == time


def test_where_a_time_has_no_short_form() -> None:
    """Only there: a formula that says nothing would pass the test above."""
    powers = {2, 4, 8, 16, 32}
    without = {
        (kind, name): {n for n in range(2, 34) if cost_of(kind, name, n, 1).rounds is None} for kind, name in CASES
    }
    for (kind, name), found in without.items():
        if name in ("double-binary-tree", "multimem", "one-shot"):
            assert found == set(range(2, 34))
        elif name in ("binomial-tree", "recursive-doubling") or (name == "halving-doubling" and kind != "broadcast"):
            assert found == set(range(2, 34)) - powers
        elif name == "bidirectional-ring" and kind in ("scatter", "gather"):
            assert found == set(range(4, 34, 2))
        else:
            assert not found


def test_where_the_time_of_a_pipeline_is_known() -> None:
    # Segments of 2000 bytes, 32 of them in each tree, 3 levels.
    size = 32 * 2 * 2000
    assert pipelined("reduce", 8, size, 32, 1500, 1) == size + 3 * (1500 + 3 * 2000)
    assert pipelined("all-reduce", 8, size, 32, 1500, 1) == 2 * (size + 3 * (1500 + 3 * 2000))
    assert pipelined("broadcast", 8, size, 32, 1500, 1, own_links=True) == size // 2 + 3 * 1500 + 2 * 2000
    assert pipelined("broadcast", 8, size, 32, 2001, 1, own_links=True) is None
    assert [pipelined("reduce", 8, size, 32, alpha, 1) is None for alpha in (999, 1000, 4000, 4001)] == [1, 0, 0, 1]
    assert pipelined("reduce", 4, size, 32, 1500, 1) is pipelined("reduce", 8, size, 31, 1500, 1) is None


def test_costs_of_others() -> None:
    @collectives.register("nobody-knows", kinds=("all-reduce",))
    def nobody_knows(kind: str, n: int) -> Schedule:
        return Schedule(kind, n)

    try:
        assert cost("all-reduce", "nobody-knows", 4, 1) is None
    finally:
        collectives.discard(__name__)
    assert cost("all-reduce", "oneRing", 4, 8) == cost("all-reduce", "ring", 4, 8)
    with pytest.raises(InputError, match="bruck does not support scatter"):
        cost("scatter", "bruck", 4, 1)


@pytest.mark.parametrize(
    ("kind", "name", "n", "problem"),
    [
        ("barrier", "direct:4", 8, "direct:4 does not support barrier: its messages are not answered; allowed: direct"),
        ("all-reduce", "hierarchical:4", 6, "6 ranks cannot be divided into groups of 4; allowed: 1, 2, 3, 6"),
        ("all-gather", "hierarchical-3d:5", 8, "8 ranks cannot be divided into groups of 5; allowed: 1, 2, 4, 8"),
        ("reduce-scatter", "in-switch", 8, "in-switch does not support reduce-scatter; allowed: all-reduce, barrier"),
    ],
)
def test_what_cannot_be(kind: str, name: str, n: int, problem: str) -> None:
    with pytest.raises(InputError, match=re.escape(problem)):
        get_schedule(kind, name, n)


def test_another_root() -> None:
    """Rooted kinds are written for rank 0, and renamed for another one."""
    for kind, name in CASES:
        if get_kind(kind).rooted:
            c = rooted_at(get_schedule(kind, name, 6), 4)
            prove(c)
            assert c.root == 4


def test_hundreds_of_ranks_are_quick() -> None:
    """Generous limits, in CPU time: they are there to catch a loop per message and block where arrays are meant."""
    for kind, name, n, limit in [
        ("all-reduce", "ring", 64, 0.2),
        ("all-reduce", "direct", 64, 0.2),
        ("all-reduce", "halving-doubling", 64, 0.2),
        ("all-to-all", "direct", 64, 0.2),
        ("all-to-all", "direct", 256, 2.0),
        ("all-reduce", "ring", 256, 2.0),
        ("all-reduce", "multi-ring", 128, 2.0),
        ("all-reduce", "bidirectional-ring", 256, 2.0),
        ("all-reduce", "hierarchical", 256, 1.0),
        ("all-to-all", "hierarchical-3d", 256, 4.0),
        ("all-reduce", "double-binary-tree", 1024, 1.0),
        ("all-reduce", "bruck", 256, 1.0),
        ("all-to-all", "bruck", 256, 4.0),
        ("all-reduce", "recursive-doubling", 1024, 2.0),
    ]:
        algorithm: Callable[[str, int], Schedule] = collectives.get(name)
        start = time.process_time()
        compiled(algorithm(kind, n))  # not get_schedule: it remembers
        assert time.process_time() - start < limit, (kind, name, n)


@pytest.fixture
def page(tree: Path) -> str:
    return (tree / "docs" / "extending_collective.md").read_text(encoding="utf-8")


@pytest.fixture
def overview(tree: Path) -> str:
    return (tree / "docs" / "collectives.md").read_text(encoding="utf-8")


def test_the_overview_has_all_algorithms_kinds_and_parameters(overview: str) -> None:
    every = ", ".join(KINDS)
    rows = {}
    for name, number, parameter, kinds in re.findall(
        r"^\| `([\w-]+?)(:\w)?` \| (.*?)\| (.*?) \|", overview, re.MULTILINE
    ):
        assert bool(number) == bool(parameter)
        known = every.replace(", barrier", "") if kinds == "all but barrier" else every if kinds == "all" else kinds
        rows[name] = (parameter.strip(), known.split(", "))
    wanted = {}
    for entry in collectives.entries:
        parameters = list(inspect.signature(entry.value).parameters)[2:]
        wanted[entry.name] = ("".join(parameters), list(entry.info["kinds"]))
    assert rows == wanted


def worth(formula: str, n: int, size: int, group: int) -> float:
    """A formula as it is written there: 2(N-1)/N*S, S/2 log2 N."""
    text = re.sub(r"log2 (\w)", r"log2(\1)", formula)
    text = re.sub(r"(?<=[\w)]) (?=[a-z])", "*", text)
    text = re.sub(r"(?<![a-z])(\d|[NSGP]|\))(?=\()", r"\1*", text)
    power = 1 << (n.bit_length() - 1)
    return float(eval(text, {"N": n, "S": size, "G": group, "P": power, "log2": log2, "ceil": ceil}))


def test_the_table_of_costs_in_the_overview(overview: str) -> None:
    """Its first formulas, which are those for powers of two."""
    cells: dict[tuple[str, str], tuple[str, str]] = {}
    name = ""
    table = overview.split("| algorithm | kind | steps | bytes |", 1)[1].split("\n\n", 1)[0]
    for row in table.splitlines()[2:]:
        first, kinds, steps, sent = (cell.strip() for cell in row.strip("|").split("|"))
        name = first if first in collectives else name
        for kind in KINDS if kinds == "all" else kinds.split(", "):
            if "..." not in kind:
                same = cells.get((sent.removeprefix("as "), kind), ("", sent))[1]
                cells[name, kind] = (steps, same if sent.startswith("as ") else sent)
    checked = set()
    for (name, kind), (steps, sent) in cells.items():
        if name == "multi-ring":
            continue  # as ring, it says
        for n in (4, 8, 16):
            size, group = 1 if kind == "barrier" else 960, 2 if n < 16 else 4
            found = cost_of(kind, name, n, size)
            told = [re.findall(r"`([^`]+)`", cell)[0] for cell in (steps, sent)]
            assert [worth(formula, n, size, group) for formula in told] == [found.steps, found.busiest], (name, kind)
        checked.add((kind, name))
    assert {case for case in CASES if case[1] not in ("multi-ring", "hierarchical-3d")} == checked


def test_the_costs_in_the_overview(overview: str, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = fenced(overview, "python")
    exec(compile(code, "docs/collectives.md", "exec"), {})
    assert fenced(overview, "text") == [capsys.readouterr().out]


@pytest.fixture
def algorithm(tree: Path) -> str:
    """The file of the star."""
    text = (tree / "docs" / "extending.md").read_text(encoding="utf-8")
    return text.split('```python title="mylib/collectives/star.py"\n', 1)[1].split("```", 1)[0]


def fenced(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, flags=re.DOTALL)


@pytest.fixture
def star(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of a user's with the file that the page tells to write, forgotten afterwards."""
    file = tmp_path / "mylib" / "collectives" / "star.py"
    file.parent.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    yield file
    package = sys.modules["pyxsim_library.collectives"]
    package.__path__.remove(str(file.parent.resolve()))
    collectives.discard(f"{package.__name__}.star")
    sys.modules.pop(f"{package.__name__}.star", None)


def test_the_page_on_algorithms_of_ones_own(page: str, algorithm: str, star: Path) -> None:
    use, _ = fenced(page, "python")
    star.write_text(algorithm, encoding="utf-8")
    exec(compile(use, "docs/extending_collective.md", "exec"), {})
    for n in (1, 2, 5, 16):
        c = get_schedule("all-reduce", "star", n)
        prove(c)
        assert len(c) == 2 * (n - 1)
    with pytest.raises(InputError, match="star does not support all-gather; allowed: all-reduce with star"):
        get_schedule("all-gather", "star", 4)


def test_the_fault_on_that_page_is_found(page: str, algorithm: str, star: Path) -> None:
    _, body = fenced(page, "python")
    (said,) = fenced(page, "text")
    head = algorithm[: algorithm.index("    for rank")]
    star.write_text(head + body, encoding="utf-8")
    library.load_all(["mylib"])
    with pytest.raises(ScheduleError) as caught:
        prove(get_schedule("all-reduce", "star", 8))
    assert str(caught.value) == said.strip()
