"""From a collective to its chunks, and from a chunk to its phases."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pyxsim.collective.communicator import Communicator
from pyxsim.collective.lookup import Algorithm, get_algorithm
from pyxsim.collective.themis import Themis
from pyxsim.compat.astra.system.phase_algorithms import Program, make_program, plain
from pyxsim.compat.astra.system.queues import ANY, FIRST_HALF, SECOND_HALF, TreeRotation
from pyxsim.compat.astra.system.refuse import (
    refuse_algorithm,
    refuse_chunk,
    refuse_over_all_in_part,
    refuse_program,
    refuse_themis_over_all,
)
from pyxsim.system.options import ASTRA_SIM_1, Options


@dataclass(frozen=True)
class Step:
    """One phase of a chunk: what a group does, along which dimension of the communicator, in which half of queues.

    `tree`: which of the two trees of the dimension it takes, -1 for other algorithms.
    """

    kind: str
    algorithm: str
    program: Program
    axis: int
    half: int
    tree: int = -1


@dataclass(frozen=True)
class CommGroup:
    """Who does it: a communicator as ASTRA-sim takes it.

    dims      the network's dimension of each axis: where its queues are
    names     the algorithm of each axis
    group     a communicator group: one ring of all its members, with endpoints of their own kind
    involved  the axes along which something is done
    """

    members: tuple[int, ...]
    shape: tuple[int, ...]
    dims: tuple[int, ...]
    names: tuple[Algorithm, ...]
    group: bool
    involved: tuple[int, ...]

    @property
    def over_all(self) -> bool:
        """Whether its one axis goes over all dimensions."""
        return self.group or self.names[0].over_all


def make_comm_group(
    kind: str, group: Communicator, shape: Sequence[int], options: Options, wanted: Sequence[str] | None, key: str
) -> CommGroup:
    """ASTRA-sim's view of a communicator. Raises InputError.

    A list of NPUs is one ring, unless all are in it: with the algorithm that was asked for if that is one for the whole
    network, else with ring.
    """
    if not group.is_grid and len(group) == math.prod(shape):
        group = Communicator.whole(shape)
    spelled = list(wanted) if wanted else list(options.algorithms(kind))
    chosen = [get_algorithm(name, key=key) for name in spelled]
    if not group.dims:  # along no dimension at all, as some layers of version 1 do it
        axes = 1 if chosen[0].over_all else len(shape)
        return CommGroup(group.members, (1,) * axes, tuple(range(axes)), tuple(chosen[:axes]), False, ())
    if not group.is_grid:
        one = chosen[0] if len(shape) == 1 or chosen[0].over_all else get_algorithm("ring")
        refuse_algorithm(one, kind, len(group), key, group=True)
        return CommGroup(group.members, (len(group),), (0,), (one,), True, (0,))
    if len(chosen) == len(shape) and len(chosen) != len(group.dims):
        chosen = [chosen[dim] for dim in group.dims]
    if chosen[0].over_all:
        refuse_algorithm(chosen[0], kind, len(group), key, group=False)
        refuse_over_all_in_part(chosen[0], group, math.prod(shape), key)
        refuse_themis_over_all(chosen[0], kind, shape, options, key)
        return CommGroup(group.members, (len(group),), (0,), (chosen[0],), False, (0,))
    for algorithm, n in zip(chosen, group.shape, strict=True):
        if n > 1:
            refuse_algorithm(algorithm, kind, n, key, group=False)
    return CommGroup(group.members, group.shape, group.dims, tuple(chosen), False, tuple(range(len(group.dims))))


def joined(comm: CommGroup, shape: Sequence[int]) -> CommGroup:
    """All the groups along the dimensions of a comm, as one: what version 1 makes of them."""
    if comm.over_all:
        return replace(comm, members=tuple(range(math.prod(shape))))
    names = [comm.names[comm.dims.index(dim)] if dim in comm.dims else comm.names[0] for dim in range(len(shape))]
    members, dims = tuple(range(math.prod(shape))), tuple(range(len(shape)))
    return CommGroup(members, tuple(shape), dims, tuple(names), False, tuple(comm.dims[axis] for axis in comm.involved))


class Cut(NamedTuple):
    """A chunk: its bytes, and its axes in the order in which it goes through them."""

    size: int
    order: tuple[int, ...]


@dataclass
class _Agreed:
    """What was said of a stream, and how many NPUs know it."""

    dims: Sequence[int]
    size: int
    takers: int = 0


class Cutter:
    """Cuts collectives into chunks and these into phases; remembers what ASTRA-sim remembers from one to the next."""

    def __init__(self, shape: Sequence[int], options: Options) -> None:
        self.npus = math.prod(shape)
        self.shape = tuple(shape)
        self.options = options
        self._turn = 0  # of the first dimension
        self.trees = TreeRotation(self.npus)
        self._themis = None
        if options.inter_dimension.startswith("themis"):
            self._themis = Themis(self.shape, options.bandwidths)
        self._agreed: dict[int, _Agreed] = {}
        self._cycle = 0

    def chunks(
        self, kind: str, size: int, comm: CommGroup, key: str, first: int, takers: Sequence[int]
    ) -> Iterator[tuple[Cut, list[Step]]]:
        """Each chunk of a collective, and its phases.

        `takers`: the NPUs that begin it, and `first` the number of its first stream there.
        """
        for cut in self._cut(kind, size, comm, key, first, len(takers)):
            yield cut, self._steps(kind, cut, comm, key, takers)

    def follow(self, kind: str, size: int, comm: CommGroup, key: str, first: int, planned: Sequence[Cut]) -> bool:
        """Another NPU cuts what one has cut; whether it comes to the same, as it does if nothing was agreed upon."""
        if self._themis is None or kind == "all-to-all":
            return True
        wanted: Sequence[Cut | None] = planned or [None]  # where nobody is involved it looks once
        found = self._cut(kind, size, comm, key, first, 1)
        return all(want is None or want == cut for want, cut in zip(wanted, found, strict=False))

    def new_cycle(self, cycle: int) -> None:
        """NPU 0 issues something in this cycle: loads are counted anew, once in a cycle."""
        if self._cycle != cycle:
            self._cycle = cycle
            if self._themis is not None:
                self._themis.reset()

    def _cut(self, kind: str, size: int, comm: CommGroup, key: str, number: int, takers: int) -> Iterator[Cut]:
        """The bytes of each chunk and the order of its axes."""
        options, first = self.options, self.options.compat == ASTRA_SIM_1
        chunk, left = size // options.chunks, size
        if not first and kind != "all-gather" and chunk < self.npus:
            chunk = self.npus
            left = options.chunks * chunk
        if comm.involved:
            refuse_chunk(chunk, kind, options, key)
        usual = list(range(len(comm.shape)))
        if kind == "all-gather":
            usual.reverse()
        while left > 0:
            if self._themis is not None and kind != "all-to-all":
                dims, taken = self._agree(self._themis, number, takers, kind, left, chunk, comm)
                left, number = left - taken, number + 1
                yield Cut(taken, tuple(comm.dims.index(dim) for dim in dims if dim in comm.dims))
                continue
            order = usual
            if options.inter_dimension == "round-robin":
                order = usual[self._turn :] + usual[: self._turn]
                self._turn = (self._turn + 1) % len(usual)
            # Version 2 gives the last chunk the size of all others, whatever is left.
            yield Cut(min(chunk, left) if first else chunk, tuple(order))
            left -= chunk

    def _agree(
        self, themis: Themis, number: int, takers: int, kind: str, left: int, chunk: int, comm: CommGroup
    ) -> tuple[Sequence[int], int]:
        """What NPU 0 says of the stream of this number, until all NPUs have asked. A collective in which nobody is
        involved asks, too, and its NPUs come with the same number again: then they may get what was said to others."""
        agreed = self._agreed.get(number)
        if agreed is None:
            themis.involve({comm.dims[axis] for axis in comm.involved})
            flex = self.options.inter_dimension == "themis-flex"
            dims, taken = themis.next_chunk(kind, left, chunk, flex=flex)
            agreed = self._agreed[number] = _Agreed(dims, taken)
        agreed.takers += takers
        if agreed.takers == self.npus:
            del self._agreed[number]
        return agreed.dims, agreed.size

    def _steps(self, kind: str, cut: Cut, comm: CommGroup, key: str, takers: Sequence[int]) -> list[Step]:
        axes = [axis for axis in cut.order if comm.shape[axis] > 1 and axis in comm.involved]
        steps, size = [], cut.size
        for part, axis, half in self._ways(kind, axes):
            name, tree = comm.names[axis], -1
            if plain(name) == "double-binary-tree":
                tree = self.trees.take(kind, comm.dims[axis], takers)
            program = make_program(part, name, comm.shape[axis], size, group=comm.group, tree=tree)
            refuse_program(program, self.options, key)
            steps.append(Step(part, name.name, program, axis, half, tree))
            size = program.leaving
        return steps

    def _ways(self, kind: str, axes: Sequence[int]) -> list[tuple[str, int, int]]:
        """(kind, axis, half of the queues) of each phase."""
        if kind != "all-reduce" or self.options.optimization == "baseline" or not axes:
            return [(kind, axis, ANY) for axis in axes]
        greedy = self.options.inter_dimension.startswith("themis")
        out = axes if greedy else axes[:-1]
        there = [("reduce-scatter", axis, FIRST_HALF) for axis in out]
        back = [("all-gather", axis, SECOND_HALF) for axis in reversed(out)]
        return [*there, *([] if greedy else [(kind, axes[-1], FIRST_HALF)]), *back]
