"""A collective on a network of several dimensions as a sequence of phases, each on groups along one dimension.

A reduce-scatter along dimension 0 leaves every NPU with one block of the buffer; the reduce-scatter along dimension 1
cuts that block again, and so on; all-gathers put the blocks together in the reverse order. So in every phase a group
works on a *piece*: the whole buffer, cut along the dimensions that were scattered before. Cuts are exact for any size:
NPUs with different coordinates may own pieces that differ by a byte.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from pyxsim.collective.arrays import I32, I64, frozen
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.kinds import get_kind
from pyxsim.collective.lookup import Algorithm, get_algorithm, get_schedule
from pyxsim.collective.sizes import block_sizes, boundary
from pyxsim.errors import InputError

Dims = tuple[int, ...]


@dataclass(frozen=True)
class Phase:
    """One collective on every group of NPUs that differ in the coordinates `dims` only (mostly one dimension).

    The group of an NPU works on its piece of `whole` bytes, which were cut before this phase along `cuts`, in that
    order; with all-to-all, `copies` NPUs have sent theirs, and as many pieces travel together.
    """

    kind: str
    algorithm: str
    dims: Dims
    shape: Dims
    whole: int
    cuts: tuple[Dims, ...]
    copies: int = 1

    @property
    def npus(self) -> int:
        """NPUs in one group."""
        return math.prod(self.shape[d] for d in self.dims)

    def schedule(self, *, mirror: bool = False) -> CompiledSchedule:
        """What one group does; see `get_schedule`."""
        return get_schedule(self.kind, self.algorithm, self.npus, mirror=mirror)

    def block_sizes(self, piece: int) -> I64:
        """Bytes of the blocks of the schedule for a group that works on a piece of these bytes (read-only)."""
        return _block_sizes(self.kind, self.npus, self.schedule().blocks, piece, self.copies)

    def messages(self, piece: int, *, mirror: bool = False) -> tuple[CompiledSchedule, I64]:
        """What a group really sends that works on a piece of these bytes; cached.

        The schedule without the messages that would be empty, and the bytes of each message (int64[M], read-only).
        """
        return _messages(self.kind, self.algorithm, self.npus, piece, self.copies, mirror)

    @cached_property
    def groups(self) -> I32:
        """int32[groups, npus]: the NPUs of each group in the order of their ranks."""
        npu = np.arange(math.prod(self.shape), dtype=np.int32).reshape(self.shape[::-1])
        # Dimension d is axis -1-d. The first of `dims` counts fastest, so it comes last.
        axes = [len(self.shape) - 1 - d for d in reversed(self.dims)]
        others = [axis for axis in range(len(self.shape)) if axis not in axes]
        groups = npu.transpose(others + axes).reshape(-1, self.npus)
        frozen(groups)
        return groups

    @cached_property
    def ranks(self) -> I64:
        """int64[NPUs]: the rank of every NPU in its group."""
        return positions(self.shape, self.dims)

    @cached_property
    def pieces(self) -> I64:
        """int64[NPUs]: bytes of the piece that the group of each NPU works on."""
        return cut(self.shape, self.cuts, self.whole)[1]

    @cached_property
    def bytes_in(self) -> I64:
        """int64[NPUs]: bytes that each NPU brings into the phase."""
        return _SHARES[self.kind][0](self)

    @cached_property
    def bytes_out(self) -> I64:
        """int64[NPUs]: bytes that each NPU has at the end of the phase."""
        return _SHARES[self.kind][1](self)

    def own_block(self) -> I64:
        """int64[NPUs]: bytes of the part of the piece that belongs to the NPU itself."""
        n = self.npus
        return boundary(self.pieces, n, self.ranks + 1) - boundary(self.pieces, n, self.ranks)


_SHARES: dict[str, tuple[Callable[[Phase], I64], Callable[[Phase], I64]]] = {
    "all-reduce": (lambda phase: phase.pieces, lambda phase: phase.pieces),
    "reduce-scatter": (lambda phase: phase.pieces, Phase.own_block),
    "all-gather": (Phase.own_block, lambda phase: phase.pieces),
    "all-to-all": (
        lambda phase: phase.copies * phase.pieces,
        lambda phase: phase.copies * phase.npus * phase.own_block(),
    ),
}


@lru_cache(maxsize=1024)
def _block_sizes(kind: str, n: int, blocks: int, piece: int, copies: int) -> I64:
    sizes = block_sizes(get_kind(kind), n, blocks, piece, copies)
    frozen(sizes)
    return sizes


@lru_cache(maxsize=1024)
def _messages(kind: str, algorithm: str, n: int, piece: int, copies: int, mirror: bool) -> tuple[CompiledSchedule, I64]:
    schedule = get_schedule(kind, algorithm, n, mirror=mirror)
    sizes = _block_sizes(kind, n, schedule.blocks, piece, copies)
    real = schedule.without_empty(sizes)
    carried = real.message_bytes(sizes)
    frozen(carried)
    return real, carried


def positions(shape: Dims, dims: Dims) -> I64:
    """int64[NPUs]: the coordinates along `dims` as one number, the first of them counting fastest.

    NPU i has the coordinate i // prod(shape[:d]) % shape[d] along dimension d.
    """
    npu = np.arange(math.prod(shape), dtype=np.int64)
    position, weight = np.zeros_like(npu), 1
    for d in dims:
        position += npu // math.prod(shape[:d]) % shape[d] * weight
        weight *= shape[d]
    return position


def cut(shape: Dims, cuts: Iterable[Dims], whole: int) -> tuple[I64, I64]:
    """`whole` bytes, cut along `cuts` one after the other: (first byte, bytes) of every NPU's piece, int64[NPUs]."""
    first = np.zeros(math.prod(shape), dtype=np.int64)
    size = np.full_like(first, whole)
    for dims in cuts:
        parts, at = math.prod(shape[d] for d in dims), positions(shape, dims)
        begin = boundary(size, parts, at)
        first, size = first + begin, boundary(size, parts, at + 1) - begin
    return first, size


@dataclass(frozen=True)
class Plan:
    """The phases of one collective (or one chunk of it). `size` as the user says it: for all-gather one NPU's shard."""

    kind: str
    size: int
    shape: Dims
    phases: tuple[Phase, ...]

    @property
    def npus(self) -> int:
        return math.prod(self.shape)


def make_plan(
    kind: str,
    size: int,
    shape: Sequence[int],
    algorithms: str | Sequence[str],
    *,
    optimization: str = "localBWAware",
    order: Sequence[int] | None = None,
    key: str | None = None,
) -> Plan:
    """The phases of a collective on the NPUs of a network of this shape; cached. Raises InputError.

    `algorithms`: a name for each dimension, or one for all; `one-...` takes all dimensions as one. `order`: the order
    of the dimensions (see `dimension_order`), by default ascending, for all-gather descending. `optimization` concerns
    all-reduce: "baseline" all-reduces the whole buffer along every dimension in turn; "localBWAware" scatters on the
    way out and gathers on the way back, so that later dimensions see less; "themis" does so in every dimension, so that
    a chunk loads each of them the same on both ways. Errors name `key`: "system.all_reduce".
    """
    get_kind(kind)
    shape = tuple(shape)
    names = (algorithms,) * len(shape) if isinstance(algorithms, str) else tuple(algorithms)
    order = dimension_order("ascending", kind, len(shape)) if order is None else tuple(order)
    if sorted(order) != list(range(len(shape))):
        raise ValueError(f"no order of {len(shape)} dimensions: {order}")
    if optimization not in OPTIMIZATIONS:
        raise InputError(
            f"unknown optimization '{optimization}'",
            key="system.optimization",
            allowed=list(OPTIMIZATIONS),
            given=optimization,
        )
    return _make_plan(kind, size, shape, names, optimization, order, key)


@lru_cache(maxsize=256)
def _make_plan(
    kind: str, size: int, shape: Dims, names: tuple[str, ...], optimization: str, order: Dims, key: str | None
) -> Plan:
    chosen = [get_algorithm(name, key=key) for name in names]
    for algorithm in chosen:
        algorithm.check(kind, key=key)
    build = OPTIMIZATIONS[optimization] if kind == "all-reduce" else _ONE_WAY[kind]
    whole = size * math.prod(shape) if kind == "all-gather" else size
    return Plan(kind, size, shape, tuple(build(_Maker(shape, whole, _groups(shape, chosen, order, key)))))


def _groups(shape: Dims, chosen: list[Algorithm], order: Dims, key: str | None) -> list[tuple[Dims, str]]:
    """The dimensions of each phase and its algorithm, in order; dimensions of one NPU have none."""
    over_all = {algorithm.over_all for algorithm in chosen}
    if over_all == {True} and len({algorithm.name for algorithm in chosen}) == 1:
        dims = tuple(d for d in range(len(shape)) if shape[d] > 1)
        return [(dims, chosen[0].name.removeprefix("one-"))] if dims else []
    if True in over_all:
        raise InputError(
            "an algorithm over all dimensions stands beside others",
            key=key,
            allowed=f"'{next(a.name for a in chosen if a.over_all)}' alone, or an algorithm for each dimension",
        )
    if len(chosen) != len(shape):
        raise InputError(
            f"{len(chosen)} algorithms for {len(shape)} dimensions",
            key=key,
            allowed=f"one name, or a list of {len(shape)}",
        )
    return [((d,), chosen[d].name) for d in order if shape[d] > 1]


@dataclass(frozen=True)
class _Maker:
    """Makes phases; `groups` in the order in which the dimensions come."""

    shape: Dims
    whole: int
    groups: list[tuple[Dims, str]]

    def phase(self, kind: str, index: int, cut_before: Sequence[int] = (), copies: int = 1) -> Phase:
        """The phase on group `index` after the groups `cut_before` have cut the buffer, in that order."""
        dims, algorithm = self.groups[index]
        cuts = tuple(self.groups[i][0] for i in cut_before)
        return Phase(kind, algorithm, dims, self.shape, self.whole, cuts, copies)

    def npus(self, index: int) -> int:
        return math.prod(self.shape[d] for d in self.groups[index][0])


def _reduce_scatter(make: _Maker) -> list[Phase]:
    return [make.phase("reduce-scatter", i, range(i)) for i in range(len(make.groups))]


def _all_gather(make: _Maker) -> list[Phase]:
    # The last phase puts the largest pieces together: seen from the end, it cut the whole first.
    last = len(make.groups) - 1
    return [make.phase("all-gather", i, range(last, i, -1)) for i in range(len(make.groups))]


def _all_to_all(make: _Maker) -> list[Phase]:
    # After a phase an NPU holds what its whole group had for the NPUs that share its coordinate there.
    sizes = [make.npus(i) for i in range(len(make.groups))]
    return [make.phase("all-to-all", i, range(i), math.prod(sizes[:i])) for i in range(len(make.groups))]


def _baseline(make: _Maker) -> list[Phase]:
    return [make.phase("all-reduce", i) for i in range(len(make.groups))]


def _local_first(make: _Maker) -> list[Phase]:
    last = len(make.groups) - 1
    there = [make.phase("reduce-scatter", i, range(i)) for i in range(last)]
    turn = [make.phase("all-reduce", last, range(last))] if make.groups else []
    back = [make.phase("all-gather", i, range(i)) for i in reversed(range(last))]
    return there + turn + back


def _there_and_back(make: _Maker) -> list[Phase]:
    indices = range(len(make.groups))
    there = [make.phase("reduce-scatter", i, range(i)) for i in indices]
    return there + [make.phase("all-gather", i, range(i)) for i in reversed(indices)]


_ONE_WAY: dict[str, Callable[[_Maker], list[Phase]]] = {
    "reduce-scatter": _reduce_scatter,
    "all-gather": _all_gather,
    "all-to-all": _all_to_all,
}
OPTIMIZATIONS: dict[str, Callable[[_Maker], list[Phase]]] = {
    "baseline": _baseline,
    "localBWAware": _local_first,
    "themis": _there_and_back,
}


def dimension_order(policy: str, kind: str, dims: int, turn: int = 0) -> Dims:
    """The order in which a chunk goes through the dimensions. Raises InputError.

    "ascending": 0, 1, 2, ... (all-gather: the reverse); "round-robin": that order, begun `turn` places later (ASTRA-sim
    counts the chunks of all collectives).
    """
    if policy not in ORDERS:
        raise InputError(
            f"unknown order of dimensions '{policy}'",
            key="system.inter_dimension",
            allowed=list(ORDERS),
            given=policy,
        )
    order = tuple(range(dims))
    return ORDERS[policy](order[::-1] if kind == "all-gather" else order, turn)


def _turned(order: Dims, turn: int) -> Dims:
    start = turn % len(order) if order else 0
    return order[start:] + order[:start]


ORDERS: dict[str, Callable[[Dims, int], Dims]] = {"ascending": lambda order, turn: order, "round-robin": _turned}
