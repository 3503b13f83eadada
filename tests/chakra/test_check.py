"""What is wrong with traces is told in one line with file, node and what is allowed."""

from __future__ import annotations

import gzip
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim import chakra
from pyxsim.chakra import Attribute, CommType, IOInfo, Node, NodeType
from pyxsim.chakra.check import check, faults_of
from pyxsim.chakra.groups import read_groups
from pyxsim.chakra.order import levels
from pyxsim.chakra.statistics import statistics, together
from pyxsim.chakra.trace_graph import load
from pyxsim.errors import InputError, InputErrors
from pyxsim.rank_files import find


def comp(number: int, *before: int, name: str = "", micros: int = 1, ctrl: list[int] | None = None) -> Node:
    return Node(number, name, NodeType.COMP, ctrl or [], list(before), duration_micros=micros)


def send(number: int, peer: int, *before: int, size: int = 8, tag: int = 0) -> Node:
    return _link(number, NodeType.COMM_SEND, before, comm_dst=peer, comm_size=size, comm_tag=tag)


def recv(number: int, peer: int, *before: int, size: int = 8, tag: int = 0) -> Node:
    return _link(number, NodeType.COMM_RECV, before, comm_src=peer, comm_size=size, comm_tag=tag)


def coll(number: int, *before: int, kind: CommType = CommType.ALL_REDUCE, size: int = 64, group: str = "") -> Node:
    node = _link(number, NodeType.COMM_COLL, before, comm_type=kind, comm_size=size)
    node.attr += [Attribute("pg_name", "string_val", group)] if group else []
    return node


def _link(number: int, kind: NodeType, before: tuple[int, ...], **numbers: int) -> Node:
    return Node(number, "", kind, [], list(before), attr=[Attribute(k, "int64_val", v) for k, v in numbers.items()])


def faults(folder: Path, *ranks: list[Node], groups: dict[str, list[int]] | None = None) -> list[str]:
    for rank, nodes in enumerate(ranks):
        chakra.write(folder / f"t.{rank}.et", nodes)
    graphs = {rank: load(path, rank) for rank, path in find(str(folder / "t")).items()}
    return [str(fault).removeprefix(f"{folder}/") for fault in check(graphs, groups)]


def test_good_traces(tmp_path: Path) -> None:
    ring = [[comp(0), send(1, (r + 1) % 3, 0), recv(2, (r - 1) % 3), coll(3, 1, 2), comp(9, 3)] for r in range(3)]
    assert faults(tmp_path, *ring) == []
    graph = load(tmp_path / "t.0.et")
    assert graph.levels[0].tolist() == [0, 1, 0, 2, 3]
    assert graph.levels[1].tolist() == [1000, 1000, 0, 1000, 2000]
    assert graph.version == "0.0.4"


def node(number: int, kind: int, **attributes: object) -> Node:
    types = {bool: "bool_val", int: "int64_val", str: "string_val", float: "double_val", list: "bool_list"}
    return Node(number, "x", kind, attr=[Attribute(k, types[type(v)], v) for k, v in attributes.items()])


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        (
            [comp(1), comp(1, name="b")],
            "node 1 (b) has the same number as node 1; allowed: each number once",
        ),
        ([comp(1, 7, name="a")], "node 1 (a) depends on node 7, which does not exist"),
        ([comp(1, 1)], "node 1 waits for itself; allowed: nodes without circular dependencies"),
        (
            [comp(0, 3), comp(1, 2), comp(2, ctrl=[3]), comp(3, 1)],
            "node 1 waits for node 2, that for node 3, that for the first: 3 wait for each other in a cycle; "
            "allowed: nodes without circular dependencies",
        ),
        ([comp(1, micros=2**41)], f"node 1 takes {2**41} us; allowed: at most {2**40}"),
        (
            [Node(3, "s", NodeType.STORAGE)],
            "node 3 (s) is of type STORAGE, which is not simulated; allowed: INVALID, METADATA, MEM_LOAD, MEM_STORE, "
            "COMP, COMM_SEND, COMM_RECV, COMM_COLL",
        ),
        ([node(1, 2, tensor_size=-1)], f"node 1 (x) has tensor_size -1; allowed: a whole number from 0 to {1 << 53}"),
        (
            [node(1, 4, duration_ps="2")],
            f"node 1 (x) has duration_ps '2'; allowed: a whole number from 0 to {10**6 << 40}",
        ),
        ([node(1, 4, num_ops=-1)], "node 1 (x) has num_ops -1; allowed: a number from 0"),
        ([node(1, 4, is_cpu_op="no")], "node 1 (x) has is_cpu_op 'no'; allowed: true or false"),
        ([node(1, 7, comm_size=5, comm_type=10)], "node 1 (x) has comm_type 10; allowed: 0 (ALL_REDUCE), 1 (REDUCE), "),
        ([node(1, 7, comm_size=0, comm_type=0)], "node 1 (x) has comm_size 0; allowed: a whole number from 1 to 9"),
        ([node(1, 7, comm_size=1.5, comm_type=0)], "node 1 (x) has comm_size 1.5; allowed: a whole number from 1"),
        ([node(1, 7, comm_size=1, comm_type=0, pg_name=3)], "node 1 (x) has the unknown pg_name 3; allowed: a string"),
        ([node(1, 7, comm_size=1, comm_type=0, involved_dim=[False])], "node 1 (x) has involved_dim [False]; "),
        ([node(1, 5, comm_size=1, comm_dst=1, comm_src=4)], "node 1 (x) has comm_src 4, but is in the trace of rank 0"),
    ],
)
def test_faults_of_one_trace(tmp_path: Path, nodes: list[Node], told: str) -> None:
    chakra.write(tmp_path / "t.0.et", nodes)
    [fault] = faults_of(load(tmp_path / "t.0.et"))
    assert str(fault).startswith(f"{tmp_path}/t.0.et: {told}")


@pytest.mark.parametrize(
    ("ranks", "told"),
    [
        (
            [[send(1, 1), send(2, 1)], [recv(5, 0)]],
            "t.0.et: node 2 has no partner: rank 0 sends 2 messages with tag 0 to rank 1, which receives 1; "
            "allowed: equal numbers of receives and sends",
        ),
        (
            [[send(1, 1, tag=4)], [recv(5, 0, tag=3)]],
            "t.1.et: node 5 has no partner: rank 0 sends 0 messages with tag 3 to rank 1, which receives 1; "
            "allowed: equal numbers of receives and sends",
        ),
        (
            [[send(1, 1, size=8)], [recv(5, 0, size=9)]],
            "t.1.et: node 5 receives 9 bytes, but node 1 of rank 0 sends 8; allowed: 8 bytes",
        ),
        ([[send(1, 2)], []], "t.0.et: node 1 goes to rank 2; allowed: another rank that has a trace"),
        (
            [[recv(1, 0)], []],
            "t.0.et: node 1 comes from rank 0, its own rank; allowed: another rank that has a trace",
        ),
        (
            [[coll(1), coll(2)], [coll(1)]],
            "t.0.et: node 2 waits forever: it is collective 1 of rank 0, ALL_REDUCE of 64 bytes, "
            "but rank 1 calls only 1 collectives; "
            "allowed: equal numbers of calls on all members",
        ),
        (
            [[coll(1), coll(2, kind=CommType.BARRIER)], [coll(9, size=65), coll(10, kind=CommType.BARRIER)]],
            "t.1.et: node 9 is collective 0 of rank 1, ALL_REDUCE of 65 bytes, where rank 0 has ALL_REDUCE of 64 "
            "bytes; allowed: the same on all members",
        ),
        (
            [[recv(1, 1), send(2, 1, 1)], [recv(1, 0), send(2, 0, 1)]],
            "t.0.et: node 1 waits for node 2 of rank 1, that for node 1 of rank 1, that for node 2 of rank 0, that for "
            "the first: 4 wait for each other in a cycle; allowed: nodes without circular dependencies",
        ),
    ],
)
def test_faults_between_ranks(tmp_path: Path, ranks: list[list[Node]], told: str) -> None:
    found = faults(tmp_path, *ranks)
    assert told in found


def test_groups(tmp_path: Path) -> None:
    ranks = [[coll(1, group="1")], [coll(1, group="1")], [coll(1, group="2")], [coll(1, group="0")]]
    told = faults(tmp_path, *ranks, groups={"1": [0, 1, 3], "2": [0, 2]})
    assert [line.partition(";")[0] for line in told] == [
        "t.0.et: node 1 waits forever: it is collective 0 of rank 0 in group '1', ALL_REDUCE of 64 bytes, "
        "but rank 3 calls only 0 collectives",
        "t.2.et: node 1 waits forever: it is collective 0 of rank 2 in group '2', ALL_REDUCE of 64 bytes, "
        "but rank 0 calls only 0 collectives",
        *(
            "t.3.et: node 1 waits forever: it is collective 0 of rank 3, ALL_REDUCE of 64 bytes, "
            f"but rank {rank} calls only 0 collectives"
            for rank in range(3)
        ),
    ]
    assert faults(tmp_path, *ranks)[0].endswith("allowed: 0 (all ranks); a file of groups names others")
    strangers = faults(tmp_path, *ranks, groups={"1": [1, 2], "2": [2]})
    assert strangers[0] == "t.0.et: node 1 is for group '1', but rank 0 is not a member; allowed: members 1, 2"


def test_a_file_full_of_faults_is_read_no_further(tmp_path: Path) -> None:
    """Every zero is an empty node, and gzip makes a thousand of them one byte."""
    (tmp_path / "t.0.et").write_bytes(gzip.compress(bytes(10**8), 1))
    began = time.process_time()
    with pytest.raises(InputErrors) as caught:
        load(tmp_path / "t.0.et")
    assert time.process_time() - began < 2
    assert len(caught.value.faults) == 1001
    assert "node 0 has the same number as" in str(caught.value.faults[0])
    assert str(caught.value.faults[-1]).endswith("t.0.et: has 1000 faults already; the rest is not read")


def test_faults_that_many_nodes_have_are_told_once(tmp_path: Path) -> None:
    """In traces of PyTorch the host's call of a collective has no kind; they may begin in the midst."""
    calls = [node(number, NodeType.COMM_COLL, is_cpu_op=True) for number in range(1, 9)]
    late = [comp(number, 10_000 + number) for number in range(9, 3000)]
    other = node(3000, NodeType.COMM_COLL, is_cpu_op=False, comm_type=0, comm_size=64)
    assert faults(tmp_path, [*calls, *late, other]) == [
        "t.0.et: node 1 (x) is a communication node, but sets is_cpu_op; and 7 more of this kind; "
        "allowed: nodes of the accelerator, or a trace that is replayed",
        "t.0.et: node 9 depends on node 10009, which does not exist; and 2990 more of this kind",
    ]
    found = statistics(load(tmp_path / "t.0.et"))
    assert (found.nodes, found.bytes) == ({"COMP": 2991, "COMM_COLL": 9}, {"all-reduce": 64})


def test_a_rank_without_a_trace(tmp_path: Path) -> None:
    for rank in (0, 2):
        chakra.write(tmp_path / f"t.{rank}.et", [comp(0)])
    [fault] = check({rank: load(path, rank) for rank, path in find(str(tmp_path / "t.*.et")).items()})
    assert str(fault) == "rank 1: there is no trace for this rank; allowed: 0 to 2, one trace each"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[]", "has no object"),
        ("{", "not valid JSON"),
        ('{"0": [0]}', "0: is not a group number; allowed: 1, 2, 3, ..."),
        ('{"1": [0], "1": [1]}', "1: occurs twice"),
        ('{"1": {}}', "1: is not a list of ranks"),
        ('{"1": []}', "1: is not a list of ranks"),
        ('{"1": [0, 0]}', "1: has rank 0 twice"),
        ('{"1": [4]}', "1: has rank 4; allowed: 0 to 3"),
        ('{"1": ["a"]}', '1: has rank "a"'),
        ("[" * 100_000, "not valid JSON"),
        ('{"1": [' + "1" * 5000 + "]}", "not valid JSON: a number is too long"),
    ],
)
def test_files_of_groups(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "groups.json"
    path.write_text('{"2": [3, 1], "1": [0]}', encoding="utf-8")
    assert read_groups(path, 4) == {"2": (3, 1), "1": (0,)}
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_groups(path, 4)
    assert str(caught.value).startswith(f"{path}: {told}")


def test_names_of_traces(tmp_path: Path) -> None:
    for name in ("a.0.et", "a.1.et", "a.x.et", "b.7.json.gz", "c.et"):
        (tmp_path / name).touch()
    both = {0: tmp_path / "a.0.et", 1: tmp_path / "a.1.et"}
    assert find(str(tmp_path / "a")) == find(str(tmp_path / "a.*.et")) == both
    assert find(str(tmp_path / "b")) == {7: tmp_path / "b.7.json.gz"} == find(str(tmp_path / "b.7.json.gz"))
    assert find(str(tmp_path / "c.et")) == {0: tmp_path / "c.et"}
    with pytest.raises(InputError, match=r"is a folder; allowed: a trace, PREFIX\.\*\.et, or PREFIX"):
        find(str(tmp_path))
    with pytest.raises(InputError, match=r"no such traces exist; did you mean 'a\.\*\.et'\?"):
        find(str(tmp_path / "aa.*.et"))


def test_statistics(tmp_path: Path) -> None:
    nodes = [comp(0, micros=5), comp(1, 0, micros=7), comp(2, 0, micros=9), send(3, 1, 1, size=100), coll(4, 3, 2)]
    chakra.write(tmp_path / "t.0.et", nodes)
    found = statistics(load(tmp_path / "t.0.et"))
    assert found.nodes == {"COMP": 3, "COMM_SEND": 1, "COMM_COLL": 1}
    assert found.bytes == {"send": 100, "all-reduce": 64}
    assert (found.compute_ns, found.depth, found.width, found.critical_ns) == (21_000, 4, 2, 14_000)
    assert (found.total, found.dependencies) == (5, 5)
    both = together([found, found])
    assert (both.total, both.bytes["send"], both.depth, both.critical_ns) == (10, 200, 4, 14_000)


@given(st.lists(st.lists(st.integers(0, 11), max_size=3), max_size=12))
def test_levels_are_the_longest_ways(before: list[list[int]]) -> None:
    before = [sorted({each for each in row if each < len(before)}) for row in before]
    ptr = np.cumsum([0, *map(len, before)])
    weight = np.arange(len(before)) % 4
    level, end = levels(ptr, np.array([each for row in before for each in row], dtype=np.int64), weight)
    known: dict[int, tuple[int, int]] = {}
    for _ in before:  # each round knows at least one more, or there is none left
        for row, waits in enumerate(before):
            if row not in known and all(each in known for each in waits):
                deepest = max((known[each][0] for each in waits), default=-1)
                latest = max((known[each][1] for each in waits), default=0)
                known[row] = (deepest + 1, latest + int(weight[row]))
    assert level.tolist() == [known.get(row, (-1, 0))[0] for row in range(len(before))]
    assert all(end[row] == known[row][1] for row in known)


def test_groups_that_traces_tell(tmp_path: Path) -> None:
    """PyTorch's process groups hold for the rank that tells them, and come before the file."""

    def told(*ranks: int) -> Node:
        values = f'[\'[{{"pg_name": "1", "ranks": {list(ranks)}}}]\']'
        return Node(0, "groups", NodeType.METADATA, inputs=IOInfo(values))

    own = [(0, 2), (1, 3), (0, 2), (1, 3)]
    ranks = [[told(*group), coll(1, group="1")] for group in own]
    assert faults(tmp_path, *ranks) == []
    assert faults(tmp_path, *ranks, groups={"1": [0]}) == []
    ranks[3].append(coll(2, group="1"))
    (one,) = faults(tmp_path, *ranks)
    assert one.startswith("t.3.et: node 2 waits forever: it is collective 1 of rank 3 in group '1'")
    ranks = [[told(), coll(1, group="1")], [told(0, 0), coll(1, group="1")]]
    assert faults(tmp_path, *ranks)[0] == (
        "t.1.et: node 0 (groups) has the process group '1', which has rank 0 twice; allowed: each rank once"
    )
