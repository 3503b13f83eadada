"""Continuous batching: which requests an instance works on in its next iteration, and who has the KV cache.

Orca (Yu et al. 2022) forms a batch for each iteration; vLLM (Kwon et al. 2023) gives the KV cache away in blocks, and
preempts the latest request when none is free; Sarathi-Serve (Agrawal et al. 2024) cuts prompts into chunks that share
iterations with outputs. docs/serving.md has the rules.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from pyxsim.models.inference import Span
from pyxsim.settings.serving import Serving
from pyxsim.workload.serving.plan import Part
from pyxsim.workload.serving.requests import Request


@dataclass(frozen=True)
class Batch:
    """The requests of an iteration and how many tokens of each it computes.

    Attributes
    ----------
    parts
        What each rank does.
    prompt_tokens
        Tokens of prompts, and of outputs that are computed again.
    outputs
        Requests with a token of their output in progress.
    """

    work: tuple[tuple[Request, int], ...]
    parts: tuple[Part, ...]
    prompt_tokens: int
    outputs: int


@dataclass(eq=False)
class Scheduler:
    """The requests of one instance. Ranks have KV caches of `blocks` blocks each.

    Attributes
    ----------
    moves
        Whether requests move to another instance when they have their first token.
    waiting
        Requests without KV cache, in the order in which they start.
    running
        Requests with KV cache, the oldest first.
    held
        Blocks of each rank that requests have, also those that wait for their move to a decode instance or are on it.
    """

    serving: Serving
    ranks: int
    blocks: int
    moves: bool = False
    waiting: deque[Request] = field(default_factory=deque)
    running: list[Request] = field(default_factory=list)
    held: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.held = [0] * self.ranks

    @property
    def load(self) -> int:
        """Requests that have not ended here."""
        return len(self.waiting) + len(self.running)

    def blocks_for(self, tokens: int) -> int:
        """Return the blocks that so many tokens need."""
        return -(-tokens // self.serving.kv_block)

    def fits(self, tokens: int) -> bool:
        """Return whether an empty cache has room for so many tokens of a request."""
        return self.blocks_for(tokens) <= self.blocks

    def wanted(self, request: Request) -> int:
        """Return the blocks with which a request starts: for what it must compute, or for all that it will have."""
        reserve = self.serving.admission == "reserve" and not self.moves
        return self.blocks_for(request.most_cached if reserve else request.target)

    def admit(self, request: Request, blocks: int) -> bool:
        """Give a request blocks of the rank with most free ones; return whether there are enough."""
        rank = min(range(self.ranks), key=lambda rank: self.held[rank])
        if self.held[rank] + blocks > self.blocks:
            return False
        request.rank, request.blocks = rank, blocks
        self.held[rank] += blocks
        return True

    def release(self, request: Request, blocks: int | None = None, rank: int | None = None) -> None:
        """Take the blocks of a request back."""
        self.held[request.rank if rank is None else rank] -= request.blocks if blocks is None else blocks

    def batch(self) -> Batch | None:
        """Return the next iteration; None if no request can go on."""
        work = self._mixed() if self.serving.chunked_prefill else (self._prompts() or self._outputs())
        if not work:
            return None
        spans: list[list[Span]] = [[] for _ in range(self.ranks)]
        outputs, prompt_tokens, decoding = [0] * self.ranks, 0, 0
        for request, tokens in work:
            request.busy = True
            spans[request.rank].append(Span(tokens, request.cached))
            outputs[request.rank] += request.cached + tokens == request.target
            alone = request.generated > 0 and request.target - request.cached == 1
            decoding += alone
            prompt_tokens += 0 if alone else tokens
        parts = tuple(Part(tuple(mine), count) for mine, count in zip(spans, outputs, strict=True))
        return Batch(tuple(work), parts, prompt_tokens, decoding)

    def _mixed(self) -> list[tuple[Request, int]]:
        """Outputs first, then prompts that have begun, then new ones, as far as the tokens of an iteration reach."""
        work = self._outputs()
        left = self.serving.max_tokens - len(work)
        chosen = {id(request) for request, _ in work}
        for request in self.running:
            if left and len(work) < self.serving.max_batch and self._begun(request) and id(request) not in chosen:
                work.append((request, min(left, request.target - request.cached)))
                left -= work[-1][1]
        while left and len(work) < self.serving.max_batch and self._start_next():
            request = self.running[-1]
            work.append((request, min(left, request.target)))
            left -= work[-1][1]
        return work

    def _prompts(self) -> list[tuple[Request, int]]:
        """Whole prompts of new requests."""
        work: list[tuple[Request, int]] = []
        left = self.serving.max_tokens
        while self.waiting and len(work) < self.serving.max_batch and self.waiting[0].target <= left:
            if not self._start_next():
                break
            work.append((self.running[-1], self.running[-1].target))
            left -= work[-1][1]
        return work

    def _start_next(self) -> bool:
        """Give the first waiting request its blocks; return whether it has them."""
        if not self.waiting or not self.admit(self.waiting[0], self.wanted(self.waiting[0])):
            return False
        self.running.append(self.waiting.popleft())
        return True

    def _outputs(self) -> list[tuple[Request, int]]:
        """The next token of each output, the oldest request first; the latest ones make room if the cache is full."""
        work: list[tuple[Request, int]] = []
        most = min(self.serving.max_batch, self.serving.max_tokens)
        for request in list(self.running):
            if len(work) == most:
                break
            if request.busy or self._begun(request) or not request.blocks:
                continue
            if self._room_for_token(request, {id(chosen) for chosen, _ in work}):
                work.append((request, 1))
        return work

    def _begun(self, request: Request) -> bool:
        """Whether a running request has more than its next token to compute."""
        return not request.busy and request.target - request.cached > (1 if request.generated else 0)

    def _room_for_token(self, request: Request, chosen: set[int]) -> bool:
        """Make sure that a request has a block for one more token: a free one, or one of the latest request."""
        if self.blocks_for(request.cached + 1) <= request.blocks:
            return True
        while self.held[request.rank] + 1 > self.blocks:
            victims = (
                other
                for other in reversed(self.running)
                if other.rank == request.rank and not other.busy and other.blocks and id(other) not in chosen
            )
            victim = next(victims, None)
            if victim is None:
                return False
            self.preempt(victim)
            if victim is request:
                return False
        request.blocks += 1
        self.held[request.rank] += 1
        return True

    def preempt(self, request: Request) -> None:
        """Take the blocks of a request, which starts again before all that wait."""
        self.release(request)
        request.preempted()
        self.running.remove(request)
        self.waiting.appendleft(request)

    def leave(self, request: Request) -> None:
        """Let a request go that has ended, or moves on; it keeps its blocks until they are released."""
        self.running.remove(request)
