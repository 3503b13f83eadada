"""Time-expanded greedy matching: at every moment, each free link carries a chunk that its end lacks.

The method of TACOS (W. Won and others, "TACOS: Topology-Aware Collective Algorithm Synthesizer for Distributed Machine
Learning", MICRO 2024) for links of any rate and latency. A chunk occupies every link of its route for the time that the
link takes for it, and arrives when the last of them is through. Of the chunks that a link may carry, the one that the
fewest NPUs have goes first. What reaches an NPU first decides its parent in the tree of the chunk, so the result is a
forest.
"""

from __future__ import annotations

import heapq
import time
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import IntArray
from pyxsim.collective.custom.forest import Forest
from pyxsim.errors import InputError
from pyxsim.synthesis.link_graph import LinkGraph

_TICKS = 5040  # of a chunk on the fastest link: divides into rates of 1 to 10 times the slowest
_LATE = 1 << 62
_NEAR = 16  # neighbors that are looked at
_ONE = np.uint64(1)
_ALL = np.uint64(2**64 - 1)
_BIT = _ONE << np.arange(64, dtype=np.uint64)


def matched_forest(
    graph: LinkGraph, units: int = 1, *, size: float = 0.0, seed: int = 0, seconds: float = 600.0
) -> Forest | None:
    """Return the forest of a greedy matching for `units` chunks of every NPU; None after `seconds` of CPU time.

    `size`: bytes of a chunk, against which latencies count; 0: without latencies. Raises InputError if an NPU is out of
    reach.
    """
    return _Matching(graph, units, size, seed).run(time.process_time() + seconds)


class _Matching:
    def __init__(self, graph: LinkGraph, units: int, size: float, seed: int) -> None:
        n = graph.npus
        self.n, self.units, self.chunks = n, units, n * units
        self.src, self.dst, self.route = graph.pairs
        # Whole numbers, so that links of the same rate stay in step: one chunk on the fastest link is _TICKS.
        busy = graph.rate.max() / graph.rate
        self.busy = np.maximum(np.rint(busy * _TICKS), 1).astype(np.int64)
        late = graph.latency * (graph.unit * float(graph.rate.max()) / size) * _TICKS if size else 0 * graph.latency
        late_of = np.append(np.rint(late).astype(np.int64), 0)
        busy_of = np.append(self.busy, 0)
        self.duration = busy_of[self.route].max(axis=1) + late_of[self.route].sum(axis=1)
        self.order = np.random.default_rng(seed)
        owner = np.arange(self.chunks) // units
        self.words = -(-self.chunks // 64)
        self.has = _packed(owner == np.arange(n)[:, None])
        self.coming = np.concatenate([self.has, np.zeros((1, self.words), np.uint64)])  # what it has or will have
        self.missing = np.full(n, self.chunks - units)
        self.full = np.zeros(n, bool)
        self.copies = np.ones(self.chunks, np.int32)
        self.parent = np.full((self.chunks, n), -1, np.int32)
        self.start = np.full((self.chunks, n), -1, np.int64)
        self.free = np.zeros(len(graph.src) + 1, np.int64)  # when a link is free; the last one stands for no link
        self.single = self.route.shape[1] == 1
        into = defaultdict[int, list[int]](list)
        for pair, to in enumerate(self.dst.tolist()):
            into[to].append(pair)
        place = np.zeros(len(self.dst), np.int64)
        for pairs in into.values():
            place[pairs] = np.arange(len(pairs))
        self.place = place  # among the edges into the same NPU
        self.others = self._others(into)

    def _others(self, into: dict[int, list[int]]) -> IntArray:
        """int64[pairs, k]: where the fastest other edges into the same NPU come from, if not slower; else npus."""
        speed = self.duration
        others = np.full((len(self.dst), min(max(map(len, into.values()), default=1) - 1, _NEAR)), self.n)
        for pairs in into.values():
            fast = sorted(pairs, key=lambda pair: int(speed[pair]))
            for pair in pairs:
                found = [int(self.src[each]) for each in fast if each != pair and speed[each] <= speed[pair]]
                found = found[: others.shape[1]]
                others[pair, : len(found)] = found
        return others

    def run(self, deadline: float) -> Forest | None:
        """Match until every NPU has everything."""
        left = self.n * self.chunks - self.chunks
        arrivals: list[tuple[int, int]] = []  # time, number of the batch
        batches: dict[int, tuple[IntArray, IntArray]] = {}
        now, rounds = 0, 0
        while True:
            if time.process_time() > deadline:
                return None
            for pairs, chunks, ends in self._match(now):
                left -= len(pairs)
                for end in np.unique(ends).tolist():
                    here = ends == end
                    batches[rounds] = pairs[here], chunks[here]
                    heapq.heappush(arrivals, (end, rounds))
                    rounds += 1
            if not left:
                return self._forest()
            # The next moment at which something arrives, or a link is free again.
            later = self.free[:-1][self.free[:-1] > now]
            following = min(int(later.min(initial=_LATE)), arrivals[0][0] if arrivals else _LATE)
            if following == _LATE:
                npu = int(np.argmin(self.full))
                problem = f"NPU {npu} is not reached from {self.missing[npu] // self.units} others"
                raise InputError(problem, key="network", allowed="a network that connects all NPUs")
            now = following
            while arrivals and arrivals[0][0] <= now:
                pairs, chunks = batches.pop(heapq.heappop(arrivals)[1])
                np.bitwise_or.at(self.has, (self.dst[pairs], chunks >> 6), _BIT[chunks & 63])

    def _match(self, now: int) -> list[tuple[IntArray, IntArray, IntArray]]:
        """Let free links carry chunks from `now` on: batches of edges, chunks and times of arrival."""
        done = []
        open_ = np.flatnonzero((self.free[self.route] <= now).all(axis=1) & ~self.full[self.dst])
        rare = self._rare()
        while len(open_):
            # Of edges into the same NPU, and of edges that share links, one at a time.
            tried = self._apart(open_)
            pairs, chunk = self._chosen(tried, rare)
            if len(pairs):
                to = self.dst[pairs]
                self.coming[to, chunk >> 6] |= _BIT[chunk & 63]
                np.add.at(self.copies, chunk, 1)
                self.parent[chunk, to] = self.src[pairs]
                self.start[chunk, to] = now
                for hop in self.route[pairs].T:
                    self.free[hop] = now + self.busy[np.maximum(hop, 0)]
                self.free[-1] = 0
                done.append((pairs, chunk, now + self.duration[pairs]))
                self.missing[to] -= 1
                self.full[to] = self.missing[to] == 0
            left = np.ones(len(self.dst), bool)
            left[tried] = False
            rest = open_[left[open_]]
            open_ = rest if self.single else rest[(self.free[self.route[rest]] <= now).all(axis=1)]
        return done

    def _rare(self) -> list[NDArray[np.uint64]]:
        """Masks of chunks that fewer and fewer NPUs have, the smallest first, and one of all chunks."""
        masks = []
        for share in (16, 4, 2):
            few = self.copies <= np.partition(self.copies, self.chunks // share)[self.chunks // share]
            masks.append(_packed(few[None])[0])
        return [*masks, np.full(self.words, _ALL)]

    def _chosen(self, pairs: IntArray, rare: list[NDArray[np.uint64]]) -> tuple[IntArray, IntArray]:
        """The edges that have something to carry, and the rarest chunk that each of them may carry."""
        lacks = self.has[self.src[pairs]] & ~self.coming[self.dst[pairs]]
        some = lacks.any(axis=1)
        pairs, lacks = pairs[some], lacks[some]
        found = np.full(len(pairs), -1, np.int64)
        # First what no other neighbor can bring: otherwise links into the same neighborhood carry the same.
        near = np.zeros((len(pairs), self.words), np.uint64)
        for others in self.others[pairs].T:
            near |= self.coming[others]
        masks: list[NDArray[np.uint64]] = [~near & mask for mask in rare] + rare
        turn = self.order.random((len(pairs), self.words), np.float32) + np.float32(0.5)
        left = np.arange(len(pairs))
        for number, mask in enumerate(masks):
            fit = lacks[left] & (mask[left] if number < len(rare) else mask)
            word = (turn[left] * (fit != 0)).argmax(axis=1)
            bits = fit[np.arange(len(left)), word]
            there = bits != 0
            lowest = bits[there] & (~bits[there] + _ONE)
            found[left[there]] = word[there] * 64 + np.log2(lowest.astype(np.float64)).astype(np.int64)
            left = left[~there]
            if not len(left):
                break
        return pairs, found

    def _apart(self, pairs: IntArray) -> IntArray:
        """Some of the edges, no two of which end at the same NPU or share a link."""
        if self.single:
            place = self.place[pairs]
            one: IntArray = pairs[place == place[self.order.integers(len(place))]]
            return one
        pairs = pairs[self.order.permutation(len(pairs))]
        pairs = pairs[np.unique(self.dst[pairs], return_index=True)[1]]
        for hop in range(self.route.shape[1]):
            links, first = np.unique(self.route[pairs, hop], return_index=True)
            none = pairs[self.route[pairs, hop] < 0]
            pairs = np.concatenate([pairs[first[links >= 0]], none])
        return pairs

    def _forest(self) -> Forest:
        chunk = np.arange(self.chunks)
        times = np.unique(self.start)
        step = np.searchsorted(times[times >= 0], self.start).astype(np.int32)
        step[self.start < 0] = -1
        owner, unit = (chunk // self.units).astype(np.int32), (chunk % self.units).astype(np.int32)
        return Forest(self.n, self.units, owner, unit, np.ones(self.chunks, np.int32), self.parent, step)


def _packed(bits: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """uint64[rows, words]: bit c % 64 of word c // 64 of a row is bits[row, c]."""
    wide = np.zeros((len(bits), -(-bits.shape[1] // 64) * 64), bool)
    wide[:, : bits.shape[1]] = bits
    return np.packbits(wide, axis=1, bitorder="little").view("<u8").astype(np.uint64)
