"""The workers of a Dask cluster, remote or started on this machine."""

from __future__ import annotations

import time
from contextlib import suppress
from importlib import import_module
from typing import Any

from pyxsim.errors import InputError
from pyxsim.study.sweep.local_cluster import LocalCluster
from pyxsim.study.sweep.task import DIED, Outcome, Work, carry_out

LOCAL = "local"
CLOSE_S = 3.0
PATIENCE = "30s"


def dask() -> Any:
    """The module `distributed`. Raises InputError if it is not installed."""
    try:
        return import_module("distributed")
    except ImportError as error:
        raise InputError("a cluster requires Dask: pip install pyxsim[dask]", key="--dask") from error


class Cluster:
    """`address`: of a scheduler, such as tcp://node:8786, which must answer at once; or "local": `workers` processes
    here, begun when they are needed. Raises InputError."""

    def __init__(self, address: str, workers: int) -> None:
        self._address, self._workers = address, workers
        self._dask: Any = dask()
        self._running: dict[Any, int] = {}
        self._cluster: Any = None
        self._client: Any = None
        if address != LOCAL:
            try:  # a Client with an invalid address takes a minute to fail
                comm = import_module("distributed.comm")
                comm.get_address_host_port(address if "://" in address else f"tcp://{address}", strict=True)
            except ValueError as error:
                raise _no_scheduler(address, error) from error
            self._connect(address)

    def started(self) -> Cluster:
        """Start the cluster when the first task arrives."""
        if self._client is None:
            self._cluster = LocalCluster(self._workers)
            self._connect(self._cluster.address)
        return self

    def _connect(self, scheduler: Any) -> None:
        try:
            self._client = self._dask.Client(scheduler, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            self.close()
            raise _no_scheduler(self._address, error) from error

    @property
    def begun(self) -> bool:
        return bool(self._client.nthreads())

    def free(self) -> int:
        # As many tasks as workers: a task that waits at a worker would count as a cause of its death.
        threads = sum(self._client.nthreads().values())
        return max(1, int(threads)) - len(self._running)

    def submit(self, number: int, task: Work) -> None:
        future = self._client.submit(carry_out, task, pure=False, key=f"pyxsim-{number}-{time.monotonic_ns()}")
        self._running[future] = number

    def wait(self, seconds: float) -> list[tuple[int, Outcome]]:
        if not self._running:
            time.sleep(seconds)
            return []
        try:
            with self._client.as_current():
                ended = self._dask.wait(list(self._running), timeout=seconds, return_when="FIRST_COMPLETED").done
        except TimeoutError:
            return []
        return [(self._running.pop(future), _outcome(future)) for future in ended]

    def close(self) -> None:
        client, cluster, self._client, self._cluster = self._client, self._cluster, None, None
        try:
            if client is not None:
                with suppress(Exception):  # a scheduler that is gone does not answer
                    client.close(timeout=CLOSE_S)
        finally:
            if cluster is not None:
                cluster.close()


def _no_scheduler(address: str, error: Exception) -> InputError:
    allowed = "local, or the address of a scheduler such as tcp://node:8786"
    return InputError(f"no scheduler at '{address}': {' '.join(str(error).split())}", key="--dask", allowed=allowed)


def _outcome(future: Any) -> Outcome:
    """The outcome of a task. Only the cluster raises: its worker has died, or the task could not be sent."""
    if future.status != "finished":
        error = future.exception() if future.status == "error" else None
        reason = " ".join(str(error).split(". ")[0].split()) if error is not None else f"the task was {future.status}"
        return Outcome(kind=DIED, reason=f"on the cluster: {reason}")
    outcome: Outcome = future.result()
    return outcome
