"""The NPUs as a grid of tensor, data and pipeline parallelism, and the groups along each axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.collective.communicator import Communicator

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Grid:
    """`tensor` x `data` x `pipeline` NPUs; those of the first axis of `order` have consecutive numbers.

    `expert`: adjacent replicas that divide experts among themselves.
    """

    tensor: int
    data: int
    pipeline: int
    expert: int = 1
    order: tuple[str, ...] = ("tensor", "data", "pipeline")

    def __len__(self) -> int:
        return self.tensor * self.data * self.pipeline

    def stride(self, axis: str) -> int:
        """Return the difference of the numbers of neighbors along an axis."""
        return prod(getattr(self, outer) for outer in self.order[: self.order.index(axis)])

    @cached_property
    def _npus(self) -> IntArray:
        """The NPU at each place (pipeline, data, tensor)."""
        at = np.zeros((self.pipeline, self.data, self.tensor), np.int64)
        for place, axis in enumerate(("pipeline", "data", "tensor")):
            shape = [1, 1, 1]
            shape[place] = getattr(self, axis)
            at = at + (np.arange(shape[place]) * self.stride(axis)).reshape(shape)
        return at

    def stage(self, stage: int) -> IntArray:
        """Return the NPUs of a pipeline stage; the same place in another stage is the NPU that they exchange data
        with."""
        npus: IntArray = self._npus[stage].ravel()
        return npus

    def groups(self, axis: str, stages: Sequence[int]) -> Groups:
        """Return the groups of NPUs of some stages that differ only in their place along an axis, in the order of
        places."""
        at = self._npus[list(stages)]
        if axis == "tensor":
            rows = at.reshape(-1, self.tensor)
        elif axis == "pipeline":
            rows = at.reshape(len(stages), -1).T
        else:
            # (stage, tensor, replica group, place among those that divide experts)
            apart = at.transpose(0, 2, 1).reshape(len(stages), self.tensor, -1, self.expert)
            if axis == "data":
                rows = apart.reshape(-1, self.data)
            elif axis == "expert":
                rows = apart.reshape(-1, self.expert)
            else:
                rows = apart.swapaxes(2, 3).reshape(-1, self.data // self.expert)
        return tuple(map(tuple, rows.tolist()))


def dims_of(groups: Groups, shape: Sequence[int]) -> tuple[int, ...] | None:
    """Return the dimensions of a network whose groups are exactly these; None if there are none."""
    if sum(map(len, groups)) != prod(shape):
        return None
    first = np.array(groups[0])
    weights = np.cumprod([1, *shape[:-1]])
    at = first[:, None] // weights % np.array(shape)
    dims = tuple(dim for dim in range(len(shape)) if len(set(at[:, dim].tolist())) > 1)
    along = {group.members for group in Communicator.along(dims, shape)} if dims else set()
    return dims if along == set(groups) else None
