"""What was found out before, in this process or another one: small texts in small files.

They lie in a folder: $PYXSIM_CACHE if it is set (empty: none), else pyxsim/ in $XDG_CACHE_HOME or ~/.cache. A folder
that cannot be read or written only means that all is found out again.

Of a proof it is remembered that it succeeded, under the SHA-256 of all that it depends on.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np


def recall(kind: str, name: str) -> str | None:
    """The text that was remembered under a name; `kind`: the folder of such texts."""
    folder = _folder(kind)
    try:
        return None if folder is None else (folder / name).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None


def remember(kind: str, name: str, text: str) -> None:
    """Keep a text under a name."""
    folder = _folder(kind)
    if folder is None:
        return
    # Written under another name first: others never see half of a file.
    draft = folder / f"{name}.{os.getpid()}"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            draft.write_text(text, encoding="utf-8")
            draft.replace(folder / name)
        finally:
            draft.unlink(missing_ok=True)


def _folder(kind: str) -> Path | None:
    told = os.environ.get("PYXSIM_CACHE")
    if told is not None:
        return Path(told) / kind if told else None
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        return None  # nobody's home
    return Path(home) / "pyxsim" / kind


class Proofs:
    """Proofs of one kind that succeeded, in this process or another one.

    `folder`: of their files; `text`: what is in each, anything else is no proof; `code`: the files that prove, any
    change of which makes all proofs unknown.
    """

    def __init__(self, folder: str, text: str, code: Sequence[Path]) -> None:
        self._folder, self._text, self._code = folder, text, code
        self._proved: set[str] = set()
        self._prover = ""

    def key(self, **parts: object) -> str:
        """The name of a proof, of arrays and of what has a text of its own."""
        digest = hashlib.sha256(self._prover_text().encode())
        for name, value in parts.items():
            if isinstance(value, np.ndarray):
                digest.update(f"{name} {value.dtype} {value.shape} ".encode())
                digest.update(np.ascontiguousarray(value).data)
            else:
                digest.update(f"{name} {value!r} ".encode())
        return digest.hexdigest()

    def known(self, name: str) -> bool:
        """Whether the proof was made before."""
        if name not in self._proved and recall(self._folder, name) == self._text:
            self._proved.add(name)
        return name in self._proved

    def remember(self, name: str) -> None:
        """The proof was made."""
        self._proved.add(name)
        remember(self._folder, name, self._text)

    def forget(self) -> None:
        """Only what is remembered in this process."""
        self._proved.clear()

    def _prover_text(self) -> str:
        """Changes with any line of the code that proves."""
        if not self._prover:
            digest = hashlib.sha256()
            try:
                for file in self._code:
                    digest.update(file.read_bytes())
                self._prover = digest.hexdigest()
            except OSError:
                self._prover = f"{os.getpid()}"  # without its text: nobody else's proofs count
        return self._prover
