"""GOAL schedules: text, binary and graphs hold the same; every fault is one line."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.runner.lifecycle import run
from pyxsim.workload.goal import ANY, MAGIC, Op, Rank, Schedule, is_goal, read_goal, write_goal
from pyxsim.workload.goal.schedule import rank_of
from pyxsim.workload.goal.tasks import NAMES, graph_of, schedule_of
from pyxsim.workload.graph import Call, GraphBuilder, Kind, TaskGraph, check
from tests.examples import part_of

SAMPLE = Path("inputs/goal/ring.goal")
TEXT = """num_ranks 2
rank 0 {
l1: calc 100 cpu 1
l2: send 8b to 1 tag 3 nic 2
l2 requires l1
l3: calc 7
l3 irequires l2
}
rank 1 {
x_1: recv 8b from 0 tag 3
}
"""
# The same as LogGOPSim's txt2bin writes it.
BINARY = bytes.fromhex(
    "7f10000000000000" "02000000" "01" "02"
    "2600000000000000" "af00000000000000" "af00000000000000" "e200000000000000"
    "03000000" "01000000" "00000000"
    "00000000" "03" "00000000" "6400000000000000" "00000000" "01" "00" "01000000" "00000000" "00000000" "01000000"
    "01000000" "01" "01000000" "0800000000000000" "03000000" "00" "02" "00000000" "01000000" "01000000" "01000000"
    "01000000" "03" "00000000" "0700000000000000" "00000000" "00" "00" "00000000" "02000000" "00000000" "02000000"
    "01000000" "02000000"
    "01000000" "01000000" "00000000"
    "00000000" "02" "00000000" "0800000000000000" "03000000" "00" "00" "00000000" "00000000" "00000000" "00000000"
)  # fmt: skip


def ranks_of(path: Path) -> list[Rank]:
    with read_goal(str(path)) as schedule:
        return sorted(schedule.ranks, key=lambda rank: rank.number)


def graph(path: Path) -> TaskGraph:
    with read_goal(str(path)) as schedule:
        return graph_of(schedule, str(path))


def text(tmp_path: Path, lines: str) -> Path:
    path = tmp_path / "a.goal"
    path.write_text(lines)
    return path


def equal(one: TaskGraph, other: TaskGraph) -> bool:
    fields = (field.name for field in dataclasses.fields(one))
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in fields)


@st.composite
def schedules(draw: st.DrawFn) -> list[Rank]:
    """Ranks with any operations and dependencies, also with any source."""
    count = draw(st.integers(1, 4))
    ranks = []
    for number in range(count):
        total = draw(st.integers(0, 6))
        columns = []
        for _ in range(total):
            kind = draw(st.sampled_from(Op))
            size = draw(st.integers(0, 2**64 - 1))
            message = kind != Op.CALC
            peer = draw(st.integers(0, count - 1)) if message else 0
            tag = draw(st.integers(0, ANY)) if message else 0
            if kind == Op.RECV and draw(st.booleans()):
                peer = ANY
            nic = draw(st.integers(0, 255)) if message else 0
            columns.append((kind, size, peer, tag, draw(st.integers(0, 255)), nic))
        types = (np.uint8, np.uint64, np.uint32, np.uint32, np.uint8, np.uint8)
        arrays = tuple(np.array([row[i] for row in columns], kind) for i, kind in enumerate(types))
        pairs = draw(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.booleans()), max_size=8))
        pairs = [(one, other, start) for one, other, start in pairs if max(one, other) < total]
        after, before, start = (np.array([pair[i] for pair in pairs], np.uint32) for i in range(3))
        ranks.append(rank_of(number, arrays, (after, before, start.astype(np.bool_))))  # type: ignore[arg-type]
    return ranks


def test_text_is_what_txt2bin_makes_of_it(tmp_path: Path) -> None:
    path = text(tmp_path, TEXT)
    with read_goal(str(path)) as schedule:
        assert write_goal(schedule, str(tmp_path / "a.bin")) == 4
    assert (tmp_path / "a.bin").read_bytes() == BINARY
    assert ranks_of(tmp_path / "a.bin") == ranks_of(path)
    assert is_goal(str(path))
    assert is_goal(str(tmp_path / "a.bin"))
    assert not is_goal("README.md")
    assert not is_goal(str(tmp_path))


@given(schedules())
@settings(max_examples=part_of(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_text_and_binary_hold_the_same(tmp_path: Path, ranks: list[Rank]) -> None:
    for end in (".goal", ".bin"):
        path = tmp_path / f"a{end}"
        write_goal(Schedule(len(ranks), ranks), str(path))
        assert ranks_of(path) == ranks
        first = path.read_bytes()
        write_goal(Schedule(len(ranks), ranks_of(path)), str(path))
        assert path.read_bytes() == first


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A text whose ranks send each other messages that are received."""
    count = draw(st.integers(1, 4))
    lines: list[list[str]] = [[] for _ in range(count)]
    labels = [0] * count
    for _ in range(draw(st.integers(0, 12))):
        one = draw(st.integers(0, count - 1))
        places = [one]
        words = [f"calc {draw(st.integers(0, 5000))} cpu {draw(st.integers(0, 3))}"]
        if count > 1 and draw(st.booleans()):
            other = (one + draw(st.integers(1, count - 1))) % count
            size, tag = draw(st.integers(0, 4000)), draw(st.integers(0, 2))
            source, taken = draw(st.sampled_from([(one, tag), (one, tag), (-1, tag), (one, -1), (-1, -1)]))
            places = [one, other]
            words = [f"send {size}b to {other} tag {tag}", f"recv {size}b from {source} tag {taken}"]
        for place, word in zip(places, words, strict=True):
            labels[place] += 1
            lines[place].append(f"l{labels[place]}: {word}")
            for earlier in draw(st.lists(st.integers(1, max(labels[place] - 1, 1)), max_size=2)):
                if earlier < labels[place]:
                    how = draw(st.sampled_from(["requires", "irequires"]))
                    lines[place].append(f"l{labels[place]} {how} l{earlier}")
    ranks = "".join(f"rank {number} {{\n" + "\n".join([*rows, "}\n"]) for number, rows in enumerate(lines))
    return f"num_ranks {count}\n{ranks}"


@given(programs())
@settings(max_examples=part_of(80), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_graph_becomes_the_same_graph(tmp_path: Path, program: str) -> None:
    first = graph(text(tmp_path, program))
    if not len(first):
        return
    check(first)
    schedule, left_out = schedule_of(first)
    assert left_out == []
    ranks = list(schedule.ranks)
    for end in (".goal", ".bin"):
        path = tmp_path / f"b{end}"
        write_goal(Schedule(schedule.count, ranks), str(path))
        assert equal(graph(path), first)


def test_what_a_graph_has(tmp_path: Path) -> None:
    tasks = graph(text(tmp_path, TEXT))
    names = [NAMES[name] for name in tasks.name]
    assert names == ["calc", "start", "send", "calc", "recv"]
    assert tasks.ticks.tolist() == [100, 0, 0, 7, 0]
    assert tasks.resources == (("cpu 0", 1), ("cpu 1", 1))
    assert tasks.before.tolist() == [0, 1, 1]  # the mark waits for the calc; the send and the last calc for the mark
    assert tasks.of_kind(Kind.RECEIVE).tolist() == [4]
    assert tasks.label(4) == "NPU 1, 'recv' (node 1)"


def test_sample_to_the_nanosecond() -> None:
    result = run("inputs/goal/ring.toml", backend="analytical-congestion")
    message = 500 + 1311  # 65,536 bytes at 50 GB/s, rounded up
    assert abs(result.time_ns - (2000 + 4 * message + 3 * 1000 + 500)) <= 4


def test_receives_take_the_size_of_their_send(tmp_path: Path) -> None:
    ranks = (
        "rank 0 {\nsend 0b to 1 tag 1\nsend 5b to 1 tag 1\n}\nrank 1 {\nrecv 9b from -1 tag -1\nrecv 9b from 0 tag 1\n}"
    )
    tasks = graph(text(tmp_path, f"num_ranks 2\n{ranks}\n"))
    assert tasks.size.tolist() == [1, 5, 1, 5]
    check(tasks)
    # In another order they are left as they are: messages find the receive of their size when they run.
    ranks = (
        "rank 0 {\nsend 4b to 1 tag 1\nsend 5b to 1 tag 1\n}\nrank 1 {\nrecv 5b from 0 tag 1\nrecv 4b from 0 tag 1\n}"
    )
    assert graph(text(tmp_path, f"num_ranks 2\n{ranks}\n")).size.tolist() == [4, 5, 5, 4]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("send 8b to 2 tag 1", "a.goal:3: there is no rank 2; allowed: ranks 0 to 1"),
        ("send 8 to 1", "a.goal:3: unexpected 'to'"),
        ("send 8b from 1", "a.goal:3: unexpected 'from'; allowed: 'to'"),
        ("recv 8b from -2", "a.goal:3: unexpected '-2'"),
        ("calc", "a.goal:3: the line ends early"),
        ("calc 99999999999999999999", "a.goal:3: nanoseconds is out of range"),
        ("calc 1 tag 3", "a.goal:3: unexpected 'tag'"),
        ("l1: clac 5", "a.goal:3: unexpected 'clac'"),
        ("l1 requires l2", "a.goal:3: rank 0 has no label 'l1' yet"),
        ("l1: calc 5\nl1: calc 6", "a.goal:4: label 'l1' occurs twice"),
        ("l1: calc 5\nl1 needs l1", "a.goal:4: unexpected 'needs'"),
        ("rank 1 {", "a.goal:3: unexpected '1'"),
        ("/* no end", "the comment has no end"),
        ("é", "a.goal:3: unexpected 'é'"),
    ],
)
def test_faults_of_a_text(tmp_path: Path, line: str, fault: str) -> None:
    path = text(tmp_path, f"num_ranks 2\nrank 0 {{\n{line}\n}}\nrank 1 {{\n}}\n")
    with pytest.raises(InputError) as error:
        graph(path)
    assert fault in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ("", "has no ranks"),
        ("num_ranks 0\n", "0 ranks"),
        ("num_ranks 999999999\nrank 5 {\n}\n", "999999999 ranks are declared, but rank 0 is missing"),
        ("num_ranks 2\nrank 0 {\n}\nrank 0 {\n}\n", "rank 0 occurs twice"),
        ("num_ranks 2\nrank 2 {\n}\n", "there is no rank 2"),
        ("rank 0 {\n}\nnum_ranks 2\n", "the number of ranks is not known yet"),
        ("num_ranks 1\nrank 0 {\ncalc 1\n", "rank 0 has no end"),
        ("num_ranks 1\nnum_ranks 1\n", "the number of ranks is given twice"),
    ],
)
def test_faults_of_ranks(tmp_path: Path, lines: str, fault: str) -> None:
    with pytest.raises(InputError) as error:
        graph(text(tmp_path, lines))
    assert fault in str(error.value)


def test_receives_of_any_leave_a_send_to_those_that_name_a_rank(tmp_path: Path) -> None:
    """The first send that fits the first receive is the only one that fits the second."""
    ranks = ["recv 0b from -1\nrecv 0b from 2 tag -1", "calc 0\nsend 0b to 0", "send 0b to 0"]
    lines = "".join(f"rank {number} {{\n{body}\n}}\n" for number, body in enumerate(ranks))
    tasks = graph(text(tmp_path, f"num_ranks 3\n{lines}"))
    assert tasks.peer[tasks.of_kind(Kind.RECEIVE)].tolist() == [1, 2]


def test_faults_that_only_a_network_shows(tmp_path: Path) -> None:
    network = {"topology": "ring", "shape": [4], "bandwidth": "50 GB/s", "latency": "500 ns"}
    path = text(tmp_path, "num_ranks 5\n" + "".join(f"rank {number} {{\n}}\n" for number in range(5)))
    with pytest.raises(InputError, match="has 5 ranks"):
        run({"network": network, "workload": {"file": str(path)}}, backend="analytical")
    text(tmp_path, "num_ranks 1\nrank 0 {\nrecv 5b from -1\n}\n")
    with pytest.raises(InputError, match="receives from any rank with tag 0, but no send is left"):
        run({"network": network, "workload": {"file": str(path)}}, backend="analytical")


MUTATION = st.lists(st.tuples(st.integers(0, 10**6), st.binary(min_size=0, max_size=4)), min_size=1, max_size=4)


@given(st.booleans(), MUTATION)
@settings(max_examples=part_of(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_mutations_raise_input_errors_only(tmp_path: Path, binary: bool, changes: list[tuple[int, bytes]]) -> None:
    data = bytearray(BINARY if binary else SAMPLE.read_bytes())
    for place, new in changes:
        at = place % (len(data) + 1)
        data[at : at + len(new) if place % 2 else at + 1] = new
    path = tmp_path / "m.goal"
    path.write_bytes(bytes(data))
    with suppress(InputError):
        check(graph(path))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"), read_goal(str(tmp_path / "none.goal")):
        pass
    used = tmp_path / "used.bin"
    used.write_bytes((2342).to_bytes(8, "little"))
    with pytest.raises(InputError, match="used up"), read_goal(str(used)):
        pass
    short = tmp_path / "short.bin"
    short.write_bytes(MAGIC + (999999999).to_bytes(4, "little") + b"\0\0")
    with pytest.raises(InputError, match="999999999 ranks do not fit the file"), read_goal(str(short)):
        pass


def test_collectives_are_refused() -> None:
    builder = GraphBuilder(2)
    call = builder.call(Call("all-reduce", 64))
    builder.tasks([0, 1], Kind.COLLECTIVE, call=call)
    with pytest.raises(InputError, match="is a collective; GOAL has messages only"):
        schedule_of(builder.graph())


def test_what_a_schedule_cannot_say() -> None:
    builder = GraphBuilder(2, [("cpu", 1), ("compute", 2)], layers=["one"])
    builder.task(0, Kind.COMPUTE, "a", ticks=5, resource="compute", layer=0)
    builder.task(0, Kind.MARK, "b", ticks=5)
    schedule, warnings = schedule_of(builder.graph())
    assert [list(rank.cpu) for rank in schedule.ranks] == [[1, 2], []]
    assert len(warnings) == 3
