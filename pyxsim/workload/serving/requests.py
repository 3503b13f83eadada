"""Requests: their arrivals and lengths, and their progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, log
from pathlib import Path

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.errors import InputError
from pyxsim.settings.serving import MOST_TOKENS, Lengths, Serving
from pyxsim.workload.serving.request_trace import Arrival, read_requests

NEVER = -1
_ARRIVALS, _PROMPTS, _OUTPUTS = range(3)  # purposes of drawn numbers


@dataclass(eq=False)
class Request:
    """A request and its progress. Cycles are -1 until they are known.

    Attributes
    ----------
    number
        In the order of arrival.
    prompt, output
        Tokens.
    generated
        Tokens of the output so far.
    cached
        Tokens whose keys and values are in the cache of its instance.
    target
        Tokens to have in the cache before the next token of the output follows: the prompt, and after a preemption
        what has been generated.
    blocks
        Blocks of the KV cache that it has, at each instance that holds some.
    rank
        Its rank in its instance.
    busy
        Whether it is in an iteration in progress.
    arrival, scheduled, first, last
        Cycles: it arrives, is in an iteration for the first time, and has its first and its last token.
    sent, received
        Cycles: its keys and values begin to move to a decode instance, and are there.
    """

    number: int
    arrival: int
    prompt: int
    output: int
    generated: int = 0
    cached: int = 0
    target: int = 0
    blocks: int = 0
    rank: int = 0
    busy: bool = False
    instance: int = NEVER
    decoder: int = NEVER
    scheduled: int = NEVER
    first: int = NEVER
    last: int = NEVER
    sent: int = NEVER
    received: int = NEVER
    preemptions: int = 0
    rejected: str = ""
    token_times: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.target = self.prompt

    @property
    def prefilling(self) -> bool:
        """Whether tokens before the next one of the output are not in the cache."""
        return self.cached < self.target

    @property
    def done(self) -> bool:
        """Whether it has all its tokens."""
        return self.generated == self.output

    @property
    def most_cached(self) -> int:
        """Tokens in the cache at its end: the last one of the output is never there."""
        return self.prompt + self.output - 1

    def computed(self, tokens: int, cycle: int) -> bool:
        """Note that an iteration has computed some of its tokens; return whether this gave a token of the output."""
        self.cached += tokens
        if self.prefilling:
            return False
        self.generated += 1
        self.target = self.cached + 1
        if self.first < 0:
            self.first = cycle
        if self.done:
            self.last = cycle
        return True

    def preempted(self) -> None:
        """Drop its keys and values: all tokens so far are computed again."""
        self.cached, self.blocks = 0, 0
        self.target = self.prompt + self.generated
        self.preemptions += 1


def make_requests(serving: Serving, clock: Fraction, folder: Path) -> tuple[list[Request], list[str]]:
    """Return all requests by arrival, and notes about those that a file has without an output. Raises InputError."""
    arrivals, notes = serving.arrivals, list[str]()
    if arrivals.file is not None:
        try:
            rows, empty = read_requests(folder / arrivals.file, serving.requests)
        except InputError as error:
            raise error.named_by("workload.serving.arrivals.file") from None
        if empty:
            notes.append(f"{arrivals.file}: {empty} requests without output tokens were left out")
        scale = (arrivals.time_scale or Fraction(1)) * clock
        return [_request(number, scale * row.time, row) for number, row in enumerate(rows)], notes
    count = serving.requests or 0
    assert serving.prompt is not None
    assert serving.output is not None
    prompts, outputs = (
        _lengths(lengths, count, np.random.default_rng([serving.seed, purpose]))
        for lengths, purpose in ((serving.prompt, _PROMPTS), (serving.output, _OUTPUTS))
    )
    times = _times(serving, count, clock)
    return [
        Request(number, time, prompt, output)
        for number, (time, prompt, output) in enumerate(zip(times, prompts.tolist(), outputs.tolist(), strict=True))
    ], notes


def _request(number: int, cycles: Fraction, row: Arrival) -> Request:
    return Request(number, ceil(cycles), row.prompt, row.output)


def _times(serving: Serving, count: int, clock: Fraction) -> Sequence[int]:
    """The cycles of arrivals, ascending."""
    rate = serving.arrivals.rate
    if rate is None:
        return [0] * count
    if serving.arrivals.process == "uniform":
        return [ceil(number * clock / rate) for number in range(count)]
    rng = np.random.default_rng([serving.seed, _ARRIVALS])
    # Gaps in units of 2^-32 of the mean, so that sums are exact whatever their order.
    gaps = np.floor(rng.standard_exponential(count) * 2**32).astype(np.int64)
    return [ceil(at * clock / (rate * 2**32)) for at in np.cumsum(gaps).tolist()]


def _lengths(lengths: Lengths, count: int, rng: np.random.Generator) -> IntArray:
    kind, mean = lengths.distribution, lengths.tokens
    if kind == "uniform":
        assert lengths.least is not None
        assert lengths.most is not None
        return rng.integers(lengths.least, lengths.most, count, endpoint=True)
    assert mean is not None
    if kind == "fixed":
        return np.full(count, mean, np.int64)
    if kind == "geometric":
        drawn: IntArray = rng.geometric(1 / mean, count)
    else:
        sigma = 1.0 if lengths.sigma is None else float(lengths.sigma)
        values = rng.lognormal(log(mean) - sigma**2 / 2, sigma, count)
        drawn = np.rint(np.minimum(values, MOST_TOKENS)).astype(np.int64)
    return np.clip(drawn, lengths.least or 1, lengths.most or MOST_TOKENS)
