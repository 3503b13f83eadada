"""The files that a run writes when it ends, as the lifecycle and its checkpoints use them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from pyxsim.results.hdf5 import check_writable
from pyxsim.results.result import Result


class RunFiles(Protocol):
    """The files of a run: checked before it begins, written when it has ended."""

    @property
    def file(self) -> str | None:
        """The HDF5 file."""

    @property
    def plot(self) -> str | None:
        """The picture."""

    def placed(self) -> RunFiles:
        """Return the same files with absolute names, for a checkpoint."""

    def from_here(self) -> RunFiles:
        """Return the same files with names relative to the present folder, where they lie below it."""

    def with_file(self, file: str) -> RunFiles:
        """Return the same files with another HDF5 file."""

    def check(self, inputs: Iterable[str] = ()) -> None:
        """Raise InputError unless all can be written, none over an input."""

    def write(self, result: Result) -> str:
        """Write them and return their names as a phrase, "" for none. Raises InputError."""


@dataclass(frozen=True)
class ResultFile:
    """At most the HDF5 file: what a run in Python writes."""

    file: str | None = None
    plot: None = None

    def placed(self) -> ResultFile:
        return self if self.file is None else ResultFile(os.path.abspath(self.file))

    def from_here(self) -> ResultFile:
        return self if self.file is None else ResultFile(os.path.relpath(self.file))

    def with_file(self, file: str) -> ResultFile:
        return ResultFile(file)

    def check(self, inputs: Iterable[str] = ()) -> None:
        if self.file is not None:
            check_writable(self.file)

    def write(self, result: Result) -> str:
        if self.file is not None:
            result.save(self.file)
        return self.file or ""
