"""In which order a stage of a pipeline takes its micro-batches.

GPipe: Huang et al. 2019. One forward, one backward (1F1B), plain and interleaved: Narayanan et al. 2021, as Megatron-LM
has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Turn:
    """A micro-batch goes forward, or backward, through one of the chunks of layers that an NPU has."""

    forward: bool
    micro_batch: int
    chunk: int = 0


def gpipe(stage: int, stages: int, micro_batches: int, chunks: int = 1) -> Iterator[Turn]:
    """All forward, then all backward, the last one first: its activations were the last to be made."""
    for each in range(micro_batches):
        yield Turn(True, each)
    for each in reversed(range(micro_batches)):
        yield Turn(False, each)


def one_forward_one_backward(stage: int, stages: int, micro_batches: int, chunks: int = 1) -> Iterator[Turn]:
    """So many forward as there are stages behind, then one forward and one backward in turns."""
    ahead = min(stages - 1 - stage, micro_batches)
    for each in range(ahead):
        yield Turn(True, each)
    for each in range(micro_batches):
        if ahead + each < micro_batches:
            yield Turn(True, ahead + each)
        yield Turn(False, each)


def interleaved(stage: int, stages: int, micro_batches: int, chunks: int = 1) -> Iterator[Turn]:
    """As 1F1B; as many micro-batches as there are stages go through a chunk, then through the next one."""
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
    """Of how many micro-batches the activations are held at a time, at most: each `size` of its chunk."""
    held = most = 0
    for turn in turns:
        held += size(turn.chunk) if turn.forward else -size(turn.chunk)
        most = max(most, held)
    return most
