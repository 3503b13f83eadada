"""Nodes as arrays: the same from bytes in pieces, from nodes, and from a plain reading; faults as those of nodes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim import chakra
from pyxsim.chakra import Attribute, IOInfo, Node, NodeType, Rows, json_items, text
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


def told_by(nodes: Iterable[Node]) -> list[Any]:
    """The same, of nodes."""
    return [(node.id, used(node), node.name, list(dict.fromkeys([*node.ctrl_deps, *node.data_deps]))) for node in nodes]


@settings(max_examples=part_of(1000, usual=50), deadline=None)
@given(st.lists(NODES, max_size=12), st.sets(st.integers(0, 3000), max_size=5))
def test_rows_say_what_nodes_say(nodes: list[Node], cuts: set[int]) -> None:
    expected = told_by(nodes)
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


@settings(
    max_examples=part_of(2000, usual=80), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
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


FEEDER_FIELDS = st.fixed_dictionaries(
    {"Id": NUMBERS, "NodeType": st.sampled_from([1, 4, 7, "COMP_NODE"])},
    optional={
        "Name": st.sampled_from(["", "gemm", "\u00e9"]),
        "data_deps": st.lists(NUMBERS, max_size=3),
        "ctrlDeps": st.lists(NUMBERS | st.just("3"), max_size=3),
        "runtime": st.integers(0, 2),
        "is_cpu_op": st.booleans(),
        "comm_size": st.integers(0, 2),
        "comm_tag": st.sampled_from([-1, "7"]),
    },
)


def other_spelling(data: st.DataObject, value: Any) -> Any:
    """The same in JSON: with names of the schema, in another order, with numbers instead of strings."""
    if isinstance(value, list):
        return [other_spelling(data, item) for item in value]
    if isinstance(value, dict):
        schema = data.draw(st.booleans())
        names = data.draw(st.permutations(list(value)))
        return {
            re.sub("[A-Z]", lambda found: "_" + found[0].lower(), name)
            if schema and name != "unknownFields"
            else name: other_spelling(data, value[name])
            for name in names
        }
    if isinstance(value, str) and re.fullmatch("-?[1-9][0-9]*", value) and data.draw(st.booleans()):
        return int(value)
    return value


def json_trace(data: st.DataObject, folder: Path) -> Path:
    """A trace in one of the forms in JSON."""
    file = folder / "a.0.jsonl"
    form = data.draw(st.sampled_from(["sequence", "list", "list without metadata", "feeder"]))
    if form == "feeder":
        objects = data.draw(st.lists(FEEDER_FIELDS, min_size=1, max_size=8))
    else:
        chakra.write(file, data.draw(st.lists(NODES, min_size=1, max_size=8)))
        objects = [json.loads(line) for line in file.read_text().splitlines()]
        objects = [*objects, *data.draw(st.lists(st.sampled_from(objects[1:]), max_size=8))]  # equal ones, too
        if data.draw(st.booleans()):
            objects = other_spelling(data, objects)
    encoder = json.JSONEncoder(indent=data.draw(st.sampled_from([None, 0, 2])), ensure_ascii=data.draw(st.booleans()))
    if form == "feeder":
        written = encoder.encode({"workload_graph": objects, "other": 1})
    elif form == "sequence":
        written = data.draw(st.sampled_from(["", "\n", " \n "])).join(map(encoder.encode, objects))
    else:
        written = encoder.encode(objects if form == "list" else objects[1:])
    file.write_text(written, encoding="utf-8")
    return file


def same_from_rows(file: Path) -> None:
    """Nodes one by one and rows say the same, or are refused in the same line."""
    try:
        expected: Any = told_by(chakra.read(file).nodes)
    except InputError as error:
        expected = str(error)
    try:
        found: Any = told(chakra.read_rows(file, USED, (NodeType.COMM_COLL,))[1])
    except InputError as error:
        found = str(error)
    assert found == expected


@settings(
    max_examples=part_of(2000, usual=80), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_json_says_what_nodes_say(tmp_path: Path, data: st.DataObject) -> None:
    """Also if it is read in small pieces, which end anywhere."""
    file = json_trace(data, tmp_path)
    with mock.patch.object(json_items, "PIECE", data.draw(st.sampled_from([100, 333, 1 << 20]))):
        same_from_rows(file)
    assert chakra.read_rows(file, USED)[1].columns()[0].size  # nothing that is written here is refused


@settings(
    max_examples=part_of(5000, usual=150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_faults_in_json_are_those_of_nodes(tmp_path: Path, data: st.DataObject) -> None:
    file = json_trace(data, tmp_path)
    written = file.read_text(encoding="utf-8")
    marks = [
        *("", "null", "true", "-", "0", "7", ".5", "e9", "1e999", "NaN", "99999999999999999999", "{", "}", "[", "]"),
        *(",", ":", '"', "\\", "\\ud800", "\\u0031", "\x00", "\n", "\u00e9", "\ufeff", "x", "[[]]"),
        *('"name":"rf_id",', '"name":"comm_size",', '"id":1,', '"int64Val":"1",'),
    ]
    parts = re.findall(r'"[^"]*"|[\w.]+|.', written, re.DOTALL)  # a whole word, or a part of one
    for _ in range(data.draw(st.integers(1, 2))):
        at = data.draw(st.integers(0, len(parts) - 1))
        mark = data.draw(st.sampled_from(marks) | st.sampled_from(parts))
        cut = data.draw(st.integers(0, len(parts[at])))
        parts[at] = data.draw(st.sampled_from([mark, parts[at][:cut] + mark + parts[at][cut:], parts[at] + mark]))
    file.write_text("".join(parts), encoding="utf-8")
    with mock.patch.object(json_items, "PIECE", data.draw(st.sampled_from([100, 1 << 20]))):
        same_from_rows(file)


@pytest.mark.parametrize("lines", [True, False])
def test_only_the_first_node_of_a_class_in_json_is_made(tmp_path: Path, lines: bool) -> None:
    """Two nodes made for two classes, whatever differs in the others: what has no effect is only checked."""
    file = tmp_path / ("a.0.jsonl" if lines else "a.0.json")
    nodes = [
        Node(
            id=number,
            name=f"\u00e9\\n{number}",
            type=NodeType.COMP,
            ctrl_deps=[number + 1],
            data_deps=[number, 2 * number],
            start_time_micros=number,
            inputs=IOInfo('["x"]', str(number), "\\"),
            attr=[
                Attribute("comm_size", "int64_val", number % 2),
                Attribute("rf_id", "int64_val", -number),
                Attribute("scale", "double_val", number / 7),
                Attribute("tid", "uint32_val", number),
                Attribute("op", "string_val", f'"{number}"'),
                Attribute("flag", "bool_val", True),
                Attribute("involved_dim", "bool_list", [True, False]),
            ],
        )
        for number in range(1, 100)
    ]
    chakra.write(file, nodes)
    made, rows = made_of(file)
    assert made == [1, 2]
    assert told(rows) == told_by(nodes)


def test_long_texts_are_not_kept_for_comparisons(tmp_path: Path) -> None:
    """A small compressed file could fill the memory with blanks."""
    file = tmp_path / "a.0.json"
    for size, expected in ((10, [1]), (5000, [1, 2, 3])):
        value = "{" + " " * size + '"name": "comm_size", "int64Val": "1"}'
        nodes = [f'{{"id": {number}, "type": "COMP_NODE", "attr": [{value}]}}' for number in (1, 2, 3)]
        file.write_text('{"version": "0.0.4"}' + "".join(nodes))
        assert made_of(file)[0] == expected


def made_of(file: Path) -> tuple[list[int], Rows]:
    """The numbers of the nodes that became objects, and the rows of all."""
    rows, made = Rows(USED, ()), []
    messages = text.messages(str(file), rows)
    next(messages)  # the metadata
    for node in messages:
        rows.add(node)
        made.append(node.id)
    return made, rows
