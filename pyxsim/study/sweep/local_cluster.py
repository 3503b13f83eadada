"""A Dask cluster on this machine, in processes of its own that end with the sweep, however that ends.

Dask's LocalCluster shares threads and an event loop with the process that starts it; a signal at the wrong moment
leaves both waiting for each other. So another process starts it, in a session of its own, and kills that session as
soon as the sweep closes a pipe, or is killed itself.
"""

from __future__ import annotations

import logging
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from importlib import import_module
from typing import Any

from pyxsim.errors import PyxsimError
from pyxsim.study.sweep.crew import unheard

LOOPBACK = "127.0.0.1"
START_S = 120.0  # to start the workers
_TO_ALL = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_BEGIN = """import sys
sys.path[:] = {path!r}
from pyxsim.study.sweep.local_cluster import main
main({workers}, {address}, {lifeline}, {folder!r})
"""


class LocalCluster:
    """A scheduler and workers of one thread each; `address` is that of the scheduler.

    Raises PyxsimError if the cluster does not start.
    """

    def __init__(self, workers: int) -> None:
        reader, address = os.pipe()
        lifeline, self._lifeline = os.pipe()
        self._folder = tempfile.mkdtemp(prefix="pyxsim-dask-")  # of files that workers write
        code = _BEGIN.format(path=sys.path, workers=workers, address=address, lifeline=lifeline, folder=self._folder)
        with tempfile.TemporaryFile() as errors:
            with unheard(*_TO_ALL):
                self._process = subprocess.Popen(
                    [sys.executable, "-c", code],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    pass_fds=(address, lifeline),
                    start_new_session=True,
                )
            os.close(address)
            os.close(lifeline)
            try:
                self.address = _read(reader)
                if not self.address:
                    errors.seek(0)
                    lines = errors.read().decode("utf-8", "replace").split("\n")
                    last = next((line for line in reversed(lines) if line.strip()), "the start takes too long")
                    raise PyxsimError(f"Dask does not start: {last.strip()[:200]}")
            except BaseException:
                self.close()
                raise
            finally:
                os.close(reader)

    def close(self) -> None:
        """Kill all processes of the cluster."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            shutil.rmtree(self._folder, ignore_errors=True)


def _read(reader: int) -> str:
    """The address that the other process writes; "" if it does not."""
    text = b""
    end = time.monotonic() + START_S
    while select.select([reader], [], [], max(0.0, end - time.monotonic()))[0]:
        part = os.read(reader, 4096)
        if not part:
            break
        text += part
    return text.decode()


def main(workers: int, address: int, lifeline: int, folder: str) -> None:
    """Start the cluster and wait. `address`, `lifeline`: file descriptors to write to, and to watch."""
    threading.Thread(target=_end_with, args=(lifeline, folder), daemon=True).start()
    dask: Any = import_module("dask")
    distributed: Any = import_module("distributed")

    # Report a dead worker at once: the sweep itself counts the retries of a point.
    with dask.config.set({"distributed.scheduler.allowed-failures": 0, "temporary-directory": folder}):
        cluster = distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            host=LOOPBACK,  # what listens elsewhere runs the code of anybody who connects
            dashboard_address=f"{LOOPBACK}:0",
            worker_dashboard_address=f"{LOOPBACK}:0",
            local_directory=folder,
            silence_logs=logging.CRITICAL,
        )
        os.write(address, cluster.scheduler_address.encode())
        os.close(address)
        threading.Event().wait()


def _end_with(lifeline: int, folder: str) -> None:
    """Kill this session as soon as the sweep is gone."""
    os.read(lifeline, 1)  # nothing is written: it returns when the other end is closed
    shutil.rmtree(folder, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)
