"""Results of TACOS (astra-sim/tacos) as CSV: an all-gather as the chunks that cross each link, in order.

    NPUs Count,4
    Links Count,8
    Chunks Count,4
    Chunk Size,1048576,B
    SrcID,DestID,Latency (ns),Bandwidth (GB/s),Chunks
    0,1,500,50,0,2
    1,0,500,50,None

Chunk c belongs to NPU c % n at the start. A link sends a chunk when its NPU has it and the chunks before have left.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.custom.transfers import Transfer, compile_transfers
from pyxsim.collective.kinds import KINDS
from pyxsim.errors import InputError
from pyxsim.textfile import read_text

_COUNTS = ("NPUs Count", "Links Count", "Chunks Count", "Chunk Size")
_COLUMNS = "SrcID,DestID,Latency (ns),Bandwidth (GB/s),Chunks"
_MOST = 10**6  # chunks times NPUs


class _Link(NamedTuple):
    """The chunks that cross a link, in order; `place` is its line."""

    src: int
    dst: int
    chunks: deque[int]
    place: str


def read_tacos(path: str) -> tuple[Callable[[str, int], CompiledSchedule], tuple[str, ...]]:
    """Return a function(kind, n) that returns the schedule of a result, and its one kind. Raises InputError."""
    result = _Result(path)
    name = Path(path).name

    def build(kind: str, n: int) -> CompiledSchedule:
        if n != result.n:
            allowed = f"a group of {result.n}; 'one-' before the path treats the NPUs of all dimensions as one group"
            raise InputError(f"is for {result.n} NPUs, but the group has {n}", file=path, allowed=allowed)
        return compile_transfers(KINDS[kind], n, result.chunks, result.transfers(), name)

    return build, ("all-gather",)


class _Result:
    """A file: its counts and its links."""

    def __init__(self, path: str) -> None:
        self.path = path
        lines = [line.strip() for line in read_text(path, "a CSV file of TACOS").splitlines()]
        counts = [self._count(number, name, lines) for number, name in enumerate(_COUNTS)]
        self.n, links, self.chunks, _ = counts
        if self.n < 2 or self.chunks == 0 or self.chunks % self.n or self.chunks * self.n > _MOST:
            allowed = f"2 NPUs or more and a multiple as many chunks, at most {_MOST} in their product"
            raise InputError(f"{self.n} NPUs and {self.chunks} chunks", file=f"{path}:3", allowed=allowed)
        if lines[4:5] != [_COLUMNS]:
            raise InputError("is not the line of the columns", file=f"{path}:5", allowed=_COLUMNS)
        self.links = [self._link(number, line) for number, line in enumerate(lines[5:], 6) if line]
        if len(self.links) != links:
            raise InputError(f"{len(self.links)} links follow", file=f"{path}:2", allowed=f"{links} (Links Count)")

    def _count(self, index: int, name: str, lines: list[str]) -> int:
        line = lines[index] if index < len(lines) else ""
        match = re.fullmatch(rf"{name},(\d{{1,15}})(?:,B)?", line, re.ASCII)
        if match is None:
            raise InputError(f"'{line}' is not the {name}", file=f"{self.path}:{index + 1}", allowed=f"'{name},8'")
        return int(match[1])

    def _link(self, number: int, line: str) -> _Link:
        place = f"{self.path}:{number}"
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) < 5:
            raise InputError(f"has {len(cells)} columns", file=place, allowed=_COLUMNS)
        src, dst = (self._number(cell, self.n, place, "an NPU") for cell in cells[:2])
        if src == dst:
            raise InputError(f"is a link from NPU {src} to itself", file=place)
        for cell in cells[2:4]:
            if not re.fullmatch(r"\d{1,15}(\.\d{1,15})?(e[+-]?\d\d?)?", cell, re.ASCII):
                raise InputError(f"'{cell}' is not a latency or bandwidth", file=place, allowed="a number")
        none = cells[4:] == ["None"]
        chunks = () if none else [self._number(cell, self.chunks, place, "a chunk") for cell in cells[4:]]
        return _Link(src, dst, deque(chunks), place)

    def _number(self, cell: str, count: int, place: str, what: str) -> int:
        if not re.fullmatch(r"\d{1,9}", cell, re.ASCII) or int(cell) >= count:
            raise InputError(f"'{cell}' is not {what}", file=place, allowed=f"0 to {count - 1}")
        return int(cell)

    def transfers(self) -> Iterator[Transfer]:
        """Yield the transfers in rounds: in each, every link that can sends one chunk."""
        per_npu = self.chunks // self.n
        has = {(chunk % self.n, chunk) for chunk in range(self.chunks)}
        waiting = [link._replace(chunks=link.chunks.copy()) for link in self.links if link.chunks]
        while waiting:
            leaving = [link for link in waiting if (link.src, link.chunks[0]) in has]
            if not leaving:
                link = waiting[0]
                problem = f"NPU {link.src} sends chunk {link.chunks[0]}, which no order of the transfers brings to it"
                raise InputError(problem, file=link.place)
            for link in leaving:
                chunk = link.chunks.popleft()
                block = chunk % self.n * per_npu + chunk // self.n
                has.add((link.dst, chunk))
                yield Transfer(link.src, link.dst, [block], link.dst, link.place)
            waiting = [link for link in waiting if link.chunks]
