"""Mutators of file formats: each takes and returns the bytes of a file."""

from __future__ import annotations

import gzip
import io
import json
import tomllib
from collections.abc import Callable
from random import Random
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from validation.fuzz import mutate

BAD_JSON = ("{", "[" * 100000, "nan", '{"a": NaN}', "[1, 2", '"\\ud800"', "9" * 10000, "", '{"cycles": 1e999}', "null")


def toml(rng: Random, source: bytes) -> bytes:
    """Change the tables of a TOML file."""
    root = mutate.repeated(rng, mutate.tree, tomllib.loads(source.decode()))
    return mutate.written(_toml(root) if isinstance(root, dict) else str(root))


def _toml(root: dict[str, Any]) -> str:
    """Top-level tables get headers, everything else is inline."""
    lines = [f"{_key(key)} = {_inline(value)}" for key, value in root.items() if not isinstance(value, dict)]
    for key, value in root.items():
        if isinstance(value, dict):
            lines += [f"[{_key(key)}]", *(f"{_key(name)} = {_inline(each)}" for name, each in value.items())]
    return "\n".join(lines) + "\n"


def _key(key: object) -> str:
    return json.dumps(str(key), ensure_ascii=False)


def _inline(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_inline(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        depth = 0
        while isinstance(value, list) and len(value) == 1:  # without recursion: lists may be nested thousands deep
            value, depth = value[0], depth + 1
        inside = ", ".join(map(_inline, value)) if isinstance(value, list) else _inline(value)
        return "[" * (depth + isinstance(value, list)) + inside + "]" * (depth + isinstance(value, list))
    if isinstance(value, float):
        return {"nan": "nan", "inf": "inf", "-inf": "-inf"}.get(str(value), repr(value))
    return json.dumps(value, ensure_ascii=False)


def json_(rng: Random, source: bytes) -> bytes:
    """Change the tree of a JSON file, or one line of JSON lines."""
    lines = source.decode().splitlines(keepends=True)
    try:
        root = json.loads(source)
    except ValueError:
        at = rng.randrange(len(lines))
        lines[at] = _dumps(mutate.repeated(rng, mutate.tree, json.loads(lines[at]))) + "\n"
        return mutate.written("".join(lines))
    return mutate.written(_dumps(mutate.repeated(rng, mutate.tree, root)))


def _dumps(root: Any) -> str:
    try:
        return json.dumps(root)
    except RecursionError:
        return "[" * 3000 + "]" * 3000


def text(rng: Random, source: bytes) -> bytes:
    """Change a text file of any other kind."""
    return mutate.written(mutate.repeated(rng, mutate.text, source.decode()))


def protobuf(rng: Random, source: bytes) -> bytes:
    """Change fields of a Chakra trace: messages with their lengths before them."""
    messages = []
    at = 0
    while at < len(source):
        size, at = _varint(source, at)
        messages.append(source[at : at + size])
        at += size
    for _ in range(rng.choice((1, 1, 2, 4))):
        kind, place = rng.randrange(6), rng.randrange(len(messages))
        if kind == 0:
            messages[place] = messages[rng.randrange(len(messages))]
        elif kind == 1 and len(messages) > 1:
            del messages[place]
        else:
            messages[place] = _message(rng, messages[place])
    return b"".join(_as_varint(len(message)) + message for message in messages)


def _message(rng: Random, source: bytes) -> bytes:
    """Change one field; the lengths around it stay right."""
    fields: list[tuple[int, int, Any]] = []
    at = 0
    try:
        while at < len(source):
            tag, at = _varint(source, at)
            if tag & 7 == 0:
                value: Any
                value, at = _varint(source, at)
            else:
                size = {1: 8, 5: 4}.get(tag & 7, -1)
                if size < 0:
                    size, at = _varint(source, at)
                value, at = source[at : at + size], at + size
            fields.append((tag >> 3, tag & 7, value))
    except IndexError:
        return mutate.data(rng, source)
    if not fields:
        return source
    place = rng.randrange(len(fields))
    number, wire, value = fields[place]
    kind = rng.randrange(5)
    if kind == 0:
        fields.insert(place, (rng.choice((number, number + 1, 15)), wire, value))
    elif kind == 1:
        del fields[place]
    elif wire == 0:
        fields[place] = (number, wire, rng.choice(mutate.INTEGERS) & (2**64 - 1))
    elif wire == 2 and rng.random() < 0.6:
        fields[place] = (number, wire, _message(rng, value))
    elif wire == 2:
        fields[place] = (number, wire, mutate.written(str(rng.choice(mutate.TEXTS))))
    else:
        fields[place] = (number, wire, rng.randbytes(len(value)))
    return b"".join(_field(*field) for field in fields)


def _field(number: int, wire: int, value: Any) -> bytes:
    tag = _as_varint(number << 3 | wire)
    if wire == 0:
        return tag + _as_varint(value)
    return b"".join((tag, _as_varint(len(value)) if wire == 2 else b"", value))


def _varint(source: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = source[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _as_varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def npy(rng: Random, source: bytes) -> bytes:
    """Replace a NumPy array by one of another type or shape, or change its header."""
    array: NDArray[Any] = np.load(io.BytesIO(source))
    kind = rng.randrange(8)
    if kind == 0:
        header = source[10:].split(b"\n")[0]
        hostile = (b"(10000000000, 4)", b"(-1, 4)", b"(4, 99999999)", b"(9999999999999999999999,)", b"()", b"(((")
        changed = header.replace(str(array.shape).encode(), rng.choice(hostile))
        return source[:8] + len(changed + b"\n").to_bytes(2, "little") + changed + b"\n" + array.tobytes()
    if kind == 1:
        types = ("V4", "S3", "U2", "O", "c8", "f2", "f8", "u8", "i1", "?", "M8[s]", "<i8, <f4")
        header = str(array.dtype.str).encode()
        changed = source.replace(header, np.dtype(rng.choice(types)).str.encode(), 1)
        return changed if rng.random() < 0.5 else _saved(np.zeros(array.shape, rng.choice(types[:2] + types[4:])))
    if kind == 2:
        out = io.BytesIO()
        np.savez(out, array)
        return out.getvalue()
    if kind == 3:
        return _saved(array.reshape(-1)[: rng.randrange(array.size)])
    if kind == 4:
        values = array.astype(np.float64)
        values.flat[rng.randrange(array.size)] = rng.choice((np.nan, np.inf, -1, 1e308, -0.0))
        return _saved(values)
    if kind == 5:
        values = array.astype(np.uint64)
        values.flat[rng.randrange(array.size)] = rng.choice((2**64 - 1, 2**63, 2**40))
        return _saved(values)
    values = array.astype(np.int64)
    values.flat[rng.randrange(array.size)] = rng.choice([each for each in mutate.INTEGERS if abs(each) < 2**63])
    return _saved(values)


def _saved(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    return out.getvalue()


def hdf5(rng: Random, source: bytes) -> bytes:
    """Change objects of an HDF5 file: attributes, datasets, groups, links."""
    image = io.BytesIO(source)
    with h5py.File(image, "r+") as file:
        for _ in range(rng.choice((1, 1, 2, 4))):
            names: list[str] = []
            file.visit(names.append)
            _object(rng, file, rng.choice(["/", *names]))
    return image.getvalue()


def _object(rng: Random, file: h5py.File, name: str) -> None:
    thing = file[name]
    if rng.random() < 0.5 and len(thing.attrs):
        key = rng.choice(sorted(thing.attrs))
        _attribute(rng, thing, key)
    elif name != "/":
        rng.choice(_LINKS if isinstance(thing, h5py.Group) else (*_LINKS, _dataset, _dataset, _dataset))(
            rng, file, name
        )


def _attribute(rng: Random, thing: Any, key: str) -> None:
    value = thing.attrs[key]
    del thing.attrs[key]
    kind = rng.randrange(6)
    if kind == 0:
        return
    if kind == 1 and isinstance(value, str) and value[:1] in "{[":
        value = _dumps(mutate.repeated(rng, mutate.tree, json.loads(value)))
        thing.attrs[key] = value[:60000]
    elif kind == 2 and isinstance(value, str):
        changed = mutate.text(rng, value)[:60000].replace("\0", "")
        thing.attrs[key] = np.array(mutate.written(changed), dtype=h5py.string_dtype("utf-8"))
    elif kind == 3:
        thing.attrs[key] = rng.choice(BAD_JSON)[:60000]
    elif kind == 4:
        thing.attrs[key] = rng.choice((0, -1, 2.5, np.nan, np.array([1, 2]), np.bytes_(b"\xff\xfe"), h5py.Empty("f4")))
    else:
        thing.attrs.create(key, b"\xed\xa0\x80", dtype=h5py.string_dtype("utf-8"))


def _dataset(rng: Random, file: h5py.File, name: str) -> None:
    data = file[name][()]
    attributes = {key: value for key, value in file[name].attrs.items() if "DIMENSION" not in key and key != "CLASS"}
    shape = np.shape(data)
    others: tuple[Callable[[], Any], ...] = (
        lambda: np.zeros(shape, "f4"),
        lambda: np.full(shape, -1, "i8"),
        lambda: np.full(shape, 2**63, "u8"),
        lambda: np.full(shape, np.nan),
        lambda: np.array(data).reshape(-1)[: max(0, np.size(data) - 1)],
        lambda: np.array(data).reshape(1, *shape),
        lambda: np.zeros(0, "i8"),
        lambda: 7,
        lambda: np.array([b"\xed\xa0\x80"] * 3, dtype=h5py.string_dtype("utf-8")),
        lambda: np.array(["x"] * max(1, len(shape) and shape[0]), dtype=h5py.string_dtype("utf-8")),
        lambda: np.zeros(shape, [("a", "i4"), ("b", "f8")]),
        lambda: h5py.Empty("i8"),
    )
    del file[name]
    made = file.create_dataset(name, data=rng.choice(others)())
    for key, value in attributes.items():
        made.attrs[key] = value


def _removed(rng: Random, file: h5py.File, name: str) -> None:
    del file[name]


def _soft_cycle(rng: Random, file: h5py.File, name: str) -> None:
    del file[name]
    file[name] = h5py.SoftLink(f"/{name}")


def _hard_cycle(rng: Random, file: h5py.File, name: str) -> None:
    parent = file[name].parent
    del file[name]
    file[name] = parent


def _external(rng: Random, file: h5py.File, name: str) -> None:
    del file[name]
    file[name] = h5py.ExternalLink(rng.choice(("/etc/passwd", "other.h5", "result.h5", "/dev/zero")), rng.choice("/x"))


def _moved(rng: Random, file: h5py.File, name: str) -> None:
    file.move(name, rng.choice(("x", f"{name}/x", "cycles", name[:-1] or "y", "x/" * 200 + "x")))


def _group(rng: Random, file: h5py.File, name: str) -> None:
    del file[name]
    file.create_group(name)


def _huge(rng: Random, file: h5py.File, name: str) -> None:
    """A dataset of a terabyte that takes no space in the file."""
    del file[name]
    file.create_dataset(name, shape=(10**9, 1000), dtype="i1", chunks=(1024, 64), compression="gzip")


_LINKS = (_removed, _removed, _soft_cycle, _hard_cycle, _external, _moved, _group, _huge)


def gz(inner: Callable[[Random, bytes], bytes]) -> Callable[[Random, bytes], bytes]:
    """Return a mutator of what a gzip file holds; at times of its bytes."""

    def mutator(rng: Random, source: bytes) -> bytes:
        packed = gzip.compress(inner(rng, gzip.decompress(source)), mtime=0)
        return mutate.data(rng, packed) if rng.random() < 0.2 else packed

    return mutator


MUTATORS: dict[str, Callable[[Random, bytes], bytes]] = {
    "toml": toml,
    "json": json_,
    "jsonl": json_,
    "et": protobuf,
    "et.gz": gz(protobuf),
    "npy": npy,
    "h5": hdf5,
    "checkpoint": mutate.data,
}


def mutated(rng: Random, name: str, source: bytes) -> bytes:
    """Return a changed file: mostly its structure, else its text or its bytes; by the extension of its name."""
    mutator = next((each for end, each in MUTATORS.items() if name.endswith(f".{end}")), text)
    kind = rng.random()
    try:
        if kind < 0.2:
            return mutate.data(rng, source)
        if kind < 0.4 and mutator in (toml, json_):
            return text(rng, source)
        return mutator(rng, source)
    except (ValueError, KeyError, OSError, RuntimeError, RecursionError, TypeError, MemoryError):  # no such change
        return mutate.data(rng, source)
