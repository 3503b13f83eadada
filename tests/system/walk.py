"""NPUs that go their own ways: each enters collectives, hands messages over, pauses and waits, step by step.

It drives any layer with the open face: pyxsim's, its oracle, ASTRA-sim's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from hypothesis import strategies as st

from pyxsim.collective.communicator import Communicator

Step = tuple[str, Any]  # ("enter" or "leave", number), ("pause", cycles), ("wait", (collectives, messages))


@dataclass(frozen=True)
class Walk:
    """What is asked for, in this order, and the way of each NPU."""

    issues: Sequence[dict[str, Any]]
    sends: Sequence[dict[str, Any]]
    ways: Sequence[Sequence[Step]]


class Walkers:
    """All NPUs of a layer under way. `log`: (cycle, what, number, NPU) of all that a layer has told."""

    def __init__(self, layer: Any, walk: Walk) -> None:
        self.layer, self.walk = layer, walk
        self.log: list[tuple[int, str, int, int]] = []
        self.collectives = [
            layer.issue(**call, open=True, joined=partial(self._joined, number), done=partial(self._done, number))
            for number, call in enumerate(walk.issues)
        ]
        self.messages = [
            layer.send(**call, open=True, done=partial(self._came, number)) for number, call in enumerate(walk.sends)
        ]
        self._at = [0] * len(walk.ways)
        self._through: set[tuple[int, int]] = set()
        self._arrived: set[int] = set()
        for npu in range(len(walk.ways)):
            layer.at(0, partial(self._go, npu))

    @property
    def now(self) -> int:
        return int(self.layer.cycle if hasattr(self.layer, "cycle") else self.layer.now)

    def _joined(self, number: int, collective: Any, npu: int) -> None:
        self.log.append((self.now, "joined", number, npu))
        self._through.add((number, npu))
        self._may_go(npu)

    def _done(self, number: int, collective: Any) -> None:
        self.log.append((self.now, "done", number, -1))

    def _came(self, number: int, message: Any) -> None:
        self.log.append((self.now, "came", number, -1))
        self._arrived.add(number)
        self._may_go(self.walk.sends[number]["dst"])

    def _may_go(self, npu: int) -> None:
        """Somebody was told something: it goes on if it waited for that alone."""
        way, at = self.walk.ways[npu], self._at[npu]
        if at and way[at - 1][0] == "wait" and self._has_all(npu, *way[at - 1][1]):
            self._go(npu)

    def _has_all(self, npu: int, collectives: Sequence[int], messages: Sequence[int]) -> bool:
        return self._through >= {(each, npu) for each in collectives} and self._arrived >= set(messages)

    def _go(self, npu: int) -> None:
        way = self.walk.ways[npu]
        while self._at[npu] < len(way):
            what, which = way[self._at[npu]]
            self._at[npu] += 1
            if what == "enter":
                self.layer.enter(self.collectives[which], npu)
            elif what == "leave":
                self.layer.hand_over(self.messages[which])
            elif what == "pause":
                self.layer.at(self.now + which, partial(self._go, npu), npu)
                return
            elif not self._has_all(npu, *which):
                return


@st.composite
def walks(
    draw: st.DrawFn,
    shape: Sequence[int],
    calls: st.SearchStrategy[list[dict[str, Any]]],
    sends: int = 2,
    orderly: bool = False,
) -> Walk:
    """Rounds of collectives and messages. In a round each NPU begins its own in an order of its own, waiting for none;
    at its end, for all: so nobody waits in a circle. `orderly`: collectives on no mere list of NPUs are entered in one
    order by all. `calls`: of collectives that belong together."""
    npus = math.prod(shape)
    issues: list[dict[str, Any]] = []
    messages: list[dict[str, Any]] = []
    ways: list[list[Step]] = [[] for _ in range(npus)]
    pauses = st.sampled_from([0, 0, 1, 7, 30, 100])
    ends = st.lists(st.integers(0, npus - 1), min_size=2, max_size=2, unique=True)
    for _ in range(draw(st.integers(1, 3))):
        fresh = [call for family in draw(st.lists(calls, min_size=1, max_size=3)) for call in family]
        new = range(len(issues), len(issues) + len(fresh))
        issues += fresh
        pairs = draw(st.lists(st.tuples(ends, st.integers(1, 300)), max_size=sends)) if npus > 1 else []
        flying = range(len(messages), len(messages) + len(pairs))
        messages += [{"src": src, "dst": dst, "size": size} for (src, dst), size in pairs]
        for npu, way in enumerate(ways):
            mine = [number for number in new if npu in _members(issues[number], shape)]
            own = [("enter", number) for number in mine]
            own += [("leave", number) for number in flying if messages[number]["src"] == npu]
            steps = draw(st.permutations(own))
            if orderly:
                steps = _in_order(steps, issues)
            for step in steps:
                way += [("pause", draw(pauses)), step] if draw(st.booleans()) else [step]
            if draw(st.booleans()):
                way.append(("wait", (mine, [number for number in flying if messages[number]["dst"] == npu])))
    return Walk(issues, messages, ways)


def _in_order(steps: Sequence[Step], issues: Sequence[dict[str, Any]]) -> list[Step]:
    """The same steps; those of the whole network or a grid have changed places so that they are in order."""

    def bound(step: Step) -> bool:
        if step[0] != "enter":
            return False
        group: Communicator | None = issues[step[1]].get("communicator")
        return group is None or group.is_grid

    ordered = iter(sorted(step for step in steps if bound(step)))
    return [next(ordered) if bound(step) else step for step in steps]


def _members(call: dict[str, Any], shape: Sequence[int]) -> Sequence[int]:
    group: Communicator = call.get("communicator") or Communicator.whole(shape)
    return group.members
