"""Files of traces, read node by node, so that a trace may be larger than the memory.

`.et`: length-prefixed messages, the metadata first, then the nodes. `.json`, `.jsonl`: the same messages as JSON
(`pyxsim.chakra.text`). All may be compressed by gzip.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from pyxsim.chakra import text
from pyxsim.chakra.codec import (
    WireError,
    as_varint,
    metadata_bytes,
    metadata_from,
    node_bytes,
    node_from,
    varint_of,
)
from pyxsim.chakra.messages import Metadata, Node
from pyxsim.chakra.rows import Rows
from pyxsim.chakra.stream import MAX_MESSAGE, opened
from pyxsim.errors import InputError
from pyxsim.paths import created

VERSION = "0.0.4"
TEXT = (".json", ".jsonl")
_PIECE = 1 << 20  # bytes read at a time


class Trace(NamedTuple):
    """The content of a file, with nodes in file order."""

    metadata: Metadata
    nodes: Iterator[Node]


def read(path: str | PathLike[str]) -> Trace:
    """Open a trace; nodes are read on demand. Raises InputError, also while nodes are read."""
    file = str(path)
    return _trace(file, text.messages(file) if form(file) in TEXT else _messages(file))


def _trace(file: str, messages: Iterator[Any]) -> Trace:
    first = next(messages, None)
    if first is None:
        raise InputError("is empty", file=file, allowed="a Chakra trace")
    return Trace(first, messages)


def read_rows(path: str | PathLike[str], used: Iterable[str], alone: Iterable[int] = ()) -> tuple[Metadata, Rows]:
    """Read a trace for a reader that uses only some attributes: of equal nodes, only the first becomes a Node.

    Raises InputError. `alone`: types of which each node is a class of its own.
    """
    file, rows = str(path), Rows(used, alone)
    if form(file) in TEXT:
        trace = _trace(file, text.messages(file, rows))
        for node in trace.nodes:
            rows.add(node)
        return trace.metadata, rows
    with opened(file) as stream:
        first = _message(stream, file, 0, 0)
        if first is None:
            raise InputError("is empty", file=file, allowed="a Chakra trace")
        metadata, begin = first
        data = b""
        try:
            while piece := stream.read(_PIECE):
                data += piece
                data = data[rows.feed(data, False) :]
            rows.feed(data, True)
        except WireError as error:
            raise InputError(_damage(rows.message, error, begin + rows.begin), file=file) from error
    return metadata, rows


def write(path: str | PathLike[str], nodes: Iterable[Node], metadata: Metadata | None = None) -> None:
    """Write a trace; without `metadata`, with its version only.

    Raises InputError if the file cannot be written, ValueError for a node that its format cannot hold.
    """
    file = str(path)
    first = Metadata(VERSION) if metadata is None else metadata
    with created(file) as stream:
        if form(file) in TEXT:
            text.write(stream, first, nodes, lines=form(file) == ".jsonl")
            return
        for data in chain([metadata_bytes(first)], map(node_bytes, nodes)):
            stream.write(as_varint(len(data)) + data)


def form(path: str | PathLike[str]) -> str:
    """Return the format of a file by its name: .et, .json, .jsonl, each also with .gz."""
    name = str(path)
    return Path(name.removesuffix(".gz")).suffix.lower()


def _messages(path: str) -> Iterator[Any]:
    """Yield the metadata, then the nodes."""
    at = number = 0
    with opened(path) as stream:
        while (found := _message(stream, path, number, at)) is not None:
            message, at = found
            yield message
            number += 1


def _message(stream: BinaryIO, path: str, number: int, at: int) -> tuple[Any, int] | None:
    """Read the message that begins at a byte, and the byte at which it ends; None at the end of the file."""
    try:
        if not (head := _head(stream)):
            return None
        length = varint_of(head)
        data = _exactly(stream, length)
        try:
            message = node_from(data) if number else metadata_from(data)
        except WireError as error:
            raise WireError(str(error), len(head) + error.at) from error
        return message, at + len(head) + length
    except WireError as error:
        raise InputError(_damage(number, error, at), file=path) from error


def _damage(number: int, error: WireError, at: int) -> str:
    """The fault of a message that begins at a byte; number 0 is the metadata."""
    what = f"node {number} of the file" if number else "its metadata"
    return f"not a Chakra trace, or damaged: {what} {error} (byte {at + error.at})"


def _head(stream: BinaryIO) -> bytes:
    """Read the length of a message; None at the end of the file."""
    head = stream.read(1)
    while head and head[-1] >= 0x80 and len(head) < 10 and (byte := stream.read(1)):
        head += byte
    return head


def _exactly(stream: BinaryIO, length: int) -> bytes:
    if length > MAX_MESSAGE:
        raise WireError(f"has {length} bytes, more than the limit of {MAX_MESSAGE}", 0)
    data = stream.read(length)
    if len(data) < length:
        raise WireError(f"has {length} bytes, but {len(data)} are left", 0)
    return data
