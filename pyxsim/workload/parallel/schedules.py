"""The order in which a pipeline stage processes its micro-batches.

GPipe: Huang et al. 2019. One forward, one backward (1F1B), plain and interleaved: Narayanan et al. 2021, as in
Megatron-LM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Turn:
    """A micro-batch passes one chunk of layers of an NPU, forward or backward."""

    forward: bool
    micro_batch: int
    chunk: int = 0


def gpipe(stage: int, stages: int, micro_batches: int, chunks: int = 1) -> Iterator[Turn]:
    """All forward, then all backward in reverse order: the last activations are used first."""
    for number in range(micro_batches):
        yield Turn(True, number)
    for number in reversed(range(micro_batches)):
        yield Turn(False, number)


def one_forward_one_backward(stage: int, stages: int, micro_batches: int, chunks: int = 1) -> Iterator[Turn]:
    """As many forward passes as there are later stages, then forward and backward passes alternately."""
    ahead = min(stages - 1 - stage, micro_batches)
    for number in range(ahead):
        yield Turn(True, number)
    for number in range(micro_batches):
        if ahead + number < micro_batches:
            yield Turn(True, ahead + number)
        yield Turn(False, number)


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


def held_at_most(turns: Iterable[Turn]) -> int:
    """Return the most micro-batches whose activations are held at a time, over all chunks."""
    held = most = 0
    for turn in turns:
        held += 1 if turn.forward else -1
        most = max(most, held)
    return most


def held_at_peak(turns: Iterable[Turn], sizes: Sequence[int]) -> list[int]:
    """Return the micro-batches held of each chunk when their activations are most; `sizes`: bytes by chunk."""
    held, size, most = [0] * len(sizes), 0, 0
    peak = list(held)
    for turn in turns:
        step = 1 if turn.forward else -1
        held[turn.chunk] += step
        size += step * sizes[turn.chunk]
        if size > most:
            most, peak = size, list(held)
    return peak
