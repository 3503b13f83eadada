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
from pyxsim.errors import InputError, PyxsimError
from pyxsim.library import file_of, user_fault
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
    """Make the pattern that is registered under `name`. What a user's pattern returns is checked.

    Raises
    ------
    InputError
        For an unknown name, an unknown, missing or invalid option, or a pattern that does not fit the network; keys
        are relative to [traffic].
    """
    pattern = _unchecked(name, context, options)
    file = file_of(patterns.get(name))
    return pattern if file is None else UserPattern(pattern, name, context.npus, file)


def _unchecked(name: str, context: PatternContext, options: Mapping[str, Any] | None = None) -> Pattern:
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
            raise InputError(f"is missing; the pattern '{name}' requires it", key=f"pattern_options.{parameter.name}")
    try:
        pattern: Pattern = make(context, **options)
    except InputError as error:
        raise (error if error.file else error.at(key="pattern")) from None
    if not isinstance(pattern, Pattern):
        problem = f"the pattern '{name}' returned {type(pattern).__name__}"
        raise InputError(problem, file=file_of(make), allowed="a Pattern")
    return replace(pattern, made_by=(name, context, options)) if isinstance(pattern, RandomPattern) else pattern


@dataclass(frozen=True, eq=False)
class UserPattern(Pattern):
    """A pattern of a user, with checks of what it returns.

    Parameters
    ----------
    pattern, name, file
        The pattern, its registered name, and the user's file.
    npus
        Number of nodes N.
    """

    pattern: Pattern
    name: str
    npus: int
    file: str

    @property
    def uniform(self) -> bool:
        return bool(self.pattern.uniform)

    def destinations(self, rng: np.random.Generator, src: IntArray) -> IntArray:
        dst: IntArray = self._array("destinations", f"{src.shape} whole numbers", "iu", rng, src)
        if dst.shape != src.shape:
            raise self._fault(f"has destinations of shape {dst.shape}", f"shape {src.shape}, as the sources")
        if len(dst) and not 0 <= dst.min() <= dst.max() < self.npus:
            outside = dst[(dst < 0) | (dst >= self.npus)][0]
            raise self._fault(f"sends to node {outside}", f"0 to {self.npus - 1}")
        return dst.astype(np.int64, copy=False)

    def matrix(self) -> FloatArray:
        matrix: FloatArray = self._array("matrix", "numbers", "iuf")
        shape = (self.npus, self.npus)
        if matrix.shape != shape:
            raise self._fault(f"has a matrix of shape {matrix.shape}", f"shape {shape}")
        sums = matrix.sum(axis=1)
        if not (np.isfinite(matrix).all() and (matrix >= 0).all() and (np.isclose(sums, 1) | (sums == 0)).all()):
            raise self._fault("has a matrix that holds no probabilities", "rows of sum 1, or of zeros")
        return matrix.astype(np.float64, copy=False)

    def rates(self) -> FloatArray | None:
        if self._call("rates") is None:
            return None
        rates: FloatArray = self._array("rates", "numbers, or None", "iuf")
        if rates.shape != (self.npus,) or not (np.isfinite(rates).all() and (rates >= 0).all()):
            raise self._fault(f"has rates of shape {rates.shape}", f"{self.npus} numbers, none negative")
        return rates.astype(np.float64, copy=False)

    def _array(self, method: str, allowed: str, kinds: str, *arguments: Any) -> Any:
        """What a method returns as an array of one of the kinds of dtype."""
        value = self._call(method, *arguments)
        try:
            array = np.asarray(value)
        except ValueError:
            array = np.asarray(None)
        if array.dtype.kind in kinds or (array.size == 0 and array.dtype.kind == "f"):  # np.asarray([]) is float64
            return array
        what = type(value).__name__ if array.ndim == 0 else f"an array of {array.dtype}"
        raise self._fault(f"returned {what} from {method}()", allowed)

    def _call(self, method: str, *arguments: Any) -> Any:
        try:
            return getattr(self.pattern, method)(*arguments)
        except (PyxsimError, MemoryError):
            raise
        except Exception as error:
            raise user_fault(error) or self._fault(f"fails: {type(error).__name__}: {error}") from error

    def _fault(self, problem: str, allowed: str = "what docs/extending_pattern.md describes") -> InputError:
        return InputError(f"the pattern '{self.name}' {problem}", file=self.file, allowed=allowed)


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
    # Arguments of _unchecked: functions do not pickle, so another process makes the pattern again.
    made_by: tuple[str, PatternContext, dict[str, Any]] | None = None

    def __reduce__(self) -> str | tuple[Any, ...]:
        return super().__reduce__() if self.made_by is None else (_unchecked, self.made_by)

    def destinations(self, rng: np.random.Generator, src: IntArray) -> IntArray:
        return self.draw(rng, src)

    def matrix(self) -> FloatArray:
        return self.probabilities()
