"""One node as a topology of NCCL, if its parts have the names that the reader gives them: gpu.0, pci.0000:10:00.0."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from typing import NoReturn
from xml.sax.saxutils import quoteattr

from pyxsim.errors import InputError
from pyxsim.topology.inventory.plain import PlainLink, PlainNetwork, lost
from pyxsim.topology.inventory.rates import GB, SYS, SYS_OTHER, nvlink, pcie

FORM = "nccl"
_PART = re.compile(r"(gpu|cpu|pci|nic|net|nvswitch)\.(.+)")
_GPU_LINKS = ("nvlink", "xgmi")
_SPEEDS = [(Fraction(gen), lanes) for gen in ("2.5", "5", "8", "16", "32", "64") for lanes in (1, 2, 4, 8, 16)]
_SM = (80, 60, 86, 100)  # compute capabilities with different NVLinks


class _Node:
    def __init__(self, network: PlainNetwork) -> None:
        self.network = network
        self.kind: list[str] = []
        self.word: list[str] = []
        for name in network.names:
            match = _PART.fullmatch(name)
            if match is None:
                self._refuse(f"the part '{name}'", "parts named gpu.0, cpu.0, pci.BUS, nic.BUS, net.NAME, nvswitch.BUS")
            self.kind.append(match[1])
            self.word.append(match[2])
        self.near: dict[int, list[tuple[int, PlainLink]]] = defaultdict(list)
        for link in network.links:
            self.near[link.a].append((link.b, link))
            self.near[link.b].append((link.a, link))
        if {part for part, kind in enumerate(self.kind) if kind == "gpu"} != set(network.npus):
            self._refuse("NPUs that are not named gpu.N", "GPUs as NPUs")
        self.bus = {part: f"ffff:{rank:02x}:00.0" for rank, part in enumerate(network.npus)}
        self.rank = {part: rank for rank, part in enumerate(network.npus)}
        self.sm = next((sm for sm in _SM if all(self._whole(link, sm) for link in self._of("nvlink"))), 0)
        self.seen: set[int] = set()
        self.rounded = False

    @staticmethod
    def _refuse(what: str, allowed: str) -> NoReturn:
        raise InputError(f"{FORM} cannot say {what}", key="--export", allowed=allowed)

    @staticmethod
    def _whole(link: PlainLink, sm: int) -> bool:
        return (link.rate / nvlink(sm)).denominator == 1

    def _of(self, kind: str) -> Iterator[PlainLink]:
        return (link for link in self.network.links if link.kind == kind)

    def lines(self) -> Iterator[str]:
        """The lines of the file."""
        if any(link.latency for link in self.network.links):
            lost(FORM, "latencies")
        cpus = [part for part, kind in enumerate(self.kind) if kind == "cpu"]
        if not cpus:
            self._refuse("a node without a CPU", "a CPU, with PCI devices below it")
        between = {link.rate for link in self._of("sys")}
        vendors = {SYS_OTHER: "", **{rate: vendor for vendor, rate in SYS.items()}}
        vendor = vendors.get(next(iter(between), SYS_OTHER))
        if len(between) > 1 or vendor is None:
            lost(FORM, "the bandwidth between CPUs")
        yield '<system version="1">'
        for cpu in cpus:
            yield f"  <cpu numaid={quoteattr(self.word[cpu])} vendor={quoteattr(vendor or '')}>"
            yield from self._below(cpu, 2)
            yield "  </cpu>"
        yield "</system>"
        for part, kind in enumerate(self.kind):
            if part not in self.seen and kind not in ("cpu", "nvswitch"):
                self._refuse(
                    f"{self.network.names[part]}, which is below no CPU", "a tree of PCI devices below each CPU"
                )
        if self.rounded:
            lost(FORM, "some rates: it takes the nearest of PCI Express and of whole numbers of NVLinks")

    def _below(self, above: int, depth: int) -> Iterator[str]:
        for part, link in self.near[above]:
            if part in self.seen or link.kind not in ("pcie", "local", "net"):
                continue
            if self.kind[part] == "cpu":
                continue
            self.seen.add(part)
            blank = "  " * depth
            kind, word = self.kind[part], quoteattr(self.word[part])
            if depth > 60:
                self._refuse("so many PCI bridges in a row", "at most 60")
            if kind == "net":
                yield f'{blank}<net name={word} dev="{len(self.seen)}" speed="{round(link.rate * 8 / 10**6)}"/>'
                continue
            bus = self.bus.get(part, self.word[part])
            wrapped = link.kind == "pcie"
            if wrapped:
                yield f"{blank}<pci busid={quoteattr(bus)} {self._speed(link.rate)}>"
            inner = blank + "  " * wrapped
            if kind == "gpu":
                yield f'{inner}<gpu dev={word} sm="{self.sm}" rank="{self.rank[part]}">'
                yield from self._gpu_links(part, inner + "  ")
                yield f"{inner}</gpu>"
            elif kind == "nic":
                yield f"{inner}<nic>"
                yield from self._below(part, depth + 2)
                yield f"{inner}</nic>"
            else:
                yield from self._below(part, depth + 1)
            if wrapped:
                yield f"{blank}</pci>"

    def _speed(self, rate: Fraction) -> str:
        speed, lanes = min(_SPEEDS, key=lambda pair: (abs(pcie(*pair) - rate), -pair[1]))
        self.rounded |= pcie(speed, lanes) != rate
        return f'link_speed="{float(speed):.1f} GT/s PCIe" link_width="{lanes}"'

    def _gpu_links(self, gpu: int, blank: str) -> Iterator[str]:
        for part, link in self.near[gpu]:
            if link.kind == "c2c":
                yield f'{blank}<c2c bw="{round(link.rate / 10**6)}" count="1"/>'
            if link.kind not in _GPU_LINKS:
                continue
            target = self.bus.get(part, self.word[part])
            tclass = "0x030200" if self.kind[part] == "gpu" else "0x068000"
            count = max(1, round(link.rate / nvlink(self.sm))) if self.sm else max(1, round(link.rate / (25 * GB)))
            self.rounded |= not self.sm or link.rate != count * nvlink(self.sm)
            yield f'{blank}<{link.kind} target={quoteattr(target)} count="{count}" tclass="{tclass}"/>'


def nccl_text(network: PlainNetwork) -> str:
    """Return the XML of one node. Raises InputError for a network that NCCL cannot describe."""
    return "\n".join(_Node(network).lines()) + "\n"
