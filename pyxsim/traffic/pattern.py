"""Patterns: where the packets of each node go. Names and definitions are those of the field (docs/traffic.md).

Where BookSim2 has a pattern, it means the same here (Jiang et al., "A detailed and flexible cycle-accurate
network-on-chip simulator", ISPASS 2013), so curves can be compared.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pyxsim.errors import InputError
from pyxsim.registry import Registry
from pyxsim.traffic.draws import Floats, Longs


@dataclass(frozen=True)
class Place:
    """What a pattern may know of where it takes place: NPUs, their number in each dimension (the first counts
    fastest), the folder of the experiment, the seed."""

    npus: int
    shape: tuple[int, ...] = ()
    folder: Path = Path()
    seed: int = 1


class Pattern(Protocol):
    """Who sends to whom."""

    def destinations(self, rng: np.random.Generator, src: Longs) -> Longs:
        """A destination for each packet, given its source."""

    def matrix(self) -> Floats:
        """float64[npus, npus]: the share of the packets of a source (row) that goes to each destination."""

    def rates(self) -> Floats | None:
        """float64[npus]: what each node creates, over the mean of all; None where it is the same for all."""


patterns: Registry[Callable[..., Pattern]] = Registry("traffic pattern")
"""name -> function(place, **options) that makes the pattern; raises InputError where it does not fit the place."""


def make_pattern(name: str, place: Place, options: Mapping[str, Any] | None = None) -> Pattern:
    """The pattern of that name. InputError (with keys below [traffic]) for a name, or options, that there are not."""
    try:
        make = patterns.get(name)
    except InputError as error:
        raise error.at(key="pattern") from None
    options = dict(options or {})
    known = list(inspect.signature(make).parameters.values())[1:]
    for key in options:
        if key not in [each.name for each in known]:
            raise InputError(
                f"the pattern '{name}' has no such option",
                key=f"pattern_options.{key}",
                allowed=[each.name for each in known],
                given=key,
            )
    for each in known:
        if each.default is each.empty and each.name not in options:
            raise InputError(f"is missing: the pattern '{name}' needs it", key=f"pattern_options.{each.name}")
    try:
        found = make(place, **options)
        return replace(found, made=(name, place, options)) if isinstance(found, Drawn) else found
    except InputError as error:
        raise (error if error.file else error.at(key="pattern")) from None


@dataclass(frozen=True, eq=False)
class Permutation:
    """Each node has one destination: `table[src]`."""

    table: Longs

    def destinations(self, rng: np.random.Generator, src: Longs) -> Longs:
        found: Longs = self.table[src]
        return found

    def matrix(self) -> Floats:
        count = len(self.table)
        matrix = np.zeros((count, count))
        matrix[np.arange(count), self.table] = 1
        return matrix

    def rates(self) -> Floats | None:
        return None


@dataclass(frozen=True, eq=False)
class Drawn:
    """Destinations by chance: `draw` finds them, `chances` is the matrix that they follow. `even`: every node sends to
    every node alike, itself included; then nobody needs the matrix, which a large network has no room for."""

    draw: Callable[[np.random.Generator, Longs], Longs]
    chances: Callable[[], Floats]
    sent: Floats | None = None
    even: bool = False
    # Of what it was made, to make it again elsewhere: functions do not travel.
    made: tuple[str, Place, dict[str, Any]] | None = None

    def __reduce__(self) -> str | tuple[Any, ...]:
        return super().__reduce__() if self.made is None else (make_pattern, self.made)

    def destinations(self, rng: np.random.Generator, src: Longs) -> Longs:
        return self.draw(rng, src)

    def matrix(self) -> Floats:
        return self.chances()

    def rates(self) -> Floats | None:
        return self.sent
