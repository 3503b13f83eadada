"""Collectives as Chakra traces: sizes, waits, durations; and what does not fit together."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyxsim import chakra
from pyxsim.chakra import Attribute, Node, NodeType
from pyxsim.collective.checker import prove
from pyxsim.collective.compiled import UNKNOWN_NS
from pyxsim.collective.lookup import get_algorithm, get_schedule
from pyxsim.errors import InputError


def comm(number: int, kind: NodeType, deps: list[int], **attributes: Any) -> Node:
    return Node(
        number,
        f"n{number}",
        kind,
        data_deps=deps,
        attr=[Attribute(f"comm_{name}", "int64_val", value) for name, value in attributes.items()],
    )


def send(number: int, dst: int, *deps: int, size: int = 100, **more: int) -> Node:
    return comm(number, NodeType.COMM_SEND, list(deps), dst=dst, size=size, **more)


def recv(number: int, src: int, *deps: int, size: int = 100, **more: int) -> Node:
    return comm(number, NodeType.COMM_RECV, list(deps), src=src, size=size, **more)


def comp(number: int, micros: int, *deps: int) -> Node:
    return Node(number, f"n{number}", NodeType.COMP, ctrl_deps=list(deps), duration_micros=micros)


Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def writer(*ranks: list[Node]) -> str:
        for rank, nodes in enumerate(ranks):
            chakra.write(tmp_path / f"x.{rank}.et", nodes)
        return str(tmp_path / "x.*.et")

    return writer


def test_sizes_waits_and_durations(write: Write) -> None:
    """0 -> 1 of 1000 bytes, 7 us of computation there, then back 10 bytes, and these only after that."""
    path = write(
        [send(0, 1, size=1000), recv(1, 1, size=10)], [recv(0, 0, size=1000), comp(1, 7, 0), send(2, 0, 1, size=10)]
    )
    for kind in ("all-reduce", "broadcast"):
        s = get_schedule(kind, path, 2)
        prove(s)
        assert str(s) == f"x.*.et {kind} on 2 ranks"
        assert s.unproved.startswith("Chakra traces contain the sizes of messages, but not their data")
        assert s.src.tolist() == [0, 1, 1]
        assert s.dst.tolist() == [1, 1, 0]
        assert s.message_bytes(np.zeros(s.blocks, dtype=np.int64)).tolist() == [1000, 0, 10]
        assert s.extra_ns is not None
        assert s.extra_ns.tolist() == [0, 7000, 0]
        assert [s.waits_for(m).tolist() for m in range(3)] == [[], [0], [1]]


def test_a_send_is_done_when_it_has_left(write: Write) -> None:
    s = get_schedule(
        "all-gather",
        write(
            [send(0, 1), send(1, 1, 0), recv(2, 1, 1), send(3, 1, 2)], [recv(0, 0), recv(1, 0), send(2, 0), recv(3, 0)]
        ),
        2,
    )
    waits = {m: s.waits_for(m).tolist() for m in range(4)}
    [back] = np.flatnonzero(s.src == 1).tolist()
    first, second, last = np.flatnonzero(s.src == 0).tolist()
    assert waits == {first: [], second: [], back: [], last: [back]}


def test_partners_by_tag_in_the_order_of_the_numbers(write: Write) -> None:
    ones = [send(9, 1, size=1, tag=5), send(3, 1, size=2, tag=5), send(1, 1, size=3)]
    prove(
        get_schedule(
            "all-reduce", write(ones, [recv(0, 0, size=2, tag=5), recv(1, 0, size=1, tag=5), recv(7, 0, size=3)]), 2
        )
    )


def test_many_waits_are_gathered(write: Write) -> None:
    many = range(30)
    path = write([send(k, 1) for k in many], [*(recv(k, 0) for k in many), *(send(30 + k, 0, *many) for k in many)])
    chakra.write(path.replace("*", "0"), [*(send(k, 1) for k in many), *(recv(30 + k, 1) for k in many)])
    s = get_schedule("all-reduce", path, 2)
    prove(s)
    assert (~s.local).sum() == 60

    chain = [recv(0, 0), *(recv(k, 0, k - 1) for k in range(1, 30))]
    s = get_schedule("all-reduce", write([send(k, 1) for k in many], [*chain, comp(30, 1, 29)]), 2)
    assert np.diff(s.gate_ptr).max() <= 9


def test_nodes_that_say_no_time(write: Write) -> None:
    """How long a computation without a duration takes is a matter of the semantics; metadata does nothing."""
    meta = Node(5, "m", NodeType.METADATA)
    s = get_schedule("all-reduce", write([comp(0, 0), send(1, 1, 0, 5), meta], [recv(0, 0), comp(1, 0, 0)]), 2)
    assert s.local.tolist() == [True, False, True]
    assert s.extra_ns.tolist() == [UNKNOWN_NS, 0, UNKNOWN_NS]


@pytest.mark.parametrize(
    ("zero", "one", "problem"),
    [
        (
            [send(0, 1)],
            [],
            r"x.0.et: node 0 \(n0\) of rank 0 has no partner: rank 0 sends 1 messages with tag 0 to rank 1,",
        ),
        ([], [recv(4, 0)], r"x.1.et: node 4 .* has no partner: rank 0 sends 0 messages .*, which receives 1"),
        ([send(0, 1)], [recv(0, 0, tag=1)], r"node 0 \(n0\) of rank 0 has no partner"),
        (
            [send(0, 1)],
            [recv(3, 0, size=50)],
            r"node 3 \(n3\) of rank 1 receives 50 bytes, but node 0 .* of rank 0 sends 100",
        ),
        ([send(0, 0)], [], r"node 0 \(n0\) of rank 0 has comm_dst 0; allowed: another rank of 0 to 1"),
        ([send(0, 2)], [], r"has comm_dst 2; allowed: another rank of 0 to 1"),
        ([send(0, 1, src=1)], [], r"has comm_src 1, but is in the trace of rank 0"),
        ([send(0, 1, size=0)], [recv(0, 0)], r"has comm_size 0; allowed: a whole number from 1"),
        ([Node(0, "", NodeType.COMM_SEND)], [], r"node 0 of rank 0 has no comm_dst"),
        (
            [Node(3, "q", NodeType.COMM_COLL)],
            [],
            r"node 3 \(q\) of rank 0 is of type COMM_COLL; allowed: COMM_SEND, COMM_R",
        ),
        ([Node(3, "q", 77)], [], r"node 3 \(q\) of rank 0 is of type 77"),
        ([comp(0, 1, 8)], [], r"node 0 \(n0\) of rank 0 depends on node 8, which does not exist"),
        ([comp(0, 1), comp(0, 1)], [], r"x.0.et: node 0 occurs twice"),
        ([comp(0, 1, 0)], [], r"node 0 \(n0\) of rank 0 waits for itself"),
        (
            [recv(0, 1), send(1, 1, 0)],
            [recv(0, 0), send(1, 0, 0)],
            r"node 0 \(n0\) of rank 0 waits for node 1 \(n1\) of rank 1, that for node 0 \(n0\) of rank 1, "
            r"that for node 1 \(n1\) of rank 0, that for the first: 4 wait for each other in a cycle",
        ),
        (
            [comp(0, 1, 9), *(comp(k, 1, k - 1) for k in range(1, 10))],
            [],
            r"waits for node 9 .*, that for node 6 \(n6\) of rank 0, and so on: 10 wait for each other in a cycle",
        ),
    ],
)
def test_traces_that_do_not_fit(write: Write, zero: list[Node], one: list[Node], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        get_schedule("all-reduce", write(zero, one), 2)


def test_which_files_there_are(tmp_path: Path, write: Write) -> None:
    path = write([send(0, 1)], [recv(0, 0)], [], [])
    assert "broadcast" in get_algorithm(path).kinds
    with pytest.raises(
        InputError, match=r"x.\*.et: is for 4 ranks, but the group has 8; the trace of rank 4 is missing"
    ):
        get_schedule("all-reduce", path, 8)
    with pytest.raises(
        InputError, match=r"is for 4 ranks, but the group has 2; allowed: one trace for each of ranks 0 to 1"
    ):
        get_schedule("all-reduce", path, 2)
    (tmp_path / "x.1.et").unlink()
    with pytest.raises(InputError, match=r"is for 3 ranks, but the group has 4; the trace of rank 1"):
        get_schedule("all-reduce", path, 4)
    with pytest.raises(InputError, match=r"y.\*.et: no such files exist"):
        get_algorithm(str(tmp_path / "y.*.et"))
    with pytest.raises(InputError, match=r"x.0.et: is one trace; allowed: PREFIX.\*.et"):
        get_algorithm(str(tmp_path / "x.0.et"))
    with pytest.raises(InputError, match=r"nowhere: cannot be read: No such file"):
        get_algorithm(str(tmp_path / "nowhere" / "x.*.et"))


def test_a_trace_that_changes_is_read_again(write: Write) -> None:
    path = write([send(0, 1)], [recv(0, 0)])
    assert get_schedule("all-reduce", path, 2).message_bytes(np.zeros(2, dtype=np.int64)).tolist() == [100]
    write([send(0, 1, size=7)], [recv(0, 0, size=7)])
    os.utime(path.replace("*", "0"), ns=(1, 1))
    assert get_schedule("all-reduce", path, 2).message_bytes(np.zeros(2, dtype=np.int64)).tolist() == [7]
