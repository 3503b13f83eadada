"""Writes the checkpoints of a run, at points from which it can be resumed."""

from __future__ import annotations

import gc
import math
import os
import pickle
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pyxsim.runner.checkpoint import checkpoint_file as file
from pyxsim.runner.prepared import Prepared, PreparedTraffic
from pyxsim.settings import resolved_toml

SHARE = 0.01  # of a run's time that writing checkpoints takes, at most


@dataclass
class CheckpointWriter:
    """Write checkpoints of a run into a file, of which the last one stays.

    Parameters
    ----------
    path
        The file.
    every
        Seconds from one checkpoint to the next, more where writing takes long.
    libraries
        Folders that the run has files from.
    context
        What resuming needs besides the run; it must pickle.
    about
        The same for people, in the head of the file.
    stop_requested
        Whether the run is to stop: it then writes a last checkpoint and raises KeyboardInterrupt.
    warn
        Called with a line where a checkpoint cannot be written.
    """

    path: str
    every: float
    libraries: Iterable[str] = ()
    context: Any = None
    about: dict[str, Any] = field(default_factory=dict)
    stop_requested: Callable[[], bool] | None = None
    warn: Callable[[str], object] = str
    written: int = 0  # checkpoints

    def __post_init__(self) -> None:
        self._begin = time.process_time()
        self._due = time.monotonic() + self.every

    def start(self, prepared: Prepared | PreparedTraffic) -> None:
        """Write checkpoints of this run from now on."""
        self._prepared = prepared
        self._begin = time.process_time()
        self._shelves = file.shelves(self.libraries)

    def write_if_due(self) -> None:
        """Write a checkpoint if it is time. Raises KeyboardInterrupt if the run is to stop."""
        stop = self.stop_requested is not None and self.stop_requested()
        if stop or time.monotonic() >= self._due:
            self.write()
        if stop:
            raise KeyboardInterrupt

    def write(self) -> None:
        """Write a checkpoint now. If that fails the last one stays, and the run continues."""
        begin = time.monotonic()
        on = gc.isenabled()
        gc.disable()  # pickling makes many objects and no cycles
        try:
            file.write(self.path, self._head(), (self._prepared, self.context))
            self.written += 1
        except OSError as error:
            self.warn(f"{self.path}: the checkpoint cannot be written: {error.strerror or error}")
        except (pickle.PicklingError, AttributeError, TypeError) as error:  # mostly a function of a user's file
            self.warn(f"{self.path}: this run writes no checkpoints: {error}")
            self.every = math.inf
        finally:
            if on:
                gc.enable()
        now = time.monotonic()
        self._due = now + max(self.every, (now - begin) / SHARE)

    def _head(self) -> dict[str, Any]:
        prepared = self._prepared
        return {
            "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "cycle": prepared.network.now,
            "cpu_s": prepared.resume_info.cpu_s + time.process_time() - self._begin,
            "resumed": prepared.resume_info.resumed,
            "experiment": resolved_toml(prepared.experiment),
            "libraries": [os.path.abspath(folder) for folder in self.libraries],
            "shelves": self._shelves,
            **self.about,
        }

    def remove(self) -> None:
        """Remove the file: the run has ended."""
        for name in (self.path, file.part_of(self.path)):
            with suppress(OSError):
                os.unlink(name)
