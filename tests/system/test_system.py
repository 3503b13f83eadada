"""The system layer on a network in which every message takes the same time: so the times of collectives are sums."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.collective.communicator import Communicator
from pyxsim.errors import InputError, StuckError
from pyxsim.system import Collective, System
from pyxsim.system.table import COLUMNS
from pyxsim.topology.topology import Queue
from tests.examples import part_of
from tests.in_turn import in_turn
from tests.system.ideal import Ideal, options, system

T = 100  # cycles of a message, unless said otherwise
BOTH_WAYS = (Queue(0, 1), Queue(1, -1))


# -- the times of one phase --------------------------------------------------------------------------------------------


@in_turn(
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
@in_turn(("endpoint", "reduction"), [(0, 0), (7, 0), (0, 20), (7, 20)])
def test_time_of_one_chunk(kind: str, algorithm: str, steps: int, reducing: int, endpoint: int, reduction: int) -> None:
    """The endpoint delay before the first message and after each, the reduction delay after each that is added up."""
    s = system([4], T, algorithm, endpoint_delay=endpoint, reduction_delay=reduction)
    collective = s.issue(kind, 4000, at=50)
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
    s.issue("all-reduce", 1000, at=17, done=lambda collective: ends.append(s.cycle))
    assert s.run() == 17
    assert ends == [17]
    assert s.chunk_table()["chunk"].tolist() == []
    assert s.traffic().shape == (0, 5)


def test_traffic_is_all_that_was_issued_so_far() -> None:
    s = system([4], T)
    for count in (1, 2, 3):
        s.send(0, 1, 100)
        assert s.traffic().tolist() == [[0, 1, 0, 100, count]]
    s.issue("all-gather", 400)
    assert s.traffic()[:, 4].sum() == 3 + 4 * 3


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
    assert first.end == second.ready == [100, 100, 500, 500]
    assert second.start == [100, 100, 500, 500]
    # NPUs 2 and 3 have long had what 0 and 1 sent them; those wait for what is sent in cycle 500.
    assert second.end == [600, 600, 500, 500]


def test_messages_before_their_receiver_has_begun_are_kept() -> None:
    """NPU 0 is late in the second phase; what NPU 2 sent it in time counts from when it begins, delays included."""

    def time(src: int, dst: int, size: int) -> int:
        return 1000 if dst == 0 and src == 1 else 100

    s = system([2, 2], time, "direct", endpoint_delay=10, reduction_delay=5)
    s.issue("reduce-scatter", 4000)
    s.run()
    first, second = s.collectives[0].chunks[0].stages
    assert first.end == [1025, 125, 125, 125]
    assert second.start == [1025, 125, 125, 125]
    # NPU 0 takes in what waited (10 + 5) and sends its own after 10; NPU 2 hears of it 100 + 10 + 5 later.
    assert second.end == [1040, 250, 1025 + 10 + 100 + 15, 250]


# -- chunks and queues -------------------------------------------------------------------------------------------------


def begins(s: System) -> list[int]:
    """The first cycle of each phase of each chunk."""
    return [min(stage.start) for stage in s.stages()]


def test_one_chunk_after_the_other() -> None:
    s = system([4], T, chunks=3)
    s.issue("all-gather", 4000)
    assert s.run() == 9 * T
    assert begins(s) == [0, 3 * T, 6 * T]


def test_room_for_two() -> None:
    s = system([4], T, chunks=5, slots=[2])
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


def test_every_phase_of_a_chunk_is_in_the_queue_of_its_number() -> None:
    s = system([2, 2], T, chunks=3, queues=[BOTH_WAYS, BOTH_WAYS])
    s.issue("all-reduce", 4000)
    assert [[stage.place for stage in chunk.stages] for chunk in s.collectives[0].chunks] == [[0] * 3, [1] * 3, [0] * 3]


@pytest.mark.parametrize(("scheduling", "order"), [("LIFO", "aBBa"), ("FIFO", "aaBB"), ("explicit", "aaBB")])
def test_which_collective_goes_first(scheduling: str, order: str) -> None:
    """The second collective comes while the first works on its first chunk: LIFO lets it pass, FIFO does not;
    with explicit priorities, nobody who has none passes."""
    s = system([4], T, chunks=2, scheduling=scheduling)
    s.issue("all-gather", 4000)
    s.issue("all-gather", 4000, at=10)
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
            s.issue("all-gather", 1000, at=s.cycle + 5, done=again)

    s.issue("all-gather", 1000, done=again)
    assert s.run() == 3 * 3 * T + 2 * 5
    assert ends == [300, 605, 910]


@settings(max_examples=part_of(100))
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
    st.sampled_from(["LIFO", "FIFO"]),
    st.sampled_from(["FIFO", "RG", "smallest-first", "fewest-phases-first"]),
    st.integers(0, 9),
    st.integers(0, 2**32),
)
def test_everything_ends_in_any_order_of_arrivals(
    shape: list[int],
    wanted: list[tuple[str, int]],
    algorithm: str,
    chunks: int,
    room: int,
    scheduling: str,
    intra: str,
    endpoint: int,
    seed: int,
) -> None:
    """Whatever time each message takes: all ends, and what was announced is sent."""
    rng = np.random.default_rng(seed)
    s = system(
        shape,
        lambda src, dst, size: int(rng.integers(0, 2000) ** 2 // 1000),
        algorithm,
        chunks=chunks,
        slots=[room] * len(shape),
        queues=[BOTH_WAYS] * len(shape),
        scheduling=scheduling,
        intra_dimension=intra,
        endpoint_delay=endpoint,
    )
    for kind, size in wanted:
        s.issue(kind, size, at=int(rng.integers(0, 500)))
    end = s.run()
    assert end == max(collective.end for collective in s.collectives)
    for stage in s.stages():
        for ready, start, end in zip(stage.ready, stage.start, stage.end, strict=True):
            assert 0 <= ready <= start <= end
    network = s.network
    assert isinstance(network, Ideal)
    sent = Counter((src, dst, plane, size) for _, src, dst, size, plane in network.sent)
    assert {tuple(row[:4]): row[4] for row in s.traffic().tolist()} == sent
    assert sum(size * count for (*_, size), count in sent.items()) == s.bytes_planned


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def test_who_waits_for_whom_is_told() -> None:
    """Message 5 of a ring is lost: from rank 2 to rank 3 in the second step. Everybody behind it waits."""
    s = System(Ideal(4, T, lost=[5]), [4], options(chunks=2))
    s.issue("all-reduce", 4000, name="first")
    with pytest.raises(StuckError) as stopped:
        s.run()
    lines = [str(stopped.value).partition(": ")[2], *stopped.value.waits]
    place = "in queue 0 of dimension 0 with chunk 0, phase 0 (all-reduce) of the first"
    assert lines[:4] == [
        f"NPU 0 {place} waits for NPU 3 to send",
        f"NPU 1 {place} waits for NPU 0 to send",
        f"NPU 2 {place} waits for NPU 1 to send",
        f"NPU 3 {place} waits for messages that left NPU 2 and have not arrived, and for NPU 2 to send",
    ]
    assert lines[4].startswith(
        "NPU 0 in queue 0 of dimension 0 with chunk 1, phase 0 (all-reduce) of the first waits for a slot"
    )
    assert stopped.value.exit_code == 3


def test_a_message_that_does_not_come_is_told() -> None:
    s = System(Ideal(4, T, lost=[0]), [4], options())
    s.send(1, 3, 77, name="halo")
    with pytest.raises(StuckError, match="halo of 77 bytes from NPU 1 to 3 has not arrived"):
        s.run()


# -- what there is to see ----------------------------------------------------------------------------------------------


def test_the_table_of_chunks() -> None:
    s = system([2, 2], T, "direct", chunks=2)
    s.issue("reduce-scatter", 6)  # chunks of 3 bytes: blocks of 1 and 2
    s.issue("all-gather", 1)  # one byte: one chunk
    table = s.chunk_table()
    assert table["end"].tolist() == [-1] * len(table["end"])
    s.run()
    table = s.chunk_table()
    assert tuple(table) == COLUMNS
    assert table["collective"].tolist() == [0] * 16 + [1] * 8
    assert table["chunk"].tolist() == [0] * 8 + [1] * 8 + [2] * 8
    assert table["phase"].tolist() == ([0] * 4 + [1] * 4) * 3
    assert table["rank"].tolist() == [0, 1, 2, 3] * 6
    assert table["dimension"].tolist() == ([0] * 4 + [1] * 4) * 2 + [1] * 4 + [0] * 4
    # In the second phase NPU 0's block has no bytes: nobody sends it.
    assert table["messages"].tolist()[:16] == [1, 1, 1, 1, 0, 1, 1, 1] * 2
    assert (table["network"] == T * table["messages"]).all()
    assert table["bytes"].tolist() == [3, 3, 3, 3, 1, 2, 1, 2] * 2 + [1] * 4 + [2] * 4


def test_a_phase_over_all_dimensions_is_in_none() -> None:
    s = system([2, 2], T, "one-direct")
    s.issue("reduce-scatter", 8)
    assert s.run() == T
    assert s.chunk_table()["dimension"].tolist() == [-1] * 4


def test_groups_without_routes_between_their_npus_are_refused() -> None:
    """Garnet's rings: what is no grid, or goes over several dimensions at once, needs a way round a corner."""
    for wanted in ({"algorithms": ["one-ring"] * 2}, {"communicator": Communicator.of([0, 3], [2, 2])}):
        s = system([2, 2], T, confined=True)
        with pytest.raises(
            InputError, match=r"system\.all_reduce: .* requires routes between them, which these rings do not"
        ):
            s.issue("all-reduce", 400, **wanted)  # type: ignore[arg-type]
    s = system([2, 2], T, confined=True)
    s.issue("all-reduce", 400, communicator=Communicator.of([1, 3], [2, 2]))
    assert s.run() == 2 * T
