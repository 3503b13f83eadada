"""Nodes as arrays: the same from bytes in pieces, from nodes, and from a plain reading; faults as those of nodes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim import chakra
from pyxsim.chakra import Attribute, IOInfo, Node, NodeType, Rows
from pyxsim.chakra.codec import as_varint, node_bytes
from pyxsim.errors import InputError
from tests.examples import part_of

USED = ("comm_size", "involved_dim", "is_cpu_op")
ATTRIBUTES = st.sampled_from(
    [
        Attribute("comm_size", "int64_val", 1),
        Attribute("comm_size", "int64_val", 2),
        Attribute("comm_size", "uint64_val", 2),
        Attribute("involved_dim", "bool_list", [True, False]),
        Attribute("involved_dim", "bool_list", [True, True]),
        Attribute("is_cpu_op", "bool_val", True),
        Attribute("rf_id", "int64_val", 7),
        Attribute("rf_id", "int64_list", [7, 300]),
        Attribute("schema", "string_val", "é"),
        Attribute("weight", "double_val", 0.5, doc_string="of it"),
        Attribute("bits", "fixed32_val", 3),
        Attribute("none"),
    ]
)
NUMBERS = st.integers(0, 5) | st.just(2**64 - 1)
NODES = st.builds(
    Node,
    id=NUMBERS,
    name=st.sampled_from(["", "gemm", "é", "x" * 200]),
    type=st.sampled_from([*NodeType, 99]),
    ctrl_deps=st.lists(NUMBERS, max_size=3),
    data_deps=st.lists(NUMBERS, max_size=12),
    start_time_micros=st.integers(0, 300),
    duration_micros=st.integers(0, 2),
    inputs=st.sampled_from([None, IOInfo("[]"), IOInfo("é")]),
    attr=st.lists(ATTRIBUTES, max_size=4),
)


def told(rows: Rows) -> list[Any]:
    """What the rows say of each node: its class by what is used of its first node."""
    number, which, name, start, before = (each.tolist() for each in rows.columns())
    bounds = pairwise(start)
    return [
        (node, used(rows.firsts[of_class]), rows.names[text], before[begin:end])
        for node, of_class, text, (begin, end) in zip(number, which, name, bounds, strict=True)
    ]


def used(node: Node) -> tuple[Any, ...]:
    inputs = node.inputs if node.type == NodeType.METADATA else None
    attributes = [(each.name, each.type, each.value) for each in node.attr if each.name in USED]
    return node.type, node.duration_micros, attributes, inputs


@settings(max_examples=part_of(1000), deadline=None)
@given(st.lists(NODES, max_size=12), st.sets(st.integers(0, 3000), max_size=5))
def test_rows_say_what_nodes_say(nodes: list[Node], cuts: set[int]) -> None:
    expected = [
        (node.id, used(node), node.name, list(dict.fromkeys([*node.ctrl_deps, *node.data_deps]))) for node in nodes
    ]
    alone = (NodeType.COMM_COLL,)
    by_node, by_bytes = Rows(USED, alone), Rows(USED, alone)
    for node in nodes:
        by_node.add(node)
    assert told(by_node) == expected
    raw, held = b"".join(as_varint(len(data)) + data for data in map(node_bytes, nodes)), b""
    places = [0, *sorted(cut for cut in cuts if cut < len(raw)), len(raw)]
    for begin, end in pairwise(places):
        held += raw[begin:end]
        held = held[by_bytes.feed(held, False) :]
    assert by_bytes.feed(held, True) == len(held) == 0
    assert told(by_bytes) == expected
    # Equal nodes are one class, but for those that are said to be alone.
    plain = [node for node in nodes if node.type not in (NodeType.COMM_COLL, NodeType.METADATA)]
    classes = {repr(used(node)) for node in plain}
    found = [node for node in by_node.firsts if node.type not in (NodeType.COMM_COLL, NodeType.METADATA)]
    assert len(found) == len(classes)


@settings(max_examples=part_of(2000), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_faults_are_those_of_nodes(tmp_path: Path, data: st.DataObject) -> None:
    """A damaged file is refused in the same line, or read with the same nodes."""
    file = tmp_path / "a.0.et"
    chakra.write(file, data.draw(st.lists(NODES, min_size=1, max_size=4)))
    raw = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw) - 1))
        if data.draw(st.booleans()):
            raw[at] = data.draw(st.integers(0, 255))
        else:
            del raw[at : at + data.draw(st.integers(1, 4))]
        if not raw:
            return
    file.write_bytes(raw)
    try:
        expected: Any = [node.id for node in chakra.read(file).nodes]
    except InputError as error:
        expected = str(error)
    try:
        found: Any = chakra.read_rows(file, USED)[1].columns()[0].tolist()
    except InputError as error:
        found = str(error)
    assert found == expected


def test_no_file_and_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "a.et").touch()
    with pytest.raises(InputError, match="is empty; allowed: a Chakra trace"):
        chakra.read_rows(tmp_path / "a.et", USED)
    with pytest.raises(InputError, match=r"b\.et"):
        chakra.read_rows(tmp_path / "b.et", USED)
