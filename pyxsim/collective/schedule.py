"""The schedule language: which rank sends which blocks to which, in which order, and what is reduced.

    @collectives.register("star", kinds=("all-reduce",))
    def star(kind, n):
        s = Schedule(kind, n, blocks=1)
        for rank in range(1, n):
            s.send(rank, 0, 0, reduce=True)
        for rank in range(1, n):
            s.send(0, rank, 0)
        return s

The sends are written in an order in which they could be executed one by one. Their dependencies are derived
(see `dependencies`): a send waits for the earlier arrivals, at its rank, of the blocks that it carries.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pyxsim.collective.accesses import ATOMIC, BY, MULTICAST, STORE, SUM
from pyxsim.collective.arrays import I64
from pyxsim.collective.kinds import Kind, get_kind
from pyxsim.errors import InputError


class ScheduleError(InputError):
    """A schedule is wrong.

    Attributes
    ----------
    rank, block
        Where; None if no single one.
    step
        Step of the rank, from 0; None for none.
    missing, duplicate
        Ranks whose contributions are missing or would count twice.
    """

    def __init__(
        self,
        problem: str,
        *,
        rank: int | None = None,
        step: int | None = None,
        block: int | None = None,
        missing: Iterable[int] = (),
        duplicate: Iterable[int] = (),
        **place: Any,
    ) -> None:
        super().__init__(problem, **place)
        self.rank, self.step, self.block = rank, step, block
        self.missing, self.duplicate = tuple(missing), tuple(duplicate)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.problem, dict(vars(self)))


def _rebuild(kind: type[ScheduleError], problem: str, state: dict[str, object]) -> ScheduleError:
    error = kind(problem)
    vars(error).update(state)
    return error


MOST_CARRIED = 2**23  # blocks in all messages of a schedule: 2 GB of arrays, a ring of 2,048 ranks


class Schedule:
    """The messages of one collective on one group of `n` ranks, as an algorithm writes them.

    Parameters
    ----------
    kind
        The collective, by name or as a `Kind`.
    n
        Ranks.
    blocks
        Blocks of the data. Default: n, for all-to-all n*n (block i*n+j goes from rank i to rank j); see `Kind`.
    window
        With w, the k-th send of a rank (from 0) also waits until the rank has received k-w+1 messages, so that at most
        w are unanswered.
    cells
        Storage per rank; default `blocks`. Block b is in cell b. Cells beyond the blocks are scratch space: what `put`
        and `local` store there has the size and meaning of the block that it came from.

    Raises
    ------
    ScheduleError
        If the numbers do not fit the kind.
    """

    def __init__(
        self,
        kind: str | Kind,
        n: int,
        *,
        blocks: int | None = None,
        window: int | None = None,
        cells: int | None = None,
    ) -> None:
        self.kind = get_kind(kind)
        self.n = _whole(n, "the number of ranks")
        self.blocks = self.kind.default_blocks(self.n) if blocks is None else _whole(blocks, "the number of blocks")
        self.window = None if window is None else _whole(window, "a window")
        self.cells = self.blocks if cells is None else _whole(cells, "the number of cells")
        if self.blocks % self.kind.units(self.n):
            raise ScheduleError(
                f"{self.kind.name} on {self.n} ranks cannot be cut into {self.blocks} blocks",
                allowed=f"a multiple of {self.kind.units(self.n)}",
            )
        if self.cells < self.blocks:
            raise ScheduleError(
                f"{self.cells} cells are too few for {self.blocks} blocks", allowed=f"at least {self.blocks}"
            )
        self.steps: list[Step] = []
        self._joins = self._fused = 0
        self._carried = 0  # blocks, by all messages together

    def send(
        self,
        src: int,
        dst: int,
        blocks: int | Iterable[int],
        reduce: bool = False,
        *,
        way: int = +1,
        put: int | Iterable[int] | None = None,
        by: str = "store",
    ) -> None:
        """Send `blocks` from `src` to `dst`, which adds them to its own (`reduce`) or stores them.

        `way`: -1 for a message against the direction of its queue. `put`: the cells of `dst` for the blocks, where they
        are not those of `src`. `by`: "store" of the sender, "load" of the receiver, or "atomic": a store that the
        memory of the receiver adds (with `reduce`).
        """
        ids, puts = _listed(blocks), None if put is None else _listed(put)
        self._write([src], [dst], ids, len(ids), reduce, way=way, put=puts, access=_access(by, reduce=reduce))

    def step(
        self,
        src: npt.ArrayLike,
        dst: npt.ArrayLike,
        blocks: npt.ArrayLike,
        reduce: bool = False,
        *,
        way: int = +1,
        put: npt.ArrayLike | None = None,
        by: str = "store",
    ) -> None:
        """Send independent messages: arrays src[k], dst[k], blocks[k] or blocks[k, per message].

        A single number stands for all k; `put` is like `blocks`, `by` as in `send`. The same as k sends, but
        faster, if no message of the step carries what another one brings.
        """
        sources, destinations, ids = _ints(src), _ints(dst), _ints(blocks)
        count = max(sources.size, destinations.size, len(ids) if ids.ndim else 1)
        shape = (count, ids.shape[1]) if ids.ndim == 2 else (count,)
        sources, destinations = np.broadcast_to(sources, (count,)), np.broadcast_to(destinations, (count,))
        ids = np.broadcast_to(ids, shape)
        puts = None if put is None else np.broadcast_to(_ints(put), shape).ravel()
        per_message, access = ids.size // count, _access(by, reduce=reduce)
        self._write(sources, destinations, ids.ravel(), per_message, reduce, way=way, put=puts, access=access)

    def reduce_in_network(self, ranks: Iterable[int], blocks: int | Iterable[int]) -> None:
        """Let the network add up the blocks of these ranks and deliver the sum to each of them.

        Written as one message from each rank to the next, which arrive together when the last one is there: every link
        between them and a switch carries the blocks once.
        """
        around, ids = _listed(ranks), _listed(blocks)
        if len(around) > 1:
            self._write(around, np.roll(around, -1), np.tile(ids, len(around)), len(ids), False, join=self._joins)
            self._joins += 1

    def load_sum(self, ranks: Iterable[int], dst: int, blocks: int | Iterable[int]) -> None:
        """Let `dst`, one of the ranks, load the sum of the blocks of all ranks from the switch (multimem.ld_reduce).

        Written as one message from each other rank, which `dst` adds; the messages arrive together.
        """
        self._at_switch([rank for rank in ranks if rank != dst], dst, blocks, SUM)

    def multicast(self, src: int, ranks: Iterable[int], blocks: int | Iterable[int]) -> None:
        """Let `src`, one of the ranks, store the blocks to all ranks; the switch copies them (multimem.st).

        Written as one message to each other rank.
        """
        self._at_switch([rank for rank in ranks if rank != src], src, blocks, MULTICAST)

    def _at_switch(self, others: list[int], rank: int, blocks: int | Iterable[int], access: int) -> None:
        ids, of_rank, loads = _listed(blocks), [rank] * len(others), access == SUM
        if others:
            src, dst = (others, of_rank) if loads else (of_rank, others)
            self._write(src, dst, np.tile(ids, len(others)), len(ids), loads, access=access, fused=self._fused)
            self._fused += 1

    def local(
        self, rank: int, from_cells: int | Iterable[int], to_cells: int | Iterable[int], reduce: bool = False
    ) -> None:
        """Copy cells of a rank into other cells of it, or add them there; nothing is sent."""
        ids = _listed(from_cells)
        self._write([rank], [rank], ids, len(ids), reduce, put=_listed(to_cells), local=True)

    def _write(
        self,
        src: npt.ArrayLike,
        dst: npt.ArrayLike,
        ids: npt.ArrayLike,
        per_message: int,
        reduce: bool,
        *,
        way: int = +1,
        join: int = -1,
        put: npt.ArrayLike | None = None,
        local: bool = False,
        access: int = STORE,
        fused: int = -1,
    ) -> None:
        cells = _ints(ids)
        puts = cells if put is None else _ints(put)
        if len(cells) != len(puts):
            raise ScheduleError(
                f"{len(cells)} blocks cannot be put into {len(puts)} cells", allowed="one cell per block"
            )
        if way not in (+1, -1):
            raise ScheduleError(f"{way!r} is not a direction", allowed="+1 or -1", rank=int(_ints(src)[0]))
        self._carried += len(cells)
        if self._carried > MOST_CARRIED:
            problem = f"the messages of {self.kind.name} on {self.n} ranks carry more than {MOST_CARRIED} blocks"
            raise ScheduleError(problem, allowed="fewer ranks, or an algorithm that sends less often")
        self.steps.append(
            Step(_ints(src), _ints(dst), cells, puts, per_message, bool(reduce), way, join, local, access, fused)
        )


class Step(NamedTuple):
    """Independent messages: source, destination and cells of each, `per_message` cells per message.

    `access`: see pyxsim/collective/accesses.py. `fused`: the number of the access of the switch that they are, or -1.
    """

    src: I64
    dst: I64
    blocks: I64
    puts: I64
    per_message: int
    reduce: bool
    way: int
    join: int
    local: bool
    access: int = STORE
    fused: int = -1


def _access(by: str, *, reduce: bool) -> int:
    if by not in BY:
        raise ScheduleError(f"{by!r} is no access to memory", allowed=list(BY), given=by)
    if BY[by] == ATOMIC and not reduce:
        raise ScheduleError("an atomic adds, and this message does not", allowed="with reduce")
    return BY[by]


def _listed(numbers: int | Iterable[int]) -> list[int]:
    return [numbers] if isinstance(numbers, int | np.integer) else list(numbers)


def _ints(values: npt.ArrayLike) -> I64:
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise ScheduleError(f"{values!r} are not numbers of ranks or blocks", allowed="whole numbers")
    return array.astype(np.int64, copy=False)


def _whole(value: object, what: str) -> int:
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    if number < 1 or isinstance(value, bool):
        raise InputError(f"{value!r} is not {what}", allowed="a whole number from 1")
    return number
