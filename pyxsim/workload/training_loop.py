"""The training loops of ASTRA-sim 1 as graphs of tasks: what each NPU computes, communicates and waits for, in order.

All NPUs do the same. A loop is a thread: it computes, begins a collective, waits for one, and so on, while the
collectives that it began continue. Each task depends on the *front*: the last tasks of the thread so far. After each
step from layer to layer and from pass to pass ASTRA-sim lets one cycle pass (`step`). Source of the loops: Workload.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from math import prod

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.errors import InputError
from pyxsim.settings import Workload
from pyxsim.workload.graph import Call, GraphBuilder, Kind, Part, TaskGraph
from pyxsim.workload.logical_dims import Dims, LogicalDims, is_alone, layer_dims
from pyxsim.workload.passes import MOST_TASKS
from pyxsim.workload.simai_groups import groups_of
from pyxsim.workload.text_workload import Layer, Pass, TextWorkload

FORWARD, WEIGHTS, INPUTS = "forward", "weight gradient", "input gradient"
PARTS = {FORWARD: Part.FORWARD, WEIGHTS: Part.WEIGHT_GRADIENT, INPUTS: Part.INPUT_GRADIENT}
SHORT = {FORWARD: "fwd", WEIGHTS: "wg", INPUTS: "ig"}
LAYER_COLUMNS = tuple(f"{short}_{what}" for what in ("compute", "exposed", "comm") for short in SHORT.values())
HIGHEST = 10**8  # a priority above all others
SMALLEST = 4096  # bytes of a collective of SimAI's forward pass


@dataclass(frozen=True)
class LoopOptions:
    """How a loop is carried out.

    Attributes
    ----------
    newest_first
        Order of the collectives for which the loop sets no priority.
    cycles_per_ns
        Of the network's clock.
    start
        Cycles until the NPUs begin.
    step
        Cycles of a step.
    number
        Converts the scales: ASTRA-sim rounds them to single precision.
    alone
        Whether NPUs also issue collectives with no other member, without waiting for them: in ASTRA-sim they count
        where dimensions take turns or are ordered by load.
    """

    newest_first: bool = True
    cycles_per_ns: Fraction = Fraction(1)
    start: int = 0
    step: int = 0
    number: Callable[[Fraction], Fraction | float] = Fraction
    alone: bool = False

    def cycles(self, ns: int) -> int:
        """Return a time in ns as cycles, rounded up."""
        return -(-ns * self.cycles_per_ns.numerator // self.cycles_per_ns.denominator)


@dataclass(frozen=True)
class LoopCollective:
    """A collective of NPU 0: its task, and the task that ends with the update of the layer."""

    layer: int
    part: str
    task: int
    updated: int


@dataclass(frozen=True)
class LoopWait:
    """NPU 0 needs the result of the tasks `wanted` after the tasks `front`."""

    layer: int
    part: str
    front: tuple[int, ...]
    wanted: tuple[int, ...]


@dataclass
class LoopRecord:
    """What a loop does, for the tables: cycles of computation by layer and part, collectives and waits.

    `passes`: the tasks of NPU 0 that end each pass.
    """

    layers: tuple[str, ...]
    compute: dict[tuple[int, str], int] = field(default_factory=dict)
    began: list[LoopCollective] = field(default_factory=list)
    waited: list[LoopWait] = field(default_factory=list)
    passes: list[tuple[int, ...]] = field(default_factory=list)


def training_loop(
    text: TextWorkload, settings: Workload, dims: LogicalDims, manner: LoopOptions
) -> tuple[TaskGraph, LoopRecord]:
    """Return the graph of a workload and the record of its layers. Raises InputError for a loop that never ends."""
    npus, layers = prod(dims.shape), len(text.layers)
    # A complete layer has at least 4 tasks; the exact number is known after one pass.
    if npus * layers * 4 > MOST_TASKS:
        problem = f"{layers} layers on {npus} NPUs are too many tasks"
        raise InputError(problem, file=text.file, allowed=f"at most {MOST_TASKS} tasks together")
    thread = _Thread(text, settings, dims, manner)
    one_pass = _LOOPS[text.parallelism]
    for number in range(settings.passes):
        thread.number = number
        one_pass(thread)
        tasks = len(thread.builder) // (number + 1)  # of a pass, on average
        if tasks * settings.passes > MOST_TASKS:
            problem = f"{settings.passes} passes of {tasks} tasks are too many"
            raise InputError(problem, key="workload.passes", allowed=f"at most {MOST_TASKS} tasks together")
    thread.wait(0, WEIGHTS)  # as in ASTRA-sim, which attributes the final wait to layer 0
    return thread.builder.graph(), thread.record


class _Thread:
    """Writes the loop of all NPUs."""

    def __init__(self, text: TextWorkload, settings: Workload, dims: LogicalDims, manner: LoopOptions) -> None:
        self.text = text
        self.layers = range(len(text.layers))
        self.record = LoopRecord(tuple(layer.name for layer in text.layers))
        self.number = 0  # of the pass
        self._everybody = np.arange(int(np.prod(dims.shape)))
        self.builder = GraphBuilder(len(self._everybody), layers=self.record.layers)
        self._dims, self._manner = dims, manner
        self._involved = layer_dims(text, dims)
        self._groups = None if text.groups is None else groups_of(text, len(self._everybody))
        self._compute_scale, self._comm_scale = map(manner.number, (settings.compute_scale, settings.comm_scale))
        self._priority = 0
        self._unfinished: dict[tuple[int, str], list[IntArray]] = {}
        self._front: list[IntArray] = []
        self._mark("start", manner.start)

    def layer(self, index: int) -> Layer:
        """Return a layer of the text."""
        return self.text.layers[index]

    def compute(self, index: int, part: str) -> None:
        """Compute one part of a layer."""
        ticks = self._manner.cycles(int(_pass(self.layer(index), part).compute * self._compute_scale))
        key = (index, part)
        self.record.compute[key] = self.record.compute.get(key, 0) + ticks
        if ticks:
            name = f"{self.layer(index).name}, {part}"
            labels = {"layer": index, "part": PARTS[part]}
            self._front = [self._tasks(Kind.COMPUTE, name, ticks=ticks, resource="compute", **labels)]

    def issue(self, index: int, part: str, newest_first: bool | None = None, *, highest: bool = False) -> None:
        """Begin the collective of a part, if it has one. `newest_first`: its order; None for that of the options."""
        layer = self.layer(index)
        planned = _pass(layer, part)
        if planned.kind is None:
            return
        priority = HIGHEST if highest else self._next_priority(newest_first)
        size = int(planned.size * self._comm_scale)
        name = f"{layer.name}, {part}, pass {self.number}"
        if self._groups is not None:
            call, alone = self._in_groups(planned, part, size)
        else:
            dims = self._involved[index].weights if part == WEIGHTS else self._involved[index].activations
            call, alone = Call(planned.kind, size, dims=self._along(dims)), is_alone(dims, self._dims.shape)
        if alone and not self._manner.alone:
            return
        if size < 1:
            problem = f"layer '{layer.name}', {part}: {planned.kind} of 0 bytes would never end"
            raise InputError(problem, file=self.text.file, allowed="1 or more, or NONE")
        number = self.builder.call(replace(call, priority=priority, name=name))
        task = self._tasks(Kind.COLLECTIVE, name, call=number, layer=index, part=PARTS[part])
        if alone:
            return
        update = self._manner.cycles(layer.update)
        updated = self.builder.tasks(
            self._everybody,
            Kind.MARK,
            f"{layer.name}, update",
            ticks=update,
            layer=index,
            part=Part.UPDATE,
            before=[task],
        )
        self._unfinished.setdefault((index, part), []).append(updated)
        self.record.began.append(LoopCollective(index, part, int(task[0]), int(updated[0])))

    def _in_groups(self, planned: Pass, part: str, size: int) -> tuple[Call, bool]:
        """A collective of SimAI, and whether it does nothing: for one NPU, or of 0 bytes."""
        assert self._groups is not None
        assert planned.kind is not None
        groups = self._groups[planned.group or ("DP" if part == WEIGHTS else "TP")]
        members = len(groups[0])
        if part == FORWARD and size:
            size = max(size, SMALLEST)
        if planned.kind == "all-gather":
            size = -(-size // members)  # SimAI's bytes are those of all shards
        return Call(planned.kind, size, groups=groups if len(groups) > 1 else None), members == 1 or not size

    def wait(self, index: int, part: str) -> None:
        """Wait for the unfinished collectives of a part."""
        if unfinished := self._unfinished.pop((index, part), []):
            self.record.waited.append(LoopWait(index, part, _first(self._front), _first(unfinished)))
            self._front = [*self._front, *unfinished]

    def forward(self, index: int) -> None:
        """Run the forward pass of a layer and wait for its communication."""
        self.wait(index, WEIGHTS)
        self.compute(index, FORWARD)
        self.issue(index, FORWARD)
        self.wait(index, FORWARD)

    def step(self) -> None:
        """Go to the next layer, part or pass."""
        if self._manner.step:
            self._mark("step", self._manner.step)

    def end_pass(self) -> None:
        """Record the end of a pass, where ASTRA-sim does."""
        self.record.passes.append(_first(self._front))

    def _next_priority(self, newest_first: bool | None) -> int:
        priority = self._priority
        self._priority += 1 if (self._manner.newest_first if newest_first is None else newest_first) else -1
        return priority

    def _along(self, dims: Dims) -> Dims | None:
        return None if len(dims) == len(self._dims.shape) else dims

    def _mark(self, name: str, ticks: int) -> None:
        self._front = [self._tasks(Kind.MARK, name, ticks=ticks)]

    def _tasks(self, kind: Kind, name: str, **others: object) -> IntArray:
        return self.builder.tasks(self._everybody, kind, name, before=self._front, **others)  # type: ignore[arg-type]


def _pass(layer: Layer, part: str) -> Pass:
    return {FORWARD: layer.forward, WEIGHTS: layer.weight_gradient, INPUTS: layer.input_gradient}[part]


def _first(tasks: Sequence[IntArray]) -> tuple[int, ...]:
    """The tasks of NPU 0."""
    return tuple(int(task[0]) for task in tasks)


# -- one pass of each loop ---------------------------------------------------------------------------------------------


def _data(thread: _Thread) -> None:
    """Reduce weight gradients in the background; in the next pass each layer waits for its own."""
    for index in thread.layers:
        thread.wait(index, WEIGHTS)
        thread.compute(index, FORWARD)
        thread.step()
    for index in reversed(thread.layers):
        thread.compute(index, WEIGHTS)
        thread.issue(index, WEIGHTS)
        if index:
            thread.step()
            thread.compute(index, INPUTS)
        else:
            thread.end_pass()
        thread.step()


def _layer_by_layer(thread: _Thread, *, gradients: bool = True, first: bool = False) -> None:
    """Wait for activations in each layer, and for their gradients while weight gradients are computed.

    `gradients`: whether weight gradients are communicated. `first`: whether the input gradient of the first layer is.
    """
    for index in thread.layers:
        thread.forward(index)
        thread.step()
    for index in reversed(thread.layers):
        if index in thread.text.header.restarts:
            thread.step()
            for again in range(thread.text.checkpoint_of(index), index):
                thread.forward(again)
                thread.step()
        thread.compute(index, INPUTS)
        if index or first:
            thread.issue(index, INPUTS, newest_first=True)
        if thread.text.groups is not None:  # SimAI does not overlap it with the weight gradients
            thread.wait(index, INPUTS)
        thread.step()
        thread.compute(index, WEIGHTS)
        if gradients:
            thread.issue(index, WEIGHTS, newest_first=False)
        thread.wait(index, INPUTS)
        if not index:
            thread.end_pass()
        thread.step()


def _dlrm(thread: _Thread, *, waits: bool) -> None:
    """Exchange the embeddings (layer 0) while the bottom layers compute. `waits`: whether to wait for their
    gradients."""
    last = thread.text.header.last_bottom
    for index in thread.layers:
        thread.wait(index, WEIGHTS)
        thread.compute(index, FORWARD)
        if thread.layer(index).forward.kind == "all-to-all":
            thread.issue(index, FORWARD, highest=True)
        elif index == last:
            thread.wait(0, FORWARD)
        thread.step()
    for index in reversed(thread.layers):
        thread.compute(index, WEIGHTS)
        thread.issue(index, WEIGHTS)
        if waits:
            thread.wait(index, INPUTS)
        if index:
            thread.step()
            thread.compute(index, INPUTS)
            if index == last + 1:
                thread.issue(0, INPUTS, highest=True)
        else:
            thread.end_pass()
        thread.step()


def _inference(thread: _Thread) -> None:
    """Run forward passes only."""
    for index in thread.layers:
        thread.forward(index)
        if index == thread.layers[-1]:
            thread.end_pass()
        thread.step()


def _micro(thread: _Thread) -> None:
    """Issue the weight gradients of the first layer for all passes at once; compute nothing."""
    if thread.layer(0).weight_gradient.kind is None:
        problem = f"layer '{thread.layer(0).name}' has no weight-gradient collective, the only thing that MICRO runs"
        raise InputError(problem, file=thread.text.file)
    thread.issue(0, WEIGHTS)


_LOOPS: dict[str, Callable[[_Thread], None]] = {
    "MICRO": _micro,
    "DATA": _data,
    "MODEL": partial(_layer_by_layer, gradients=False),
    "HYBRID_DATA_MODEL": _layer_by_layer,
    "HYBRID_MODEL_DATA": _layer_by_layer,
    "HYBRID_CUSTOMIZED": _layer_by_layer,
    "HYBRID_TRANSFORMER": partial(_layer_by_layer, first=True),
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD": partial(_layer_by_layer, first=True),
    "HYBRID_DLRM": partial(_dlrm, waits=True),
    "HYBRID_DLRM_ENHANCED": partial(_dlrm, waits=False),
    "DISTRIBUTED_INFERENCE": _inference,
}
