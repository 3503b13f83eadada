"""The stuck report of the system layer: what waits for what when nothing moves and not all has ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pyxsim.system.executor import Executor
from pyxsim.system.work import ChunkPhase, ChunkTask, Collective, PointToPoint

Tasks = Sequence[ChunkTask | PointToPoint]

MOST = 20  # lines


def stuck(
    collectives: Sequence[Collective], messages: Sequence[PointToPoint], tasks: Tasks, executor: Executor
) -> list[str]:
    """Return one line for each NPU and phase that waits, those that wait for messages first; empty if all has ended.

    Before them: messages that were not handed over, and collectives that NPUs have not entered.
    """
    waiting = [unfinished_message(message) for message in messages if message.end < 0]
    waiting += [*not_entered(collectives), *_at_work(tasks, executor), *_in_line(tasks)]
    waiting = waiting or [f"the {collective.name} has not ended" for collective in collectives if collective.end < 0]
    more = len(waiting) - MOST
    return [*waiting[:MOST], f"... and {more} more"] if more > 0 else waiting


def unfinished_message(message: PointToPoint) -> str:
    """Say why a message has not ended."""
    why = "was not handed over" if message.start < 0 else "has not arrived"
    return f"{message.name} of {message.size} bytes from NPU {message.src} to {message.dst} {why}"


def not_entered(collectives: Iterable[Collective]) -> Iterator[str]:
    """Yield open collectives that NPUs have not entered, and which NPUs wait for them."""
    for collective in collectives:
        if collective.end < 0 and collective.outside:
            finished = {rank for rank, to_go in enumerate(collective.to_go) if not to_go}
            members = enumerate(collective.communicator.members)
            waiting = [npu for rank, npu in members if npu not in collective.outside and rank not in finished]
            wait = "waits" if len(waiting) == 1 else "wait"
            reason = f"; {_npus(waiting)} {wait} for this" if waiting else ""
            yield f"{_npus(collective.outside)} did not enter the {collective.name}{reason}"


def _at_work(tasks: Tasks, executor: Executor) -> Iterator[str]:
    """NPUs that have started a phase and not finished it."""
    for number, task in enumerate(tasks):
        if isinstance(task, PointToPoint) or not task.unfinished or task.stage.chunk.collective.abandoned:
            continue
        members = task.members
        for rank, position in enumerate(task.positions):
            if task.stage.start[position] < 0 or task.stage.end[position] >= 0:
                continue
            missing = executor.missing(number, rank)
            lost = {members[source] for source, left in missing if left}
            unsent = {members[source] for source, left in missing if not left}
            reasons = []
            if lost:
                reasons.append(f"for messages that left {_npus(lost)} and have not arrived")
            if unsent:
                reasons.append(f"for {_npus(unsent)} to send")
            yield f"{_place(task.stage, position)} waits {', and '.join(reasons) or 'to send'}"


def _in_line(tasks: Tasks) -> Iterator[str]:
    """NPUs that have their data and wait for admission to a queue."""
    for task in tasks:
        if isinstance(task, PointToPoint):
            continue
        stage = task.stage
        if stage.chunk.collective.abandoned:
            continue
        for position in task.positions:
            if stage.ready[position] < 0 or stage.start[position] >= 0:
                continue
            if task.live:
                running = task.chunk_queue.running
                yield f"{_place(stage, position)} waits for a slot in the queue, in which {running} chunks are active"
            else:
                late = {member for member, p in zip(task.members, task.positions, strict=True) if stage.ready[p] < 0}
                yield f"{_place(stage, position)} waits in the queue for the data of {_npus(late)}"


def _place(stage: ChunkPhase, position: int) -> str:
    collective = stage.chunk.collective
    dimension = f"dimension {stage.dimension}" if stage.dimension >= 0 else "all dimensions"
    return (
        f"NPU {collective.communicator.members[position]} in queue {stage.place} of {dimension} with chunk "
        f"{stage.chunk.number}, phase {stage.number} ({stage.phase.kind}) of the {collective.name}"
    )


def _npus(npus: Iterable[int]) -> str:
    known = sorted(npus)
    text = ", ".join(map(str, known[:8])) + (", ..." if len(known) > 8 else "")
    return f"NPU {text}" if len(known) == 1 else f"NPUs {text}"
