"""The provenance of a result, in every file: version, time, libraries."""

from __future__ import annotations

import datetime
import functools
import hashlib
import platform
import subprocess
import tomllib
from pathlib import Path

import h5py
import numpy as np

from pyxsim import __version__
from pyxsim.settings.toml import to_toml

PROVENANCE = ("source", "version", "created", "python", "numpy", "h5py", "platform", "commit")
"""Keys of the provenance. Two runs of one experiment may differ in all of them."""


def provenance() -> dict[str, str]:
    """Return source, version, created (UTC, ISO 8601), python, numpy, h5py, platform, and commit in a git tree."""
    record = {
        "source": f"pyxsim {__version__}",
        "version": __version__,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "h5py": h5py.__version__,
        "platform": platform.platform(),
    }
    commit = _commit(Path(__file__).resolve().parents[2])
    return {**record, "commit": commit} if commit else record


def sha256(text: str) -> str:
    """Return the hexadecimal digest of a text in UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()


def settings_sha256(experiment: str) -> str:
    """Return the digest of an experiment as TOML without its table [run], which does not change results."""
    try:
        tables = tomllib.loads(experiment)
        tables.pop("run", None)
        return sha256(to_toml(tables))
    except (ValueError, TypeError):  # not written by pyxsim
        return sha256(experiment)


@functools.cache
def _commit(root: Path) -> str:
    """The git description of the source tree, "-dirty" if it has changes; "" for an installed package."""
    if not (root / ".git").exists():
        return ""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--tags"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
