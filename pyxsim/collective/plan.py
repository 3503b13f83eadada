"""A collective on a network of several dimensions as a sequence of phases, each on groups along one dimension.

A reduce-scatter along dimension 0 leaves every NPU with one block of the buffer; the reduce-scatter along dimension 1
cuts that block again, and so on; all-gathers reassemble the blocks in the reverse order. So in every phase a group
works on a *piece*: the whole buffer, cut along the dimensions that were scattered before. Cuts are exact for any size:
NPUs with different coordinates may own pieces that differ by a byte.

Data from a root spread: after a phase along a dimension all NPUs have them that differ from the root only in this and
earlier dimensions. Data to a root are collected in the reverse order. Groups without data take no part in a phase.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from pyxsim.collective.arrays import I32, I64, frozen
from pyxsim.collective.byte_matrix import ByteMatrix
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.kinds import get_kind
from pyxsim.collective.lookup import Algorithm, get_algorithm, get_schedule
from pyxsim.collective.sizes import block_sizes, boundary
from pyxsim.collective.transform import rooted_at
from pyxsim.errors import InputError

Dims = tuple[int, ...]


@dataclass(frozen=True)
class Phase:
    """One collective on every group of NPUs that differ only in the coordinates `dims` (usually one dimension).

    The group of an NPU works on its piece of `whole` bytes, cut before this phase along `cuts`, in that order. In an
    all-to-all, `copies` NPUs have sent theirs, and as many pieces travel together. With a rooted kind, the member that
    shares the coordinates of NPU `root` along `dims` is the root of each group, and only groups that share its
    coordinates along `at_root` take part. With a `matrix`, pairs of an all-to-all exchange its bytes instead of equal
    parts of `whole`.
    """

    kind: str
    algorithm: str
    dims: Dims
    shape: Dims
    whole: int
    cuts: tuple[Dims, ...]
    copies: int = 1
    root: int = 0
    at_root: Dims = ()
    matrix: ByteMatrix | None = None

    @cached_property
    def npus(self) -> int:
        """NPUs per group."""
        return math.prod(self.shape[d] for d in self.dims)

    @cached_property
    def root_rank(self) -> int:
        """Rank of the root in each group."""
        return int(self.ranks[self.root])

    def schedule(self, *, mirror: bool = False) -> CompiledSchedule:
        """Return the schedule of one group, with the root in its place; see `get_schedule`."""
        return rooted_at(get_schedule(self.kind, self.algorithm, self.npus, mirror=mirror), self.root_rank)

    @cached_property
    def keys(self) -> I64:
        """int64[NPUs]: what decides the blocks of each NPU's group: its piece, or with a matrix its number."""
        if self.matrix is None:
            return self.pieces
        keys = np.zeros(math.prod(self.shape), dtype=np.int64)
        keys[self.groups] = np.arange(len(self.groups))[:, None]
        frozen(keys)
        return keys

    @cached_property
    def exchanged(self) -> I64:
        """int64[groups, npus, npus]: with a matrix, what the members of each group exchange."""
        assert self.matrix is not None
        return self.matrix.between(self.shape, self.cuts, self.dims)

    def block_sizes(self, piece: int) -> I64:
        """Return the bytes of each block of a group, read-only. `piece`: its entry of `keys`."""
        if self.matrix is not None:
            return _uneven_blocks(self.schedule().blocks, self.exchanged[piece])
        return _block_sizes(self.kind, self.npus, self.schedule().blocks, piece, self.copies)

    def messages(self, piece: int, *, mirror: bool = False) -> tuple[CompiledSchedule, I64]:
        """Return what a group sends whose entry of `keys` is `piece`; cached.

        The schedule without empty messages, and the bytes of each message (int64[M], read-only).
        """
        if self.matrix is not None:
            return _sent(self.schedule(mirror=mirror), self.block_sizes(piece))
        return _messages(self.schedule(mirror=mirror), piece, self.copies)

    @cached_property
    def groups(self) -> I32:
        """int32[groups, npus]: the NPUs of each group that takes part, in rank order."""
        npu = np.arange(math.prod(self.shape), dtype=np.int32).reshape(self.shape[::-1])
        # Dimension d is axis -1-d. The first of `dims` varies fastest, so it comes last.
        axes = [len(self.shape) - 1 - d for d in reversed(self.dims)]
        others = [axis for axis in range(len(self.shape)) if axis not in axes]
        groups = npu.transpose(others + axes).reshape(-1, self.npus)
        if self.at_root:
            at = positions(self.shape, self.at_root)
            groups = groups[at[groups[:, 0]] == at[self.root]]
        frozen(groups)
        return groups

    @cached_property
    def ranks(self) -> I64:
        """int64[NPUs]: rank of each NPU in its group."""
        return positions(self.shape, self.dims)

    @cached_property
    def pieces(self) -> I64:
        """int64[NPUs]: bytes of the piece of each NPU's group."""
        return cut(self.shape, self.cuts, self.whole)[1]

    @cached_property
    def bytes_in(self) -> I64:
        """int64[NPUs]: bytes of each NPU before the phase."""
        return self._shares(_SHARES[self.kind][0])

    @cached_property
    def bytes_out(self) -> I64:
        """int64[NPUs]: bytes of each NPU after the phase."""
        return self._shares(_SHARES[self.kind][1])

    def _shares(self, share: Callable[[Phase], I64]) -> I64:
        bytes_ = np.zeros(math.prod(self.shape), dtype=np.int64)
        bytes_[self.groups] = share(self)[self.groups]
        frozen(bytes_)
        return bytes_

    def own_block(self) -> I64:
        """int64[NPUs]: bytes of the part of the piece that belongs to each NPU."""
        n = self.npus
        return boundary(self.pieces, n, self.ranks + 1) - boundary(self.pieces, n, self.ranks)


def _piece(phase: Phase) -> I64:
    return phase.pieces


def _before(phase: Phase) -> I64:
    if phase.matrix is None:
        return phase.copies * phase.pieces
    return _by_npu(phase, phase.exchanged.sum(axis=2))


def _after(phase: Phase) -> I64:
    if phase.matrix is None:
        return phase.copies * phase.npus * phase.own_block()
    return _by_npu(phase, phase.exchanged.sum(axis=1))


def _by_npu(phase: Phase, of_ranks: I64) -> I64:
    values = np.zeros(math.prod(phase.shape), dtype=np.int64)
    values[phase.groups] = of_ranks
    return values


def _piece_of_root(phase: Phase) -> I64:
    return np.where(phase.ranks == phase.root_rank, phase.pieces, 0)


# What an NPU has before and after, by kind; see `Kind`.
_SHARES: dict[str, tuple[Callable[[Phase], I64], Callable[[Phase], I64]]] = {
    "all-reduce": (_piece, _piece),
    "reduce-scatter": (_piece, Phase.own_block),
    "all-gather": (Phase.own_block, _piece),
    "all-to-all": (_before, _after),
    "broadcast": (_piece_of_root, _piece),
    "reduce": (_piece, _piece_of_root),
    "gather": (Phase.own_block, _piece_of_root),
    "scatter": (_piece_of_root, Phase.own_block),
    "barrier": (_piece, _piece),
}


@lru_cache(maxsize=1024)
def _block_sizes(kind: str, n: int, blocks: int, piece: int, copies: int) -> I64:
    sizes = block_sizes(get_kind(kind), n, blocks, piece, copies)
    frozen(sizes)
    return sizes


def _uneven_blocks(blocks: int, exchanged: I64) -> I64:
    """The bytes of each block where rank i sends exchanged[i, j] bytes to rank j."""
    sizes, per_pair = exchanged.ravel(), blocks // exchanged.size
    if per_pair > 1:
        at = boundary(sizes[:, None], per_pair, np.arange(per_pair + 1, dtype=np.int64)[None, :])
        sizes = np.diff(at, axis=1).ravel()
    return sizes


@lru_cache(maxsize=1024)
def _messages(schedule: CompiledSchedule, piece: int, copies: int) -> tuple[CompiledSchedule, I64]:
    # By schedule, not by name: the content of a file may change under its name.
    return _sent(schedule, _block_sizes(schedule.kind.name, schedule.n, schedule.blocks, piece, copies))


def _sent(schedule: CompiledSchedule, sizes: I64) -> tuple[CompiledSchedule, I64]:
    real = schedule.without_empty(sizes)
    carried = real.message_bytes(sizes)
    frozen(carried)
    return real, carried


def positions(shape: Dims, dims: Dims) -> I64:
    """Return the coordinates along `dims` as one number, int64[NPUs]; the first of `dims` varies fastest.

    NPU i has coordinate i // prod(shape[:d]) % shape[d] along dimension d.
    """
    npu = np.arange(math.prod(shape), dtype=np.int64)
    position, weight = np.zeros_like(npu), 1
    for d in dims:
        position += npu // math.prod(shape[:d]) % shape[d] * weight
        weight *= shape[d]
    return position


def cut(shape: Dims, cuts: Iterable[Dims], whole: int) -> tuple[I64, I64]:
    """Return first byte and bytes of each NPU's piece, int64[NPUs] each, after cutting `whole` bytes along `cuts`."""
    first = np.zeros(math.prod(shape), dtype=np.int64)
    size = np.full_like(first, whole)
    for dims in cuts:
        parts, at = math.prod(shape[d] for d in dims), positions(shape, dims)
        begin = boundary(size, parts, at)
        first, size = first + begin, boundary(size, parts, at + 1) - begin
    return first, size


@dataclass(frozen=True)
class Plan:
    """The phases of one collective, or of one chunk of it, on a grid of NPUs.

    Attributes
    ----------
    size
        Bytes of the buffer; for all-gather and gather those of the shard of one NPU; 1 for a barrier.
    root
        The NPU that the data come from or go to, for rooted kinds.
    matrix
        Bytes between pairs of an all-to-all; None for equal parts of `size`.
    """

    kind: str
    size: int
    shape: Dims
    phases: tuple[Phase, ...]
    root: int = 0
    matrix: ByteMatrix | None = None

    @property
    def npus(self) -> int:
        """The number of NPUs."""
        return math.prod(self.shape)


def make_plan(
    kind: str,
    size: int,
    shape: Sequence[int],
    algorithms: str | Sequence[str],
    *,
    optimization: str = "localBWAware",
    order: Sequence[int] | None = None,
    root: int = 0,
    key: str | None = None,
    matrix: ByteMatrix | None = None,
) -> Plan:
    """Return the phases of a collective on a network of `shape`; cached.

    Parameters
    ----------
    algorithms
        One name, or one per dimension; `one-...` combines all dimensions.
    optimization
        For all-reduce. "baseline" all-reduces the whole buffer along each dimension in turn; "localBWAware" scatters on
        the way out and gathers on the way back, so that later dimensions carry less; "themis" does so in every
        dimension, so that a chunk loads each of them equally on both ways.
    order
        Order of the dimensions; default `dimension_order`.
    root
        An NPU, for rooted kinds.
    key
        Setting that errors cite.
    matrix
        Bytes between pairs of an all-to-all, in place of `size`.

    Raises
    ------
    InputError
        If the root does not exist, the algorithms do not fit, or a matrix does not.
    """
    shape = tuple(shape)
    if not get_kind(kind).rooted:
        root = 0
    if not 0 <= root < math.prod(shape):
        raise InputError(f"the root, NPU {root}, does not exist", allowed=f"0 to {math.prod(shape) - 1}")
    names = (algorithms,) * len(shape) if isinstance(algorithms, str) else tuple(algorithms)
    order = dimension_order("ascending", kind, len(shape)) if order is None else tuple(order)
    if sorted(order) != list(range(len(shape))):
        raise ValueError(f"not an order of {len(shape)} dimensions: {order}")
    if optimization not in OPTIMIZATIONS:
        raise InputError(
            f"unknown optimization '{optimization}'",
            key="system.optimization",
            allowed=list(OPTIMIZATIONS),
            given=optimization,
        )
    if matrix is not None:
        if kind != "all-to-all":
            raise InputError(f"{kind} has no matrix", key="collective.matrix", allowed="with all-to-all")
        if len(matrix) != math.prod(shape):
            problem = f"the matrix is {len(matrix)}x{len(matrix)}, but the collective has {math.prod(shape)} NPUs"
            raise InputError(problem, key="collective.matrix", allowed="a row and a column per NPU")
        size = matrix.size
    return _make_plan(kind, 1 if kind == "barrier" else size, shape, names, optimization, order, root, key, matrix)


@lru_cache(maxsize=256)
def _make_plan(
    kind: str,
    size: int,
    shape: Dims,
    names: tuple[str, ...],
    optimization: str,
    order: Dims,
    root: int,
    key: str | None,
    matrix: ByteMatrix | None,
) -> Plan:
    chosen = [get_algorithm(name, key=key) for name in names]
    for algorithm in chosen:
        algorithm.check(kind, key=key)
    build = OPTIMIZATIONS[optimization] if kind == "all-reduce" else _ONE_WAY[kind]
    make = _Maker(shape, whole_bytes(kind, size, math.prod(shape)), _groups(shape, chosen, order, key), root, matrix)
    phases = tuple(build(make))
    for phase in phases:
        get_algorithm(phase.algorithm).check(phase.kind, key=key)
    return Plan(kind, size, shape, phases, root, matrix)


def whole_bytes(kind: str, size: int, npus: int) -> int:
    """Return the bytes of the whole buffer of a collective of `size` bytes."""
    return size * npus if kind in ("all-gather", "gather") else size


def _groups(shape: Dims, chosen: list[Algorithm], order: Dims, key: str | None) -> list[tuple[Dims, str]]:
    """The dimensions and the algorithm of each phase, in order; dimensions of one NPU have no phase."""
    over_all = {algorithm.over_all for algorithm in chosen}
    if over_all == {True} and len({algorithm.name for algorithm in chosen}) == 1:
        dims = tuple(d for d in range(len(shape)) if shape[d] > 1)
        return [(dims, chosen[0].plain)] if dims else []
    if True in over_all:
        raise InputError(
            "an algorithm over all dimensions cannot be combined with others",
            key=key,
            allowed=f"'{next(a.name for a in chosen if a.over_all)}' alone, or an algorithm for each dimension",
        )
    if len(chosen) != len(shape):
        raise InputError(
            f"{len(chosen)} algorithms are given for {len(shape)} dimensions",
            key=key,
            allowed=f"one name, or a list of {len(shape)}",
        )
    return [((d,), chosen[d].name) for d in order if shape[d] > 1]


@dataclass(frozen=True)
class _Maker:
    """Makes phases; `groups` in the order of the dimensions."""

    shape: Dims
    whole: int
    groups: list[tuple[Dims, str]]
    root: int = 0
    matrix: ByteMatrix | None = None

    def phase(
        self,
        kind: str,
        index: int,
        cut_before: Sequence[int] = (),
        *,
        copies: int = 1,
        at_root: Sequence[int] = (),
    ) -> Phase:
        """Return the phase of group `index` after the groups `cut_before` have cut the buffer, in that order.

        `at_root`: groups of dimensions along which only NPUs that share the root's coordinates take part.
        """
        dims, algorithm = self.groups[index]
        cuts = tuple(self.groups[i][0] for i in cut_before)
        fixed = tuple(dim for i in at_root for dim in self.groups[i][0])
        return Phase(kind, algorithm, dims, self.shape, self.whole, cuts, copies, self.root, fixed, self.matrix)

    def npus(self, index: int) -> int:
        return math.prod(self.shape[d] for d in self.groups[index][0])


def _reduce_scatter(make: _Maker) -> list[Phase]:
    return [make.phase("reduce-scatter", i, range(i)) for i in range(len(make.groups))]


def _all_gather(make: _Maker) -> list[Phase]:
    # The last phase assembles the largest pieces: in reverse order it cut the whole first.
    last = len(make.groups) - 1
    return [make.phase("all-gather", i, range(last, i, -1)) for i in range(len(make.groups))]


def _all_to_all(make: _Maker) -> list[Phase]:
    # After a phase an NPU holds the data of its whole group for the NPUs that share its coordinate there.
    sizes = [make.npus(i) for i in range(len(make.groups))]
    return [make.phase("all-to-all", i, range(i), copies=math.prod(sizes[:i])) for i in range(len(make.groups))]


def _broadcast(make: _Maker) -> list[Phase]:
    count = len(make.groups)
    return [make.phase("broadcast", i, at_root=range(i + 1, count)) for i in range(count)]


def _scatter(make: _Maker) -> list[Phase]:
    count = len(make.groups)
    return [make.phase("scatter", i, range(i), at_root=range(i + 1, count)) for i in range(count)]


def _reduce(make: _Maker) -> list[Phase]:
    return [make.phase("reduce", i, at_root=range(i)) for i in range(len(make.groups))]


def _gather(make: _Maker) -> list[Phase]:
    last = len(make.groups) - 1
    return [make.phase("gather", i, range(last, i, -1), at_root=range(i)) for i in range(len(make.groups))]


def _barrier(make: _Maker) -> list[Phase]:
    # An NPU that has finished a dimension knows that all NPUs that differ from it in this and earlier ones are there.
    return [make.phase("barrier", i) for i in range(len(make.groups))]


def _baseline(make: _Maker) -> list[Phase]:
    return [make.phase("all-reduce", i) for i in range(len(make.groups))]


def _local_first(make: _Maker) -> list[Phase]:
    last = len(make.groups) - 1
    forward_phases = [make.phase("reduce-scatter", i, range(i)) for i in range(last)]
    turn = [make.phase("all-reduce", last, range(last))] if make.groups else []
    back = [make.phase("all-gather", i, range(i)) for i in reversed(range(last))]
    return forward_phases + turn + back


def _there_and_back(make: _Maker) -> list[Phase]:
    if len(make.groups) == 1:
        return _baseline(make)  # one dimension needs no order, and not every algorithm has both halves
    indices = range(len(make.groups))
    forward_phases = [make.phase("reduce-scatter", i, range(i)) for i in indices]
    return forward_phases + [make.phase("all-gather", i, range(i)) for i in reversed(indices)]


_ONE_WAY: dict[str, Callable[[_Maker], list[Phase]]] = {
    "reduce-scatter": _reduce_scatter,
    "all-gather": _all_gather,
    "all-to-all": _all_to_all,
    "broadcast": _broadcast,
    "reduce": _reduce,
    "gather": _gather,
    "scatter": _scatter,
    "barrier": _barrier,
}
OPTIMIZATIONS: dict[str, Callable[[_Maker], list[Phase]]] = {
    "baseline": _baseline,
    "localBWAware": _local_first,
    "themis": _there_and_back,
}


def dimension_order(policy: str, kind: str, dims: int, turn: int = 0) -> Dims:
    """Return the order of the dimensions for a chunk. Raises InputError.

    "ascending": 0, 1, 2, ...; reversed for all-gather, gather and broadcast, which are the inverses of reduce-scatter,
    scatter and reduce. "round-robin": that order, rotated by `turn` (ASTRA-sim counts the chunks of all collectives).
    """
    if policy not in ORDERS:
        raise InputError(
            f"unknown order of dimensions '{policy}'",
            key="system.inter_dimension",
            allowed=list(ORDERS),
            given=policy,
        )
    order = tuple(range(dims))
    return ORDERS[policy](order[::-1] if kind in _BACKWARDS else order, turn)


_BACKWARDS = ("all-gather", "gather", "broadcast")


def _turned(order: Dims, turn: int) -> Dims:
    start = turn % len(order) if order else 0
    return order[start:] + order[:start]


ORDERS: dict[str, Callable[[Dims, int], Dims]] = {"ascending": lambda order, turn: order, "round-robin": _turned}
