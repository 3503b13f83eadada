"""Ranks as coroutines of asyncio over the packet backend: `await` a message, a reception, a computation.

pyxsim leads while all ranks wait: it advances to the next cycle in which one of them can go on.
`python examples/asyncio_ranks.py` prints when each rank of a pipeline ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pyxsim

RANKS, BATCHES = 4, 3
ACTIVATIONS = 64 * 1024  # bytes
COMPUTE = "20 us"


class Ranks:
    """Coroutines that share a simulator, whose time passes while all of them wait."""

    def __init__(self, sim: pyxsim.Simulator) -> None:
        self.sim = sim
        self._running = 0
        self._idle = asyncio.Event()

    async def _until(self, request: Callable[[Callable[[], None]], Any]) -> None:
        """Make a request, and wait until its callback is called."""
        future = asyncio.get_running_loop().create_future()

        def done() -> None:
            self._running += 1
            self.sim.stop()
            future.set_result(None)

        request(done)
        self._waits()
        await future

    def _waits(self) -> None:
        self._running -= 1
        if not self._running:
            self._idle.set()

    async def send(self, src: int, dst: int, size: int, tag: int) -> None:
        """Return when the message has arrived."""
        await self._until(lambda done: self.sim.send(src, dst, size, tag, done))

    async def recv(self, src: int, dst: int, size: int, tag: int) -> None:
        """Return when the message is there."""
        await self._until(lambda done: self.sim.recv(src, dst, size, tag, done))

    async def compute(self, time: str) -> None:
        """Return after a time."""
        await self._until(lambda done: self.sim.schedule(time, done))

    async def run(self, *ranks: Coroutine[Any, Any, int]) -> list[int]:
        """Run coroutines to their ends, and return their results."""
        self._running = len(ranks)

        async def counted(rank: Coroutine[Any, Any, int]) -> int:
            try:
                return await rank
            finally:
                self._waits()

        tasks = [asyncio.ensure_future(counted(rank)) for rank in ranks]
        while True:
            await self._idle.wait()
            self._idle.clear()
            self.sim.advance()
            if not self._running:  # nothing is left to do
                self.sim.check_received()
                return [await task for task in tasks]


async def stage(ranks: Ranks, rank: int) -> int:
    """One stage of a pipeline: receive a batch, compute, hand it on."""
    for batch in range(BATCHES):
        if rank:
            await ranks.recv(rank - 1, rank, ACTIVATIONS, batch)
        await ranks.compute(COMPUTE)
        if rank + 1 < RANKS:
            await ranks.send(rank, rank + 1, ACTIVATIONS, batch)
    return ranks.sim.now


def main() -> list[int]:
    """Return the cycle in which each rank ends."""
    settings = {"network": {"topology": "ring", "shape": [RANKS], "bandwidth": "100 GB/s"}}
    with pyxsim.Simulator(settings) as sim:
        ranks = Ranks(sim)
        return asyncio.run(ranks.run(*(stage(ranks, rank) for rank in range(RANKS))))


if __name__ == "__main__":
    for number, end in enumerate(main()):
        print(f"rank {number} ends at {end:,} ns")
