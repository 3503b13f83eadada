"""The key of a point: a hash of everything that its result depends on. A point with a known key need not run again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import file_digest
from pathlib import Path

from pyxsim import __version__
from pyxsim.library import SHELVES, shelf_dirs
from pyxsim.results.provenance import sha256
from pyxsim.settings import Experiment, resolved_toml
from pyxsim.settings.run import Run

_LONGEST = 4096  # a longer text is not a file name


@dataclass
class Keys:
    """Computes keys from the resolved settings without [run], the backend, the version, and the contents of the files
    that the settings name and of the user's shelves. `folder`: start of relative paths."""

    folder: Path
    backend: str
    libraries: Sequence[str] = ()
    allow_deadlock: bool = False
    _digests: dict[Path, str] = field(default_factory=dict)
    _files: dict[str, dict[str, str]] = field(default_factory=dict)
    _shelves: list[str] | None = None

    def key(self, experiment: Experiment, backend: str | None = None) -> str:
        """Return the key, a SHA-256 in hexadecimal digits. `backend`: of this point, if it is swept."""
        settings = resolved_toml(experiment.model_copy(update={"run": Run(allow_oom=experiment.run.allow_oom)}))
        files: dict[str, str] = {}
        for text in set(_texts(experiment.model_dump())):
            if text not in self._files:
                self._files[text] = {name: self._digest(path) for name, path in self._named(text)}
            files |= self._files[text]
        context = [__version__, backend or self.backend, self.allow_deadlock, self._own()]
        return sha256(json.dumps([settings, files, context], sort_keys=True))

    def _named(self, text: str) -> Iterator[tuple[str, Path]]:
        """The files that a setting names: by path, or by prefix as for traces."""
        if not text or "\0" in text or len(text) > _LONGEST:
            return
        path = self.folder / text
        try:
            if path.is_file():
                yield text, path
            elif path.name and path.parent.is_dir():
                pattern = path.name if "*" in path.name else f"{path.name}.*.et*"
                yield from ((f"{text}: {file.name}", file) for file in path.parent.glob(pattern) if file.is_file())
        except (OSError, ValueError):
            return  # its reader reports the error

    def _digest(self, path: Path) -> str:
        if path not in self._digests:
            with path.open("rb") as file:
                self._digests[path] = file_digest(file, "sha256").hexdigest()
        return self._digests[path]

    def _own(self) -> list[str]:
        """The contents of the user's shelves."""
        if self._shelves is None:
            shipped = {folder for shelf in SHELVES for folder in shelf_dirs(shelf)}
            folders = [
                shelf_dir
                for shelf in SHELVES
                for shelf_dir in shelf_dirs(shelf, self.libraries)
                if shelf_dir not in shipped
            ]
            files = sorted(path for folder in folders for path in folder.rglob("*") if _is_source(path))
            self._shelves = [f"{path.name} {self._digest(path)}" for path in files]
        return self._shelves


def _is_source(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, Iterable) and not isinstance(value, bytes):
        for item in value:
            yield from _texts(item)
