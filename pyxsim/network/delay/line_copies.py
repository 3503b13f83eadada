"""Lines of NPUs of which the first stands for all, in the backends that delay whole messages.

If every line of a kind has the same delays, and shares no link with others where messages wait for links, then the
messages of its first line take the time of those of all lines. Counters of the first lines are copied to the others.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.network.lines import Lines

LEAST_NPUS = 64  # fewer take less time than the comparison of lines
BATCH = 2**16  # pairs that are compared at a time
Steps = Callable[[IntArray, IntArray, IntArray], IntArray]


class LineCopies:
    """What the messages of the first line of each kind stand for.

    Attributes
    ----------
    delivered, bytes_delivered, flits
        Messages and bytes that arrived, and flits that were sent, in all lines.
    """

    def __init__(self, kinds: Sequence[Lines], npus: int, flit: int) -> None:
        self._npus, self._flit = npus, flit
        self._members = [lines.members.astype(np.int64) for lines in kinds]
        # Rows source, destination (ranks), plane of the pairs of each kind.
        self._ranks = [np.unique(lines.messages[:, :3], axis=0).T for lines in kinds]
        firsts = [
            (members[0][src], members[0][dst], plane)
            for members, (src, dst, plane) in zip(self._members, self._ranks, strict=True)
        ]
        keys = np.concatenate([self._key(*columns) for columns in firsts])
        order = np.argsort(keys, kind="stable")
        self._keys = keys[order]
        self._kind = np.repeat(np.arange(len(kinds)), [ranks.shape[1] for ranks in self._ranks])[order]
        self._column = np.concatenate([np.arange(ranks.shape[1]) for ranks in self._ranks])[order]
        self._count = np.array([len(members) for members in self._members])
        # Of each message of the first lines: how many it stands for, and the bytes of all.
        self._copies, self._bytes = array("q"), array("q")
        self.delivered = self.bytes_delivered = self.flits = 0

    @property
    def clear(self) -> bool:
        """Whether no pair is in two kinds of lines."""
        return bool((np.diff(self._keys) > 0).all())

    @property
    def lines(self) -> int:
        """Number of all lines."""
        return int(self._count.sum())

    @property
    def kinds(self) -> int:
        """Number of lines that are simulated."""
        return len(self._count)

    def _key(self, src: IntArray, dst: IntArray, plane: IntArray) -> IntArray:
        keys: IntArray = (plane * self._npus + src) * self._npus + dst
        return keys

    def _find(self, src: IntArray, dst: IntArray, plane: IntArray) -> IntArray:
        keys = self._key(src, dst, plane)
        place: IntArray = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        if (self._keys[place] != keys).any():
            raise RuntimeError("a message between other NPUs than `expect_lines` announced")
        return place

    def ends(self) -> Iterator[Iterator[tuple[IntArray, IntArray, IntArray]]]:
        """Yield for each kind source, destination and plane, int64[lines, pairs]: the first line, then all by parts."""
        for members, (src, dst, plane) in zip(self._members, self._ranks, strict=True):
            yield _parts(members, src, dst, plane)

    # -- counters --

    def send(self, src: IntArray, dst: IntArray, plane: IntArray, nbytes: IntArray) -> None:
        """Count messages of the first lines that are sent."""
        copies = self._count[self._kind[self._find(src, dst, plane)]]
        self._copies.frombytes(copies.tobytes())
        self._bytes.frombytes((copies * nbytes).tobytes())
        self.flits += int((copies * -(-nbytes // self._flit)).sum())

    def arrive(self, messages: IntArray) -> None:
        """Count messages of the first lines that have arrived."""
        for message in messages.tolist():
            self.delivered += self._copies[message]
            self.bytes_delivered += self._bytes[message]

    def everywhere(self, ends: IntArray, flits: IntArray) -> tuple[IntArray, IntArray]:
        """Return the ends of pairs (rows source, destination, plane) in all lines, and their flits.

        Parameters
        ----------
        ends, flits
            Likewise of pairs of the first lines.
        """
        place = self._find(*ends)
        kind, column = self._kind[place], self._column[place]
        all_ends, all_flits = [np.zeros((3, 0), np.int64)], [np.zeros(0, np.int64)]
        for number, (members, ranks) in enumerate(zip(self._members, self._ranks, strict=True)):
            own = kind == number
            src, dst, plane = ranks[:, column[own]]
            count = len(members)
            all_ends.append(np.stack([members[:, src].ravel(), members[:, dst].ravel(), np.tile(plane, count)]))
            all_flits.append(np.tile(flits[own], count))
        return np.concatenate(all_ends, axis=1), np.concatenate(all_flits)


def _parts(
    members: IntArray, src: IntArray, dst: IntArray, plane: IntArray
) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
    """Yield the first line, then all of them by parts of limited size."""
    size = max(1, BATCH // len(src))
    for lines in chain([members[:1]], (members[begin : begin + size] for begin in range(0, len(members), size))):
        yield lines[:, src], lines[:, dst], np.broadcast_to(plane, (len(lines), len(plane)))


def same_delays(copies: LineCopies, delays: Callable[[IntArray, IntArray, IntArray], Sequence[IntArray]]) -> bool:
    """Return whether all lines of a kind have the same delays.

    Parameters
    ----------
    delays
        Function from source, destination and plane to arrays of the same length.
    """
    for parts in copies.ends():
        first: list[IntArray] = []
        for src, dst, plane in parts:
            found = [term.reshape(src.shape) for term in delays(src.ravel(), dst.ravel(), plane.ravel())]
            first = first or [term[:1] for term in found]
            if any((term != one).any() for term, one in zip(found, first, strict=True)):
                return False
    return True


def same_links(copies: LineCopies, steps: Steps, params: IntArray) -> IntArray | None:
    """Return the link of a first line that carries the same as each link; None if lines differ or share links.

    Parameters
    ----------
    steps
        Function from source, destination and plane to int64[K, hops]: links and lanes, -1 for none.
    params
        int64[links and lanes]: equal where bandwidth and latency are.

    Returns
    -------
    IntArray | None
        int64[links and lanes]; a link that is not used stands for itself.
    """
    stands_for = np.arange(len(params))
    uses = np.zeros(len(params), np.int64)
    for parts in copies.ends():
        used = first = which = np.zeros(0, np.int64)  # links of the first line, their first places, and that of each
        for number, (src, dst, plane) in enumerate(parts):
            hops = steps(src.ravel(), dst.ravel(), plane.ravel())
            by_line = hops.reshape(*src.shape, -1)
            if not number:
                used, first, which = np.unique(by_line, return_index=True, return_inverse=True)
                shape = by_line.shape[1:]
                continue
            if by_line.shape[1:] != shape:
                return None
            flat = by_line.reshape(len(by_line), -1)
            links = flat[:, first]
            real = used >= 0
            if (flat != links[:, which.ravel()]).any() or ((links >= 0) != real).any():
                return None
            links = links[:, real]
            if (params[links] != params[used[real]]).any():
                return None
            np.add.at(uses, links, 1)
            stands_for[links] = used[real]
    return None if (uses > 1).any() else stands_for
