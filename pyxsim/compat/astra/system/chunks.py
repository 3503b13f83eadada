"""Cutting of collectives into chunks, and of chunks into phases."""

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
    """One phase of a chunk.

    axis    dimension of the communicator
    half    ANY, FIRST_HALF or SECOND_HALF of the queues
    tree    which of the two trees it uses, -1 for other algorithms
    """

    kind: str
    algorithm: str
    program: Program
    axis: int
    half: int
    tree: int = -1


@dataclass(frozen=True)
class CommGroup:
    """A communicator as ASTRA-sim interprets it.

    dims      per axis: the dimension of the network, which has the queues
    names     per axis: the algorithm
    group     whether it is a communicator group: one ring of all members, with its own endpoint delay
    involved  the axes with communication
    """

    members: tuple[int, ...]
    shape: tuple[int, ...]
    dims: tuple[int, ...]
    names: tuple[Algorithm, ...]
    group: bool
    involved: tuple[int, ...]

    @property
    def over_all(self) -> bool:
        """Whether its only axis spans all dimensions."""
        return self.group or self.names[0].over_all


def make_comm_group(
    kind: str, group: Communicator, shape: Sequence[int], options: Options, algorithms: Sequence[str] | None, key: str
) -> CommGroup:
    """Return a communicator as ASTRA-sim interprets it. Raises InputError.

    A list of some NPUs is one ring, with the given algorithm if that spans all dimensions, else with ring.
    """
    if not group.is_grid and len(group) == math.prod(shape):
        group = Communicator.whole(shape)
    spelled = list(algorithms) if algorithms else list(options.algorithms(kind))
    chosen = [get_algorithm(name, key=key) for name in spelled]
    if not group.dims:  # no dimension at all, as in some layers of version 1
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
    """Return all groups along the dimensions of a communicator as one, as in version 1."""
    if comm.over_all:
        return replace(comm, members=tuple(range(math.prod(shape))))
    names = [comm.names[comm.dims.index(dim)] if dim in comm.dims else comm.names[0] for dim in range(len(shape))]
    members, dims = tuple(range(math.prod(shape))), tuple(range(len(shape)))
    return CommGroup(members, tuple(shape), dims, tuple(names), False, tuple(comm.dims[axis] for axis in comm.involved))


class Cut(NamedTuple):
    """A chunk: its bytes, and the order of its axes."""

    size: int
    order: tuple[int, ...]


@dataclass
class _Agreed:
    """The cut of a stream that NPU 0 decided, and the number of NPUs that have used it."""

    dims: Sequence[int]
    size: int
    takers: int = 0


class Cutter:
    """Cuts collectives into chunks and these into phases, with the state that ASTRA-sim keeps between collectives."""

    def __init__(self, shape: Sequence[int], options: Options) -> None:
        self.npus = math.prod(shape)
        self.shape = tuple(shape)
        self.options = options
        self._first_axis = 0  # of the next chunk, with round-robin
        self.trees = TreeRotation(self.npus)
        self._themis = None
        if options.inter_dimension.startswith("themis"):
            self._themis = Themis(self.shape, options.bandwidths)
        self._agreed: dict[int, _Agreed] = {}
        self._cycle = 0

    def chunks(
        self, kind: str, size: int, comm: CommGroup, key: str, first: int, takers: Sequence[int]
    ) -> Iterator[tuple[Cut, list[Step]]]:
        """Yield each chunk of a collective with its phases.

        `takers`: the NPUs that begin it; `first`: the number of its first stream there.
        """
        for cut in self._cut(kind, size, comm, key, first, len(takers)):
            yield cut, self._steps(kind, cut, comm, key, takers)

    def follow(self, kind: str, size: int, comm: CommGroup, key: str, first: int, planned: Sequence[Cut]) -> bool:
        """Whether another NPU cuts a collective as planned; always true where Themis decides nothing."""
        if self._themis is None or kind == "all-to-all":
            return True
        expected: Sequence[Cut | None] = planned or [None]  # without involved axes it asks once
        found = self._cut(kind, size, comm, key, first, 1)
        return all(want is None or want == cut for want, cut in zip(expected, found, strict=False))

    def new_cycle(self, cycle: int) -> None:
        """Reset the loads of Themis once per cycle in which NPU 0 issues something."""
        if self._cycle != cycle:
            self._cycle = cycle
            if self._themis is not None:
                self._themis.reset()

    def _cut(self, kind: str, size: int, comm: CommGroup, key: str, number: int, takers: int) -> Iterator[Cut]:
        """Yield the bytes of each chunk and the order of its axes."""
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
                order = usual[self._first_axis :] + usual[: self._first_axis]
                self._first_axis = (self._first_axis + 1) % len(usual)
            # In version 2 the last chunk has the size of the others, whatever remains.
            yield Cut(min(chunk, left) if first else chunk, tuple(order))
            left -= chunk

    def _agree(
        self, themis: Themis, number: int, takers: int, kind: str, left: int, chunk: int, comm: CommGroup
    ) -> tuple[Sequence[int], int]:
        """Return the cut of a stream that the first NPU decided, until all NPUs have asked.

        A collective without involved axes asks, too, without using up the number: its NPUs ask again with the same
        number and may get the cut of another stream.
        """
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
        for part, axis, half in self._phases_of(kind, axes):
            name, tree = comm.names[axis], -1
            if plain(name) == "double-binary-tree":
                tree = self.trees.take(kind, comm.dims[axis], takers)
            program = make_program(part, name, comm.shape[axis], size, group=comm.group, tree=tree)
            refuse_program(program, self.options, key)
            steps.append(Step(part, name.name, program, axis, half, tree))
            size = program.leaving
        return steps

    def _phases_of(self, kind: str, axes: Sequence[int]) -> list[tuple[str, int, int]]:
        """Return (kind, axis, half of the queues) of each phase."""
        if kind != "all-reduce" or self.options.optimization == "baseline" or not axes:
            return [(kind, axis, ANY) for axis in axes]
        greedy = self.options.inter_dimension.startswith("themis")
        out = axes if greedy else axes[:-1]
        outward = [("reduce-scatter", axis, FIRST_HALF) for axis in out]
        back = [("all-gather", axis, SECOND_HALF) for axis in reversed(out)]
        return [*outward, *([] if greedy else [(kind, axes[-1], FIRST_HALF)]), *back]
