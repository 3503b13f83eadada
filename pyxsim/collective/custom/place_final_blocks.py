"""The end of a schedule in which every value has a cell of its own: moves each block to the cell of its number.

If no value in cell b was read, the value that ends as block b is written there in the first place. Otherwise one local
step per rank copies its blocks at the end. If a message carries the first value of block b, a copy of that value is
made at the start and sent instead: nothing else ensures that the message leaves before the final copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyxsim.collective.explicit_messages import Message


class _Home:
    """The cells of one rank: renamed, copied at the end, or copied at the start."""

    def __init__(self, wanted: dict[int, int], read: set[int], sent: set[int], cells: int) -> None:
        moving = {block: cell for block, cell in wanted.items() if cell != block}
        self.renamed = {cell: block for block, cell in moving.items() if block not in read}
        self.copied = {cell: block for block, cell in moving.items() if block in read}
        self.aside = {block: cells + number for number, block in enumerate(moving.keys() & sent)}


def place_final_blocks(
    events: Sequence[Message], wanted: Sequence[dict[int, int]], last: Sequence[Iterable[int]], cells: Sequence[int]
) -> tuple[list[Message], int]:
    """Return the messages and the number of cells that they need.

    For each rank: `wanted`, the cells of its blocks at the end, by block; `last`, its last events; `cells`, the number
    of cells of its events.
    """
    read, sent = ([set[int]() for _ in wanted] for _ in range(2))
    for event in events:
        read[event.src].update(event.cells)
        if event.src != event.dst:
            sent[event.src].update(event.cells)
    homes = [_Home(*each) for each in zip(wanted, read, sent, cells, strict=True)]
    aside = {rank: number for number, rank in enumerate(rank for rank, home in enumerate(homes) if home.aside)}
    messages = [Message(rank, rank, list(homes[rank].aside), list(homes[rank].aside.values())) for rank in aside]
    for event in events:
        here, there = homes[event.src], homes[event.dst]
        waits = [len(aside) + wait for wait in event.waits]
        ids = [here.renamed.get(cell, cell) for cell in event.cells]
        if event.src != event.dst and not here.aside.keys().isdisjoint(ids):
            ids = [here.aside.get(cell, cell) for cell in ids]
            waits.append(aside[event.src])
        puts = [there.renamed.get(cell, cell) for cell in event.puts or ()]
        messages.append(event._replace(cells=ids, puts=puts, waits=waits))
    for rank, home in enumerate(homes):
        if home.copied:
            waits = [len(aside) + wait for wait in sorted(last[rank])] + ([aside[rank]] if rank in aside else [])
            messages.append(Message(rank, rank, list(home.copied), list(home.copied.values()), waits=waits))
    return messages, max(used + len(home.aside) for used, home in zip(cells, homes, strict=True))
