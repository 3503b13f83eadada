"""Traffic patterns: the map from sources to destinations (Dally and Towles, 3.2).

The files of the shelf `patterns/` register patterns, one each (docs/traffic.md lists them, docs/extending_pattern.md
explains how to write one). Patterns that BookSim2 also has are the same as there (Jiang et al., "A detailed and
flexible cycle-accurate network-on-chip simulator", ISPASS 2013), so load-latency curves can be compared.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pyxsim.arrays import FloatArray, IntArray
from pyxsim.errors import InputError
from pyxsim.registry import patterns


@dataclass(frozen=True)
class PatternContext:
    """The network and experiment that a pattern is made for.

    Parameters
    ----------
    npus
        Number of nodes N.
    shape
        Nodes per dimension; dimension 0 counts fastest. Empty for one dimension of N nodes.
    folder
        The folder of the experiment; relative file names in options start there.
    seed
        Seed of the experiment.
    """

    npus: int
    shape: tuple[int, ...] = ()
    folder: Path = Path()
    seed: int = 1


class Pattern:
    """Base class of traffic patterns: who sends to whom."""

    @property
    def uniform(self) -> bool:
        """Whether every node sends to every node with the same probability, including itself.

        The bound of uniform traffic needs no matrix, which would be too large for large networks.
        """
        return False

    def destinations(self, rng: np.random.Generator, src: IntArray) -> IntArray:
        """Draw the destination of each packet.

        Parameters
        ----------
        rng
            Source of randomness. Use `rng.random` only: its numbers are the same with every numpy.
        src
            int64[k], the source node of each packet.

        Returns
        -------
        int64[k]
            The destination node of each packet.
        """
        raise NotImplementedError

    def matrix(self) -> FloatArray:
        """Return float64[N, N]: the probability that a packet of a source (row) goes to a destination (column)."""
        raise NotImplementedError

    def rates(self) -> FloatArray | None:
        """Return float64[N]: packets that each node creates, relative to the mean; None where all are equal."""
        return None


def make_pattern(name: str, context: PatternContext, options: Mapping[str, Any] | None = None) -> Pattern:
    """Make the pattern that is registered under `name`.

    Raises
    ------
    InputError
        For an unknown name, an unknown, missing or invalid option, or a pattern that does not fit the network; keys
        are relative to [traffic].
    """
    try:
        make = patterns.get(name)
    except InputError as error:
        raise error.at(key="pattern") from None
    options = dict(options or {})
    parameters = list(inspect.signature(make).parameters.values())[1:]
    names = [parameter.name for parameter in parameters]
    for key in options:
        if key not in names:
            raise InputError(
                f"the pattern '{name}' has no such option", key=f"pattern_options.{key}", allowed=names, given=key
            )
    for parameter in parameters:
        if parameter.default is parameter.empty and parameter.name not in options:
            raise InputError(f"missing; the pattern '{name}' requires it", key=f"pattern_options.{parameter.name}")
    try:
        pattern: Pattern = make(context, **options)
    except InputError as error:
        raise (error if error.file else error.at(key="pattern")) from None
    return replace(pattern, made_by=(name, context, options)) if isinstance(pattern, RandomPattern) else pattern


@dataclass(frozen=True, eq=False)
class Permutation(Pattern):
    """A pattern with one destination per node: `table[src]`, int64[N]."""

    table: IntArray

    def destinations(self, rng: np.random.Generator, src: IntArray) -> IntArray:
        dst: IntArray = self.table[src]
        return dst

    def matrix(self) -> FloatArray:
        count = len(self.table)
        matrix = np.zeros((count, count))
        matrix[np.arange(count), self.table] = 1
        return matrix


@dataclass(frozen=True, eq=False)
class RandomPattern(Pattern):
    """A pattern with random destinations.

    Parameters
    ----------
    draw
        Function (rng, src) -> destinations, as `Pattern.destinations`.
    probabilities
        Function () -> the matrix that the draws follow, as `Pattern.matrix`.
    uniform
        As `Pattern.uniform`.
    """

    draw: Callable[[np.random.Generator, IntArray], IntArray]
    probabilities: Callable[[], FloatArray]
    uniform: bool = False
    # Arguments of make_pattern: functions do not pickle, so another process makes the pattern again.
    made_by: tuple[str, PatternContext, dict[str, Any]] | None = None

    def __reduce__(self) -> str | tuple[Any, ...]:
        return super().__reduce__() if self.made_by is None else (make_pattern, self.made_by)

    def destinations(self, rng: np.random.Generator, src: IntArray) -> IntArray:
        return self.draw(rng, src)

    def matrix(self) -> FloatArray:
        return self.probabilities()
