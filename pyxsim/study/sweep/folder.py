"""The folder of a sweep for the process that fills it: locked, with a journal, every file complete at any time."""

from __future__ import annotations

import datetime
import fcntl
import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyxsim.errors import InputError
from pyxsim.paths import make_folder
from pyxsim.results.hdf5 import check_writable, put_file
from pyxsim.results.sweep import FORMAT, JOURNAL, MANIFEST, POINTS, read_manifest
from pyxsim.study.sweep.task import Outcome

LOCK, LOG = ".lock", "workers.log"
_PARTS = ".pyxsim-*.part"  # remains of a file that was being written
START, DONE, FOUND, FAILED, BEGIN, END = "start", "done", "found", "failed", "begin", "end"


class Folder:
    """Open and lock the folder for one sweep, until its process ends. Raises InputError."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._check()
        self._lock = self._locked()
        self._journal = -1
        for stale in [*self.path.glob(_PARTS), *(self.path / POINTS).glob(_PARTS)]:
            stale.unlink(missing_ok=True)

    def _check(self) -> None:
        """Raise InputError unless the folder is writable and holds only a sweep."""
        if self.path.exists() and not self.path.is_dir():
            problem = "is a file; a sweep writes a folder"
            raise InputError(problem, file=os.fspath(self.path), key="-o", allowed="the name of a folder")
        try:
            strange = (
                self.path.is_dir() and not self.manifest and any(not _ours(entry) for entry in self.path.iterdir())
            )
            if strange:
                problem = "is a folder with other files, and does not contain a sweep"
                raise InputError(
                    problem, file=os.fspath(self.path), key="-o", allowed="a new folder, or the folder of a sweep"
                )
            make_folder(self.path)
            make_folder(self.path / POINTS)
        except OSError as error:
            problem = f"cannot be written: {os.strerror(error.errno or 0)}"
            raise InputError(problem, file=os.fspath(self.path), key="-o") from error
        check_writable(self.path / MANIFEST)
        check_writable(self.path / POINTS / "a")

    def _locked(self) -> int:
        """Lock the folder; the operating system releases the lock when the process ends."""
        lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            problem = "another sweep is running in this folder"
            raise InputError(
                problem, file=os.fspath(self.path), key="-o", allowed="another folder, or wait until it ends"
            ) from error
        return lock

    def close(self) -> None:
        """Release the lock."""
        if self._journal >= 0:
            os.close(self._journal)
            self._journal = -1
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        log = self.path / LOG
        if log.exists() and not log.stat().st_size:
            log.unlink()

    @property
    def log(self) -> Path:
        """The file of the output of workers."""
        return self.path / LOG

    @property
    def manifest(self) -> dict[str, Any]:
        """Return the manifest of the last sweep; empty for a new folder. Raises InputError for an invalid one."""
        return read_manifest(self.path) if (self.path / MANIFEST).exists() else {}

    def want(self, manifest: Mapping[str, Any]) -> None:
        """Write the manifest of this sweep."""
        text = json.dumps({"format": FORMAT, **manifest}, indent=1)
        put_file(self.path / MANIFEST, (text + "\n").encode())

    # Points

    def result(self, key: str) -> Path:
        """The file of a result."""
        return self.path / POINTS / f"{key}.h5"

    def failure(self, key: str) -> Path:
        """Return the file with the reason of a failure."""
        return self.path / POINTS / f"{key}.json"

    def keys(self) -> set[str]:
        """Return the keys of all completed or failed points, of this sweep and earlier ones."""
        return {path.stem for path in (self.path / POINTS).iterdir() if path.suffix in (".h5", ".json")}

    def settle(self, key: str, outcome: Outcome, tries: int) -> None:
        """Store the outcome of a point, then log it in the journal."""
        if outcome.image is not None:
            put_file(self.result(key), outcome.image)
            self.failure(key).unlink(missing_ok=True)
            self.note(DONE, key=key)
            return
        failure = {"reason": outcome.reason, "kind": outcome.kind, "final": outcome.final, "tries": tries, "key": key}
        put_file(self.failure(key), (json.dumps(failure, indent=1) + "\n").encode())
        self.note(FAILED, key=key, kind=outcome.kind)

    def forget_accidents(self) -> None:
        """Forget failures that may not recur; those of the simulated system would."""
        for path in (self.path / POINTS).glob("*.json"):
            try:
                final = json.loads(path.read_text(encoding="utf-8"))["final"]
            except (OSError, ValueError, KeyError, TypeError):
                final = False  # its cause is not known
            if not final:
                path.unlink(missing_ok=True)

    # The journal

    def note(self, event: str, **more: Any) -> None:
        """Append a line to the journal and flush it."""
        if self._journal < 0:
            self._journal = os.open(self.path / JOURNAL, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            size = os.fstat(self._journal).st_size
            if size and os.pread(self._journal, 1, size - 1) != b"\n":
                os.write(self._journal, b"\n")  # the last line was cut off
        at = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        os.write(self._journal, (json.dumps({"at": at, "event": event, **more}) + "\n").encode())

    def note_found(self) -> None:
        """Return points with a file but no journal entry: the sweep was killed between the two."""
        ended = journal(self.path)
        for key in sorted(path.stem for path in (self.path / POINTS).glob("*.h5")):
            if not ended[DONE, key] + ended[FOUND, key]:
                self.note(FOUND, key=key)


def journal(folder: Path) -> Counter[tuple[str, str]]:
    """Return the number of entries of each (key, event); truncated lines do not count."""
    counts: Counter[tuple[str, str]] = Counter()
    file = folder / JOURNAL
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else ():
        try:
            row = json.loads(line)
            counts[row["event"], row.get("key", "")] += 1
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
    return counts


def _ours(path: Path) -> bool:
    return path.name in (POINTS, LOCK, LOG, JOURNAL)
