"""The processes of a run with MPI, and what they exchange (docs/threads.md).

All ranks execute the same calls in the same order, so every method is called by all of them.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.errors import InputError

LOOKS = 100  # some 50 us; then a waiting process yields, and at last it sleeps, as others may need its core
YIELDS = 1000
SLEEP = 50e-6
STARTED = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")  # where launchers tell how many processes they have started
Values = NDArray[Any]
_yield: Callable[[], None] = getattr(os, "sched_yield", partial(time.sleep, 0))  # macOS has none


class MpiWorld:
    """All processes of a run.

    Attributes
    ----------
    rank, size
        The number of this process, and how many there are.
    messages, bytes
        Sent by this process so far.
    seconds
        Spent in exchanges.
    """

    def __init__(self, mpi: Any) -> None:
        self._mpi, self._comm = mpi, mpi.COMM_WORLD.Dup()
        self.rank, self.size = self._comm.rank, self._comm.size
        self.messages = self.bytes = 0
        self.seconds = 0.0

    def exchange(self, mails: Sequence[memoryview]) -> list[Any]:
        """Send a mail to every rank and return theirs, by rank; the mail for this rank is returned as it is."""
        begin = time.perf_counter()
        byte, others = self._mpi.BYTE, [rank for rank in range(self.size) if rank != self.rank]
        requests = [self._comm.Isend([mails[rank], byte], rank) for rank in others]
        received: list[Any] = [mails[self.rank]] * self.size
        for rank in others:
            received[rank] = self._receive(rank)
        self._wait(lambda: self._mpi.Request.Testall(requests))
        self.messages += len(others)
        self.bytes += sum(mails[rank].nbytes for rank in others)
        self.seconds += time.perf_counter() - begin
        return received

    def _receive(self, rank: int) -> bytearray:
        status = self._mpi.Status()
        message = self._wait(lambda: self._comm.Improbe(rank, status=status))
        mail = bytearray(status.Get_count(self._mpi.BYTE))
        self._wait(message.Irecv([mail, self._mpi.BYTE]).Test)
        return mail

    def _wait(self, look: Any) -> Any:
        """Call `look` until it returns something true, and return that."""
        turn = 0
        while not (found := look()):
            turn += 1
            if turn > LOOKS + YIELDS:
                time.sleep(SLEEP)
            elif turn > LOOKS:
                _yield()
        return found

    def sum(self, values: Values) -> Values:
        """Return the sums over all ranks."""
        return self._combined(values, self._mpi.SUM)

    def max(self, values: Values) -> Values:
        """Return the maxima over all ranks."""
        return self._combined(values, self._mpi.MAX)

    def _combined(self, values: Values, how: Any) -> Values:
        total = np.empty_like(values)
        request = self._comm.Iallreduce(np.ascontiguousarray(values), total, how)
        self._wait(request.Test)
        return total

    def gather(self, entries: list[Any]) -> list[Any]:
        """Return the entries of all ranks, by rank."""
        mails = self.exchange([memoryview(pickle.dumps(entries))] * self.size)
        return [entry for mail in mails for entry in pickle.loads(mail)]

    def agree(self, code: int, patience: float | None = None) -> list[int] | None:
        """Return the exit codes of all ranks; None if some have not ended after `patience` seconds."""
        codes = np.zeros(self.size, np.int64)
        request = self._comm.Iallgather(np.array([code], np.int64), codes)
        end = None if patience is None else time.monotonic() + patience
        while not request.Test():
            if end is not None and time.monotonic() > end:
                return None
            time.sleep(SLEEP)
        return [int(code) for code in codes]

    def abort(self, code: int) -> None:
        """End all ranks."""
        self._comm.Abort(code)


@cache
def mpi_world() -> MpiWorld:
    """Return the processes of this run. Raises InputError without MPI."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: it finds no MPI library
        what = "mpi4py is not installed" if isinstance(error, ModuleNotFoundError) else "mpi4py finds no MPI library"
        raise InputError(what, key="--mpi", allowed="after pip install 'pyxsim[mpi]'") from error
    world = MpiWorld(MPI)
    started = max(int(os.environ.get(name, "1")) for name in STARTED)
    if world.size == 1 < started:
        problem = f"{started} processes were started, but each is alone for mpi4py ({MPI.get_vendor()[0]})"
        raise InputError(problem, key="--mpi", allowed="the mpiexec of the MPI library that mpi4py uses")
    return world
