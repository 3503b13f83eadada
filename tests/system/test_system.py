"""The system layer on a network in which every message takes the same time: so the times of collectives are sums."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.errors import SimulationError
from pyxsim.system import Collective, System
from pyxsim.topology.topology import Queue
from tests.system.ideal import Ideal, options, system

T = 100  # cycles of a message, unless said otherwise
BOTH_WAYS = (Queue(0, 1), Queue(1, -1))


# -- the times of one phase --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "algorithm", "steps", "reducing"),
    [
        # n = 4: how many messages follow each other, and how many of them are added up.
        ("all-reduce", "ring", 6, 3),
        ("reduce-scatter", "ring", 3, 3),
        ("all-gather", "ring", 3, 0),
        ("all-to-all", "ring", 6, 0),
        ("all-reduce", "direct", 2, 1),
        ("reduce-scatter", "direct", 1, 1),
        ("all-to-all", "direct", 1, 0),
        ("all-to-all", "direct:1", 3, 0),
        ("all-to-all", "direct:2", 2, 0),
        ("all-gather", "direct:3", 1, 0),
        ("reduce-scatter", "direct:1", 3, 3),
        ("all-reduce", "halving-doubling", 4, 2),
        ("all-gather", "halving-doubling", 2, 0),
    ],
)
@pytest.mark.parametrize(("endpoint", "reduction"), [(0, 0), (7, 0), (0, 20), (7, 20)])
def test_time_of_one_chunk(kind: str, algorithm: str, steps: int, reducing: int, endpoint: int, reduction: int) -> None:
    """The endpoint delay before the first message and after each, the reduction delay after each that is added up."""
    s = system([4], T, algorithm, endpoint_delay=endpoint, reduction_delay=reduction)
    collective = s.issue(kind, 4000, 50)
    end = s.run()
    assert end == collective.end == 50 + endpoint + steps * (T + endpoint) + reducing * reduction
    assert (collective.start, collective.kind, collective.size) == (50, kind, 4000)


def test_the_reduction_waits_for_nobody_else() -> None:
    """Direct reduce-scatter: three messages come at once, and are reduced side by side."""
    s = system([4], T, "direct", reduction_delay=30)
    s.issue("reduce-scatter", 4000)
    assert s.run() == T + 30


def test_a_collective_of_one_npu_is_over_at_once() -> None:
    s = system([1], T)
    ends: list[int] = []
    s.issue("all-reduce", 1000, 17, lambda collective: ends.append(s.cycle))
    assert s.run() == 17
    assert ends == [17]
    assert s.chunk_table()["chunk"].tolist() == []
    assert s.pairs().shape == (0, 3)


def test_npus_without_bytes_are_done_when_they_begin() -> None:
    """3 bytes on 5 NPUs: two of them get nothing in a reduce-scatter, and still have an end."""
    s = system([5], T, "direct")
    s.issue("reduce-scatter", 3)
    assert s.run() == T
    table = s.chunk_table()
    assert (table["end"] >= table["start"]).all()
    network = s.network
    assert isinstance(network, Ideal)
    assert sum(size for *_, size, _ in network.sent) == s.bytes_planned == 3 * 4


# -- phases ------------------------------------------------------------------------------------------------------------


def test_an_npu_goes_on_when_its_own_data_are_there() -> None:
    """2 x 2: the second dimension of an NPU begins when its first has ended, not when everybody's has."""

    def time(src: int, dst: int, size: int) -> int:
        return 500 if {src, dst} == {2, 3} else 100

    s = system([2, 2], time, "direct")
    s.issue("reduce-scatter", 4000)
    s.run()
    first, second = s.collectives[0].chunks[0].stages
    assert first.end.tolist() == second.ready.tolist() == [100, 100, 500, 500]
    assert second.start.tolist() == [100, 100, 500, 500]
    # NPUs 2 and 3 have long had what 0 and 1 sent them; those wait for what is sent in cycle 500.
    assert second.end.tolist() == [600, 600, 500, 500]


def test_together_everybody_waits_for_the_last() -> None:
    """The barrier of ASTRA-sim 1."""

    def time(src: int, dst: int, size: int) -> int:
        return 500 if {src, dst} == {2, 3} else 100

    s = system([2, 2], time, "direct", together=True)
    s.issue("reduce-scatter", 4000)
    s.run()
    first, second = s.collectives[0].chunks[0].stages
    assert first.end.tolist() == [100, 100, 500, 500]
    assert second.ready.tolist() == second.start.tolist() == [500] * 4


def test_messages_before_their_receiver_has_begun_are_kept() -> None:
    """NPU 0 is late in the second phase; what NPU 2 sent it in time counts from when it begins, delays included."""

    def time(src: int, dst: int, size: int) -> int:
        return 1000 if dst == 0 and src == 1 else 100

    s = system([2, 2], time, "direct", endpoint_delay=10, reduction_delay=5)
    s.issue("reduce-scatter", 4000)
    s.run()
    first, second = s.collectives[0].chunks[0].stages
    assert first.end.tolist() == [1025, 125, 125, 125]
    assert second.start.tolist() == [1025, 125, 125, 125]
    # NPU 0 takes in what waited (10 + 5) and sends its own after 10; NPU 2 hears of it 100 + 10 + 5 later.
    assert second.end.tolist() == [1040, 250, 1025 + 10 + 100 + 15, 250]


# -- chunks and queues -------------------------------------------------------------------------------------------------


def begins(s: System) -> list[int]:
    """The first cycle of each phase of each chunk."""
    return [int(stage.start.min()) for stage in s.stages()]


def test_one_chunk_after_the_other() -> None:
    s = system([4], T, chunks=3)
    s.issue("all-gather", 4000)
    assert s.run() == 9 * T
    assert begins(s) == [0, 3 * T, 6 * T]


def test_room_for_two() -> None:
    s = system([4], T, chunks=5, room=[2])
    s.issue("all-gather", 4000)
    assert s.run() == 9 * T
    assert begins(s) == [0, 0, 3 * T, 3 * T, 6 * T]


def test_each_queue_has_room_of_its_own() -> None:
    """Chunk i goes to queue i mod 2: the second one runs the other way round, on plane 1."""
    s = system([4], T, chunks=4, queues=[BOTH_WAYS])
    s.issue("all-gather", 4000)
    assert s.run() == 6 * T
    assert begins(s) == [0, 0, 3 * T, 3 * T]
    network = s.network
    assert isinstance(network, Ideal)
    assert all((dst - src) % 4 == (1 if plane == 0 else 3) for _, src, dst, _, plane in network.sent)
    assert {plane for *_, plane in network.sent} == {0, 1}


def test_by_turns_every_phase_takes_the_next_queue() -> None:
    """ASTRA-sim: in an all-reduce over two dimensions the scatter and the gather of a chunk take successive queues."""

    def planes(**others: Any) -> list[list[int]]:
        s = system([2, 2], T, chunks=3, queues=[BOTH_WAYS, BOTH_WAYS], **others)
        s.issue("all-reduce", 4000)
        return [[stage.queue.plane for stage in chunk.stages] for chunk in s.collectives[0].chunks]

    assert planes(by_turns=True) == [[0, 0, 1], [0, 1, 1], [0, 0, 1]]
    assert planes() == [[0, 0, 0], [1, 1, 1], [0, 0, 0]]


@pytest.mark.parametrize(("newest_first", "order"), [(True, "aBBa"), (False, "aaBB")])
def test_which_collective_goes_first(newest_first: bool, order: str) -> None:
    """The second collective comes while the first works on its first chunk: LIFO lets it pass, FIFO does not."""
    s = system([4], T, chunks=2, newest_first=newest_first)
    s.issue("all-gather", 4000, 0)
    s.issue("all-gather", 4000, 10)
    s.run()
    names = [("a" if stage.chunk.collective is s.collectives[0] else "B") for stage in s.stages()]
    assert "".join(name for _, name in sorted(zip(begins(s), names, strict=True))) == order


def test_round_robin_counts_the_chunks_of_all_collectives() -> None:
    s = system([2, 2, 2], T, chunks=2, inter_dimension="round-robin")
    for _ in range(2):
        s.issue("reduce-scatter", 4000)
    dims = [[stage.phase.dims[0] for stage in chunk.stages] for c in s.collectives for chunk in c.chunks]
    assert dims == [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]
    s.run()


def test_themis_begins_anew_with_every_collective() -> None:
    """Equal dimensions: the first chunk goes 0, 1, the second the other way round, as in the paper's example."""
    s = system([4, 4], T, chunks=2, inter_dimension="themis", bandwidths=[Fraction(1), Fraction(1)])
    for _ in range(2):
        s.issue("all-reduce", 3200)
    dims = [[stage.phase.dims[0] for stage in chunk.stages] for c in s.collectives for chunk in c.chunks]
    assert dims == [[0, 1, 1, 0], [1, 0, 0, 1]] * 2
    s.run()


# -- many collectives --------------------------------------------------------------------------------------------------


def test_the_end_of_one_may_issue_the_next() -> None:
    s = system([4], T)
    ends: list[int] = []

    def again(collective: Collective) -> None:
        ends.append(s.cycle)
        assert collective.end == s.cycle
        if len(ends) < 3:
            s.issue("all-gather", 1000, s.cycle + 5, again)

    s.issue("all-gather", 1000, 0, again)
    assert s.run() == 3 * 3 * T + 2 * 5
    assert ends == [300, 605, 910]


def test_things_of_one_cycle_happen_in_the_order_in_which_they_were_asked_for() -> None:
    s = system([2], T)
    seen: list[str] = []
    s.at(5, lambda: seen.append("first"))
    s.at(3, lambda: s.at(5, lambda: seen.append("third")))
    s.at(5, lambda: seen.append("second"))
    s.after(0, lambda: seen.append("at once"))
    s.run()
    assert seen == ["at once", "first", "second", "third"]


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.lists(
        st.tuples(st.sampled_from(["all-reduce", "reduce-scatter", "all-gather", "all-to-all"]), st.integers(1, 400)),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from(["ring", "direct", "direct:1"]),
    st.integers(1, 6),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_everything_ends_in_any_order_of_arrivals(
    shape: list[int],
    wanted: list[tuple[str, int]],
    algorithm: str,
    chunks: int,
    room: int,
    together: bool,
    newest_first: bool,
    seed: int,
) -> None:
    """Whatever time each message takes: all ends, and no queue of a system-wide team runs more than it has room for."""
    rng = np.random.default_rng(seed)
    s = system(
        shape,
        lambda src, dst, size: int(rng.integers(0, 2000) ** 2 // 1000),
        algorithm,
        chunks=chunks,
        room=[room] * len(shape),
        queues=[BOTH_WAYS] * len(shape),
        together=together,
        by_turns=together,
        newest_first=newest_first,
    )
    for kind, size in wanted:
        s.issue(kind, size, int(rng.integers(0, 500)))
    end = s.run()
    assert end == max(collective.end for collective in s.collectives)
    changes: dict[int, list[tuple[int, int]]] = defaultdict(list)  # per line: chunks that begin and end
    for stage in s.stages():
        assert (stage.ready <= stage.start).all()
        assert (stage.start <= stage.end).all()
        changes[id(stage.tasks[0].team.line)] += [(int(stage.start.min()), 1), (int(stage.end.max()), -1)]
    if together:
        for each in changes.values():
            assert np.cumsum([change for _, change in sorted(each)]).max() <= room


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def test_a_collective_that_never_ends_is_told() -> None:
    s = System(Ideal(4, T, lost=[5]), [4], options())
    s.issue("all-reduce", 4000)
    with pytest.raises(SimulationError, match=r"^the all-reduce of 4000 bytes never ends: chunk 0, phase 0 .*, NPU \d"):
        s.run()


# -- what there is to see ----------------------------------------------------------------------------------------------


def test_pairs_are_what_is_sent() -> None:
    s = system([2, 3], T, ["direct", "ring"], chunks=2, queues=[BOTH_WAYS, BOTH_WAYS])
    s.issue("all-reduce", 4000)
    pairs = {tuple(row) for row in s.pairs().tolist()}
    s.run()
    network = s.network
    assert isinstance(network, Ideal)
    assert pairs == {(src, dst, plane) for _, src, dst, _, plane in network.sent}


def test_the_table_of_chunks() -> None:
    s = system([2, 2], T, "direct", chunks=2)
    s.issue("reduce-scatter", 6)  # chunks of 3 bytes: blocks of 1 and 2
    s.issue("all-gather", 1)  # one byte: one chunk
    table = s.chunk_table()
    assert table["end"].tolist() == [-1] * len(table["end"])
    s.run()
    table = s.chunk_table()
    assert set(table) == {"chunk", "phase", "rank", "dimension", "bytes", "ready", "start", "end"}
    assert table["chunk"].tolist() == [0] * 8 + [1] * 8 + [2] * 8
    assert table["phase"].tolist() == ([0] * 4 + [1] * 4) * 3
    assert table["rank"].tolist() == [0, 1, 2, 3] * 6
    assert table["dimension"].tolist() == ([0] * 4 + [1] * 4) * 2 + [1] * 4 + [0] * 4
    assert table["bytes"].tolist() == [3, 3, 3, 3, 1, 2, 1, 2] * 2 + [1] * 4 + [2] * 4


def test_a_phase_over_all_dimensions_is_in_none() -> None:
    s = system([2, 2], T, "one-direct")
    s.issue("reduce-scatter", 8)
    assert s.run() == T
    assert s.chunk_table()["dimension"].tolist() == [-1] * 4
