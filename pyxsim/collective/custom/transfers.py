"""Transfers: what synthesizers of collectives write, as a schedule.

A synthesizer decides which chunk crosses which link after which. A rank may send a chunk as soon as it has it, and the
transfers of a *lane* leave in the order of the file: a lane is what the file considers one link. Times of the file
order the transfers; they do not enter the schedule, because the simulated network has its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pyxsim.collective.compiled import CompiledSchedule, StepOrigin
from pyxsim.collective.custom.program import MANY, shorter
from pyxsim.collective.explicit_messages import Message, compile_messages
from pyxsim.collective.kinds import Kind
from pyxsim.errors import InputError


class Transfer(NamedTuple):
    """Blocks that move from one rank to another, on one lane of the sender; `reduce` adds them at the receiver."""

    src: int
    dst: int
    blocks: Sequence[int]
    lane: int
    origin: str  # file:line or file: key, for errors
    reduce: bool = False


def compile_transfers(
    kind: Kind, n: int, blocks: int, transfers: Iterable[Transfer], algorithm: str
) -> CompiledSchedule:
    """Return the schedule of transfers in an order in which they could be executed one by one.

    Raises InputError for a transfer of a block that its rank does not have yet.
    """
    run = _Run(kind, n, blocks)
    for number, transfer in enumerate(transfers):
        run.execute(number, transfer)
    return compile_messages(kind, n, run.events, algorithm=algorithm, blocks=blocks, cells=max(run.cells))


class _Run:
    """Executes transfers one by one.

    Attributes
    ----------
    arrived
        For each rank, the events that have brought or changed each block; a block that the rank holds from the start
        has none.
    cells
        How many cells each rank uses. A block that arrives where it is complete already, in another way, gets a cell of
        its own: its bytes cross the network, but nothing uses them.
    """

    def __init__(self, kind: Kind, n: int, blocks: int) -> None:
        self.n = n
        self.events: list[Message] = []
        self.cells = [blocks] * n
        self.arrived: list[dict[int, tuple[int, ...]]] = [{} for _ in range(n)]
        self.waited: defaultdict[tuple[int, int], tuple[int, ...]] = defaultdict(tuple)  # by rank and lane
        per_unit = blocks // kind.units(n)
        for block in range(blocks):
            for rank in kind.start(n, block // per_unit):
                self.arrived[rank][block] = ()
        self.contributes = len(kind.start(n, 0)) == n > 1  # what arrives is added, or replaces a partial result

    def execute(self, number: int, transfer: Transfer) -> None:
        src, dst, blocks, lane, origin, reduce = transfer
        here, there = self.arrived[src], self.arrived[dst]
        for block in blocks:
            if block not in here:
                raise InputError(f"rank {src} sends block {block} to rank {dst}, but does not have it", file=origin)
        before = dict.fromkeys(self.waited[src, lane])
        before.update(dict.fromkeys(event for block in blocks for event in here[block]))
        waits = tuple(before)
        if len(waits) > MANY:
            waits = (self._event(Message(src, src, waits=waits)),)
        self.waited[src, lane] = waits
        puts = [self._cell(dst, block) if block in there and not self.contributes else block for block in blocks]
        written = StepOrigin(number, "", origin)
        way = shorter(src, dst, self.n)
        event = self._event(Message(src, dst, blocks, puts, reduce, waits, way, written=written))
        for block, put in zip(blocks, puts, strict=True):
            if put == block:
                there[block] = (*there.get(block, ()), event) if reduce else (event,)

    def _cell(self, rank: int, block: int) -> int:
        self.cells[rank] += 1
        return self.cells[rank] - 1

    def _event(self, message: Message) -> int:
        self.events.append(message)
        return len(self.events) - 1
