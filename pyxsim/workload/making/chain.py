"""The order of tasks: a Markov chain of symbols of variable order, with transitions of its own for each part."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import accumulate
from random import Random

from pyxsim.workload.making.layout import STAGES
from pyxsim.workload.making.model import LAST_ROLE, MOST_BALANCE, PARTS, START, Family, Model

Context = tuple[int, int, int | None, tuple[int, ...]]  # role, part, balance (None: any), previous symbols


class Chain:
    """Draws the next symbol of a program.

    What follows the longest sequence of preceding symbols that occurred in the same part of a program decides, with the
    same number of micro-batches in flight if there is one. A part without tasks uses the nearest part with some.
    """

    def __init__(self, model: Model) -> None:
        self.order = model.order
        follows: defaultdict[Context, Counter[int]] = defaultdict(Counter)
        for row in model.transitions:
            for length in range(len(row.previous) + 1):
                context = row.previous[len(row.previous) - length :]
                for symbol, count in row.next:
                    follows[row.role, row.part, None, context][symbol] += count
                    if length:
                        follows[row.role, row.part, row.balance, context][symbol] += count
        self._tables: dict[Context, tuple[list[int], list[int]]] = {
            context: (list(counts), list(accumulate(counts.values()))) for context, counts in follows.items()
        }
        self._parts: dict[tuple[int, int], tuple[int, int]] = {}

    def draw(self, random: Random, role: int, part: int, balance: int, previous: Sequence[int]) -> int:
        """Return the next symbol of a stage of this role."""
        role, part = self._nearest(role, part)
        longest = min(self.order, len(previous))
        for same, least in ((balance, 1), (None, 0)):
            for length in range(longest, least - 1, -1):
                context = tuple(previous[len(previous) - length :])
                for near in (part, part - 1, part + 1) if length else (part,):
                    table = self._tables.get((role, near, same, context))
                    if table is not None:
                        symbols, totals = table
                        return symbols[bisect_right(totals, int(random.random() * totals[-1]))]
        raise AssertionError("each part has transitions without a context")

    def _nearest(self, role: int, part: int) -> tuple[int, int]:
        """The part with transitions that is nearest, of the nearest role."""
        known = self._parts.get((role, part))
        if known is None:
            parts = [(other, at) for other, at, _, previous in self._tables if not previous]
            known = min(parts, key=lambda each: (abs(each[0] - role), abs(each[1] - part), each))
            self._parts[role, part] = known
        return known


def before_all(symbols: Sequence[int], order: int) -> Sequence[int]:
    """Return the symbols before the next one, up to `order`; the beginning of a program is START."""
    previous = symbols[len(symbols) - order :] if len(symbols) >= order else [START, *symbols]
    return previous if order else ()


def part_of(place: int, count: int) -> int:
    """Return the part of a program of `count` tasks that a task is in."""
    return min(PARTS - 1, place * PARTS // count)


def role_of(stage: int, stages: int) -> int:
    """Return the role of a pipeline stage: its place."""
    return round(LAST_ROLE * stage / (stages - 1)) if stages > 1 else 0


class Balance:
    """Counts the micro-batches in flight of a stage: messages forward, minus those back.

    Those with later stages count; those of the last stage with earlier ones.
    """

    def __init__(self, stage: int, stages: int) -> None:
        self.count = 0
        self._last = stage == stages - 1

    def add(self, family: Family) -> None:
        """Count a message, if it is one of the pipeline."""
        if family.kind not in ("send", "receive") or family.where[0] != STAGES:
            return
        forward = int(family.where[1]) > 0
        # What is exchanged with later stages is sent forward and received backward; the last stage receives forward.
        if (family.kind == "send") == (forward != self._last):
            self.count = max(-MOST_BALANCE, min(MOST_BALANCE, self.count + (1 if forward else -1)))
