"""The file of a checkpoint: a readable head, the pickled run, a digest of both, and a signature.

    magic, 20 bytes    "pyxsim checkpoint 2\\n"
    two lengths        of head and run, 8 bytes each, the lowest first
    head               JSON: the version of pyxsim, the time, the cycle, the experiment, the files to write
    run                see object_graph.py
    digest             SHA-256 of head, run and lengths
    signature          HMAC-SHA-256 of the digest with the key of the user, see signing_key.py

It is written beside the last one and takes its name when it is complete and on the disk: at any moment there is a whole
one. Only the pyxsim that wrote it reads it.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import stat
import struct
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import IO, Any

import numpy as np

from pyxsim import __version__, library
from pyxsim.errors import InputError
from pyxsim.runner.checkpoint import object_graph as graph
from pyxsim.runner.checkpoint import signing_key

MAGIC = b"pyxsim checkpoint 2\n"
LENGTHS = struct.Struct("<QQ")
BEGIN = len(MAGIC) + LENGTHS.size
DIGEST = hashlib.sha256().digest_size
TAIL = DIGEST + signing_key.SIZE
BLOCK = 1 << 20
PathLike = str | os.PathLike[str]


def part_of(path: PathLike) -> Path:
    """The name of a checkpoint while it is being written."""
    return Path(f"{os.fspath(path)}.part")


class _Hashed:
    """A file that is being written, with the digest of its data."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.digest = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes | memoryview) -> int:
        """Write data and add it to the digest."""
        self.digest.update(data)
        count = self.file.write(data)
        self.size += count
        return count


def write(path: PathLike, head: dict[str, Any], run: object) -> None:
    """Replace a checkpoint, in one step. Raises OSError, and what pickle raises for a run that holds what it cannot."""
    part = part_of(path)
    try:
        with open(part, "wb", opener=_private) as file:
            file.write(MAGIC + bytes(LENGTHS.size))
            hashed = _Hashed(file)
            hashed.write(json.dumps({**head, "version": __version__, "build": build()}).encode())
            begin = hashed.size
            graph.write(run, hashed)  # type: ignore[arg-type]
            lengths = LENGTHS.pack(begin, hashed.size - begin)
            hashed.digest.update(lengths)
            digest = hashed.digest.digest()
            file.write(digest + signing_key.sign(digest))
            file.seek(len(MAGIC))
            file.write(lengths)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    _on_the_disk(Path(path).resolve().parent)


def _private(path: str, flags: int) -> int:
    """Open a new file that only its owner can read or write."""
    return os.open(path, flags, 0o600)


def _on_the_disk(folder: Path) -> None:
    """Flush the folder: the new name of the file."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def read(path: PathLike) -> tuple[dict[str, Any], Any]:
    """(head, run). Raises InputError for what is no checkpoint, damaged, or another pyxsim's."""
    try:
        with open(path, "rb") as file:
            begin = _check(path, file)
            file.seek(BEGIN)
            head: dict[str, Any] = json.loads(file.read(begin))
            _check_build(path, head)
            library.load_all(head["libraries"])
            if head["shelves"] != shelves(head["libraries"]):
                raise _fault(path, "a file of the shelves has changed since", "the files with which the run began")
            return head, graph.read(file)
    except OSError as error:
        raise _fault(path, f"cannot be read: {error.strerror or error}") from None
    except pickle.UnpicklingError as error:
        raise _fault(path, f"cannot be read: {error}") from None
    except (ImportError, AttributeError) as error:  # a file of a user that was loaded by hand
        remedy = "the folder of the run's library (`libraries`, --library)"
        raise _fault(path, f"cannot be read: {error}", remedy) from None


def _check(path: PathLike, file: IO[bytes]) -> int:
    """Check owner, digest and signature; return the length of the head. Raises InputError."""
    state = os.fstat(file.fileno())
    there = state.st_size
    if file.read(len(MAGIC)) != MAGIC:
        raise _fault(path, "it is not a checkpoint", "a file written by pyxsim run --checkpoint")
    lengths = file.read(LENGTHS.size)
    whole = there >= BEGIN + TAIL
    begin, size = LENGTHS.unpack(lengths) if whole else (0, 0)
    if not whole or begin + size > there - BEGIN - TAIL:
        raise _fault(path, "the end of the checkpoint is missing")
    digest, left = hashlib.sha256(), there - BEGIN - TAIL
    while left:
        block = file.read(min(left, BLOCK))
        digest.update(block)
        left -= len(block)
    digest.update(lengths)
    tail = file.read()
    if begin + size != there - BEGIN - TAIL or tail[:DIGEST] != digest.digest():
        raise _fault(path, "the checkpoint is damaged")
    if state.st_uid != os.geteuid() or stat.S_IMODE(state.st_mode) & 0o022:
        raise _fault(
            path, "other users can write this checkpoint, and resuming it runs code", "a file of your own with mode 600"
        )
    if not signing_key.is_signed(tail[:DIGEST], tail[DIGEST:]):
        problem = "another user wrote this checkpoint, and resuming it runs code"
        raise _fault(path, problem, f"a checkpoint signed with your key, {signing_key.key_path()}")
    return int(begin)


def _check_build(path: PathLike, head: dict[str, Any]) -> None:
    if (head["version"], head["build"]) == (__version__, build()):
        return
    theirs, ours = f"pyxsim {head['version']}, build {head['build']}", f"{__version__}, build {build()}"
    raise _fault(path, f"it was written by {theirs}, but this is {ours}", "the installation that wrote it")


def _fault(path: PathLike, problem: str, allowed: str | None = None) -> InputError:
    return InputError(problem, file=os.fspath(path), allowed=allowed)


@cache
def build() -> str:
    """Return a digest of what a checkpoint depends on: the files of pyxsim, Python and NumPy."""
    folder = Path(__file__).resolve().parents[2]
    files = [file for file in sorted(folder.rglob("*")) if file.suffix in (".py", ".so", ".pyd")]
    digest = hashlib.sha256(f"{sys.version} {np.__version__}".encode())
    return _of_files(files, digest)


def shelves(libraries: Iterable[PathLike]) -> str:
    """Return a digest of the loaded shelf files, shipped or of these folders. Raises InputError for a bad folder."""
    folders_given = [Path(folder) for folder in libraries]
    folders = {folder for shelf in library.SHELVES for folder in library.shelf_dirs(shelf, folders_given)}
    modules = [module for name, module in sys.modules.items() if name.startswith("pyxsim_library.")]
    files = {Path(file) for module in modules if (file := getattr(module, "__file__", None))}
    return _of_files(sorted(file for file in files if file.parent in folders), hashlib.sha256())


def _of_files(files: list[Path], digest: Any) -> str:
    for file in files:
        digest.update(f"{file.name} ".encode())
        digest.update(file.read_bytes())
    return str(digest.hexdigest()[:16])
