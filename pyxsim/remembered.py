"""What was found out before, in this process or another one: small texts in small files.

They lie in a folder: $PYXSIM_CACHE if it is set (empty: none), else pyxsim/ in $XDG_CACHE_HOME or ~/.cache. A folder
that cannot be read or written only means that all is found out again.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


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
