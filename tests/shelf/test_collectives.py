"""The algorithms on the shelf: every message where the literature has it, right for all numbers of ranks, quick."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from math import log2
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim import library
from pyxsim.collective.bounds import lower_bound_bytes
from pyxsim.collective.checker import prove
from pyxsim.collective.compiled import CompiledSchedule, compiled
from pyxsim.collective.lookup import get_schedule
from pyxsim.collective.schedule import Schedule, ScheduleError
from pyxsim.collective.sizes import block_sizes
from pyxsim.errors import InputError
from pyxsim.registry import collectives

library.load_all()

CASES = [
    (kind, entry.name)
    for entry in collectives.entries
    if entry.module.startswith("pyxsim_library.collectives.")
    for kind in entry.info["kinds"]
]


def message(c: CompiledSchedule, m: int) -> tuple[int, int, list[int], bool]:
    return int(c.src[m]), int(c.dst[m]), c.blocks_of(m).tolist(), bool(c.reduce[m])


def of_rank(c: CompiledSchedule, rank: int) -> list[tuple[int, list[int], bool]]:
    """What a rank sends, in order: (to, blocks, whether it is added)."""
    return [message(c, m)[1:] for m in np.flatnonzero(c.src == rank).tolist()]


def test_the_shelf_is_complete() -> None:
    every = {"all-reduce", "reduce-scatter", "all-gather", "all-to-all"}
    kinds = {name: {kind for kind, other in CASES if other == name} for _, name in CASES}
    assert kinds["ring"] == kinds["direct"] == every
    assert kinds["halving-doubling"] == every - {"all-to-all"}


@pytest.mark.parametrize(("kind", "name"), CASES)
@given(n=st.integers(2, 33), window=st.integers(1, 40), mirror=st.booleans(), data=st.data())
def test_every_number_of_ranks(kind: str, name: str, n: int, window: int, mirror: bool, data: st.DataObject) -> None:
    if name == "direct" and data.draw(st.booleans()):
        name = f"direct:{window}"
    if (kind, name) == ("all-to-all", "ring"):
        n = (n + 1) // 2  # n*n*(n-1)/2 messages
    c = get_schedule(kind, name, n, mirror=mirror)
    prove(c)
    size = data.draw(st.integers(1, 3 * n))
    sizes = block_sizes(c.kind, n, c.blocks, size)
    real = c.without_empty(sizes)
    prove(real)
    assert real.message_bytes(sizes).all()
    total = int(real.message_bytes(sizes).sum())
    # Nothing is lost and nothing is sent twice.
    wanted = (2 if kind == "all-reduce" else 1) * (n - 1) * size
    if (kind, name) == ("all-to-all", "ring"):
        wanted = n * (n - 1) // 2 * size  # it forwards
    if (kind, name) == ("reduce-scatter", "halving-doubling"):
        extra = np.arange(1 << (n.bit_length() - 1), n)  # these get their blocks by one message more
        wanted += int(sizes[-extra % n if mirror else extra].sum())
    assert total == wanted


def test_ring() -> None:
    # Rank 0 of 4: in the reduce-scatter it sends block 3 first and ends with block 0, which it then sends.
    adds = [(1, [3], True), (1, [2], True), (1, [1], True)]
    gathers = [(1, [0], False), (1, [3], False), (1, [2], False)]
    assert of_rank(get_schedule("reduce-scatter", "ring", 4), 0) == adds
    assert of_rank(get_schedule("all-gather", "ring", 4), 0) == gathers
    assert of_rank(get_schedule("all-reduce", "ring", 4), 0) == adds + gathers
    # One message waits for one: the one before it, except for the first of each rank.
    c = get_schedule("all-reduce", "ring", 4)
    assert [c.waits_for(m).tolist() for m in range(4)] == [[]] * 4
    for m in range(4, len(c)):
        (dep,) = c.waits_for(m).tolist()
        assert c.order[dep] == c.order[m] - 1
        assert c.dst[dep] == c.src[m]


def test_ring_all_to_all() -> None:
    # Rank 0 of 4 forwards from source -(hop-1) to source + distance, for all hops of all distances.
    # distance 1: 0->1; 2: 0->2, then 3->1; 3: 0->3, 3->2, 2->1.
    blocks = [0 * 4 + 1, 0 * 4 + 2, 3 * 4 + 1, 0 * 4 + 3, 3 * 4 + 2, 2 * 4 + 1]
    c = get_schedule("all-to-all", "ring", 4)
    assert of_rank(c, 0) == [(1, [block], False) for block in blocks]
    # One token per rank: the k-th send waits for k receptions.
    assert c.need[c.src == 0].tolist() == [0, 1, 2, 3, 4, 5]


def test_direct() -> None:
    assert of_rank(get_schedule("reduce-scatter", "direct", 4), 1) == [(2, [2], True), (3, [3], True), (0, [0], True)]
    assert of_rank(get_schedule("all-gather", "direct", 4), 1) == [(2, [1], False), (3, [1], False), (0, [1], False)]
    exchange = [(2, [1 * 4 + 2], False), (3, [1 * 4 + 3], False), (0, [1 * 4 + 0], False)]
    assert of_rank(get_schedule("all-to-all", "direct", 4), 1) == exchange
    assert not get_schedule("all-to-all", "direct", 4).need.any()


def test_a_window() -> None:
    # Window 2 on 5 ranks: two sends at once, then one for every reception. The second half of an all-reduce starts when
    # all four have come, with two at once.
    c = get_schedule("all-reduce", "direct:2", 5)
    mine = np.flatnonzero(c.src == 0)
    assert c.need[mine].tolist() == [0, 0, 1, 2, 3, 4, 5, 6]
    assert [len(c.waits_for(int(m))) for m in mine] == [0] * 4 + [4] * 4


def test_halving_doubling() -> None:
    # Rank 0 of 8: partners 1, 2, 4 get the half of what is left that agrees with them in the bits dealt with so far.
    halves = [(1, [1, 3, 5, 7], True), (2, [2, 6], True), (4, [4], True)]
    doubles = [(4, [0], False), (2, [0, 4], False), (1, [0, 2, 4, 6], False)]
    assert of_rank(get_schedule("reduce-scatter", "halving-doubling", 8), 0) == halves
    assert of_rank(get_schedule("all-gather", "halving-doubling", 8), 0) == doubles
    assert of_rank(get_schedule("all-reduce", "halving-doubling", 8), 0) == halves + doubles


def test_halving_doubling_on_any_number_of_ranks() -> None:
    # 5 ranks: rank 4 gives rank 0 all it has, and gets the result; the others do halving-doubling on 4 blocks.
    c = get_schedule("all-reduce", "halving-doubling", 5)
    assert c.blocks == 4
    assert of_rank(c, 4) == [(0, [0, 1, 2, 3], True)]
    assert of_rank(c, 0)[-1] == (4, [0, 1, 2, 3], False)
    # Reduce-scatter: rank 0 stands for blocks 0 and 4, and gives rank 4 its own.
    c = get_schedule("reduce-scatter", "halving-doubling", 5)
    assert of_rank(c, 1)[0] == (0, [0, 2, 4], True)
    assert of_rank(c, 0)[-1] == (4, [4], False)


@pytest.mark.parametrize(("kind", "name"), CASES)
@pytest.mark.parametrize("n", [2, 4, 8, 16, 32])
def test_bytes_and_messages_of_a_rank(kind: str, name: str, n: int) -> None:
    """The table of docs/collectives.md, for N a power of two and blocks of 24 bytes."""
    c = get_schedule(kind, name, n)
    whole = 24 * n
    sent = c.message_bytes(block_sizes(c.kind, n, c.blocks, whole))
    twice = 2 if kind == "all-reduce" else 1
    messages = {"ring": twice * (n - 1), "direct": twice * (n - 1), "halving-doubling": twice * int(log2(n))}[name]
    least = lower_bound_bytes(kind, n, 24 if kind == "all-gather" else whole)
    if (kind, name) == ("all-to-all", "ring"):
        messages, least = n * (n - 1) // 2, least * n / 2
    for rank in range(n):
        assert (c.src == rank).sum() == (c.dst == rank).sum() == messages
        assert sent[c.src == rank].sum() == sent[c.dst == rank].sum() == least


def test_hundreds_of_ranks_are_quick() -> None:
    """Generous limits, in CPU time: they are there to catch a loop per message and block where arrays are meant."""
    for kind, name, n, limit in [
        ("all-reduce", "ring", 64, 0.2),
        ("all-reduce", "direct", 64, 0.2),
        ("all-reduce", "halving-doubling", 64, 0.2),
        ("all-to-all", "direct", 64, 0.2),
        ("all-to-all", "direct", 256, 2.0),
        ("all-reduce", "ring", 256, 2.0),
    ]:
        algorithm: Callable[[str, int], Schedule] = collectives.get(name)
        start = time.process_time()
        compiled(algorithm(kind, n))  # not get_schedule: it remembers
        assert time.process_time() - start < limit, (kind, name, n)


@pytest.fixture
def page(tree: Path) -> str:
    return (tree / "docs" / "extending_collective.md").read_text(encoding="utf-8")


def fenced(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, flags=re.DOTALL)


@pytest.fixture
def star(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of a user's with the file that the page tells to write, forgotten afterwards."""
    file = tmp_path / "mine" / "collectives" / "star.py"
    file.parent.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    yield file
    package = sys.modules["pyxsim_library.collectives"]
    package.__path__.remove(str(file.parent.resolve()))
    collectives.discard(f"{package.__name__}.star")
    sys.modules.pop(f"{package.__name__}.star", None)


def test_the_page_on_algorithms_of_ones_own(page: str, star: Path) -> None:
    algorithm, use, _ = fenced(page, "python")
    star.write_text(algorithm, encoding="utf-8")
    exec(compile(use, "docs/extending_collective.md", "exec"), {})
    for n in (1, 2, 5, 16):
        c = get_schedule("all-reduce", "star", n)
        prove(c)
        assert len(c) == 2 * (n - 1)
    with pytest.raises(InputError, match="star cannot do all-gather; allowed: all-reduce with star"):
        get_schedule("all-gather", "star", 4)


def test_the_fault_on_that_page_is_found(page: str, star: Path) -> None:
    algorithm, _, body = fenced(page, "python")
    (said,) = fenced(page, "text")
    head = algorithm[: algorithm.index("    for rank")]
    star.write_text(head + body, encoding="utf-8")
    library.load_all(["mine"])
    with pytest.raises(ScheduleError) as caught:
        prove(get_schedule("all-reduce", "star", 8))
    assert str(caught.value) == said.strip()
