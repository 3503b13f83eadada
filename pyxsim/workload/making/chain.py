"""The order of tasks: a Markov chain of symbols of variable order, with transitions of its own for each part."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import accumulate
from random import Random

from pyxsim.workload.making.layout import STAGES
from pyxsim.workload.making.model import LAST_ROLE, MOST_BALANCE, MOST_SINCE, PARTS, START, Family, Model

Where = tuple[int, int, bool]  # role, part, whether there are more messages to pass forward
State = tuple[int | None, int | None]  # balance, and tasks since the last message; None: any
Context = tuple[Where, State, tuple[int, ...]]
_ANY: State = (None, None)
_ALIKE = (0, -1, 1)  # parts beside one, which may continue what it has begun


class Chain:
    """Draws the next symbol of a program.

    What follows the longest sequence of preceding symbols that occurred in the same part of a program decides: with the
    same number of micro-batches in flight and as long after the last message, else one of both, else any. A part
    without tasks uses the nearest part with some.
    """

    def __init__(self, model: Model) -> None:
        self.order = model.order
        follows: defaultdict[Context, Counter[int]] = defaultdict(Counter)
        for row in model.transitions:
            where = (row.role, row.part, row.more)
            for length in range(len(row.previous) + 1):
                context = row.previous[len(row.previous) - length :]
                for state in _states(row.balance, row.since, length):
                    for symbol, count in row.next:
                        follows[where, state, context][symbol] += count
        self._tables: dict[Context, tuple[list[int], list[int]]] = {
            context: (list(counts), list(accumulate(counts.values()))) for context, counts in follows.items()
        }
        self._parts: dict[Where, Where] = {}

    def draw(self, random: Random, where: Where, balance: int, since: int, previous: Sequence[int]) -> int:
        """Return the next symbol."""
        role, part, more = self._nearest(*where)
        longest = min(self.order, len(previous))
        for state in _states(balance, since, longest):
            for length in range(longest, -1 if state == _ANY else 0, -1):
                context = tuple(previous[len(previous) - length :])
                for step in _ALIKE if length else _ALIKE[:1]:
                    table = self._tables.get(((role, part + step, more), state, context))
                    if table is not None:
                        symbols, totals = table
                        return symbols[bisect_right(totals, int(random.random() * totals[-1]))]
        raise AssertionError("each part has transitions without a context")

    def _nearest(self, role: int, part: int, more: bool) -> Where:
        """The part with transitions that is nearest, of the nearest role."""
        known = self._parts.get((role, part, more))
        if known is None:
            parts = [where for where, _, previous in self._tables if not previous]
            known = min(parts, key=lambda each: (each[2] != more, abs(each[0] - role), abs(each[1] - part), each))
            self._parts[role, part, more] = known
        return known


def _states(balance: int, since: int, length: int) -> tuple[State, ...]:
    """What transitions with preceding symbols may depend on besides these, the most exact first."""
    if not length or not (balance or since):
        return (_ANY,)
    return (balance, since), (None, since), (balance, None), _ANY


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

    Those with later stages count; those of the last stage with earlier ones. `forward`: how many go forward in all.
    `since`: tasks since the last message.
    """

    def __init__(self, stage: int, stages: int, forward: int = 0) -> None:
        self.count = self.passed = self.since = 0
        self.forward = forward
        self._last = stage == stages - 1

    @property
    def more(self) -> bool:
        """Whether there are more messages to pass forward."""
        return self.passed < self.forward

    def add(self, family: Family) -> None:
        """Count a task, and a message if it is one of the pipeline."""
        self.since = min(MOST_SINCE, self.since + 1) if self.forward else 0
        if family.kind not in ("send", "receive") or family.where[0] != STAGES:
            return
        forward = int(family.where[1]) > 0
        self.since = 0
        # What is exchanged with later stages is sent forward and received backward; the last stage receives forward.
        if (family.kind == "send") == (forward != self._last):
            self.passed += forward
            self.count = max(-MOST_BALANCE, min(MOST_BALANCE, self.count + (1 if forward else -1)))
