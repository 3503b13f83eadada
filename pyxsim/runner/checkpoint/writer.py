"""Writes checkpoints of a run: when their time has come, and where the run can be taken up again."""

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
from pyxsim.runner.prepare import Prepared, PreparedTraffic
from pyxsim.settings import resolved_toml

SHARE = 0.01  # of a run's time that its checkpoints take, at most: who takes long to write is written less often


@dataclass
class CheckpointWriter:
    """Keeps the last checkpoint of a run in a file.

    `every`: seconds from one to the next, more where writing takes long. `libraries`: folders that the run has files
    from. `told`: what whoever resumes it wants to know, and pickle can write; `about`: the same for people.
    `stopping`: whether the run is to be left: then there is a last checkpoint, and a KeyboardInterrupt.
    """

    path: str
    every: float
    libraries: Iterable[str] = ()
    told: Any = None
    about: dict[str, Any] = field(default_factory=dict)
    stopping: Callable[[], bool] = bool
    complain: Callable[[str], object] = str  # is told why there is none
    written: int = 0  # checkpoints

    def __post_init__(self) -> None:
        self._begin = time.process_time()
        self._due = time.monotonic() + self.every

    def over(self, prepared: Prepared | PreparedTraffic) -> None:
        """From now on, of this run."""
        self._prepared = prepared
        self._begin = time.process_time()
        self._shelves = file.shelves(self.libraries)
        prepared.network.pause = self.look

    def look(self) -> None:
        """Write one, if it is time."""
        stop = self.stopping()
        if stop or time.monotonic() >= self._due:
            self.write()
        if stop:
            raise KeyboardInterrupt

    def write(self) -> None:
        """Write one now. Where that is impossible the last one stays, and the run goes on."""
        begin = time.monotonic()
        on = gc.isenabled()
        gc.disable()  # what is made meanwhile is not garbage
        try:
            file.write(self.path, self._head(), (self._prepared, self.told))
            self.written += 1
        except OSError as error:
            self.complain(f"{self.path}: the checkpoint cannot be written: {error.strerror or error}")
        except (pickle.PicklingError, AttributeError, TypeError) as error:  # a function of a user's file, mostly
            self.complain(f"{self.path}: this run has no checkpoints: {error}")
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
            "cpu_s": prepared.past.cpu_s + time.process_time() - self._begin,
            "resumed": prepared.past.resumed,
            "experiment": resolved_toml(prepared.experiment),
            "libraries": [os.path.abspath(folder) for folder in self.libraries],
            "shelves": self._shelves,
            **self.about,
        }

    def forget(self) -> None:
        """The run has come to its end: nobody will resume it."""
        for name in (self.path, file.part_of(self.path)):
            with suppress(OSError):
                os.unlink(name)
