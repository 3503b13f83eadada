"""Trees of ForestColl (liangyuRain/ForestColl): spanning trees from each GPU, as `spanning_trees_to_xml` writes them.

    <Algo nchunkspernode="2">
      <tree root="(0, 'GPU', 0)" index="0" nchunks="2" height="1">
        <send src="(0, 'GPU', 0)" dst="(0, 'GPU', 1)" path="(0, 'GPU', 0),(0, 'NVSwitch', 0),(0, 'GPU', 1)"/>

A tree broadcasts `nchunks` of the chunks of its root: all of them are an all-gather. Reversed, the trees add up: a
reduce-scatter; both in turn are an all-reduce. Ranks are the roots in the order of the file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.custom.transfers import Transfer, compile_transfers
from pyxsim.collective.kinds import KINDS
from pyxsim.errors import InputError
from pyxsim.xml_elements import Element

CHUNKS = 4096  # most chunks of a GPU, and most slices of all its chunks
_KINDS = ("all-gather", "reduce-scatter", "all-reduce")


class _Send(NamedTuple):
    """An edge of a tree: parent, child, and how far the child is from the root."""

    parent: int
    child: int
    depth: int
    place: str


class _Tree(NamedTuple):
    """The chunks of a root, from `first` on, and the sends, parents first."""

    root: int
    first: int
    chunks: int
    sends: list[_Send]


def read_forestcoll(path: str, root: Element) -> tuple[Callable[..., CompiledSchedule], tuple[str, ...]]:
    """Return a function(kind, n, slices) that returns the schedule of trees, and the kinds. Raises InputError.

    Each chunk moves in `slices` equal parts, one after the other, so that a tree is a pipeline.
    """
    forest = _Forest(root)
    name = Path(path).name

    def build(kind: str, n: int, slices: int = 1) -> CompiledSchedule:
        if n != forest.n:
            allowed = f"a group of {forest.n}; 'one-' before the path treats the NPUs of all dimensions as one group"
            raise InputError(f"is for {forest.n} GPUs, but the group has {n}", file=path, allowed=allowed)
        if forest.chunks * slices > CHUNKS:
            problem = f"{slices} slices of {forest.chunks} chunks are {forest.chunks * slices}"
            raise InputError(problem, file=path, allowed=f"at most {CHUNKS // forest.chunks} slices")
        blocks = n * forest.chunks * slices
        return compile_transfers(KINDS[kind], n, blocks, forest.transfers(kind, slices), name)

    return build, _KINDS


class _Forest:
    """All trees of a file."""

    def __init__(self, algo: Element) -> None:
        self.chunks = algo.number("nchunkspernode", 1)
        if self.chunks > CHUNKS:
            algo.refuse(f"nchunkspernode is {self.chunks}", allowed=f"1 to {CHUNKS}")
        algo.done("tree")
        names = dict.fromkeys(tree.text("root") for tree in algo.elements)
        self.rank = {name: rank for rank, name in enumerate(names)}
        self.n = len(self.rank)
        if self.n < 2:
            algo.refuse(f"has trees from {self.n} GPUs", allowed="trees from 2 or more")
        used = defaultdict[int, int](int)
        self.trees: list[_Tree] = []
        for tree in algo.elements:
            root, chunks = self._rank(tree, "root"), tree.number("nchunks", 1)
            self.trees.append(_Tree(root, used[root], chunks, self._sends(tree, root)))
            used[root] += chunks
        for name, rank in self.rank.items():
            if used[rank] != self.chunks:
                algo.refuse(f"the trees of {name} have {used[rank]} chunks", allowed=f"{self.chunks} (nchunkspernode)")

    def _rank(self, element: Element, key: str) -> int:
        name = element.text(key)
        if name not in self.rank:
            element.refuse(f"{key} is {name}, which is the root of no tree", allowed=list(self.rank), given=name)
        return self.rank[name]

    def _sends(self, tree: Element, root: int) -> list[_Send]:
        for key in ("index", "height"):
            tree.text(key, "")
        tree.done("send")
        children = defaultdict[int, list[tuple[int, Element]]](list)
        for send in tree.elements:
            parent, child = self._rank(send, "src"), self._rank(send, "dst")
            send.text("path", "")
            send.done()
            children[parent].append((child, send))
        depth = {root: 0}
        sends = []
        for parent in (waiting := [root]):
            for child, send in children.pop(parent, ()):
                if child in depth:
                    send.refuse("reaches a GPU twice", allowed="a tree")
                depth[child] = depth[parent] + 1
                waiting.append(child)
                sends.append(_Send(parent, child, depth[child], send.place))
        if len(depth) < self.n:
            name = next(name for name, rank in self.rank.items() if rank not in depth)
            tree.refuse(f"does not reach {name} from its root", allowed="a tree over all GPUs")
        return sends

    def transfers(self, kind: str, slices: int) -> list[Transfer]:
        """Return the transfers in the order of a pipeline: a slice is one step behind the slice before.

        A GPU sends in this order. Otherwise it would send all slices of its own before those that it passes on.
        """
        highest = max(send.depth for tree in self.trees for send in tree.sends)
        found = list[tuple[int, Transfer]]()
        for slice_ in range(slices):
            for tree in self.trees:
                blocks = self._blocks(tree, slice_, slices)
                for parent, child, depth, place in tree.sends:
                    step = slice_ + depth
                    if kind != "all-gather":
                        transfer = Transfer(child, parent, blocks, 0, place, reduce=True)
                        found.append((slice_ + highest - depth, transfer))
                        step += highest
                    if kind != "reduce-scatter":
                        found.append((step, Transfer(parent, child, blocks, 0, place)))
        return [transfer for _, transfer in sorted(found, key=lambda pair: pair[0])]

    def _blocks(self, tree: _Tree, slice_: int, slices: int) -> range:
        begin = (tree.root * self.chunks + tree.first) * slices + slice_ * tree.chunks
        return range(begin, begin + tree.chunks)
