"""The fewest bytes that collectives and messages put on a network, whatever their algorithms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import IntArray
from pyxsim.collective.plan import Phase
from pyxsim.results.phases import differing

Dims = tuple[int, ...]


@dataclass
class Load:
    """Bytes on the links of some dimensions of the network.

    Attributes
    ----------
    sent, received
        int64[NPUs]: the fewest bytes that each NPU sends and receives.
    members
        bool[NPUs]: the NPUs that take part.
    total
        The fewest bytes that all NPUs send together. This can exceed the sum of `sent`, because the algorithm decides
        which NPU sends a byte.
    """

    sent: IntArray
    received: IntArray
    members: NDArray[np.bool_]
    total: int = 0

    @classmethod
    def none(cls, npus: int) -> Load:
        """Return the load of nothing."""
        sent, received = np.zeros((2, npus), dtype=np.int64)
        return cls(sent, received, np.zeros(npus, dtype=bool))


Loads = dict[Dims, Load]


def collective_loads(collective: Any, npus: int, dims: int) -> Loads:
    """Return the load of a collective on each set of dimensions, for `npus` NPUs in `dims` dimensions."""
    group = collective.communicator
    members = np.array(group.members, dtype=np.int64)
    loads: Loads = {}
    for phase, times in Counter(phase for chunk in collective.chunks for phase in chunk.plan.phases).items():
        along = tuple(group.dims[d] for d in phase.dims) if group.is_grid else tuple(range(dims))
        load = loads.setdefault(along, Load.none(npus))
        load.members[members[phase.groups]] = True
        for sent, received, at, total in _phase(phase):
            load.sent[members[at]] += times * sent
            load.received[members[at]] += times * received
            load.total += times * total
    return loads


def message_load(message: Any, npus: int, between: Dims) -> Loads:
    """Return the load of a message between NPUs that differ in the dimensions `between`."""
    load = Load.none(npus)
    load.sent[message.src] = load.received[message.dst] = load.total = message.size
    load.members[message.src] = True
    return {between: load}


def traffic_loads(rows: IntArray, npus: int, shape: tuple[int, ...]) -> Loads:
    """Return the load of messages, rows (source, destination, plane, bytes, count), on each set of dimensions."""
    loads: Loads = {}
    dimension = differing(rows, shape)
    for dim in np.unique(dimension).tolist():
        mine = rows[dimension == dim]
        nbytes = mine[:, 3] * mine[:, 4]
        load = Load.none(npus)
        np.add.at(load.sent, mine[:, 0], nbytes)
        np.add.at(load.received, mine[:, 1], nbytes)
        load.members[mine[:, 0]] = True
        load.total = int(nbytes.sum())
        loads[tuple(range(len(shape))) if dim < 0 else (dim,)] = load
    return loads


def together(loads: Iterable[Load]) -> Load:
    """Return the sum of one or more loads, in which one object may stand many times."""
    parts = list(loads)
    times = Counter(map(id, parts))
    total = Load.none(len(parts[0].sent))
    for load in {id(load): load for load in parts}.values():
        count = times[id(load)]
        total.sent += count * load.sent
        total.received += count * load.received
        total.members |= load.members
        total.total += count * load.total
    return total


Rows = tuple[IntArray, IntArray, NDArray[np.integer[Any]], int]


def _phase(phase: Phase) -> Iterable[Rows]:
    """(sent, received, positions, total) of the ranks of each group in one phase."""
    schedule = phase.schedule()
    if schedule.unproved:  # what it computes is unknown: count the bytes that it sends
        yield from _as_sent(phase)
        return
    if phase.matrix is not None:
        between = phase.exchanged * (1 - np.eye(phase.npus, dtype=np.int64))
        yield between.sum(axis=2).ravel(), between.sum(axis=1).ravel(), phase.groups.ravel(), int(between.sum())
        return
    root = schedule.root
    piece = phase.pieces[phase.groups[:, 0]][:, None] * phase.copies
    own = phase.own_block()[phase.groups] * phase.copies
    sent, received = _LEAST[phase.kind](np.broadcast_to(piece, own.shape), own)
    if phase.kind in _OF_THE_ROOT:
        sent[:, root], received[:, root] = _OF_THE_ROOT[phase.kind](piece[:, 0], own[:, root])
    crossings = _CROSSINGS[phase.kind](phase.npus)
    if schedule.in_network:
        crossings = min(crossings, phase.npus)  # the network reduces: each NPU sends its part once
    total = int((crossings * piece // (phase.npus if phase.kind in _SHARED_OUT else 1)).sum())
    yield sent.ravel(), received.ravel(), phase.groups.ravel(), total


def _as_sent(phase: Phase) -> Iterable[Rows]:
    for group in phase.groups:
        schedule, sizes = phase.messages(int(phase.keys[group[0]]))
        others = schedule.src != schedule.dst
        sent = np.bincount(schedule.src[others], sizes[others], minlength=phase.npus).astype(np.int64)
        received = np.bincount(schedule.dst[others], sizes[others], minlength=phase.npus).astype(np.int64)
        yield sent, received, group, int(sizes[others].sum())


def _nothing(values: IntArray) -> IntArray:
    return np.zeros_like(values)


# The fewest bytes that a rank sends and receives, from the piece of its group and its own block.
_LEAST: dict[str, Callable[[IntArray, IntArray], tuple[IntArray, IntArray]]] = {
    "all-reduce": lambda piece, own: (piece.copy(), piece.copy()),
    "reduce-scatter": lambda piece, own: (piece - own, own.copy()),
    "all-gather": lambda piece, own: (own.copy(), piece - own),
    "all-to-all": lambda piece, own: (piece - own, piece - own),
    "broadcast": lambda piece, own: (_nothing(own), piece.copy()),
    "reduce": lambda piece, own: (piece.copy(), _nothing(own)),
    "scatter": lambda piece, own: (_nothing(own), own.copy()),
    "gather": lambda piece, own: (own.copy(), _nothing(own)),
    "barrier": lambda piece, own: (piece.copy(), piece.copy()),
}
_OF_THE_ROOT: dict[str, Callable[[IntArray, IntArray], tuple[IntArray, IntArray]]] = {
    "broadcast": lambda piece, own: (piece, _nothing(own)),
    "reduce": lambda piece, own: (_nothing(own), piece),
    "scatter": lambda piece, own: (piece - own, _nothing(own)),
    "gather": lambda piece, own: (_nothing(own), piece - own),
}
# How often each byte of the piece goes from one rank to another. A byte of an all-reduce needs n-1 crossings to be
# reduced and n-1 to reach every rank.
_CROSSINGS: dict[str, Callable[[int], int]] = {
    "all-reduce": lambda n: 2 * (n - 1),
    "reduce-scatter": lambda n: n - 1,
    "all-gather": lambda n: n - 1,
    "all-to-all": lambda n: n - 1,
    "broadcast": lambda n: n - 1,
    "reduce": lambda n: n - 1,
    "scatter": lambda n: n - 1,
    "gather": lambda n: n - 1,
    "barrier": lambda n: n,
}
_SHARED_OUT = ("scatter", "gather")  # each rank has one of n blocks of the piece, and each block crosses once
