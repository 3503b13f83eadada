"""Traces as JSON, as Chakra's jsonizer prints them: the JSON mapping of protocol buffers.

A sequence of objects, the metadata first, then the nodes; in `.jsonl` one per line. Two more forms are read: a list of
nodes, with or without metadata, and the JSON of Chakra's feeder, `{"workload_graph": [...]}`, with its own field names.
Field names are those of the schema in lowerCamelCase (`ctrlDeps`, `int64Val`); `ctrl_deps` is accepted, too. 64-bit
numbers are strings, bytes are base64, types of nodes are names such as COMP_NODE. Fields unknown to Chakra's schema are
base64 under `unknownFields`, an extension of pyxsim.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, BinaryIO

from pyxsim.chakra.codec import metadata_bytes, node_bytes
from pyxsim.chakra.json_items import JsonItems
from pyxsim.chakra.json_rows import JsonRows
from pyxsim.chakra.messages import (
    ATTRIBUTE_TYPES,
    MAX_ATTRIBUTES,
    WHOLE,
    Attribute,
    IOInfo,
    Metadata,
    Node,
    NodeType,
)
from pyxsim.chakra.rows import Rows
from pyxsim.chakra.stream import MAX_MESSAGE, opened
from pyxsim.errors import InputError

_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_TYPE_NAMES = {f"{each.name}_NODE": each for each in NodeType}
_Found = tuple[int, dict[str, Any]]  # an object, and the character at which it begins
_Readers = Mapping[str, tuple[str, Callable[[Any], Any]]]


class _Fault(ValueError):
    """A fault of an object; `key`: its place."""

    def __init__(self, problem: str, key: str = "", allowed: str | list[str] | None = None, given: str = "") -> None:
        super().__init__(problem)
        self.key, self.allowed, self.given = key, allowed, given


# Reading


def messages(path: str, rows: Rows | None = None) -> Iterator[Any]:
    """Yield the metadata, then the nodes; not those that `rows` takes on the way. Raises InputError.

    Pass each node to `rows` before requesting the next one.
    """
    with opened(path) as stream:
        items = JsonItems(stream, path)
        if items.next_is("{", '"schema"', ":"):
            problem = "is an execution trace of PyTorch's host, which has no times"
            raise InputError(problem, file=path, allowed="a Chakra trace, or the trace of PyTorch's profiler")
        if items.next_is("{", '"schemaVersion"', ":"):
            names = "[workload] file reads the others by their endings .kineto.json, .pt.trace.json"
            allowed = f"a Chakra trace; `pyxsim workload expand` writes a .kineto.json as Chakra traces; {names}"
            raise InputError("is a trace of PyTorch's profiler", file=path, allowed=allowed)
        if items.next_is("{", '"workload_graph"', ":", "["):
            yield Metadata()
            yield from _read_all(_numbered(items, items.entries(), 1, rows, _FEEDER_NODE), _feeder_node, path)
            items.rest_of_object()
            items.end()
        elif items.next_is("["):
            yield from _listed(items, rows, path)
            items.end()
        else:
            yield from _read_all(_numbered(items, items.sequence(), 0, rows, _NODE), _node, path)


def _numbered(
    items: JsonItems, objects: Iterator[_Found], begin: int, rows: Rows | None, readers: _Readers
) -> Iterator[tuple[int, _Found]]:
    """Number the objects, counting those that `rows` takes."""
    if rows is None:
        yield from enumerate(objects, begin)
        return
    quick = JsonRows(rows, _spellings(readers), _spellings(_ATTRIBUTE), _TYPE_NAMES)
    items.take = quick.take
    for number, found in enumerate(objects, begin):
        yield number + quick.taken, found


def _spellings(readers: _Readers) -> dict[str, str]:
    """The arguments of a message by their usual names in JSON."""
    schema = {argument: argument for name, (argument, _) in readers.items() if _camel(argument) == name}
    return schema | {name: argument for name, (argument, _) in readers.items()}


def _listed(items: JsonItems, rows: Rows | None, path: str) -> Iterator[Any]:
    """Yield the messages of a list, which may begin with the metadata."""
    entries = items.entries()
    first = next(entries, None)
    if first is None:
        raise InputError("is an empty list", file=path, allowed="a Chakra trace")
    has_metadata = "version" in first[1]  # a node has no such field
    if not has_metadata:
        yield Metadata()
    objects = chain([first], entries)
    yield from _read_all(_numbered(items, objects, 0 if has_metadata else 1, rows, _NODE), _node, path)


def _read_all(
    objects: Iterable[tuple[int, _Found]], node: Callable[[dict[str, Any]], Node], path: str
) -> Iterator[Any]:
    """Yield the messages of numbered objects; number 0 is the metadata."""
    for number, (at, fields) in objects:
        try:
            yield node(fields) if number else _metadata(fields)
        except _Fault as fault:
            name = fields.get("name") or fields.get("Name")
            named = f" ({name})" if isinstance(name, str) and name else ""
            what = f"node {number} of the file{named}" if number else "its metadata, which is its first object,"
            problem = f"{what} {fault} (character {at})"
            raise InputError(
                problem, file=path, key=fault.key or None, allowed=fault.allowed, given=fault.given
            ) from fault


def _read(fields: Any, readers: _Readers) -> dict[str, Any]:
    """The arguments of a message. `readers`: name in JSON -> argument and reader."""
    if not isinstance(fields, dict):
        raise _Fault(f"has {_shown(fields)} instead of an object")
    out = {}
    for name, value in fields.items():
        known = readers.get(name) or readers.get(_camel(name))
        if known is None:
            raise _Fault(f"has an unknown field '{name}'", allowed=list(readers), given=name)
        if known[0] in out:
            raise _Fault(f"has '{name}' twice")
        if value is None:  # same as missing
            continue
        try:
            out[known[0]] = known[1](value)
        except _Fault as fault:
            raise _Fault(str(fault), f"{name}.{fault.key}" if fault.key else name, fault.allowed, fault.given) from None
    return out


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:40]} ..."


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Fault(f"has {_shown(value)} instead of a string")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise _Fault("has a string that is not Unicode") from None
    return value


def _whole(bits: int, signed: bool) -> Callable[[Any], int]:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)

    def read(value: Any) -> int:
        number = value
        digits = isinstance(value, str) and re.fullmatch(r"-?\d{1,20}", value, re.ASCII)
        if digits or (isinstance(value, float) and value.is_integer()):
            number = int(value)
        if not isinstance(number, int) or isinstance(number, bool) or not low <= number <= high:
            raise _Fault(f"has {_shown(value)}", allowed=f"a whole number from {low} to {high}")
        return number

    return read


def _float(value: Any) -> float:
    if isinstance(value, str):
        if value in _FLOATS:
            return _FLOATS[value]
        try:
            return float(value)
        except ValueError:
            pass
    elif isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            pass
    raise _Fault(f"has {_shown(value)}", allowed="a number")


def _narrow(value: Any) -> float:
    wide = _float(value)
    try:
        return float(struct.unpack("<f", struct.pack("<f", wide))[0])
    except OverflowError:
        raise _Fault(f"has {_shown(value)}", allowed="a number of 32 bits") from None


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Fault(f"has {_shown(value)}", allowed="true or false")
    return value


def _bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(_text(value), validate=True)
    except (binascii.Error, ValueError):
        raise _Fault(f"has {_shown(value)}", allowed="base64") from None


def _list(read: Callable[[Any], Any], most: int = MAX_MESSAGE) -> Callable[[Any], list[Any]]:
    def reader(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise _Fault(f"has {_shown(value)} instead of a list")
        if len(value) > most:
            raise _Fault(f"has {len(value)} entries", allowed=f"at most {most}")
        return [read(item) for item in value]

    return reader


def _type(value: Any) -> int:
    if isinstance(value, str):
        if value not in _TYPE_NAMES:
            raise _Fault(f"has '{value}'", allowed=list(_TYPE_NAMES), given=value)
        return _TYPE_NAMES[value]
    number = _whole(64, signed=False)(value)
    return NodeType(number) if number in NodeType._value2member_map_ else number


def _camel(name: str) -> str:
    """A name of the schema in JSON: int64_val -> int64Val."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


_VALUES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "double": (_float, lambda value: _plain(value, repr(value))),
    "float": (_narrow, lambda value: _plain(value, _shortest(value))),
    **{name: (_whole(bits, signed), str if bits == 64 else int) for name, (bits, signed) in WHOLE.items()},
    "bool": (_bool, bool),
    "string": (_text, str),
    "bytes": (_bytes, lambda value: base64.b64encode(value).decode("ascii")),
}


def _shortest(value: float) -> str:
    """A 32-bit number as protocol buffers print it: 6 digits, or as many as it needs, at most 9."""
    return next(text for digits in (6, 7, 8, 9) if _narrow(text := f"{value:.{digits}g}") == value or digits == 9)


def _plain(value: float, text: str) -> float | str:
    if math.isfinite(value):
        return float(text)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _values(read: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    """The value of a list attribute as a message: {"values": [...]}."""
    return lambda given: _read(given, {"values": ("values", _list(read))}).get("values", [])


_UNKNOWN: _Readers = {"unknownFields": ("unknown", _bytes)}
_ATTRIBUTE: _Readers = {
    "name": ("name", _text),
    "docString": ("doc_string", _text),
    **{
        _camel(each): (each, _values(_VALUES[kind][0]) if many == "list" else _VALUES[kind][0])
        for each in ATTRIBUTE_TYPES
        for kind, _, many in [each.partition("_")]
    },
    **_UNKNOWN,
}


def _attribute(fields: Any) -> Attribute:
    item = _read(fields, _ATTRIBUTE)
    plain = {name: item.pop(name) for name in ("name", "doc_string", "unknown") if name in item}
    if len(item) > 1:
        raise _Fault(f"has several values: {', '.join(map(_camel, item))}", allowed="one")
    for kind, value in item.items():
        return Attribute(type=kind, value=value, **plain)
    return Attribute(**plain)


_ATTRIBUTES = _list(_attribute, MAX_ATTRIBUTES)
_IO: _Readers = {**{name: (name, _text) for name in ("values", "shapes", "types")}, **_UNKNOWN}
_METADATA: _Readers = {"version": ("version", _text), "attr": ("attr", _ATTRIBUTES), **_UNKNOWN}
_ID = _whole(64, signed=False)
_NODE: _Readers = {
    "id": ("id", _ID),
    "name": ("name", _text),
    "type": ("type", _type),
    "ctrlDeps": ("ctrl_deps", _list(_ID)),
    "dataDeps": ("data_deps", _list(_ID)),
    "startTimeMicros": ("start_time_micros", _ID),
    "durationMicros": ("duration_micros", _ID),
    "inputs": ("inputs", lambda given: IOInfo(**_read(given, _IO))),
    "outputs": ("outputs", lambda given: IOInfo(**_read(given, _IO))),
    "attr": ("attr", _ATTRIBUTES),
    **_UNKNOWN,
}
# What Chakra's feeder reads from JSON (json_node.cpp at 21585d8); it leaves ctrlDeps alone.
_FEEDER_ATTRIBUTES: dict[str, Callable[[Any], Any]] = {
    "is_cpu_op": _bool,
    **dict.fromkeys(
        ("num_ops", "tensor_size", "comm_type", "comm_priority", "comm_size", "comm_src", "comm_dst", "comm_tag"),
        _whole(64, signed=True),
    ),
}
_FEEDER_NODE: _Readers = {
    "Id": ("id", _ID),
    "Name": ("name", _text),
    "NodeType": ("type", _type),
    "data_deps": ("data_deps", _list(_ID)),
    "ctrlDeps": ("ignored", _list(_ID)),
    "runtime": ("duration_micros", _ID),
    **{name: (name, read) for name, read in _FEEDER_ATTRIBUTES.items()},
}


def _metadata(fields: dict[str, Any]) -> Metadata:
    return Metadata(**_read(fields, _METADATA))


def _node(fields: dict[str, Any]) -> Node:
    return Node(**_read(fields, _NODE))


def _feeder_node(fields: dict[str, Any]) -> Node:
    """Convert a node in the JSON of Chakra's feeder: attributes are fields, and only data dependencies count."""
    read = _read(fields, _FEEDER_NODE)
    read.pop("ignored", None)
    attributes = [
        Attribute(name, "bool_val" if name == "is_cpu_op" else "int64_val", read.pop(name))
        for name in _FEEDER_ATTRIBUTES
        if name in read
    ]
    return Node(**read, attr=attributes)


# Writing


def write(stream: BinaryIO, metadata: Metadata, nodes: Iterable[Node], *, lines: bool) -> None:
    """Write a trace as JSON; `lines`: one object per line. Raises ValueError for a wrong value."""
    encoder = json.JSONEncoder(indent=None if lines else 2, separators=(",", ":") if lines else None)
    metadata_bytes(metadata)  # checks it, as below
    for message in chain([_metadata_json(metadata)], map(_node_json, nodes)):
        stream.write((encoder.encode(message) + "\n").encode("ascii"))


def _metadata_json(metadata: Metadata) -> dict[str, Any]:
    attributes = [_attribute_json(attribute) for attribute in metadata.attr]
    return _given(version=metadata.version, attr=attributes, unknownFields=_base64(metadata.unknown))


def _node_json(node: Node) -> dict[str, Any]:
    node_bytes(node)  # checks that the schema can hold it, with the same errors
    known = node.type in NodeType._value2member_map_
    out = _given(
        id=_number(node.id),
        name=node.name,
        type=(f"{NodeType(node.type).name}_NODE" if node.type else "") if known else node.type,
        ctrlDeps=[str(ctrl_dep) for ctrl_dep in node.ctrl_deps],
        dataDeps=[str(data_dep) for data_dep in node.data_deps],
        startTimeMicros=_number(node.start_time_micros),
        durationMicros=_number(node.duration_micros),
    )
    for name, info in (("inputs", node.inputs), ("outputs", node.outputs)):
        if info is not None:
            out[name] = _given(
                values=info.values, shapes=info.shapes, types=info.types, unknownFields=_base64(info.unknown)
            )
    return out | _given(
        attr=[_attribute_json(attribute) for attribute in node.attr], unknownFields=_base64(node.unknown)
    )


def _attribute_json(attribute: Attribute) -> dict[str, Any]:
    out = _given(name=attribute.name, docString=attribute.doc_string)
    if attribute.type:
        kind, _, plural = attribute.type.partition("_")
        tell = _VALUES[kind][1]
        value = attribute.value
        out[_camel(attribute.type)] = _given(values=[tell(item) for item in value]) if plural == "list" else tell(value)
    return out | _given(unknownFields=_base64(attribute.unknown))


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


def _number(value: int) -> str:
    return str(value) if value else ""


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
