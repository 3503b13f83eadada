"""The order in which a pipeline stage processes its micro-batches.

GPipe: Huang et al. 2019. One forward, one backward (1F1B), plain and interleaved: Narayanan et al. 2021, as in
Megatron-LM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Turn:
    """A micro-batch passes one chunk of layers of an NPU, forward or backward."""

    forward: bool
    micro_batch: int
    chunk: int = 0


def gpipe(stage: int, stages: int, micro_batches: int, chunks: int = 1) -> Iterator[Turn]:
    """All forward, then all backward in reverse order: the last activations are used first."""
    for each in range(micro_batches):
        yield Turn(True, each)
    for each in reversed(range(micro_batches)):
        yield Turn(False, each)


def one_forward_one_backward(stage: int, stages: int, micro_batches: int, chunks: int = 1) -> Iterator[Turn]:
    """As many forward as there are later stages, then one forward and one backward in turns."""
    ahead = min(stages - 1 - stage, micro_batches)
    for each in range(ahead):
        yield Turn(True, each)
    for each in range(micro_batches):
        if ahead + each < micro_batches:
            yield Turn(True, ahead + each)
        yield Turn(False, each)


def interleaved(stage: int, stages: int, micro_batches: int, chunks: int = 1) -> Iterator[Turn]:
    """Like 1F1B; groups of as many micro-batches as stages pass one chunk, then the next one."""
    total = micro_batches * chunks

    def turn(number: int, forward: bool) -> Turn:
        round_, within = divmod(number, stages * chunks)
        chunk, each = divmod(within, stages)
        return Turn(forward, round_ * stages + each, chunk if forward else chunks - 1 - chunk)

    ahead = min(2 * (stages - 1 - stage) + (chunks - 1) * stages, total)
    for number in range(ahead):
        yield turn(number, True)
    for number in range(total):
        if ahead + number < total:
            yield turn(ahead + number, True)
        yield turn(number, False)


SCHEDULES: dict[str, Callable[..., Iterator[Turn]]] = {
    "gpipe": gpipe,
    "1f1b": one_forward_one_backward,
    "interleaved": interleaved,
}


def held_at_most(turns: Iterable[Turn], size: Callable[[int], int] = lambda chunk: 1) -> int:
    """Return the most activations held at a time, in micro-batches, each weighted by the `size` of its chunk."""
    held = most = 0
    for turn in turns:
        held += size(turn.chunk) if turn.forward else -size(turn.chunk)
        most = max(most, held)
    return most
