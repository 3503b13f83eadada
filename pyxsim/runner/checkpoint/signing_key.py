"""The key with which a user's checkpoints are signed.

A checkpoint is a pickle, and reading one runs what it says; so only files that the same user has written are read. The
key is `checkpoint.key` in $PYXSIM_CONFIG, else in pyxsim/ in $XDG_CONFIG_HOME or ~/.config: 32 random bytes that only
the user can read, made with the first checkpoint.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from pathlib import Path

from pyxsim.errors import InputError

NAME = "checkpoint.key"
SIZE = 32  # bytes, also of a signature


def key_path() -> Path:
    """Return the path of the key. Raises InputError for a user without a home folder."""
    chosen = os.environ.get("PYXSIM_CONFIG")
    if chosen:
        return Path(chosen) / NAME
    try:
        folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    except RuntimeError:
        raise InputError(
            "there is no home folder for the key of checkpoints", key="PYXSIM_CONFIG", allowed="a folder"
        ) from None
    return Path(folder) / "pyxsim" / NAME


def sign(digest: bytes) -> bytes:
    """Return the signature of a digest; the first one creates the key. Raises OSError, InputError."""
    path = key_path()
    if not path.exists():
        _create(path)
    return hmac.digest(_read(path), digest, "sha256")


def is_signed(digest: bytes, signature: bytes) -> bool:
    """Return whether the key of this user made a signature. Raises OSError, InputError for a key of others."""
    path = key_path()
    return path.exists() and hmac.compare_digest(hmac.digest(_read(path), digest, "sha256"), signature)


def _create(path: Path) -> None:
    """Write a new key under another name, then link it: of several processes one succeeds, and all use its key."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
    number = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(number, "wb") as file:
            file.write(secrets.token_bytes(SIZE))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            return
        except OSError:  # a file system without hard links
            os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        state = os.fstat(file.fileno())
        key = file.read(SIZE + 1)
    if state.st_uid != os.geteuid() or stat.S_IMODE(state.st_mode) & 0o077:
        raise InputError(
            "other users can read or write this key", file=str(path), allowed="a file of your own with mode 600"
        )
    if len(key) != SIZE:
        raise InputError(
            "is not a key of checkpoints", file=str(path), allowed="remove the file; the next run creates a new one"
        )
    return key
