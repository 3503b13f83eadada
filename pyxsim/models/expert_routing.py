"""Which experts the tokens of a mixture of experts go to: counts for each source, layer and step.

Each token goes to `top_k` different experts. A distribution gives the probability that an expert is among them
(`inclusion`); systematic sampling (Madow 1949, On the theory of systematic sampling II) draws exactly `top_k` experts
per token with exactly these probabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import FloatArray, IntArray
from pyxsim.models.routing_trace import RoutingTrace, read_routing
from pyxsim.settings.experts import Experts

Bools = NDArray[np.bool_]
_POPULARITY, _TOKENS = 0, 1  # purposes of drawn numbers
_PERIOD = 3  # steps for which the hot experts of W6 stay; a step after so many is the burst of W7


@dataclass(frozen=True)
class ExpertRouting:
    """The routing of tokens to `experts` experts of each layer, `top_k` for each token."""

    settings: Experts
    experts: int
    top_k: int
    trace: RoutingTrace | None = field(default=None, compare=False)

    def counts(self, tokens: Sequence[int], layer: int, step: int) -> IntArray:
        """Return the tokens that each source sends to each expert, int64[sources, experts], without dropped ones.

        Parameters
        ----------
        tokens
            Tokens of each source; without drops, a row of the result adds up to `top_k` times as many.
        layer
            Number of the layer of experts, from 0.
        step
            Micro-batch of a training step, or iteration of serving.
        """
        rows = self._routed(np.asarray(tokens, np.int64), layer, step)
        factor = self.settings.capacity_factor
        if factor is not None:
            most = [ceil(factor * count * self.top_k / self.experts) for count in tokens]
            rows = np.minimum(rows, np.array(most, np.int64)[:, None])
        return rows

    def _routed(self, tokens: IntArray, layer: int, step: int) -> IntArray:
        name = self.settings.routing
        if self.trace is not None:
            return self.trace.counts(tokens, layer, step, self.experts, self.top_k)
        if name in ("balanced", "W0"):
            return self._in_turn(tokens, layer + step if name == "balanced" else 0)
        rng = np.random.default_rng([self.settings.seed, _TOKENS, layer, step])
        if name in _SHARES:
            shares = _inclusion(self.settings, self.experts, self.top_k, layer)
            return np.array([_drawn(rng, shares, count) for count in tokens.tolist()], np.int64)
        hot, every = self._hot(step)
        others = np.ones(self.experts)
        rows = []
        for count in tokens.tolist():
            anywhere = -(-count // every) if every else 0  # token t of a source goes anywhere if `every` divides t
            drawn = _drawn(rng, inclusion(others, self.top_k), anywhere)
            rows.append(drawn + _drawn(rng, inclusion(hot, self.top_k), count - anywhere))
        return np.array(rows, np.int64)

    def _in_turn(self, tokens: IntArray, start: int) -> IntArray:
        """Round robin over experts, from source to source."""
        copies = tokens * self.top_k
        ends = np.cumsum(copies) + start * self.top_k
        upto = np.stack([ends - copies, ends], axis=1)[:, :, None]
        dealt = (upto + self.experts - 1 - np.arange(self.experts)) // self.experts
        return cast(IntArray, dealt[:, 1] - dealt[:, 0])

    def _hot(self, step: int) -> tuple[FloatArray, int]:
        """The hot experts of W1 to W7, and how many tokens there are for each one that goes anywhere (0: none)."""
        name, experts = self.settings.routing, self.experts
        width = max(self.top_k, experts // 4)
        at = np.arange(experts)
        if name == "W3":
            return self._pool((at % 2 == 0) & (at < 2 * max(self.top_k, experts // 2))), 4
        if name == "W5":
            return self._pool(at >= experts // 2), 0
        first = step // _PERIOD * width % experts if name == "W6" else 0
        if name == "W4" or (name == "W7" and step % (_PERIOD + 1) != _PERIOD):
            return np.ones(experts), 0
        return self._pool((at - first) % experts < width), 2 if name == "W7" else 4

    def _pool(self, chosen: Bools) -> FloatArray:
        """Equal weights of the chosen experts; of all if they are fewer than a token needs."""
        return (chosen if chosen.sum() >= self.top_k else np.ones(self.experts, bool)).astype(np.float64)


def expert_routing(settings: Experts | None, experts: int, top_k: int, folder: Path = Path()) -> ExpertRouting | None:
    """Return the routing of a model; None without settings. Raises InputError, with a key below the table."""
    if settings is None:
        return None
    trace = None if settings.file is None else read_routing(folder / settings.file, experts, top_k)
    return ExpertRouting(settings, experts, top_k, trace)


def inclusion(weights: FloatArray, top_k: int) -> FloatArray:
    """Return the probabilities that each expert is one of `top_k`: proportional to `weights`, at most 1 each."""
    weights = np.asarray(weights, np.float64)
    shares = np.zeros(len(weights))
    sure = np.zeros(len(weights), bool)
    while True:
        rest = weights[~sure].sum()
        shares = np.where(sure, 1.0, weights * ((top_k - sure.sum()) / rest) if rest > 0 else 0.0)
        more = (shares > 1) & ~sure
        if not more.any():
            return shares
        sure |= more


def _drawn(rng: np.random.Generator, shares: FloatArray, tokens: int) -> IntArray:
    """How many of some tokens go to each expert, int64[experts], by systematic sampling of each token."""
    begins = np.sort(rng.random(tokens))
    ends = np.concatenate([[0.0], np.cumsum(shares)])
    ends[-1] = np.round(ends[-1])
    ends[1:-1] = np.minimum(ends[1:-1], ends[-1])
    whole = np.floor(ends)
    upto = whole.astype(np.int64) * tokens + np.searchsorted(begins, ends - whole)
    return cast(IntArray, np.diff(upto))


@lru_cache(maxsize=4096)
def _inclusion(settings: Experts, experts: int, top_k: int, layer: int) -> FloatArray:
    rng = np.random.default_rng([settings.seed, _POPULARITY, layer])
    return inclusion(_SHARES[settings.routing](rng, settings, experts), top_k)


def _zipf(rng: np.random.Generator, settings: Experts, experts: int) -> FloatArray:
    exponent = 1.0 if settings.exponent is None else float(settings.exponent)
    weights: FloatArray = np.arange(1, experts + 1, dtype=np.float64) ** -exponent
    return weights[rng.permutation(experts)]


def _dirichlet(rng: np.random.Generator, settings: Experts, experts: int) -> FloatArray:
    each = 1.0 if settings.concentration is None else float(settings.concentration)
    shares: FloatArray = rng.dirichlet(np.full(experts, each))
    return shares + 1e-12  # no share is so small that fewer than top_k experts are left


_SHARES: dict[str, Callable[[np.random.Generator, Experts, int], FloatArray]] = {
    "zipf": _zipf,
    "dirichlet": _dirichlet,
}
