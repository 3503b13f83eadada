"""The machines of the four algorithms send what the algorithms of the shelf send, in ASTRA-sim's bytes."""

from __future__ import annotations

from collections import Counter

import pytest

from pyxsim import library
from pyxsim.collective.lookup import get_algorithm, get_schedule
from pyxsim.compat.astra.system.phase_algorithms import Program, make_program
from tests.in_turn import in_turn

library.load_all()

CASES = [
    ("ring", "all-reduce"),
    ("ring", "reduce-scatter"),
    ("ring", "all-gather"),
    ("direct", "all-reduce"),
    ("direct", "reduce-scatter"),
    ("direct", "all-gather"),
    ("direct", "all-to-all"),
    ("halving-doubling", "all-reduce"),
    ("halving-doubling", "reduce-scatter"),
    ("halving-doubling", "all-gather"),
]


def program(kind: str, name: str, n: int, size: int, **more: bool | int) -> Program:
    return make_program(kind, get_algorithm(name), n, size, **more)


@in_turn(("name", "kind"), CASES)
@in_turn("n", [2, 4, 8])
def test_bytes_between_each_pair(name: str, kind: str, n: int) -> None:
    size = 64  # goes into all of these evenly
    made = program(kind, name, n, size)
    schedule = get_schedule(kind, name, n)
    theirs: Counter[tuple[int, int]] = Counter()
    per_block = size if kind == "all-gather" else size // n
    for message in range(len(schedule.src)):
        blocks = int(schedule.block_ptr[message + 1] - schedule.block_ptr[message])
        theirs[int(schedule.src[message]), int(schedule.dst[message])] += per_block * blocks
    ours: Counter[tuple[int, int]] = Counter()
    for src, dst, nbytes, count in made.edges.tolist():
        ours[src, dst] += nbytes * count
    assert ours == theirs
    assert made.total == sum(ours.values())


@pytest.mark.parametrize("n", [2, 3, 8])
def test_a_ring_passes_everything_on(n: int) -> None:
    made = program("all-to-all", "ring", n, 8 * n)
    assert made.sends == n * (n - 1) // 2
    assert made.edges.tolist() == [[i, (i + 1) % n, 8, made.sends] for i in range(n)]


def test_halving_cuts_to_whole_bytes_at_every_step() -> None:
    made = program("all-reduce", "halving-doubling", 8, 1000)
    # 500, 250, 125; then half of 125 in whole bytes, doubled: 124, 248, 496.
    assert made.table[0:12:2] == (500, 250, 125, 124, 248, 496)
    assert made.table[1:12:2] == (0, 1, 2, 2, 1, 0)
    assert made.total == 8 * 1743


@pytest.mark.parametrize("tree", [0, 1])
@pytest.mark.parametrize("n", [2, 4, 16])
def test_a_tree_has_everybody(n: int, tree: int) -> None:
    made = program("all-reduce", "double-binary-tree", n, 10, tree=tree)
    family = [made.table[3 * place : 3 * place + 3] for place in range(n)]
    roots = [place for place in range(n) if family[place][0] < 0]
    assert roots == [n - 1 if tree == 0 else 0]
    for place, (parent, _, _) in enumerate(family):
        if parent >= 0:
            assert place in family[parent][1:]
    # Children stand to the left and to the right of their parents.
    for place, (_, left, right) in enumerate(family):
        assert left < 0 or left < place
        assert right < 0 or right > place
    assert made.total == 2 * (n - 1) * 10


def test_rounds() -> None:
    assert (program("all-reduce", "ring", 8, 64).parallel, program("all-reduce", "ring", 8, 64).others) == (1, 7)
    windowed = program("all-reduce", "direct:3", 8, 64)
    assert (windowed.parallel, windowed.others) == (3, 3)
    assert program("all-reduce", "direct:3", 8, 64, group=True).others == 21
    assert program("all-reduce", "direct:30", 8, 64).parallel == 7
    assert program("reduce-scatter", "halving-doubling", 8, 64).others == 2
    assert program("all-gather", "ring", 8, 64).leaving == 512
