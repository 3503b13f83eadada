"""Traces as JSON: the form of Chakra's jsonizer, whatever else may be written there, and what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyxsim import chakra
from pyxsim.chakra import Attribute, IOInfo, Metadata, Node, NodeType
from pyxsim.errors import InputError

# As protocol buffers print the two messages (json_format.MessageToJson), one behind the other.
PRINTED = """{
  "version": "0.0.4"
}{
  "id": "2",
  "name": "ar",
  "type": "COMM_COLL_NODE",
  "dataDeps": [
    "1"
  ],
  "durationMicros": "7",
  "inputs": {
    "values": "[]"
  },
  "attr": [
    {
      "name": "comm_size",
      "int64Val": "1048576"
    },
    {
      "name": "is_cpu_op",
      "boolVal": false
    },
    {
      "name": "involved_dim",
      "boolList": {
        "values": [
          true,
          false
        ]
      }
    },
    {
      "name": "raw",
      "bytesVal": "AP8="
    },
    {
      "name": "few",
      "int32Val": 3
    },
    {
      "name": "much",
      "doubleVal": "Infinity"
    }
  ]
}"""
NODE = Node(
    2,
    "ar",
    NodeType.COMM_COLL,
    data_deps=[1],
    duration_micros=7,
    inputs=IOInfo("[]"),
    attr=[
        Attribute("comm_size", "int64_val", 1 << 20),
        Attribute("is_cpu_op", "bool_val", False),
        Attribute("involved_dim", "bool_list", [True, False]),
        Attribute("raw", "bytes_val", b"\x00\xff"),
        Attribute("few", "int32_val", 3),
        Attribute("much", "double_val", float("inf")),
    ],
)


def test_what_chakras_jsonizer_prints(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(PRINTED, encoding="utf-8")
    trace = chakra.read(tmp_path / "a.json")
    assert trace.metadata == Metadata("0.0.4")
    assert list(trace.nodes) == [NODE]
    chakra.write(tmp_path / "b.json", [NODE])
    assert (tmp_path / "b.json").read_text() == PRINTED.replace("}{", "}\n{") + "\n"


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (0.1, "0.1"),
        (1 / 3, "0.33333334"),
        (1e22, "1e+22"),
        (123456789.0, "123456790.0"),
        (3.4e38, "3.4e+38"),
        (1e-45, "1.4013e-45"),
        (-0.0, "-0.0"),
        (float("-inf"), '"-Infinity"'),
    ],
)
def test_numbers_of_32_bits_as_protocol_buffers_print_them(tmp_path: Path, value: float, printed: str) -> None:
    """In as few digits as say which it is, beginning with 6 (measured: json_format.MessageToJson)."""
    node = Node(attr=[Attribute("x", "float_val", value)])
    chakra.write(tmp_path / "a.et", [node])
    [read] = chakra.read(tmp_path / "a.et").nodes
    chakra.write(tmp_path / "a.jsonl", [read])
    assert f'"floatVal":{printed}}}' in (tmp_path / "a.jsonl").read_text()
    assert list(chakra.read(tmp_path / "a.jsonl").nodes) == [read]


def test_lines_are_objects(tmp_path: Path) -> None:
    chakra.write(tmp_path / "a.jsonl", [NODE, Node()])
    metadata, node, empty = (tmp_path / "a.jsonl").read_text().splitlines()
    assert json.loads(metadata) == {"version": "0.0.4"}
    assert json.loads(PRINTED[PRINTED.index("}{") + 1 :]) == json.loads(node)
    assert empty == "{}"


def test_names_of_the_schema_and_plain_numbers_are_understood(tmp_path: Path) -> None:
    node = {"id": 2, "type": 4, "ctrl_deps": [1, "3"], "attr": [{"name": "x", "uint64_val": 5, "doc_string": "why"}]}
    (tmp_path / "a.jsonl").write_text(f"{{}}\n{json.dumps(node)}", encoding="utf-8")
    [read] = chakra.read(tmp_path / "a.jsonl").nodes
    assert read == Node(2, "", NodeType.COMP, [1, 3], attr=[Attribute("x", "uint64_val", 5, "why")])


def test_objects_that_are_longer_than_what_is_read_at_once(tmp_path: Path) -> None:
    nodes = [Node(k, "n" * 900_000) for k in range(3)] + [Node(9, "é" * 2_000_000)]
    chakra.write(tmp_path / "a.json", nodes)
    assert list(chakra.read(tmp_path / "a.json").nodes) == nodes


def listed(nodes: list[Node], tmp_path: Path) -> str:
    chakra.write(tmp_path / "lines.jsonl", nodes)
    return ",\n".join((tmp_path / "lines.jsonl").read_text().splitlines())


def test_a_list_of_nodes(tmp_path: Path) -> None:
    """As the generator of Multiverse writes it, without metadata; also longer than what is read at once."""
    nodes = [NODE, Node(8, "n" * 1_200_000), Node(9)]
    text = listed(nodes, tmp_path)
    (tmp_path / "a.json").write_text(f" [{text}]\n")
    trace = chakra.read(tmp_path / "a.json")
    assert (trace.metadata.version, list(trace.nodes)) == ("0.0.4", nodes)
    (tmp_path / "b.json").write_text(f"[{text.partition(',')[2]} ]")
    trace = chakra.read(tmp_path / "b.json")
    assert (trace.metadata.version, list(trace.nodes)) == ("", nodes)


def test_the_json_of_chakras_feeder(tmp_path: Path) -> None:
    """Its fields, with the attributes of the schema; it ignores control dependencies, and so does pyxsim."""
    sizes = {"comm_type": 5, "comm_size": 64, "comm_priority": 2}
    nodes = [
        {"Id": 3, "Name": "add", "NodeType": 4, "data_deps": [], "ctrlDeps": [2], "runtime": 318, "is_cpu_op": True},
        {"Id": 4, "Name": "spread", "NodeType": 7, "data_deps": [3], "runtime": 79, "is_cpu_op": False, **sizes},
    ]
    for text in (json.dumps({"workload_graph": nodes, "ngpus": 8}), json.dumps({"workload_graph": nodes}, indent=4)):
        (tmp_path / "a.json").write_text(text)
        first, second = chakra.read(tmp_path / "a.json").nodes
        cpu = Attribute("is_cpu_op", "bool_val", True)
        assert first == Node(3, "add", NodeType.COMP, duration_micros=318, attr=[cpu])
        assert (second.id, second.type, second.data_deps, second.duration_micros) == (4, NodeType.COMM_COLL, [3], 79)
        assert {name: second.get(name) for name in sizes} == sizes
        assert second.get("is_cpu_op") is False


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", r"a\.json: is empty; allowed: a Chakra trace"),
        ("3", r"has no object at character 0; allowed: a sequence of objects"),
        ('{"schema": "1.0.2-chakra.0.0.4", "nodes": []}', r"PyTorch's host, which has no times; allowed: a Chakra"),
        ('{\n  "schemaVersion": 1,', r"is a trace of PyTorch's profiler; allowed: .* endings \.kineto\.json, "),
        ("[]", r"is an empty list; allowed: a Chakra trace"),
        ("[3]", r"has no object at character 1; allowed: a list of objects"),
        ('[{"id": 1} {"id": 2}]', r"not valid JSON of a Chakra trace: expecting ',' or '\]' at character 11"),
        ('[{"id": 1},]', r"expecting value at character 11"),
        ('[{"id": 1}', r"expecting ',' or '\]' at character 10"),
        ('[{"id": 1}] {}', r"extra data at character 12"),
        ('[{"id": 1}, {"id": -2}]', r"id: node 2 of the file has -2"),
        ('{"workload_graph": [{"Id": 1, "Nme": "a"}]}', r"node 1 of the file has an unknown field 'Nme' .* 'Name'\?"),
        ('{"workload_graph": [{"Id": 1, "Name": "x", "NodeType": -4}]}', r"NodeType: node 1 of the file \(x\) has -4"),
        ('{"workload_graph": [{"Id": 1}], "ngpus": 8', r"expecting ',' delimiter at character 42"),
        ('{"workload_graph": [{"Id": 1}] "ngpus": 8}', r"expecting ',' or '}' at character 31"),
        ('{"workload_graph": [{"Id": 1}]} {}', r"extra data at character 32"),
        ("{} {", r"not valid JSON of a Chakra trace: expecting property name .* at character 4"),
        ("{} nothing", r"expecting value at character 3"),
        ("{}" + '{"a":' * 100_000, r"nested too deeply"),
        ("{}" + '{"id": ' + "1" * 5000 + "}", r"a number is too long"),
        ('{"id": 1}', r"its metadata, which is its first object, has an unknown field 'id' .*; allowed: version, attr"),
        ('{} {"nmae": "a"}', r"node 1 of the file has an unknown field 'nmae' .* did you mean 'name'\?"),
        ('{} {"id": -1}', r"a\.json: id: node 1 of the file has -1 .*; allowed: a whole number from 0 to"),
        ('{} {"id": 1.5}', r"has 1\.5"),
        ('{} {"id": true}', r"has true"),
        ('{} {"id": 1, "id": 2}', r"has an object with 'id' twice"),
        ('{} {"dataDeps": 3}', r"dataDeps: .* has 3 instead of a list"),
        ('{} {"dataDeps": [], "data_deps": []}', r"has 'data_deps' twice"),
        ('{} {"name": "x", "type": "COMP"}', r"type: node 1 .* \(x\) has 'COMP' .* mean 'COMP_NODE'\?"),
        ('{} {"name": "\\ud800"}', r"a string that is not Unicode"),
        ('{} {"attr": [{"int32Val": 2147483648}]}', r"attr\.int32Val: .* allowed: a whole number from -2147483648"),
        ('{} {"attr": [{"int32Val": 1, "boolVal": true}]}', r"has several values: int32Val, boolVal"),
        ('{} {"attr": [{"boolVal": 1}]}', r"allowed: true or false"),
        ('{} {"attr": [{"bytesVal": "?"}]}', r"allowed: base64"),
        ('{} {"attr": [{"floatVal": 1e39}]}', r"allowed: a number of 32 bits"),
        ('{} {"attr": [{"doubleList": [1]}]}', r"has \[1\] instead of an object"),
        ('{} {"inputs": "x"}', r"inputs: .* instead of an object"),
    ],
)
def test_wrong_text(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "a.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=problem) as caught:
        list(chakra.read(tmp_path / "a.json").nodes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [b"{} {\xff}", b'{} {"name": "\xc3'])
def test_bytes_that_are_no_text(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.json").write_bytes(data)
    with pytest.raises(InputError, match="not a text file"):
        list(chakra.read(tmp_path / "a.json").nodes)
