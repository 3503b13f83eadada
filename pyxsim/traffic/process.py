"""Processes of injection: in which cycles a node creates a packet.

A process is drawn block by block: a fixed number of cycles for all nodes, each from streams of its own. So what happens
in a cycle does not depend on how a run is cut into spans.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pyxsim.errors import InputError
from pyxsim.traffic.draws import START, STATE, TRIAL, Floats, Longs, stream

FEW = 16.0  # packets of a block, on average: with so few it is quicker to draw how many there are
MOST_TOGETHER = 2**12  # blocks
TRIALS = 2**17  # of a block, about: large enough for arrays, small enough for the cache
Flags = NDArray[np.bool_]


def block_cycles(npus: int) -> int:
    """Cycles of a block: a power of two, at least 16."""
    return 1 << max(4, min(12, (TRIALS // npus).bit_length() - 1))


NOTHING = np.zeros(0, dtype=np.int64)


class Process(Protocol):
    """When packets are created. Blocks are asked for in order."""

    def block(self, number: int) -> tuple[Longs, Longs]:
        """(cycle inside the block, node) of each packet, in order of (cycle, node)."""


class Bernoulli:
    """A trial per node and cycle: a packet with probability `rates` (at 1 and above in every cycle)."""

    def __init__(self, seed: int, klass: int, npus: int, rates: float | Floats) -> None:
        self._name = (seed, klass)
        self._shape = (block_cycles(npus), npus)
        self._rates = rates

    def block(self, number: int) -> tuple[Longs, Longs]:
        rng = stream(*self._name, TRIAL, number)
        return _places(rng.random(self._shape) < self._rates)


class Rare:
    """The same trials where nearly all fail: drawn is how many succeed, and which, and no trial for each; for as
    many blocks together as have FEW packets. Where nodes differ, all are tried with the largest rate, and a success of
    a node counts with its share of it.
    """

    def __init__(self, seed: int, klass: int, npus: int, rates: float | Floats) -> None:
        self._name = (seed, klass)
        self._npus = npus
        self._trials = block_cycles(npus) * npus
        most = float(np.max(rates))
        self._shares = None if np.ndim(rates) == 0 else np.asarray(rates, float) / max(most, 1e-300)
        self._together = 1
        while self._together < MOST_TOGETHER and 2 * self._together * self._trials * most <= FEW:
            self._together *= 2
        self._up_to = binomial(self._together * self._trials, most)
        self._drawn = -1
        self._found: list[int] = []

    def block(self, number: int) -> tuple[Longs, Longs]:
        group, inside = divmod(number, self._together)
        if group != self._drawn:
            self._drawn, self._found = group, self._draw(group)
        first = inside * self._trials
        begin = bisect_left(self._found, first)
        end = bisect_left(self._found, first + self._trials, begin)
        if begin == end:
            return NOTHING, NOTHING
        places = np.array(self._found[begin:end], dtype=np.int64) - first
        return places // self._npus, places % self._npus

    def _draw(self, group: int) -> list[int]:
        """The trials of some blocks that succeed, in order."""
        rng = stream(*self._name, TRIAL, group)
        count = bisect_right(self._up_to, rng.random() * self._up_to[-1], hi=len(self._up_to) - 1)
        chosen: dict[int, bool] = {}
        while len(chosen) < count:  # each set of so many places is as likely as any other
            place = int(rng.random() * self._together * self._trials)
            if place not in chosen:
                chosen[place] = self._shares is None or rng.random() < self._shares[place % self._npus]
        return sorted(place for place, counts in chosen.items() if counts)


def trials(seed: int, klass: int, npus: int, rates: float | Floats) -> Bernoulli | Rare:
    """A packet with probability `rates` in every cycle, drawn in the way that is quick."""
    rare = float(np.max(rates)) * block_cycles(npus) * npus <= FEW
    return Rare(seed, klass, npus, rates) if rare else Bernoulli(seed, klass, npus, rates)


def binomial(count: int, chance: float) -> list[float]:
    """With what probability so many of `count` trials succeed at most: 0, 1, 2, ..., until nothing is left to add.

    Products and quotients only, which are the same on every machine; a logarithm or a power need not be.
    """
    each, power, none = 1.0 - chance, count, 1.0
    while power:  # (1 - chance) ** count
        none, each, power = none * each if power & 1 else none, each * each, power >> 1
    found, term, number = [none], none, 0
    while number < count and term > found[-1] * 2.0**-60:
        term *= (count - number) / (number + 1) * (chance / (1.0 - chance))
        number += 1
        found.append(found[-1] + term)
    return found


class OnOff:
    """Bursts: a node turns on with probability `alpha`, off with `beta`, and creates packets with `r1` while it is on.

    As in BookSim2 a node changes its state before its trial. It begins on or off as it is in the long run. Two of the
    three are given, the third is the one that makes the mean rate `rates`. Raises InputError where there is none.
    """

    def __init__(
        self,
        seed: int,
        klass: int,
        npus: int,
        rates: float | Floats,
        alpha: float | None,
        beta: float | None,
        r1: float | None,
    ) -> None:
        self._name = (seed, klass)
        self._shape = (block_cycles(npus), npus)
        self._alpha, self._beta, self._r1 = _complete(np.broadcast_to(np.asarray(rates, float), npus), alpha, beta, r1)
        share = self._alpha / np.maximum(self._alpha + self._beta, 1e-300)
        self._on = stream(seed, klass, START).random(npus) < share

    def block(self, number: int) -> tuple[Longs, Longs]:
        draws = stream(*self._name, STATE, number).random(self._shape)
        on = states(self._on, draws < self._alpha, draws >= self._beta)
        self._on = on[-1]
        trials = stream(*self._name, TRIAL, number).random(self._shape) < self._r1
        return _places(on & trials)


def states(before: Flags, from_off: Flags, from_on: Flags) -> Flags:
    """The states of two-state chains in every cycle: bool[cycles, nodes].

    `from_off`, `from_on` bool[cycles, nodes]: whether a node is on after a cycle in which it was off, or on, before.
    """
    # Each cycle maps the state before it to the one after it: it sets it, keeps it or turns it round. So a state is
    # that of the last cycle that set it, turned round as often as cycles since then did.
    cycles = np.arange(1, len(from_off) + 1)[:, None]
    sets = from_off == from_on
    last = np.maximum.accumulate(np.where(sets, cycles, 0), axis=0)
    turns = np.vstack([np.zeros_like(before)[None], np.cumsum(from_off & ~from_on, axis=0) % 2 == 1])
    values = np.vstack([before[None], from_off])
    nodes = np.arange(from_off.shape[1])[None]
    found: Flags = values[last, nodes] ^ turns[1:] ^ turns[last, nodes]
    return found


def _complete(
    rates: Floats, alpha: float | None, beta: float | None, r1: float | None
) -> tuple[Floats, Floats, Floats]:
    """All three probabilities for every node, such that a node creates `rates` packets per cycle: a share
    alpha / (alpha + beta) of the time it is on, and then creates r1."""
    like = np.ones_like(rates)
    with np.errstate(divide="ignore", invalid="ignore"):
        if alpha is None and beta is not None and r1 is not None:
            found = (np.where(rates > 0, beta * rates / (r1 - rates), 0.0), beta * like, r1 * like)
            fits = rates < r1
        elif beta is None and alpha is not None and r1 is not None:
            found = (alpha * like, np.where(rates > 0, alpha * (r1 - rates) / rates, 0.0), np.where(rates > 0, r1, 0.0))
            fits = rates <= r1
        elif alpha is not None and beta is not None:
            found = (alpha * like, beta * like, rates * (alpha + beta) / alpha if alpha else np.inf * like)
            fits = like > 0
        else:
            raise ValueError("two of alpha, beta and r1 are needed")
    fits &= (found[0] <= 1) & (found[1] <= 1) & (found[2] <= 1)
    if not fits.all():
        worst = float(rates.max())
        text = f"bursts with these probabilities cannot make {worst:g} packets per node and cycle"
        raise InputError(text, key="injection", allowed="other probabilities, or a smaller load")
    return found


def _places(packets: Flags) -> tuple[Longs, Longs]:
    cycles, nodes = np.nonzero(packets)
    return cycles.astype(np.int64), nodes.astype(np.int64)
