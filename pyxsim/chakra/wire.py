"""The wire format of protocol buffers: fields of a message as bytes.

A field is a varint that says its number and how it is written, then its value: another varint, 8 bytes, 4 bytes, or a
length and so many bytes (https://protobuf.dev/programming-guides/encoding). A varint has 7 bits in each byte, the
lowest first; the top bit says that more follow.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_MASK64 = (1 << 64) - 1


class WireError(ValueError):
    """Bytes that are no message. `at`: where, counted from the start of the message."""

    def __init__(self, problem: str, at: int) -> None:
        super().__init__(problem)
        self.at = at


class Field(NamedTuple):
    """A field as it stands there: its value is a whole number, or the bytes of whatever it is."""

    number: int
    wire: int
    value: int | bytes
    raw: bytes


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The varint at a place, and the place behind it."""
    value = shift = 0
    while True:
        if at >= len(data):
            raise WireError("ends in the middle of a number", at)
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MASK64, at
        shift += 7
        if shift > 63:
            raise WireError("has a number of more than 10 bytes", at)


def as_varint(value: int) -> bytes:
    """A whole number as varint; negative ones are written as 64 bits."""
    value &= _MASK64
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def fields(data: bytes) -> Iterator[Field]:
    """The fields of a message in the order in which they stand. Raises WireError."""
    at, end = 0, len(data)
    while at < end:
        begin = at
        key, at = varint(data, at)
        number, wire = key >> 3, key & 7
        value: int | bytes
        if wire == VARINT:
            value, at = varint(data, at)
        else:
            if wire == LENGTH:
                length, at = varint(data, at)
            elif wire in (FIXED64, FIXED32):
                length = 8 if wire == FIXED64 else 4
            else:
                raise WireError(f"has a field of wire type {wire}", begin)
            if number == 0 or length > end - at:
                raise WireError(f"has a field of {length} bytes, and {end - at} are left", begin)
            value = data[at : at + length]
            at += length
        yield Field(number, wire, value, data[begin:at])


def as_field(number: int, wire: int, value: bytes) -> bytes:
    """A field as bytes; of one with a length, `value` is what comes behind it."""
    key = as_varint(number << 3 | wire)
    return key + as_varint(len(value)) + value if wire == LENGTH else key + value


class Type(NamedTuple):
    """How values of a type are written: in which way, from a value to bytes, and from what a Field holds to a value."""

    wire: int
    write: Callable[[Any], bytes]
    read: Callable[[Any], Any]

    def one(self, number: int, value: Any) -> bytes:
        """A field with one value."""
        return as_field(number, self.wire, self.write(value))

    def many(self, number: int, values: list[Any]) -> bytes:
        """A repeated field: numbers packed one behind the other, texts a field each."""
        if self.wire == LENGTH:
            return b"".join(self.one(number, value) for value in values)
        return as_field(number, LENGTH, b"".join(self.write(value) for value in values)) if values else b""

    def add(self, values: list[Any], found: Field) -> None:
        """Add what a field holds to a list: one value, or many that are packed."""
        if found.wire == self.wire:
            values.append(self.read(found.value))
            return
        data = content(found)
        at = 0
        while at < len(data):
            if self.wire == VARINT:
                number, at = varint(data, at)
                values.append(self.read(number))
            else:
                size = 8 if self.wire == FIXED64 else 4
                values.append(self.read(data[at : at + size]))
                at += size

    def value(self, found: Field) -> Any:
        """The value of a field that has one."""
        if found.wire != self.wire:
            raise WireError(f"has field {found.number} in wire type {found.wire} instead of {self.wire}", 0)
        return self.read(found.value)


def content(found: Field) -> bytes:
    """The bytes of a field that has a length: a text, a message, packed numbers. Raises WireError."""
    if not isinstance(found.value, bytes):
        raise WireError(f"has field {found.number} in wire type {found.wire}", 0)
    return found.value


def _packed(layout: str, wire: int) -> Type:
    packer = struct.Struct(layout)

    def read(data: bytes) -> Any:
        if len(data) != packer.size:
            raise WireError(f"has {len(data)} bytes where {packer.size} belong together", 0)
        return packer.unpack(data)[0]

    return Type(wire, packer.pack, read)


def _signed(bits: int) -> Type:
    half, whole = 1 << (bits - 1), 1 << bits
    return Type(VARINT, as_varint, lambda value: (value + half) % whole - half)


def _zigzag(bits: int) -> Type:
    return Type(
        VARINT, lambda value: as_varint(value << 1 ^ value >> (bits - 1)), lambda value: value >> 1 ^ -(value & 1)
    )


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise WireError("has a text that is not UTF-8", 0) from error


# In the order in which Chakra counts them in an attribute.
TYPES: dict[str, Type] = {
    "double": _packed("<d", FIXED64),
    "float": _packed("<f", FIXED32),
    "int32": _signed(32),
    "int64": _signed(64),
    "uint32": Type(VARINT, as_varint, lambda value: value & 0xFFFFFFFF),
    "uint64": Type(VARINT, as_varint, lambda value: value),
    "sint32": _zigzag(32),
    "sint64": _zigzag(64),
    "fixed32": _packed("<I", FIXED32),
    "fixed64": _packed("<Q", FIXED64),
    "sfixed32": _packed("<i", FIXED32),
    "sfixed64": _packed("<q", FIXED64),
    "bool": Type(VARINT, lambda value: as_varint(bool(value)), bool),
    "string": Type(LENGTH, lambda value: value.encode("utf-8"), _text),
    "bytes": Type(LENGTH, bytes, bytes),
}
