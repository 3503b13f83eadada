"""What stands in a trace: its metadata, its nodes, their attributes. Field numbers are those of Chakra's et_def.proto.

Fields that are not known here (storage operations, later versions) are kept as they are and written again, so a file
that is read and written is the same to the byte.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from pyxsim.chakra.wire import LENGTH, TYPES, Field, Type, as_field, content, fields

_UINT64, _STRING = TYPES["uint64"], TYPES["string"]


class NodeType(IntEnum):
    """What a node does."""

    INVALID = 0
    METADATA = 1
    MEM_LOAD = 2
    MEM_STORE = 3
    COMP = 4
    COMM_SEND = 5
    COMM_RECV = 6
    COMM_COLL = 7
    STORAGE = 8
    BATCH = 9
    CHECKPOINT = 10


class CommType(IntEnum):
    """The collective of a node of type COMM_COLL, which is its attribute comm_type."""

    ALL_REDUCE = 0
    REDUCE = 1
    ALL_GATHER = 2
    GATHER = 3
    SCATTER = 4
    BROADCAST = 5
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7
    REDUCE_SCATTER_BLOCK = 8
    BARRIER = 9


# The value of an attribute is one of these fields: double_val 3, double_list 4, float_val 5, ... bytes_list 32.
_VALUES: dict[int, tuple[str, Type, bool]] = {}
for _place, (_name, _kind) in enumerate(TYPES.items()):
    _VALUES[3 + 2 * _place] = (f"{_name}_val", _kind, False)
    _VALUES[4 + 2 * _place] = (f"{_name}_list", _kind, True)
_NUMBERS = {name: number for number, (name, _, _) in _VALUES.items()}
ATTRIBUTE_TYPES = tuple(_NUMBERS)


@dataclass(slots=True)
class Attribute:
    """A name and a value; `type` is the field that holds it: "int64_val", "bool_list", or "" where there is none."""

    name: str = ""
    type: str = ""
    value: Any = None
    doc_string: str = ""
    unknown: bytes = b""

    @classmethod
    def parse(cls, data: bytes) -> Attribute:
        """From bytes. Raises WireError."""
        self = cls()
        for found in fields(data):
            if found.number == 1:
                self.name = _STRING.value(found)
            elif found.number == 2:
                self.doc_string = _STRING.value(found)
            elif found.number in _VALUES:
                self.type, kind, many = _VALUES[found.number]
                self.value = _list(kind, content(found)) if many else kind.value(found)
            else:
                self.unknown += found.raw
        return self

    def __bytes__(self) -> bytes:
        out = _given(1, _STRING, self.name) + _given(2, _STRING, self.doc_string)
        if self.type:
            number = _NUMBERS[self.type]
            _, kind, many = _VALUES[number]
            # A value of an attribute is written even if it is 0: that one of the fields is there is what counts.
            out += as_field(number, LENGTH, kind.many(1, self.value)) if many else kind.one(number, self.value)
        return out + self.unknown


def _list(kind: Type, data: bytes) -> list[Any]:
    """The message that is the value of a list attribute: field 1, repeated."""
    values: list[Any] = []
    for found in fields(data):
        if found.number == 1:
            kind.add(values, found)
    return values


def _given(number: int, kind: Type, value: Any) -> bytes:
    """A field that is left out where it has the value that is meant anyway: 0, or no text."""
    return kind.one(number, value) if value else b""


@dataclass(slots=True)
class IOInfo:
    """The inputs or the outputs of a node, as texts."""

    values: str = ""
    shapes: str = ""
    types: str = ""
    unknown: bytes = b""

    @classmethod
    def parse(cls, data: bytes) -> IOInfo:
        """From bytes. Raises WireError."""
        self = cls()
        for found in fields(data):
            if found.number == 1:
                self.values = _STRING.value(found)
            elif found.number == 2:
                self.shapes = _STRING.value(found)
            elif found.number == 3:
                self.types = _STRING.value(found)
            else:
                self.unknown += found.raw
        return self

    def __bytes__(self) -> bytes:
        texts = (self.values, self.shapes, self.types)
        return b"".join(_given(number, _STRING, text) for number, text in enumerate(texts, 1)) + self.unknown


@dataclass(slots=True)
class Metadata:
    """The first message of a trace."""

    version: str = ""
    attr: list[Attribute] = field(default_factory=list)
    unknown: bytes = b""

    @classmethod
    def parse(cls, data: bytes) -> Metadata:
        """From bytes. Raises WireError."""
        self = cls()
        for found in fields(data):
            if found.number == 1:
                self.version = _STRING.value(found)
            elif found.number == 2:
                self.attr.append(Attribute.parse(content(found)))
            else:
                self.unknown += found.raw
        return self

    def __bytes__(self) -> bytes:
        return _given(1, _STRING, self.version) + _all(2, self.attr) + self.unknown


def _all(number: int, messages: list[Attribute]) -> bytes:
    return b"".join(as_field(number, LENGTH, bytes(message)) for message in messages)


@dataclass(slots=True)
class Node:
    """One node of a trace. It may start when the nodes `ctrl_deps` and `data_deps` are done."""

    id: int = 0
    name: str = ""
    type: int = NodeType.INVALID  # a NodeType, or a number that is none yet
    ctrl_deps: list[int] = field(default_factory=list)
    data_deps: list[int] = field(default_factory=list)
    start_time_micros: int = 0
    duration_micros: int = 0
    inputs: IOInfo | None = None
    outputs: IOInfo | None = None
    attr: list[Attribute] = field(default_factory=list)
    unknown: bytes = b""

    def get(self, name: str, default: Any = None) -> Any:
        """The value of an attribute by its name."""
        return next((each.value for each in self.attr if each.name == name), default)

    @classmethod
    def parse(cls, data: bytes) -> Node:
        """From bytes. Raises WireError."""
        self = cls()
        for found in fields(data):
            reader = _NODE.get(found.number)
            if reader is None:
                self.unknown += found.raw
            else:
                reader(self, found)
        return self

    def __bytes__(self) -> bytes:
        out = _given(1, _UINT64, self.id) + _given(2, _STRING, self.name) + _given(3, _UINT64, self.type)
        out += _UINT64.many(4, self.ctrl_deps) + _UINT64.many(5, self.data_deps)
        out += _given(6, _UINT64, self.start_time_micros) + _given(7, _UINT64, self.duration_micros)
        for number, message in ((8, self.inputs), (9, self.outputs)):
            if message is not None:
                out += as_field(number, LENGTH, bytes(message))
        return out + _all(10, self.attr) + self.unknown


def _set(name: str, kind: Type) -> Any:
    return lambda node, found: setattr(node, name, kind.value(found))


def _set_io(name: str) -> Any:
    return lambda node, found: setattr(node, name, IOInfo.parse(content(found)))


def _type(node: Node, found: Field) -> None:
    number = _UINT64.value(found)
    node.type = _TYPES.get(number, number)


_TYPES: dict[int, int] = {int(each): each for each in NodeType}
_NODE: dict[int, Any] = {
    1: _set("id", _UINT64),
    2: _set("name", _STRING),
    3: _type,
    4: lambda node, found: _UINT64.add(node.ctrl_deps, found),
    5: lambda node, found: _UINT64.add(node.data_deps, found),
    6: _set("start_time_micros", _UINT64),
    7: _set("duration_micros", _UINT64),
    8: _set_io("inputs"),
    9: _set_io("outputs"),
    10: lambda node, found: node.attr.append(Attribute.parse(content(found))),
}
