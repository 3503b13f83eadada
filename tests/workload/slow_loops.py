"""ASTRA-sim 1's training loops as it has them: a machine with states that is called again and again, and collectives
that take what a function says. Times only, of one NPU, as all do the same. Written from the description of the loops in
docs/formats_astra.md and docs/compat.md, without tasks.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

from pyxsim.workload import TextWorkload
from pyxsim.workload.text_workload import Pass

FORWARD, WEIGHTS, INPUTS, AGAIN, OVER = "forward", "weights", "inputs", "again", "over"


@dataclass
class Books:
    """What is counted of a layer, by part: forward, weights, inputs."""

    compute: dict[str, int] = field(default_factory=lambda: dict.fromkeys((FORWARD, WEIGHTS, INPUTS), 0))
    comm: dict[str, int] = field(default_factory=lambda: dict.fromkeys((FORWARD, WEIGHTS, INPUTS), 0))
    exposed: dict[str, int] = field(default_factory=lambda: dict.fromkeys((FORWARD, WEIGHTS, INPUTS), 0))
    there: dict[str, int] = field(default_factory=lambda: dict.fromkeys((FORWARD, WEIGHTS, INPUTS), 0))
    since: dict[str, int] = field(default_factory=dict)


class SlowLoop:
    """`time(layer, part)`: cycles of a collective, None where nobody takes part. Everything in ns."""

    def __init__(
        self, text: TextWorkload, passes: int, time: Callable[[int, str], int | None], step: int = 1, start: int = 0
    ) -> None:
        self.text, self.passes, self.time, self.step = text, passes, time, step
        self.books = [Books() for _ in text.layers]
        self.now, self.finished, self.open = start, start, 0
        self.ends: list[int] = []
        self.index, self.state, self.pass_ = 0, FORWARD, 0
        self.computed = self.issued = self.restarted = False
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._at(start, self._go)
        while self._events:
            self.now, _, action = heapq.heappop(self._events)
            action()

    def _at(self, time: int, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (time, self._count, action))

    # -- what a layer does --

    def _pass(self, index: int, part: str) -> Pass:
        layer = self.text.layers[index]
        return {FORWARD: layer.forward, WEIGHTS: layer.weight_gradient, INPUTS: layer.input_gradient}[part]

    def _computes(self, part: str) -> bool:
        """Whether it goes on later, after computing."""
        if self.computed:
            return False
        self.computed = True
        cycles = self._pass(self.index, part).compute
        self.books[self.index].compute[part] += cycles
        if cycles:
            self._at(self.now + cycles, self._go)
        return cycles > 0

    def _issue(self, index: int, part: str, *, blocking: bool = False) -> bool:
        """Whether there is something to wait for."""
        time = self.time(index, part)
        if self._pass(index, part).kind is None or time is None:
            return False
        begun, books = self.now, self.books[index]
        books.there[part] += 1
        self.open += 1

        def done() -> None:
            books.there[part] -= 1
            self.open -= 1
            books.comm[part] += self.now - begun
            self.finished = max(self.finished, self.now)
            if blocking:
                books.exposed[part] += self.now - begun
                self._go()
            elif part in books.since:
                books.exposed[part] += self.now - books.since.pop(part)
                self._go()

        self._at(begun + time + self.text.layers[index].update, done)
        return True

    def _must_wait(self, index: int, part: str) -> bool:
        books = self.books[index]
        if books.there[part]:
            books.since.setdefault(part, self.now)
        return books.there[part] > 0

    # -- the loops --

    def _go(self) -> None:
        if self.state == OVER:
            return
        if self.pass_ == self.passes:
            self.state = OVER
            self.finished = max(self.finished, self.now)
            self._must_wait(0, WEIGHTS)
            return
        word = self.text.parallelism
        if word == "DATA":
            self._data()
        elif word.startswith("HYBRID_DLRM"):
            self._dlrm(waits=word == "HYBRID_DLRM")
        else:
            self._blocking(word)

    def _next(self, state: str, index: int) -> None:
        self.state, self.index = state, index
        self.computed = self.issued = False
        if self.step:
            self._at(self.now + self.step, self._go)
        else:
            self._go()

    def _pass_over(self) -> None:
        self.ends.append(self.now)
        self.pass_ += 1

    def _data(self) -> None:
        last = len(self.text.layers) - 1
        if self.state == FORWARD:
            if self._must_wait(self.index, WEIGHTS) or self._computes(FORWARD):
                return
            if self.index == last:
                self._next(WEIGHTS, last)
            else:
                self._next(FORWARD, self.index + 1)
        elif self.state == WEIGHTS:
            if self._computes(WEIGHTS):
                return
            self._issue(self.index, WEIGHTS)
            if self.index:
                self._next(INPUTS, self.index)
            else:
                self._pass_over()
                self._next(FORWARD, 0)
        elif not self._computes(INPUTS):
            self._next(WEIGHTS, self.index - 1)

    def _forward(self) -> bool:
        """Whether the forward pass of the layer is through."""
        if self._must_wait(self.index, WEIGHTS) or self._computes(FORWARD):
            return False
        if not self.issued:
            self.issued = True
            return not self._issue(self.index, FORWARD, blocking=True)
        return True

    def _blocking(self, word: str) -> None:
        last = len(self.text.layers) - 1
        if self.state == FORWARD:
            if not self._forward():
                return
            if self.index < last:
                self._next(FORWARD, self.index + 1)
            elif word == "DISTRIBUTED_INFERENCE":
                self._pass_over()
                self._next(FORWARD, 0)
            else:
                self._next(INPUTS, last)
        elif self.state == AGAIN:
            if self._forward():
                to = self.index + 1
                self._next(INPUTS if to in self.text.header.restarts else AGAIN, to)
        elif self.state == INPUTS:
            if self.index in self.text.header.restarts and not self.restarted:
                self.restarted = True
                self._next(AGAIN, self.text.checkpoint_of(self.index))
                return
            if self._computes(INPUTS):
                return
            if self.index or "TRANSFORMER" in word:
                self._issue(self.index, INPUTS)
            self.restarted = False
            self._next(WEIGHTS, self.index)
        else:
            if self._computes(WEIGHTS):
                return
            if not self.issued and word != "MODEL":
                self.issued = True
                self._issue(self.index, WEIGHTS)
            if self._must_wait(self.index, INPUTS):
                return
            if self.index:
                self._next(INPUTS, self.index - 1)
            else:
                self._pass_over()
                self._next(FORWARD, 0)

    def _dlrm(self, *, waits: bool) -> None:
        end, last = len(self.text.layers) - 1, self.text.header.last_bottom
        if self.state == FORWARD:
            if self._must_wait(self.index, WEIGHTS) or self._computes(FORWARD):
                return
            if self._pass(self.index, FORWARD).kind == "all-to-all" and not self.issued:
                self.issued = True
                self._issue(self.index, FORWARD)
            elif self.index == last and self._must_wait(0, FORWARD):
                return
            if self.index == end:
                self._next(WEIGHTS, end)
            else:
                self._next(FORWARD, self.index + 1)
        elif self.state == WEIGHTS:
            if self._computes(WEIGHTS):
                return
            if not self.issued:
                self.issued = True
                self._issue(self.index, WEIGHTS)
            if waits and self._must_wait(self.index, INPUTS):
                return
            if self.index:
                self._next(INPUTS, self.index)
            else:
                self._pass_over()
                self._next(FORWARD, 0)
        elif not self._computes(INPUTS):
            if self.index == last + 1:
                self._issue(0, INPUTS)
            self._next(WEIGHTS, self.index - 1)
