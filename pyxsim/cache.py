"""A cache on disk: of proofs that succeeded, and of other results.

The folder is $PYXSIM_CACHE if it is set (empty: no cache), else pyxsim/ in $XDG_CACHE_HOME or ~/.cache. If it cannot be
read or written, everything is computed again. The key of a proof is the SHA-256 of everything that it depends on.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np


def recall(kind: str, name: str) -> str | None:
    """Return the text stored under a name, or None; `kind` is its folder."""
    data = recall_bytes(kind, name)
    try:
        return None if data is None else data.decode("utf-8")
    except ValueError:
        return None


def remember(kind: str, name: str, text: str) -> None:
    """Store a text under a name."""
    remember_bytes(kind, name, text.encode("utf-8"))


def recall_bytes(kind: str, name: str) -> bytes | None:
    """Return the bytes stored under a name, or None; their file is then the last used one of its folder."""
    folder = _folder(kind)
    try:
        data = None if folder is None else (folder / name).read_bytes()
    except (OSError, ValueError):
        return None
    if folder is not None:
        with suppress(OSError):
            os.utime(folder / name)
    return data


def remember_bytes(kind: str, name: str, data: bytes) -> None:
    """Store bytes under a name."""
    folder = _folder(kind)
    if folder is None:
        return
    # Written under another name first: other processes never see a partial file.
    draft = folder / f"{name}.{os.getpid()}"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            draft.write_bytes(data)
            draft.replace(folder / name)
        finally:
            draft.unlink(missing_ok=True)


def trim(kind: str, most: int) -> None:
    """Remove the least recently used files of a folder until at most so many bytes are left."""
    folder = _folder(kind)
    if folder is None:
        return
    found = []
    with suppress(OSError):
        for path in folder.iterdir():
            with suppress(OSError):  # removed by another process
                state = path.stat()
                found.append((state.st_mtime_ns, state.st_size, path))
    left = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if left <= most:
            break
        with suppress(OSError):
            path.unlink()
        left -= size


def _folder(kind: str) -> Path | None:
    chosen = os.environ.get("PYXSIM_CACHE")
    if chosen is not None:
        return Path(chosen) / kind if chosen else None
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        return None  # the user has no home folder
    return Path(home) / "pyxsim" / kind


class Proofs:
    """The proofs of one kind that succeeded, in this process or another one.

    Parameters
    ----------
    folder
        The folder of their files.
    text
        The content of each file; any other content is no proof.
    code
        The source files of the prover; a change of them invalidates all proofs.
    """

    def __init__(self, folder: str, text: str, code: Sequence[Path]) -> None:
        self._folder, self._text, self._code = folder, text, code
        self._proved: set[str] = set()
        self._prover = ""

    def key(self, **parts: object) -> str:
        """Return the key of a proof from arrays and other values that it depends on."""
        digest = hashlib.sha256(self._prover_text().encode())
        for name, value in parts.items():
            if isinstance(value, np.ndarray):
                digest.update(f"{name} {value.dtype} {value.shape} ".encode())
                digest.update(np.ascontiguousarray(value).data)
            else:
                digest.update(f"{name} {value!r} ".encode())
        return digest.hexdigest()

    def known(self, name: str) -> bool:
        """Return whether a proof has succeeded before."""
        if name not in self._proved and recall(self._folder, name) == self._text:
            self._proved.add(name)
        return name in self._proved

    def remember(self, name: str) -> None:
        """Store that a proof has succeeded."""
        self._proved.add(name)
        remember(self._folder, name, self._text)

    def forget(self) -> None:
        """Clear the proofs of this process, not those on disk."""
        self._proved.clear()

    def _prover_text(self) -> str:
        """The digest of the source of the prover."""
        if not self._prover:
            digest = hashlib.sha256()
            try:
                for file in self._code:
                    digest.update(file.read_bytes())
                self._prover = digest.hexdigest()
            except OSError:
                self._prover = f"{os.getpid()}"  # without its source only proofs of this process count
        return self._prover
