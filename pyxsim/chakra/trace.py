"""Files of traces: messages, each behind its length; the metadata first, then the nodes.

A file may be compressed with gzip. It is read node by node, so it may be larger than the memory.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

from pyxsim.chakra.messages import Metadata, Node
from pyxsim.chakra.wire import WireError, as_varint, varint
from pyxsim.errors import InputError, closest

MAX_MESSAGE = 1 << 30  # bytes; a node that claims more is none
VERSION = "0.0.4"
M = TypeVar("M", Metadata, Node)
_GZIP = b"\x1f\x8b"


class Trace(NamedTuple):
    """What is in a file, its nodes in the order in which they stand."""

    metadata: Metadata
    nodes: Iterator[Node]


def read(path: str | PathLike[str]) -> Trace:
    """The trace in a file; nodes are read as they are asked for. Raises InputError, also while they are read."""
    messages = _messages(str(path))
    first = next(messages, None)
    if first is None:
        raise InputError("is empty", file=str(path), allowed="a Chakra trace")
    return Trace(_parsed(Metadata, str(path), *first), (_parsed(Node, str(path), *each) for each in messages))


def write(path: str | PathLike[str], nodes: Iterable[Node], metadata: Metadata | None = None) -> None:
    """Write a trace; without `metadata`, one that only says its version."""
    first = bytes(Metadata(VERSION) if metadata is None else metadata)
    with Path(path).open("wb") as stream:
        for data in chain([first], map(bytes, nodes)):
            stream.write(as_varint(len(data)) + data)


def _parsed(kind: type[M], path: str, at: int, data: bytes) -> M:
    try:
        return kind.parse(data)
    except WireError as error:
        raise _fault(path, at, str(error)) from error


def _messages(path: str) -> Iterator[tuple[int, bytes]]:
    """The messages of a file, and the byte at which each begins."""
    at = 0
    try:
        with Path(path).open("rb") as plain:
            packed = plain.peek(2)[:2] == _GZIP
            stream: BinaryIO = io.BufferedReader(gzip.GzipFile(fileobj=plain)) if packed else plain
            while head := _head(stream):
                length, _ = varint(head, 0)
                data = stream.read(min(length, MAX_MESSAGE))
                if len(data) < length:
                    raise WireError(f"has a message of {length} bytes, and {len(data)} are left", at)
                yield at, data
                at += len(head) + length
    except FileNotFoundError as error:
        raise InputError(f"no such file{_neighbour(Path(path))}", file=path) from error
    except IsADirectoryError as error:
        raise InputError("is a folder", file=path, allowed="a Chakra trace") from error
    except (WireError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _fault(path, at, str(error)) from error
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise InputError(f"cannot be read: {getattr(error, 'strerror', None) or error}", file=path) from error


def _head(stream: BinaryIO) -> bytes:
    """The varint in front of a message; nothing at the end of the file."""
    head = b""
    while byte := stream.read(1):
        head += byte
        if byte[0] < 0x80 or len(head) == 10:
            break
    return head


def _neighbour(path: Path) -> str:
    try:
        return closest(path.name, [each.name for each in path.parent.iterdir() if each.suffix == path.suffix])
    except OSError:
        return ""


def _fault(path: str, at: int, problem: str) -> InputError:
    return InputError(f"is no Chakra trace, or is damaged: it {problem} (byte {at})", file=path)
