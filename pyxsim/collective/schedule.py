"""The language in which an algorithm is written: who sends which blocks to whom, in which order, and what is added.

    @collectives.register("star", kinds=("all-reduce",))
    def star(kind, n):
        s = Schedule(kind, n, blocks=1)
        for rank in range(1, n):
            s.send(rank, 0, 0, reduce=True)
        for rank in range(1, n):
            s.send(0, rank, 0)
        return s

The sends stand in an order in which they could be executed one after the other. What must really wait for what is
derived from it (see `dependence`): a send waits for the earlier arrivals, at its rank, of the blocks that it carries.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pyxsim.collective.arrays import I64
from pyxsim.collective.kinds import Kind, get_kind
from pyxsim.errors import InputError


class ScheduleError(InputError):
    """A schedule is wrong. The text names the place; the attributes hold it for programs.

    `rank`, `block`: where; `step`: which send of its rank, counted from 0 (None: at the end);
    `missing`, `duplicate`: ranks whose contributions are missing or would count twice.
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


class Schedule:
    """The messages of one collective on one group of `n` ranks, written down by an algorithm.

    The data are cut in `blocks` blocks: n for all-reduce, reduce-scatter and all-gather, n*n for all-to-all (block
    i*n+j goes from rank i to rank j) unless said otherwise; see `Kind`. With a `window` w, the k-th send of a rank
    (from 0) also waits until the rank has received k-w+1 messages, whichever, so at most w are on their way unanswered.
    """

    def __init__(self, kind: str | Kind, n: int, *, blocks: int | None = None, window: int | None = None) -> None:
        self.kind = get_kind(kind)
        self.n = _whole(n, "the number of ranks")
        self.blocks = self.kind.default_blocks(self.n) if blocks is None else _whole(blocks, "the number of blocks")
        self.window = None if window is None else _whole(window, "a window")
        if self.blocks % self.kind.units(self.n):
            raise ScheduleError(
                f"{self.kind.name} on {self.n} ranks cannot be cut in {self.blocks} blocks",
                allowed=f"a multiple of {self.kind.units(self.n)}",
            )
        self.steps: list[Step] = []

    def send(self, src: int, dst: int, blocks: int | Iterable[int], reduce: bool = False) -> None:
        """One message: `src` sends these blocks to `dst`, which adds them to its own (`reduce`) or stores them."""
        ids = [blocks] if isinstance(blocks, int | np.integer) else list(blocks)
        self.steps.append(Step(_ints([src]), _ints([dst]), _ints(ids), len(ids), bool(reduce)))

    def step(self, src: npt.ArrayLike, dst: npt.ArrayLike, blocks: npt.ArrayLike, reduce: bool = False) -> None:
        """Messages side by side, none waiting for another: arrays src[k], dst[k], blocks[k] or blocks[k, per message].

        A single number stands for all k. The same as k sends, only faster, when no message of the step carries what
        another one brings.
        """
        sources, destinations, ids = _ints(src), _ints(dst), _ints(blocks)
        count = max(sources.size, destinations.size, len(ids) if ids.ndim else 1)
        shape = (count, ids.shape[1]) if ids.ndim == 2 else (count,)
        sources, destinations = np.broadcast_to(sources, (count,)), np.broadcast_to(destinations, (count,))
        ids = np.broadcast_to(ids, shape)
        self.steps.append(Step(sources, destinations, ids.ravel(), ids.size // count, bool(reduce)))


class Step(NamedTuple):
    """Messages that stand side by side: src and dst of each, and the blocks, `per_message` of them for each."""

    src: I64
    dst: I64
    blocks: I64
    per_message: int
    reduce: bool


def _ints(values: npt.ArrayLike) -> I64:
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise ScheduleError(f"{values!r}: no numbers of ranks or blocks", allowed="whole numbers")
    return array.astype(np.int64, copy=False)


def _whole(value: object, what: str) -> int:
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    if number < 1 or isinstance(value, bool):
        raise InputError(f"{value!r} is not {what}", allowed="a whole number from 1")
    return number
