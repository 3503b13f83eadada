"""Forests as files for other programs: plans of MSCCL++, trees of ForestColl, transfers of TACOS.

A plan of MSCCL++ moves packets: an operation waits for the packets that it reads, so the operations for each neighbor
form a threadblock of their own without signals. A block arrives in scratch, is passed on from there, and unpacked.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from pyxsim.collective.custom.forest import Forest
from pyxsim.collective.custom.mscclpp import COLLECTIVES
from pyxsim.errors import InputError

_COLLECTIVE = {kind: name for name, kind in COLLECTIVES.items()}
_KINDS = ("all-reduce", "all-gather", "reduce-scatter")


def to_mscclpp(forest: Forest, kind: str, slices: int = 1, name: str = "forest") -> str:
    """Return a plan of MSCCL++ that sends what the schedule of the forest sends.

    Raises InputError for a kind that is not all-reduce, all-gather or reduce-scatter.
    """
    allowed = [known for known in _KINDS if known in forest.kinds]
    if kind not in allowed:
        raise InputError(f"MSCCL++ plans of trees have no {kind}", allowed=", ".join(allowed))
    return json.dumps(_Plan(forest, kind, slices, name).plan(), indent=1) + "\n"


class _Plan:
    def __init__(self, forest: Forest, kind: str, slices: int, name: str) -> None:
        self.forest, self.kind, self.slices, self.name = forest, kind, slices, name
        self.per_rank = forest.units * slices
        self.blocks = forest.blocks(slices)
        # By rank and what the threadblock is for: the operations.
        self.ops: list[defaultdict[tuple[str, int], list[dict[str, Any]]]] = [
            defaultdict(list) for _ in range(forest.n)
        ]
        self.peers: list[dict[int, None]] = [{} for _ in range(forest.n)]
        self.children: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for tree, parent, child in zip(*(values.tolist() for values in forest.edges), strict=True):
            self.children[tree, parent].append(child)

    def plan(self) -> dict[str, Any]:
        forest = self.forest
        ups, downs = (way.tolist() for way in forest.ways())
        at_root = np.where(forest.parent >= 0, forest.ways()[1], forest.ways()[1].max()).min(axis=1).tolist()
        events: list[tuple[int, int, int, int, int]] = []  # step, phase, tree, slice, rank
        for tree, _, child in zip(*(values.tolist() for values in forest.edges), strict=True):
            for part in range(self.slices):
                if self.kind != "all-gather":
                    events.append((part + ups[tree][child], 0, tree, part, child))
                if self.kind != "reduce-scatter":
                    events.append((part + downs[tree][child], 2, tree, part, child))
        if self.kind != "all-gather":
            events += [
                (part + at_root[tree], 1, tree, part, root)
                for tree, root in enumerate(forest.root.tolist())
                for part in range(self.slices)
            ]
        for _, phase, tree, part, rank in sorted(events):
            (self._up, self._at_root, self._down)[phase](tree, part, rank)
        most = max((len(children) for children in self.children.values()), default=0)
        scratch = self.blocks * (1 + (most if self.kind != "all-gather" else 0))
        sizes = {
            "all-reduce": (self.blocks, self.blocks),
            "all-gather": (self.per_rank, self.blocks),
            "reduce-scatter": (self.blocks, self.per_rank),
        }
        inputs, outputs = sizes[self.kind]
        gpus = []
        for rank in range(forest.n):
            peers = list(self.peers[rank])
            threadblocks = [
                {
                    "id": number,
                    "ops": ops,
                    "channels": [{"channel_type": "memory", "channel_ids": list(range(len(peers)))}],
                    "remote_buffer_refs": [
                        {"access_channel_type": "memory", "remote_buffer_ids": list(range(len(peers)))}
                    ],
                }
                for number, ops in enumerate(self.ops[rank].values())
            ]
            gpus.append(
                {
                    "id": rank,
                    "input_chunks": inputs,
                    "output_chunks": outputs,
                    "scratch_chunks": scratch,
                    "threadblocks": threadblocks,
                    "channels": [{"channel_type": "memory", "connected_to": peers}],
                    "remote_buffers": [
                        {"rank": peer, "type": "s", "access_channel_types": ["memory"]} for peer in peers
                    ],
                    "semaphores": [],
                }
            )
        return {
            "name": self.name,
            "collective": _COLLECTIVE[self.kind],
            "protocol": "LL",
            "inplace": True,
            "reuse_resources": False,
            "gpus": gpus,
            "num_threads_per_block": 1024,
            "use_double_scratch_buffer": False,
            "buffer_alignment": 16,
            "min_message_size": 0,
            "max_message_size": 2**64 - 1,
        }

    def _first(self, tree: int, part: int) -> int:
        return self.forest.first_block(tree, self.slices, part)

    def _mine(self, tree: int, part: int, rank: int) -> dict[str, Any]:
        """The place of a block in the data of a rank."""
        block = self._first(tree, part)
        if self.kind == "all-gather":
            return self._chunk("o", block, tree)
        return self._chunk("i", block, tree)

    def _chunk(self, buffer: str, index: int, tree: int) -> dict[str, Any]:
        return {"type": buffer, "index": index, "size": int(self.forest.count[tree])}

    def _remote(self, rank: int, peer: int, index: int, tree: int) -> dict[str, Any]:
        self.peers[rank].setdefault(peer)
        place = list(self.peers[rank]).index(peer)
        return {"buffer_id": place, "index": index, "size": int(self.forest.count[tree])}

    def _slot(self, tree: int, part: int, parent: int, child: int) -> int:
        """Where a parent receives what a child adds."""
        number = self.children[tree, parent].index(child)
        return self.blocks * (1 + number) + self._first(tree, part)

    def _sum(self, tree: int, part: int, rank: int) -> list[dict[str, Any]]:
        """What a rank has to add: its data, and those of its children."""
        slots = [self._slot(tree, part, rank, child) for child in self.children[tree, rank]]
        return [self._mine(tree, part, rank), *(self._chunk("s", slot, tree) for slot in slots)]

    def _up(self, tree: int, part: int, rank: int) -> None:
        parent = int(self.forest.parent[tree, rank])
        to = self._remote(rank, parent, self._slot(tree, part, parent, rank), tree)
        sources = self._sum(tree, part, rank)
        if len(sources) == 1:
            self._write(rank, ("up", parent), "ppkt", sources, [to])
        else:
            self._write(rank, ("up", parent), "respkt", sources, [sources[0], to])

    def _at_root(self, tree: int, part: int, rank: int) -> None:
        sources = self._sum(tree, part, rank)
        first = self._first(tree, part)
        into = [self._remote(rank, child, first, tree) for child in self.children[tree, rank]]
        if self.kind == "reduce-scatter":
            into = []
        self._write(rank, ("root", -1), "respkt" if into else "repkt", sources, [sources[0], *into])

    def _down(self, tree: int, part: int, rank: int) -> None:
        parent, first = int(self.forest.parent[tree, rank]), self._first(tree, part)
        to = self._remote(parent, rank, first, tree)
        if parent != self.forest.root[tree]:
            self._write(parent, ("down", rank), "rppkt", [self._chunk("s", first, tree)], [to])
        elif self.kind == "all-gather":
            self._write(parent, ("down", rank), "ppkt", [self._mine(tree, part, parent)], [to])
        unpacked = self._mine(tree, part, rank)
        self._write(rank, ("unpack", -1), "upkt", [self._chunk("s", first, tree)], [unpacked])

    def _write(
        self,
        rank: int,
        threadblock: tuple[str, int],
        name: str,
        sources: list[dict[str, Any]],
        targets: list[dict[str, Any]],
    ) -> None:
        op = {"name": name, "channel_type": "memory", "src_buff": sources, "dst_buff": targets}
        self.ops[rank][threadblock].append(op)


def to_forestcoll(forest: Forest) -> str:
    """Return the trees in the form of ForestColl; slices are chosen when the file is used (FILE.xml:8).

    Raises InputError for all-reduce trees.
    """
    if forest.up is not None:
        problem = "files of ForestColl have as many trees from every rank, and no order of both directions"
        raise InputError(problem, allowed="a file .py, .xml of MSCCL or .json")
    names = [f"(0, 'GPU', {rank})" for rank in range(forest.n)]
    lines = [f'<Algo nchunkspernode="{forest.units}">']
    order = sorted(range(len(forest.root)), key=lambda tree: (int(forest.root[tree]), int(forest.first[tree])))
    depth = forest.depth
    for number, tree in enumerate(order):
        root = quoteattr(names[forest.root[tree]])
        height = int(depth[tree].max(initial=0))
        lines.append(f'  <tree root={root} index="{number}" nchunks="{forest.count[tree]}" height="{height}">')
        for child in depth[tree].argsort(kind="stable").tolist():
            if (parent := int(forest.parent[tree, child])) >= 0:
                ends = quoteattr(names[parent]), quoteattr(names[child])
                path = quoteattr(f"{names[parent]},{names[child]}")
                lines.append(f"    <send src={ends[0]} dst={ends[1]} path={path}/>")
        lines.append("  </tree>")
    return "\n".join([*lines, "</Algo>", ""])


def to_tacos(
    forest: Forest, size: int, latency: dict[tuple[int, int], float], rate: dict[tuple[int, int], float]
) -> str:
    """Return the transfers of an all-gather in the form of TACOS (2024).

    Parameters
    ----------
    size
        Bytes of a unit.
    latency, rate
        Of every pair of NPUs: nanoseconds, and bytes per nanosecond.
    """
    tree, parent, child = (values.tolist() for values in forest.edges)
    chunks: dict[tuple[int, int], list[int]] = {pair: [] for pair in rate}
    for number, src, dst in zip(tree, parent, child, strict=True):
        for unit in range(int(forest.count[number])):
            chunk = (int(forest.first[number]) + unit) * forest.n + int(forest.root[number])
            chunks.setdefault((src, dst), []).append(chunk)
    lines = [
        f"NPUs Count,{forest.n}",
        f"Links Count,{len(chunks)}",
        f"Chunks Count,{forest.n * forest.units}",
        f"Chunk Size,{size},B",
        "SrcID,DestID,Latency (ns),Bandwidth (GB/s),Chunks",
    ]
    for (src, dst), carried in chunks.items():
        late, wide = latency.get((src, dst), 0.0), rate.get((src, dst), 0.0)
        lines.append(f"{src},{dst},{late:.6f},{wide:.6f},{','.join(map(str, carried)) or 'None'}")
    return "\n".join([*lines, ""])
