"""Chakra traces: what is written is read again, what others have written is written as they did, damage is told."""

from __future__ import annotations

import contextlib
import gzip
import math
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim import chakra
from pyxsim.chakra import Attribute, IOInfo, Metadata, Node, NodeType
from pyxsim.chakra.wire import TYPES, WireError, as_field, as_varint, fields, varint
from pyxsim.errors import InputError

SAMPLES = sorted((Path(__file__).resolve().parents[3] / "shared" / "inputs" / "astra-sim-2").glob("*/*.et"))


@pytest.mark.skipif(not SAMPLES, reason="no traces of others are here")
def test_traces_of_others_are_written_as_they_were(tmp_path: Path) -> None:
    for path in SAMPLES:
        trace = chakra.read(path)
        chakra.write(tmp_path / "same.et", trace.nodes, trace.metadata)
        assert (tmp_path / "same.et").read_bytes() == path.read_bytes()


def test_a_node_written_by_hand(tmp_path: Path) -> None:
    """The bytes of an all-reduce as ASTRA-sim's generators write it, put together here field by field."""
    attributes = [("is_cpu_op", b"\xd8\x01\x00"), ("comm_type", b"\x48\x00"), ("comm_size", b"\x48\x80\x80\x40")]
    node = b"\x08\x02" + b"\x12\x02ar" + b"\x18\x07"  # id 2, name "ar", type 7
    for name, value in attributes:
        body = b"\x0a" + bytes([len(name)]) + name.encode() + value
        node += b"\x52" + bytes([len(body)]) + body
    metadata = b"\x0a\x050.0.4"
    path = tmp_path / "one.et"
    path.write_bytes(bytes([len(metadata)]) + metadata + bytes([len(node)]) + node)
    trace = chakra.read(path)
    [read] = trace.nodes
    assert trace.metadata == Metadata("0.0.4")
    assert (read.id, read.name, read.type) == (2, "ar", NodeType.COMM_COLL)
    assert [(each.name, each.type, each.value) for each in read.attr] == [
        ("is_cpu_op", "bool_val", False),
        ("comm_type", "int64_val", 0),
        ("comm_size", "int64_val", 1 << 20),
    ]
    assert read.get("comm_size") == 1 << 20
    assert read.get("nothing", 3) == 3
    chakra.write(tmp_path / "two.et", [read])
    assert (tmp_path / "two.et").read_bytes() == path.read_bytes()


VALUES = {
    "double": st.floats(allow_nan=False),
    "float": st.floats(width=32, allow_nan=False),
    **{name: st.integers(-(2**31), 2**31 - 1) for name in ("int32", "sint32", "sfixed32")},
    **{name: st.integers(-(2**63), 2**63 - 1) for name in ("int64", "sint64", "sfixed64")},
    **{name: st.integers(0, 2**32 - 1) for name in ("uint32", "fixed32")},
    **{name: st.integers(0, 2**64 - 1) for name in ("uint64", "fixed64")},
    "bool": st.booleans(),
    "string": st.text(max_size=20),
    "bytes": st.binary(max_size=20),
}
NUMBERS = st.integers(0, 2**64 - 1)


@st.composite
def attributes(draw: st.DrawFn) -> Attribute:
    kind = draw(st.sampled_from(list(VALUES)))
    if draw(st.booleans()):
        return Attribute(draw(st.text(max_size=9)), f"{kind}_val", draw(VALUES[kind]), draw(st.text(max_size=9)))
    return Attribute(draw(st.text(max_size=9)), f"{kind}_list", draw(st.lists(VALUES[kind], max_size=4)))


INFOS = st.builds(IOInfo, *[st.text(max_size=9)] * 3)
NODES = st.builds(
    Node,
    id=NUMBERS,
    name=st.text(max_size=9),
    type=st.sampled_from(NodeType) | st.integers(11, 99),
    ctrl_deps=st.lists(NUMBERS, max_size=4),
    data_deps=st.lists(NUMBERS, max_size=4),
    start_time_micros=NUMBERS,
    duration_micros=NUMBERS,
    inputs=INFOS | st.none(),
    outputs=INFOS | st.none(),
    attr=st.lists(attributes(), max_size=4),
    unknown=st.sampled_from([b"", as_field(11, 2, b"storage"), as_field(99, 0, b"\x07")]),
)


@given(st.lists(NODES, max_size=4), st.builds(Metadata, st.text(max_size=9), st.lists(attributes(), max_size=2)))
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, nodes: list[Node], metadata: Metadata
) -> None:
    path = tmp_path_factory.getbasetemp() / "trace.et"
    chakra.write(path, nodes, metadata)
    trace = chakra.read(path)
    assert trace.metadata == metadata
    assert list(trace.nodes) == nodes


def test_every_type_of_an_attribute_has_its_number() -> None:
    assert len(chakra.ATTRIBUTE_TYPES) == 30
    assert set(VALUES) == set(TYPES)
    [name, value] = fields(bytes(Attribute("a", "bytes_list", [b"x"])))
    assert (name.number, value.number) == (1, 32)
    assert math.isclose(struct.unpack("<d", bytes(Attribute("", "double_val", 0.5))[1:])[0], 0.5)


def test_numbers_may_be_packed_or_not() -> None:
    loose = b"".join(as_field(5, 0, as_varint(number)) for number in (3, 300))
    assert Node.parse(loose).data_deps == [3, 300]
    assert Node.parse(bytes(Node(data_deps=[3, 300]))).data_deps == [3, 300]


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**32, 2**63, 2**64 - 1])
def test_varints(value: int) -> None:
    data = as_varint(value)
    assert varint(b"x" + data + b"y", 1) == (value, 1 + len(data))
    with pytest.raises(WireError, match="middle of a number"):
        varint(data[:-1], 0)
    with pytest.raises(WireError, match="more than 10 bytes"):
        varint(b"\x80" * 11, 0)


def test_compressed_traces(tmp_path: Path) -> None:
    chakra.write(tmp_path / "plain.et", [Node(1, "a"), Node(2, "b")])
    (tmp_path / "packed.et").write_bytes(gzip.compress((tmp_path / "plain.et").read_bytes()))
    assert [node.name for node in chakra.read(tmp_path / "packed.et").nodes] == ["a", "b"]


def message(data: bytes) -> bytes:
    return as_varint(len(data)) + data


GOOD = message(bytes(Metadata("0.0.4")))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", r"trace.et: is empty; allowed: a Chakra trace"),
        (GOOD + b"\x05\x08\x01", r"it has a message of 5 bytes, and 2 are left \(byte 8\)"),
        (GOOD + b"\x80", r"it ends in the middle of a number \(byte 8\)"),
        (GOOD + b"\xff" * 12, r"more than 10 bytes|middle of a number"),
        (GOOD + message(b"\x0b"), r"it has a field of wire type 3 \(byte 8\)"),
        (GOOD + message(b"\x12\x09abc"), r"it has a field of 9 bytes, and 3 are left \(byte 8\)"),
        (GOOD + message(b"\x12\x01\xff"), r"it has a text that is not UTF-8"),
        (GOOD + message(b"\x0a\x01a"), r"it has field 1 in wire type 2 instead of 0"),
        (GOOD + message(b"\x50\x01"), r"it has field 10 in wire type 0"),
        (b'{"nodes": []}', r"is no Chakra trace, or is damaged"),
        (gzip.compress(GOOD)[:-12], r"is no Chakra trace, or is damaged"),
    ],
)
def test_damaged_traces(tmp_path: Path, data: bytes, problem: str) -> None:
    path = tmp_path / "trace.et"
    path.write_bytes(data)
    with pytest.raises(InputError, match=problem):
        list(chakra.read(path).nodes)


def test_traces_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "a.0.et").touch()
    with pytest.raises(InputError, match=r"a\.1\.et: no such file; did you mean 'a\.0\.et'\?"):
        chakra.read(tmp_path / "a.1.et")
    with pytest.raises(InputError, match=r"is a folder"):
        chakra.read(tmp_path)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_trace_or_told(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "noise.et"
    path.write_bytes(GOOD + data)
    with contextlib.suppress(InputError):
        list(chakra.read(path).nodes)
