"""Injection processes: the cycles in which a node creates a packet (Dally and Towles, 24.2.2).

A process draws blocks of a fixed number of cycles for all nodes, each block from its own streams. The packets of a
cycle therefore do not depend on how a run is divided into spans.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Protocol

import numpy as np

from pyxsim.arrays import BoolArray, FloatArray, IntArray
from pyxsim.errors import InputError
from pyxsim.traffic.draws import START, STATE, TRIAL, stream

RARE_PACKETS = 16.0  # mean packets per group of blocks up to which drawing their number is faster than drawing trials
MAX_GROUP = 2**12  # blocks
BLOCK_TRIALS = 2**17  # approximate trials per block: large enough for arrays, small enough for the cache


def block_cycles(npus: int) -> int:
    """Return the cycles of a block: a power of two from 16 to 4096."""
    return 1 << max(4, min(12, (BLOCK_TRIALS // npus).bit_length() - 1))


_EMPTY = np.zeros(0, dtype=np.int64)


class Process(Protocol):
    """The cycles in which packets are created. Callers request blocks in order."""

    def block(self, number: int) -> tuple[IntArray, IntArray]:
        """Return (cycle within the block, node) of each packet, int64[k] each, in order of (cycle, node)."""


class Bernoulli:
    """One trial per node and cycle: a packet with probability `rates`, a float or float64[N]; always at 1 or above."""

    def __init__(self, seed: int, klass: int, npus: int, rates: float | FloatArray) -> None:
        self._name = (seed, klass)
        self._shape = (block_cycles(npus), npus)
        self._rates = rates

    def block(self, number: int) -> tuple[IntArray, IntArray]:
        rng = stream(*self._name, TRIAL, number)
        return _positions(rng.random(self._shape) < self._rates)


class Rare:
    """The same distribution where packets are rare: draws the number and the positions of the successes.

    One draw covers as many blocks as have RARE_PACKETS packets on average. Where rates differ, all nodes use the
    largest rate, and each success is kept with the ratio of the node's rate to it.
    """

    def __init__(self, seed: int, klass: int, npus: int, rates: float | FloatArray) -> None:
        self._name = (seed, klass)
        self._npus = npus
        self._trials = block_cycles(npus) * npus
        most = float(np.max(rates))
        self._shares = None if np.ndim(rates) == 0 else np.asarray(rates, float) / max(most, 1e-300)
        self._group_blocks = 1
        while self._group_blocks < MAX_GROUP and 2 * self._group_blocks * self._trials * most <= RARE_PACKETS:
            self._group_blocks *= 2
        self._cdf = binomial_cdf(self._group_blocks * self._trials, most)
        self._drawn = -1
        self._successes: list[int] = []

    def block(self, number: int) -> tuple[IntArray, IntArray]:
        group, inside = divmod(number, self._group_blocks)
        if group != self._drawn:
            self._drawn, self._successes = group, self._draw(group)
        first = inside * self._trials
        begin = bisect_left(self._successes, first)
        end = bisect_left(self._successes, first + self._trials, begin)
        if begin == end:
            return _EMPTY, _EMPTY
        places = np.array(self._successes[begin:end], dtype=np.int64) - first
        return places // self._npus, places % self._npus

    def _draw(self, group: int) -> list[int]:
        """The positions of the successful trials of a group of blocks, in order."""
        rng = stream(*self._name, TRIAL, group)
        count = bisect_right(self._cdf, rng.random() * self._cdf[-1], hi=len(self._cdf) - 1)
        chosen: dict[int, bool] = {}
        while len(chosen) < count:  # all sets of this size are equally likely
            position = int(rng.random() * self._group_blocks * self._trials)
            if position not in chosen:
                chosen[position] = self._shares is None or rng.random() < self._shares[position % self._npus]
        return sorted(position for position, kept in chosen.items() if kept)


def bernoulli_process(seed: int, klass: int, npus: int, rates: float | FloatArray) -> Bernoulli | Rare:
    """Return the faster Bernoulli process for `rates` packets per node and cycle."""
    rare = float(np.max(rates)) * block_cycles(npus) * npus <= RARE_PACKETS
    return Rare(seed, klass, npus, rates) if rare else Bernoulli(seed, klass, npus, rates)


def binomial_cdf(count: int, chance: float) -> list[float]:
    """Return the cumulative binomial distribution: the probability of at most 0, 1, 2, ... successes in `count` trials.

    The list ends where further terms no longer change the sum. Only products and quotients are used, which are the
    same on every host; logarithms and powers need not be.
    """
    base, power, none = 1.0 - chance, count, 1.0
    while power:  # none = (1 - chance) ** count
        none, base, power = none * base if power & 1 else none, base * base, power >> 1
    cdf, term, number = [none], none, 0
    while number < count and term > cdf[-1] * 2.0**-60:
        term *= (count - number) / (number + 1) * (chance / (1.0 - chance))
        number += 1
        cdf.append(cdf[-1] + term)
    return cdf


class OnOff:
    """A Markov-modulated process (Dally and Towles, 24.2.2), as in BookSim2.

    A node turns on with probability `alpha` per cycle, off with `beta`, and creates packets with probability `r1` while
    it is on. It changes its state before its trial, and starts in the stationary distribution. Two of the three
    probabilities are given; the third follows from the mean rate `rates`.

    Raises
    ------
    InputError
        If no third probability results in the mean rate.
    """

    def __init__(
        self,
        seed: int,
        klass: int,
        npus: int,
        rates: float | FloatArray,
        alpha: float | None,
        beta: float | None,
        r1: float | None,
    ) -> None:
        self._name = (seed, klass)
        self._shape = (block_cycles(npus), npus)
        node_rates = np.broadcast_to(np.asarray(rates, float), npus)
        self._alpha, self._beta, self._r1 = _third_probability(node_rates, alpha, beta, r1)
        share = self._alpha / np.maximum(self._alpha + self._beta, 1e-300)
        self._on = stream(seed, klass, START).random(npus) < share

    def block(self, number: int) -> tuple[IntArray, IntArray]:
        draws = stream(*self._name, STATE, number).random(self._shape)
        on = states(self._on, draws < self._alpha, draws >= self._beta)
        self._on = on[-1]
        trials = stream(*self._name, TRIAL, number).random(self._shape) < self._r1
        return _positions(on & trials)


def states(before: BoolArray, from_off: BoolArray, from_on: BoolArray) -> BoolArray:
    """Return the states of two-state Markov chains after every cycle.

    Parameters
    ----------
    before
        bool[nodes], the states before the first cycle.
    from_off, from_on
        bool[cycles, nodes], the state after a cycle in which the node was off, or on, before.

    Returns
    -------
    bool[cycles, nodes]
    """
    # Each cycle sets, keeps or toggles the state. A state is therefore that of the last cycle that set it, toggled as
    # often as the cycles since then toggled it.
    cycles = np.arange(1, len(from_off) + 1)[:, None]
    sets = from_off == from_on
    last = np.maximum.accumulate(np.where(sets, cycles, 0), axis=0)
    toggles = np.vstack([np.zeros_like(before)[None], np.cumsum(from_off & ~from_on, axis=0) % 2 == 1])
    values = np.vstack([before[None], from_off])
    nodes = np.arange(from_off.shape[1])[None]
    after: BoolArray = values[last, nodes] ^ toggles[1:] ^ toggles[last, nodes]
    return after


def _third_probability(
    rates: FloatArray, alpha: float | None, beta: float | None, r1: float | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """All three probabilities per node; rates = r1 * alpha / (alpha + beta)."""
    like = np.ones_like(rates)
    with np.errstate(divide="ignore", invalid="ignore"):
        if alpha is None and beta is not None and r1 is not None:
            solved = (np.where(rates > 0, beta * rates / (r1 - rates), 0.0), beta * like, r1 * like)
            fits = rates < r1
        elif beta is None and alpha is not None and r1 is not None:
            off = np.where(rates > 0, alpha * (r1 - rates) / rates, 0.0)
            solved = (alpha * like, off, np.where(rates > 0, r1, 0.0))
            fits = rates <= r1
        elif alpha is not None and beta is not None:
            solved = (alpha * like, beta * like, rates * (alpha + beta) / alpha if alpha else np.inf * like)
            fits = like > 0
        else:
            raise ValueError("two of alpha, beta and r1 are required")
    fits &= (solved[0] <= 1) & (solved[1] <= 1) & (solved[2] <= 1)
    if not fits.all():
        worst = float(rates.max())
        text = f"on-off injection with these probabilities cannot create {worst:g} packets per node and cycle"
        raise InputError(text, key="injection", allowed="other probabilities, or a smaller load")
    return solved


def _positions(packets: BoolArray) -> tuple[IntArray, IntArray]:
    cycles, nodes = np.nonzero(packets)
    return cycles.astype(np.int64), nodes.astype(np.int64)
