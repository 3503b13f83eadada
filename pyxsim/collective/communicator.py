"""The NPUs of a collective in rank order, and their grid in the dimensions of the network."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from pyxsim.errors import InputError

Dims = tuple[int, ...]
NO_GRID = (-1,)


@dataclass(frozen=True)
class Communicator:
    """NPUs in the order of their ranks.

    Attributes
    ----------
    members
        The NPU of each rank.
    shape
        Their grid; the first dimension varies fastest.
    dims
        The dimension of the network along each dimension of the grid; (-1,) for NPUs that form no grid and are one
        group.
    """

    members: tuple[int, ...]
    shape: Dims
    dims: Dims

    def __len__(self) -> int:
        return len(self.members)

    @property
    def is_grid(self) -> bool:
        """Whether the plan may use the dimensions of the network."""
        return self.dims != NO_GRID

    @classmethod
    def whole(cls, shape: Sequence[int]) -> Communicator:
        """Return all NPUs of a network of `shape`."""
        return cls(tuple(range(math.prod(shape))), tuple(shape), tuple(range(len(shape))))

    @classmethod
    def of(cls, members: Sequence[int], shape: Sequence[int]) -> Communicator:
        """Return some NPUs of a network of `shape`. Raises InputError for repeated or unknown NPUs.

        They form a grid if they are all combinations of some coordinates in each dimension, in the order of the
        network.
        """
        npus, own = math.prod(shape), tuple(members)
        if not own:
            raise InputError("the group has no NPUs", allowed="at least one NPU")
        for npu in own:
            if not 0 <= npu < npus:
                raise InputError(f"there is no NPU {npu}", allowed=f"NPUs 0 to {npus - 1}")
        if len(set(own)) < len(own):
            twice = next(npu for npu in own if own.count(npu) > 1)
            raise InputError(f"NPU {twice} is in the group twice", allowed="each NPU once")
        at = [coordinates(npu, shape) for npu in own]
        used = [sorted({place[dim] for place in at}) for dim in range(len(shape))]
        full = math.prod(len(places) for places in used) == len(own)
        if not full or at != [place[::-1] for place in itertools.product(*used[::-1])]:
            return cls(own, (len(own),), NO_GRID)
        dims = tuple(dim for dim, places in enumerate(used) if len(places) > 1) or (0,)
        return cls(own, tuple(len(used[dim]) for dim in dims), dims)

    @classmethod
    def along(cls, dims: Sequence[int], shape: Sequence[int]) -> list[Communicator]:
        """Return all groups of NPUs that differ only in the coordinates `dims`, in the order of their first NPUs."""
        inside = sorted(set(dims))
        fixed = [range(1) if dim in inside else range(size) for dim, size in enumerate(shape)]
        free = [range(size) if dim in inside else range(1) for dim, size in enumerate(shape)]
        weights = [math.prod(shape[:dim]) for dim in range(len(shape))]
        offsets = [_number(place[::-1], weights) for place in itertools.product(*free[::-1])]
        firsts = [_number(place[::-1], weights) for place in itertools.product(*fixed[::-1])]
        extent = tuple(shape[dim] for dim in inside)
        return [cls(tuple(first + offset for offset in offsets), extent, tuple(inside)) for first in firsts]


def coordinates(npu: int, shape: Sequence[int]) -> Dims:
    """Return the coordinates of an NPU in a network of `shape`."""
    return tuple(npu // math.prod(shape[:dim]) % size for dim, size in enumerate(shape))


def _number(place: Sequence[int], weights: Sequence[int]) -> int:
    return sum(at * weight for at, weight in zip(place, weights, strict=True))
