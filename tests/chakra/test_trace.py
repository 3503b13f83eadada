"""Chakra traces: what is written is read again, what others have written is written as they did, damage is told."""

from __future__ import annotations

import contextlib
import gzip
import math
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim import chakra
from pyxsim.chakra import Attribute, IOInfo, Metadata, Node, NodeType
from pyxsim.chakra.codec import WireError, as_varint, metadata_bytes, node_bytes, node_from, varint_of
from pyxsim.chakra.messages import VALUE_TYPES
from pyxsim.chakra.stream import MAX_MESSAGE
from pyxsim.errors import InputError
from tests.examples import part_of

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
    unknown=st.sampled_from([b"", b"\x5a\x07storage", b"\x98\x06\x07"]),
)


@settings(max_examples=part_of(100))
@given(st.lists(NODES, max_size=4), st.builds(Metadata, st.text(max_size=9), st.lists(attributes(), max_size=2)))
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, nodes: list[Node], metadata: Metadata
) -> None:
    for name in ("trace.et", "trace.json", "trace.jsonl", "trace.et.gz", "trace.jsonl.gz"):
        path = tmp_path_factory.getbasetemp() / name
        chakra.write(path, nodes, metadata)
        trace = chakra.read(path)
        assert trace.metadata == metadata
        assert list(trace.nodes) == nodes


def test_every_type_of_an_attribute_has_its_number() -> None:
    assert len(chakra.ATTRIBUTE_TYPES) == 30
    assert set(VALUES) == set(VALUE_TYPES)
    # The attribute is field 10 of the node, its value field 32, whose field 1 is a text of one byte.
    assert node_bytes(Node(attr=[Attribute("a", "bytes_list", [b"x"])])) == b"\x52\x09\x0a\x01a\x82\x02\x03\x0a\x01x"
    # Field 3 in 8 bytes; 0.5 has sign 0, exponent 1022, mantissa 0.
    assert node_bytes(Node(attr=[Attribute("", "double_val", 0.5)])) == b"\x52\x09\x19" + bytes(6) + b"\xe0\x3f"


@pytest.mark.parametrize(
    ("kind", "value", "written"),
    [
        ("int32", -1, b"\x38" + b"\xff" * 9 + b"\x01"),  # negative ones as 64 bits
        ("sint32", -2, b"\x78\x03"),  # zigzag: 0 -1 1 -2 are 0 1 2 3
        ("sint64", -(2**63), b"\x88\x01" + b"\xff" * 9 + b"\x01"),
        ("fixed32", 1, b"\x9d\x01\x01\x00\x00\x00"),
        ("sfixed64", -2, b"\xc9\x01\xfe" + b"\xff" * 7),
        ("bool", True, b"\xd8\x01\x01"),
    ],
)
def test_numbers_are_written_as_the_format_says(kind: str, value: int, written: bytes) -> None:
    data = node_bytes(Node(attr=[Attribute("", f"{kind}_val", value)]))
    assert data == b"\x52" + bytes([len(written)]) + written
    assert node_from(data).attr == [Attribute("", f"{kind}_val", value)]


@pytest.mark.parametrize(
    "attribute",
    [
        Attribute("a", "int32_val", 2**31),
        Attribute("a", "uint64_val", -1),
        Attribute("a", "string_val", 3),
        Attribute("a", "bytes_val", "text"),
        Attribute("a", "int64_list", ["x"]),
        Attribute("a", "int65_val", 3),
        Attribute("a", "string_val", "\ud800"),
    ],
)
def test_what_a_type_cannot_hold_is_not_written(tmp_path: Path, attribute: Attribute) -> None:
    for name in ("a.et", "a.json"):
        with pytest.raises(ValueError, match=r"node 7 \('seven'\): attribute 'a' of type"):
            chakra.write(tmp_path / name, [Node(7, "seven", attr=[attribute])])


def test_numbers_may_be_packed_or_not() -> None:
    assert node_from(b"\x28\x03\x28\xac\x02").data_deps == [3, 300]
    assert node_bytes(Node(data_deps=[3, 300])) == b"\x2a\x03\x03\xac\x02"
    assert node_from(b"\x2a\x03\x03\xac\x02").data_deps == [3, 300]


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**32, 2**63, 2**64 - 1])
def test_varints(value: int) -> None:
    data = as_varint(value)
    assert varint_of(data + b"y") == value
    with pytest.raises(WireError, match="middle of a number"):
        varint_of(data[:-1])
    with pytest.raises(WireError, match="more than 10 bytes"):
        varint_of(b"\x80" * 11)


def test_compressed_traces(tmp_path: Path) -> None:
    chakra.write(tmp_path / "plain.et", [Node(1, "a"), Node(2, "b")])
    (tmp_path / "packed.et").write_bytes(gzip.compress((tmp_path / "plain.et").read_bytes()))
    assert [node.name for node in chakra.read(tmp_path / "packed.et").nodes] == ["a", "b"]
    chakra.write(tmp_path / "own.et.gz", [Node(1, "a"), Node(2, "b")])
    assert gzip.decompress((tmp_path / "own.et.gz").read_bytes()) == (tmp_path / "plain.et").read_bytes()


def message(data: bytes) -> bytes:
    return as_varint(len(data)) + data


GOOD = message(metadata_bytes(Metadata("0.0.4")))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", r"trace.et: is empty; allowed: a Chakra trace"),
        (GOOD + b"\x05\x08\x01", r"node 1 of the file has 5 bytes, but 2 are left \(byte 8\)"),
        (GOOD + b"\x80", r"node 1 of the file ends in the middle of a number \(byte 9\)"),
        (GOOD + b"\xff" * 12, r"more than 10 bytes"),
        (GOOD + b"\xff\xff\xff\xff\x7f", rf"more than the limit of {MAX_MESSAGE} \(byte 8\)"),
        (GOOD + message(b"") + message(b"\x0b"), r"node 2 of the file has a field of wire type 3 \(byte 10\)"),
        (GOOD + message(b"\x12\x09abc"), r"has a field of 9 bytes, and 3 are left \(byte 9\)"),
        (GOOD + message(b"\x08\x01\x12\x01\xff"), r"has a text that is not UTF-8 \(byte 13\)"),
        (GOOD + message(b"\x0a\x01a"), r"has field 1 in wire type 2 instead of 0 \(byte 9\)"),
        (GOOD + message(b"\x50\x01"), r"has field 10 in wire type 0 instead of 2 \(byte 9\)"),
        (GOOD + message(b"\x00\x01"), r"has a field of number 0 \(byte 9\)"),
        (GOOD + message(b"\x52\x02\x1d\x00"), r"has 1 bytes where 4 belong together"),
        (GOOD + message(b"\x52\x00" * (1 << 16) + b"\x52\x00"), r"has more than 65536 attributes"),
        (b'{"nodes": []}', r"not a Chakra trace, or damaged"),
        (gzip.compress(GOOD, mtime=0)[:-12], r"is damaged gzip data"),
        (gzip.compress(GOOD, mtime=0)[:-8] + bytes(8), r"is damaged gzip data"),
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
    with pytest.raises(InputError, match=r"cannot be written"):
        chakra.write(tmp_path / "a.0.et" / "b.et", [])


def test_a_trace_appears_when_it_is_whole(tmp_path: Path) -> None:
    """Nothing is left of one that cannot be finished, and what was there stays; a missing folder is not made."""
    path = tmp_path / "new" / "a.et"
    with pytest.raises(InputError, match=r"new/a\.et: cannot be written: there is no folder '.*new'"):
        chakra.write(path, [Node(1)])
    path.parent.mkdir()
    chakra.write(path, [Node(1)])
    before = path.read_bytes()

    def nodes() -> Iterator[Node]:
        yield Node(2)
        assert path.read_bytes() == before
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        chakra.write(path, nodes())
    assert list(path.parent.iterdir()) == [path]
    assert path.read_bytes() == before


@given(st.binary(max_size=60))
def test_any_bytes_are_a_trace_or_told(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "noise.et"
    path.write_bytes(GOOD + data)
    with contextlib.suppress(InputError):
        list(chakra.read(path).nodes)


def test_floats_of_32_bits_keep_their_bits(tmp_path: Path) -> None:
    values = [0.1, -0.0, 1e-45, 3.4028234663852886e38, math.inf, -math.inf]
    chakra.write(tmp_path / "a.et", [Node(attr=[Attribute("x", "float_list", values)])])
    chakra.write(tmp_path / "a.json", chakra.read(tmp_path / "a.et").nodes)
    chakra.write(tmp_path / "b.et", chakra.read(tmp_path / "a.json").nodes)
    assert (tmp_path / "a.et").read_bytes() == (tmp_path / "b.et").read_bytes()


def test_a_long_trace_does_not_fill_the_memory(tmp_path: Path) -> None:
    """Node by node: 20,000 nodes of 5 kB that are written and read do not cost a tenth of their size."""
    path = tmp_path / "long.et.gz"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # kB
    chakra.write(path, (Node(k, "x" * 5000, NodeType.COMP) for k in range(20_000)))
    assert sum(len(node.name) for node in chakra.read(path).nodes) == 10**8
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 10_000
