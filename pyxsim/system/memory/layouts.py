"""The links that accesses to a shared memory use, and in which stretches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from pyxsim.system.memory.flows import Stretch, Used
from pyxsim.system.memory.memory_options import Access, MemoryOptions

_WAYS = ("loads", "stores")


class Layout(Protocol):
    """The links of a memory, in independent parts."""

    parts: list[list[Used]]

    def part(self, npu: int) -> int:
        """Return the index of the part that serves an NPU."""

    def stretches(self, npu: int, size: int, access: Access) -> list[Stretch]:
        """Return the stretches of an access over links of its part."""


class OfNodes:
    """A memory for each node."""

    def __init__(self, options: MemoryOptions) -> None:
        self._each = options.node_size
        self.parts = [[Used(f"memory of node {node}", options.rate)] for node in range(options.nodes)]

    def part(self, npu: int) -> int:
        return npu // self._each

    def stretches(self, npu: int, size: int, access: Access) -> list[Stretch]:
        return [((0,), size)]


class Pool:
    """A memory for all."""

    def __init__(self, options: MemoryOptions) -> None:
        self.parts = [[Used("pool", options.rate)]]

    def part(self, npu: int) -> int:
        return 0

    def stretches(self, npu: int, size: int, access: Access) -> list[Stretch]:
        return [((0,), size)]


class OfNpus:
    """A memory for each NPU; those of a node may share a limit."""

    def __init__(self, options: MemoryOptions) -> None:
        limited = options.settings.node_bandwidth is not None
        self._each = options.node_size if limited else 1
        self._limit = (self._each,) if limited else ()
        self.parts = []
        for first in range(0, options.npus, self._each):
            node_links = [Used(f"memory of NPU {npu}", options.rate) for npu in range(first, first + self._each)]
            name = f"memories of node {first // self._each}"
            node_links += [Used(name, options.of("node_bandwidth")) for _ in self._limit]
            self.parts.append(node_links)

    def part(self, npu: int) -> int:
        return npu // self._each

    def stretches(self, npu: int, size: int, access: Access) -> list[Stretch]:
        return [((npu % self._each, *self._limit), size)]


class Hierarchical:
    """Groups of memory, switches between them and the nodes, a switch in each node that leads to its NPUs.

    Every access is spread evenly over all groups and switches, which act as one link with their total bandwidth. The
    first chunk passes the stages one after the other; the others follow in a pipeline over all of them.
    """

    def __init__(self, options: MemoryOptions) -> None:
        own = options.settings
        groups, switches = own.groups or 1, own.switches or 1
        self._each, self._chunk = options.node_size, own.chunk or 1
        links = [Used("memory groups", groups * options.rate)]
        self._stages: dict[str, list[list[int]]] = {}  # by way, from the memory on: its links, by number
        for way in _WAYS:
            self._stages[way] = [[0]]
            for names, rate in (
                (["memory side"], groups * switches * options.of("memory_link")),
                ([f"node {node}" for node in range(options.nodes)], switches * options.of("node_link")),
                ([f"NPU {npu}" for npu in range(options.npus)], options.of("npu_link")),
            ):
                self._stages[way].append(list(range(len(links), len(links) + len(names))))
                links += [Used(f"{name}, {way}", rate) for name in names]
        self.parts = [links]

    def part(self, npu: int) -> int:
        return 0

    def stretches(self, npu: int, size: int, access: Access) -> list[Stretch]:
        stages = self._stages[_WAYS[not access.loads]]
        if not access.together:  # of nodes and NPUs only its own
            groups, memory_side, nodes, npus = stages
            stages = [groups, memory_side, [nodes[npu // self._each]], [npus[npu]]]
        ordered: Iterable[list[int]] = stages if access.loads else reversed(stages)
        first = min(self._chunk, size)
        everything = tuple(link for links in stages for link in links)
        return [*((tuple(links), first) for links in ordered), (everything, size - first)]
