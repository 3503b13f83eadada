"""The time of a training step without simulating it: one NPU of each stage, one micro-batch of each kind.

The program of a stage (`program.StageWriter`) is followed on a clock instead of being written as tasks. A computation
takes its cycles; a collective takes what `PhaseTimes` says for its kind, size and groups when the groups of all stages
begin together. The turns of the schedule then follow one another as in a pipeline whose stages wait for each other's
messages. What the estimate leaves out: NPUs of a stage that drift apart, and how collectives that are under way at the
same time share links. Collectives that no stage awaits (gradients, parameters) follow one another, and are delayed by
those that a stage waits for if both use one dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pyxsim.collective.byte_matrix import ByteMatrix
from pyxsim.errors import InputError
from pyxsim.models import Layer, Part
from pyxsim.workload.graph import Access, Kind
from pyxsim.workload.parallel.plan import Plan
from pyxsim.workload.parallel.program import Cost, StageWriter, Tasks
from pyxsim.workload.parallel.schedules import SCHEDULES, Turn

AWAITED = ("tensor", "expert")  # axes of the collectives that a stage waits for
_PASSES = 2  # micro-batches that are followed: one like all others, and the last
_FETCHING = 3  # with parameters or gradients under way between micro-batches (ZeRO 2 and 3): also the first


class PhaseTimes(Protocol):
    """Times of communication on one network."""

    def collective(self, plan: Plan, kind: str, axis: str, size: int) -> float:
        """Return the cycles of a collective of the groups along an axis of the plan's grid, of all stages at once."""

    def message(self, plan: Plan, size: int) -> float:
        """Return the cycles of a message from each NPU to that at its place in the next stage, all stages at once."""


class _Moment:
    """When something ends, in cycles."""

    __slots__ = ("at",)

    def __init__(self, at: float) -> None:
        self.at = at


class _StageClock(StageWriter):
    """Follows the program of a stage on a clock."""

    def __init__(self, plan: Plan, stage: int, times: PhaseTimes, shared: dict[tuple[str, str], bool]) -> None:
        super().__init__(plan, None, stage, {})  # type: ignore[arg-type]  # nothing is built
        self._times, self._sharing = times, shared
        self._computing = self._background = 0.0
        self._pending: list[tuple[str, _Moment]] = []
        self._ends: list[_Moment] = []
        grid = plan.grid
        replicas = grid.data // grid.expert
        self._counts = {"tensor": grid.tensor, "data": grid.data, "expert": grid.expert, "replica": replicas}

    @property
    def now(self) -> float:
        """When the thread of the stage goes on."""
        return max((each.at for each in self.front), default=0.0)  # type: ignore[attr-defined]

    @property
    def end(self) -> float:
        """When the last task ends."""
        return max([self.now, *(moment.at for moment in self._ends)])

    def _name(self, what: str) -> str:
        return what

    def _compute(self, layer: Layer, part: Part, cost: Cost, before: Tasks) -> Tasks:
        assert isinstance(cost[0], int)  # experts are used evenly
        if not cost[0]:
            return before
        self._computing = max(self._computing, _latest(before)) + cost[0]
        return [self._ended(self._computing)]

    def _collective(
        self,
        kind: str,
        size: int,
        axis: str,
        what: str,
        layer: Layer,
        part: Part,
        before: Tasks,
        stages: Sequence[int] = (),
        matrices: tuple[ByteMatrix, ...] | None = None,
    ) -> Tasks:
        if self._counts.get(axis, len(stages)) == 1:
            return before
        cycles, begin = self._times.collective(self.plan, kind, axis, size), _latest(before)
        if axis in AWAITED:
            self._delay(axis, begin, cycles)
            return [self._ended(begin + cycles)]
        self._background = max(self._background, begin) + cycles
        moment = _Moment(self._background)
        self._ends.append(moment)
        self._pending.append((axis, moment))
        return [moment]  # type: ignore[list-item]

    def _delay(self, axis: str, begin: float, cycles: float) -> None:
        """Delay what is under way in the background on the dimensions of a collective that the stage waits for."""
        if self._background <= begin:
            self._pending.clear()
            return
        late = [(other, moment) for other, moment in self._pending if moment.at > begin]
        self._pending = late
        if any(self._sharing.get((axis, other), False) for other, _ in late):
            for _, moment in late:
                moment.at += cycles
            self._background += cycles

    def _access(self, access: Access, size: int, what: str, layer: Layer, part: Part, before: Tasks) -> Tasks:
        raise InputError(
            "the estimate of a step has no remote memory", key="workload.offload", allowed='"none", or another model'
        )

    def _message(self, kind: Kind, turn: Turn, other: int, before: Tasks) -> Any:
        return _Moment(0.0)  # `_pipeline` knows when messages arrive

    def _ended(self, at: float) -> Any:
        return _Moment(at)


def _latest(before: Any) -> float:
    return max((each.at for each in before), default=0.0)


@dataclass(frozen=True)
class _Turns:
    """Cycles of the turns of a stage, by chunk: forward of the first micro-batch and of the others, backward of the
    last micro-batch and of the others; and what follows the last turn."""

    first: tuple[float, ...]
    forward: tuple[float, ...]
    backward: tuple[float, ...]
    final: tuple[float, ...]
    tail: float

    def cycles(self, turn: Turn, micro_batches: int) -> float:
        """Return the cycles of a turn."""
        if turn.forward:
            return (self.first if turn.micro_batch == 0 else self.forward)[turn.chunk]
        return (self.final if turn.micro_batch == micro_batches - 1 else self.backward)[turn.chunk]

    @property
    def period(self) -> float:
        """Cycles of a micro-batch that is neither the first nor the last."""
        return sum(self.forward) + sum(self.backward)


def step_cycles(plan: Plan, times: PhaseTimes) -> float:
    """Return the cycles of one training step of a plan. Raises InputError for remote memory and for uneven experts."""
    if plan.routing is not None:  # micro-batches and NPUs differ
        raise InputError(
            "the estimate of a step spreads tokens evenly", key="workload.experts", allowed="another model"
        )
    shared = _sharing(plan)
    known: dict[Any, _Turns] = {}
    rows = []
    for stage in range(plan.parallelism.pipeline):
        alike = _signature(plan, stage)
        if alike not in known:
            known[alike] = _follow(_StageClock(plan, stage, times, shared), plan)
        rows.append(known[alike])
    hop = times.message(plan, message_bytes(plan)) if plan.stages > 1 else 0.0
    return _pipeline(plan, rows, hop)


def computing_cycles(plan: Plan) -> float:
    """Return the cycles that an NPU computes forward and backward passes in a step, as a mean over all NPUs."""
    ticks = sum(plan.ticks(layer, part) for layer in plan.model.layers for part in plan.parts(layer))
    return plan.micro_batches * ticks / plan.parallelism.pipeline


def message_bytes(plan: Plan) -> int:
    """Return the bytes of the largest message between stages."""
    elements = max(blocks[-1][-1].outputs for blocks in plan.blocks) * plan.samples
    return plan.bytes(-(-elements // plan.grid.tensor) if plan.parallelism.sequence else elements)


def _signature(plan: Plan, stage: int) -> Any:
    """What the turns of a stage depend on: the kinds and cycles of its layers, and whether they are shared."""
    return tuple(
        tuple(
            (layer.kind, *(plan.ticks(layer, part) for part in Part if part != Part.NONE), plan.parted(layer))
            for block in plan.of_chunk(stage, chunk)
            for layer in block
        )
        for chunk in range(plan.parallelism.virtual)
    )


def _follow(clock: _StageClock, plan: Plan) -> _Turns:
    """The cycles of the turns of a stage: a few micro-batches, each forward and then backward."""
    followed = _FETCHING if plan.parallelism.zero >= 2 else _PASSES
    passes, chunks = min(followed, plan.micro_batches), range(plan.parallelism.virtual)
    turns = [
        Turn(forward, number, chunk)
        for number in range(passes)
        for forward in (True, False)
        for chunk in (chunks if forward else reversed(chunks))
    ]
    clock.open(turns)
    taken: dict[Turn, float] = {}
    for turn in turns:
        begin = clock.now
        clock.pass_through(turn)
        taken[turn] = clock.now - begin
    ended = clock.now
    clock.close()
    usual = max(passes - 2, 0)
    return _Turns(
        first=tuple(taken[Turn(True, 0, chunk)] for chunk in chunks),
        forward=tuple(taken[Turn(True, usual, chunk)] for chunk in chunks),
        backward=tuple(taken[Turn(False, usual, chunk)] for chunk in chunks),
        final=tuple(taken[Turn(False, passes - 1, chunk)] for chunk in chunks),
        tail=clock.end - ended,
    )


def _pipeline(plan: Plan, rows: Sequence[_Turns], hop: float) -> float:
    """Cycles of the step: the turns of each stage in order, each after the message that it needs.

    With more micro-batches than fill the pipeline, each further one takes the turns of the slowest stage.
    """
    stages, last = plan.parallelism.pipeline, plan.stages
    count = min(plan.micro_batches, 2 * stages)  # a multiple of the stages, as "interleaved" requires
    more = plan.micro_batches - count
    orders = [_order(plan, stage, count) for stage in range(stages)]
    ends: dict[tuple[bool, int, int], float] = {}
    now, at = [0.0] * stages, [0] * stages
    left = sum(map(len, orders))
    while left:
        before = left
        for stage in range(stages):
            order = orders[stage]
            while at[stage] < len(order):
                turn = order[at[stage]]
                place = turn.chunk * stages + stage
                other = place - 1 if turn.forward else place + 1
                begin = now[stage]
                if 0 <= other < last:
                    arrived = ends.get((turn.forward, turn.micro_batch, other))
                    if arrived is None:
                        break
                    begin = max(begin, arrived + hop)
                now[stage] = begin + rows[stage].cycles(turn, count)
                ends[turn.forward, turn.micro_batch, place] = now[stage]
                at[stage] += 1
                left -= 1
        assert left < before  # schedules do not wait in a circle
    end = max(time + row.tail for time, row in zip(now, rows, strict=True))
    return end + more * max(row.period for row in rows)


def _order(plan: Plan, stage: int, count: int) -> list[Turn]:
    parallelism = plan.parallelism
    schedule: Callable[..., Any] = SCHEDULES[parallelism.schedule]
    return list(schedule(stage, parallelism.pipeline, count, parallelism.virtual))


def _sharing(plan: Plan) -> dict[tuple[str, str], bool]:
    """Whether the groups along two axes use links of the same dimension."""
    dims = {axis: dims_along(plan, axis) for axis in ("tensor", "expert", "data", "replica", "pipeline")}
    return {(one, other): bool(dims[one] & dims[other]) for one in AWAITED for other in dims}


def dims_along(plan: Plan, axis: str) -> set[int]:
    """Return the dimensions of the network in which the members of the groups along an axis differ."""
    stages = range(plan.grid.pipeline) if axis == "pipeline" else [0]
    members = plan.grid.groups(axis, stages)[0]
    differing, weight = set(), 1
    for dim, size in enumerate(plan.shape):
        if len({member // weight % size for member in members}) > 1:
            differing.add(dim)
        weight *= size
    return differing
