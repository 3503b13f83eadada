"""Reads the tables of an export. The file is data: it is opened read-only, and only plain tables are read.

Sources: NVIDIA, "SQLite Export Schema Reference"; for the payloads of NCCL's ranges, the tables of exports with
--include-blobs and the tool nsys-ai (the header of `binaryData`: domain, schema, bytes, offset, 8 bytes each).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from urllib.parse import quote

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.errors import InputError
from pyxsim.paths import missing

SIGNATURE = b"SQLite format 3\0"
_KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
_COPIES = {"CUPTI_ACTIVITY_KIND_MEMCPY": "memcpy", "CUPTI_ACTIVITY_KIND_MEMSET": "memset"}
_NEEDED = ("start", "end", "deviceId", "streamId")
_PID, _24_BITS = 24, 0xFFFFFF  # where a global identifier has the process
_LEAST_ROW = 8  # bytes of a row with four columns
_HEADER = 32  # bytes of a payload before its values
_NCCL = ("AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce")
_MOST_NS = 2**61
_TEXT = "a file of `nsys export --type sqlite`"


@dataclass(frozen=True)
class Activities:
    """What the GPUs did, one row each: kernels, copies and fills.

    `start`, `end` in ns; `process` the pid, 0 if unknown; `name` a row of `names`.
    """

    start: IntArray
    end: IntArray
    device: IntArray
    process: IntArray
    stream: IntArray
    name: IntArray
    names: list[str]


@dataclass(frozen=True)
class Message:
    """A call of NCCL: bytes of an NPU's message as NCCL counts them, the communicator, and the root if it has one."""

    size: int
    communicator: int
    root: int = 0


def is_nsight(name: str) -> bool:
    """Return whether a file is an SQLite database."""
    try:
        with Path(name).open("rb") as stream:
            return stream.read(len(SIGNATURE)) == SIGNATURE
    except (OSError, ValueError):
        return False


class Export:
    """An open export."""

    def __init__(self, connection: sqlite3.Connection, file: str) -> None:
        self._connection, self.file = connection, file
        self._most_rows = Path(file).stat().st_size // _LEAST_ROW
        rows = connection.execute("SELECT name, type, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")
        plain = {name for name, kind, sql in rows if kind == "table" and str(sql).upper().startswith("CREATE TABLE")}
        self._columns = {
            name: {str(row[1]) for row in connection.execute(f"PRAGMA table_info({_quoted(name)})")}
            for name in plain & {_KERNELS, *_COPIES, "StringIds", "NVTX_EVENTS", "NVTX_PAYLOAD_SCHEMA_ENTRIES"}
        }
        if _KERNELS not in self._columns or "StringIds" not in self._columns:
            raise InputError(f"has no tables {_KERNELS} and StringIds", file=file, allowed=_TEXT)

    def activities(self) -> Activities:
        """Return what the GPUs did. Raises InputError for rows that are not numbers or end before they start."""
        names: dict[str, int] = {}
        blocks = [self._rows(_KERNELS, names, None)]
        blocks += [self._rows(table, names, name) for table, name in _COPIES.items() if table in self._columns]
        rows = np.concatenate(blocks, axis=0)
        wrong = (rows[:, 0] < 0) | (rows[:, 1] < rows[:, 0]) | (rows[:, 1] > _MOST_NS)
        if wrong.any():
            start, end = rows[int(wrong.argmax()), :2].tolist()
            raise InputError(f"an activity from {start} to {end} ns", file=self.file, allowed="0 <= start <= end")
        if not len(rows):
            raise InputError("has no activity of a GPU", file=self.file, allowed="a trace with --trace=cuda")
        start, end, device, process, stream, name = rows.T.copy()
        return Activities(start, end, device, process, stream, name, list(names))

    def _rows(self, table: str, names: dict[str, int], name: str | None) -> IntArray:
        """The rows of a table: start, end, device, process, stream, name."""
        columns = self._columns[table]
        if lost := [column for column in _NEEDED if column not in columns]:
            raise InputError(f"table {table} has no column {lost[0]}", file=self.file, allowed=_TEXT)
        process = "globalPid" if "globalPid" in columns else "0"
        label = next((column for column in ("shortName", "demangledName") if column in columns), "0")
        label = label if name is None else "0"
        values = ["start", "end", "deviceId", "streamId", process, label]
        query = ", ".join("0" if value == "0" else f'"{value}"' for value in values)
        source = self._limited(f"SELECT {query} FROM {table}")
        strange = " OR ".join(f"typeof(\"{value}\") <> 'integer'" for value in values if value != "0")
        if self._one(f"SELECT 1 FROM {source} WHERE {strange} LIMIT 1"):
            raise InputError(f"table {table} has values that are not numbers", file=self.file, allowed=_TEXT)
        found = self._connection.execute(f"SELECT * FROM {source}")
        rows = np.fromiter(chain.from_iterable(found), np.int64).reshape(-1, 6)  # holds one row at a time as objects
        if len(rows) > self._most_rows:
            raise InputError(f"table {table} has more rows than fit into the file", file=self.file, allowed=_TEXT)
        ids, which = np.unique(rows[:, 5], return_inverse=True)
        texts = [name or self._string(number) for number in ids.tolist()]
        of_text = np.array([names.setdefault(text, len(names)) for text in texts], np.int64)
        place = of_text[which.ravel()] if len(rows) else rows[:, 5]
        return np.column_stack([*rows[:, :3].T, rows[:, 4] >> _PID & _24_BITS, rows[:, 3], place])

    def _limited(self, query: str) -> str:
        """A query for at most one row more than fit into the file: in a damaged file, rows may have no end."""
        return f"({query} LIMIT {self._most_rows + 1})"

    def messages(self) -> dict[tuple[int, str], list[Message]]:
        """Return the calls of NCCL whose payload the export has, by process and operation, in order of time."""
        columns = self._columns.get("NVTX_EVENTS", set())
        entries = self._columns.get("NVTX_PAYLOAD_SCHEMA_ENTRIES", set())
        if not {"text", "textId", "start", "globalTid", "binaryData"} <= columns or not entries >= {"schemaId", "name"}:
            return {}
        words = ", ".join(f"'nccl{operation}'" for operation in _NCCL)
        rows = self._connection.execute(
            "SELECT n.globalTid, coalesce(n.text, s.value), n.binaryData "
            f"FROM {self._limited('SELECT globalTid, text, textId, binaryData, start FROM NVTX_EVENTS')} n "
            "LEFT JOIN StringIds s ON s.id = n.textId "
            f"WHERE coalesce(n.text, s.value) IN ({words}) AND n.binaryData IS NOT NULL ORDER BY n.start"
        )
        schemas = self._schemas()
        found: dict[tuple[int, str], list[Message]] = {}
        for thread, text, blob in rows:
            message = _decoded(blob, schemas)
            if message is not None and isinstance(thread, int):
                process = thread >> _PID & _24_BITS
                found.setdefault((process, text.removeprefix("nccl")), []).append(message)
        return found

    def _schemas(self) -> dict[int, dict[str, int]]:
        """The offsets of the values of each schema."""
        schemas: dict[int, dict[str, int]] = {}
        entries = self._limited('SELECT schemaId, name, "offset" FROM NVTX_PAYLOAD_SCHEMA_ENTRIES')
        rows = self._connection.execute(f'SELECT schemaId, name, coalesce("offset", 0) FROM {entries}')
        for schema, name, offset in rows:
            if isinstance(schema, int) and isinstance(name, str) and isinstance(offset, int):
                schemas.setdefault(schema, {})[name.lower()] = offset
        return schemas

    def _string(self, number: int) -> str:
        value = self._one("SELECT value FROM StringIds WHERE id = ?", number)
        return value if isinstance(value, str) else f"kernel {number}"

    def _one(self, query: str, *values: int) -> object:
        row = self._connection.execute(query, values).fetchone()
        return None if row is None else row[0]


@contextmanager
def opened(name: str) -> Iterator[Export]:
    """Open an export. Raises InputError for what is not one."""
    if not Path(name).is_file():
        raise missing(name)
    try:
        target = f"file:{quote(str(Path(name).resolve()))}?mode=ro&immutable=1"
        with closing(sqlite3.connect(target, uri=True)) as connection:
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            connection.execute("PRAGMA trusted_schema = OFF")
            yield Export(connection, name)
    except (sqlite3.Error, UnicodeError, OverflowError) as error:
        raise InputError(f"cannot be read: {error}", file=name, allowed=_TEXT) from error
    except MemoryError as error:
        if error.args:  # of NumPy
            raise
        # SQLite's answer to a length of gigabytes in a damaged file.
        raise InputError("cannot be read: a value is too long", file=name, allowed=_TEXT) from error


def _decoded(blob: object, schemas: dict[int, dict[str, int]]) -> Message | None:
    """The message of a payload; None for one that cannot be decoded."""
    try:
        raw = bytes.fromhex(blob) if isinstance(blob, str) else bytes(blob) if isinstance(blob, bytes) else b""
    except ValueError:
        return None
    if len(raw) < _HEADER:
        return None
    _, schema, size, offset = (int(value) for value in np.frombuffer(raw, "<u8", 4))
    payload, entries = raw[offset : offset + size], schemas.get(schema, {})

    def value(name: str, length: int) -> int | None:
        at = entries.get(name)
        if at is None or not 0 <= at <= len(payload) - length:
            return None
        return int.from_bytes(payload[at : at + length], "little")

    bytes_of, communicator = value("message size [bytes]", 8), value("nccl communicator id", 8)
    if not bytes_of or bytes_of > 2**60 or communicator is None:
        return None
    return Message(bytes_of, communicator, value("root", 4) or 0)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
