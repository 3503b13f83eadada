"""Results of TE-CCL (microsoft/TE-CCL): an all-gather as flows of chunks, an all-to-all as paths of parts of chunks.

    {"1-Epoch_Duration": 1e-06, ...,
     "7-Flows": ["Chunk 0 from 1 traveled over 1->2 in epoch 0 via switches 0", ...],
     "8-Chunk paths": {"Demand at 2 for chunk 0 from 1 met by epoch 0": ["1->2 in epoch 0 via switches 0"], ...}}

The demands say which collective it is. A path of an all-to-all carries a part of its chunk, "with volume 0.25". Nodes
that have no demand are switches; a transfer through one ends at the next GPU. Ranks are the GPUs in ascending order.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.custom.json_file import JsonValue
from pyxsim.collective.custom.transfers import Transfer, compile_transfers
from pyxsim.collective.kinds import KINDS
from pyxsim.errors import InputError

PARTS = 64  # most parts of a chunk; volumes that are no multiples of a part are rounded
_EXACT = 1e-4  # by how much a volume may miss a multiple of a part and count as one; TE-CCL writes six digits

_NUMBER = r"(\d{1,9})"
_FLOW = re.compile(rf"Chunk {_NUMBER} from {_NUMBER} traveled over (.*)", re.ASCII)
_HOP = re.compile(
    rf"{_NUMBER}->{_NUMBER}(?: with volume (\d{{1,9}}(?:\.\d{{1,30}})?(?:e-\d\d?)?))? in epoch {_NUMBER}"
    rf"(?: via switches {_NUMBER}(?:, ?\d{{1,9}})*)?",
    re.ASCII,
)
_DEMAND = re.compile(rf"Demand at {_NUMBER} for chunk {_NUMBER} from {_NUMBER} met by epoch {_NUMBER}", re.ASCII)


class _Hop(NamedTuple):
    """A transfer between two GPUs; `first` is the node behind the first link."""

    src: int
    dst: int
    volume: float
    epoch: int
    first: int
    place: str


class _Demand(NamedTuple):
    """A chunk of a GPU that another one wants, and its paths."""

    dst: int
    chunk: int
    src: int
    paths: JsonValue


def is_teccl(root: JsonValue) -> bool:
    """Return whether a JSON file is a result of TE-CCL."""
    return "1-Epoch_Duration" in root or any(re.fullmatch(r"\d-Flows", key) for key in root.table())


def read_teccl(path: str, root: JsonValue) -> tuple[Callable[[str, int], CompiledSchedule], tuple[str, ...]]:
    """Return a function(kind, n) that returns the schedule of a result, and its one kind. Raises InputError."""
    result = _Result(root)
    name = Path(path).name

    def build(kind: str, n: int) -> CompiledSchedule:
        if n != result.n:
            allowed = f"a group of {result.n}; 'one-' before the path treats the NPUs of all dimensions as one group"
            raise InputError(f"is for {result.n} GPUs, but the group has {n}", file=path, allowed=allowed)
        return compile_transfers(KINDS[kind], n, result.blocks, result.transfers(), name)

    return build, (result.kind,)


class _Result:
    """A file: its collective and its transfers."""

    def __init__(self, root: JsonValue) -> None:
        self.root = root
        self.flows = _member(root, "flows")
        paths = _member(root, "chunk paths")
        self.demands = [_demand(paths, key) for key in paths.table()]
        if not self.demands:
            paths.refuse("has no demand")
        gpus = sorted({gpu for demand in self.demands for gpu in (demand.src, demand.dst)})
        self.rank = {gpu: rank for rank, gpu in enumerate(gpus)}
        self.n = len(gpus)
        self.kind = self._kind(paths)
        if self.kind == "all-gather":
            self.chunks = 1 + max(demand.chunk for demand in self.demands)
            self.blocks = self.n * self.chunks
        else:
            self.numbers = self._numbered()
            self.chunks = max(1 + number for number in self.numbers.values())
            self.parts = _parts([hop.volume for demand in self.demands for hop in self._first_hops(demand)])
            self.blocks = self.n * self.n * self.chunks * self.parts

    def _kind(self, paths: JsonValue) -> str:
        """all-gather if every chunk goes to all other GPUs, all-to-all if every chunk goes to one."""
        wanted = defaultdict[tuple[int, int], set[int]](set)
        counts = defaultdict[tuple[int, int], int](int)
        for demand in self.demands:
            if demand.dst in wanted[demand.src, demand.chunk]:
                demand.paths.refuse("occurs twice")
            wanted[demand.src, demand.chunk].add(demand.dst)
            counts[demand.src, demand.dst] += 1
        chunks = 1 + max(chunk for _, chunk in wanted)
        if len(wanted) == self.n * chunks and all(len(dsts) == self.n - 1 for dsts in wanted.values()):
            return "all-gather"
        pairs = self.n * (self.n - 1)
        if len(counts) == pairs and len(set(counts.values())) == 1 and all(len(dsts) == 1 for dsts in wanted.values()):
            return "all-to-all"
        paths.refuse(
            f"the demands on {self.n} GPUs are those of no collective",
            allowed="each chunk to all other GPUs (all-gather), or equally many chunks for each pair (all-to-all)",
        )

    def transfers(self) -> Sequence[Transfer]:
        """Return the transfers in the order of their epochs."""
        found = self._gathered() if self.kind == "all-gather" else self._exchanged()
        return [transfer for _, transfer in sorted(found, key=lambda pair: pair[0])]

    def _gathered(self) -> list[tuple[int, Transfer]]:
        found = []
        for flow in self.flows:
            match = _FLOW.fullmatch(flow.text())
            if match is None:
                flow.refuse(f"'{flow.text()}' is not a flow", allowed='"Chunk 0 from 1 traveled over 1->2 in epoch 0"')
            chunk, owner, hop = int(match[1]), int(match[2]), _hop(match[3], flow)
            if owner not in self.rank or chunk >= self.chunks:
                flow.refuse(f"no GPU wants chunk {chunk} from {owner}")
            if hop.volume != 1:
                flow.refuse(f"has volume {hop.volume:g}", allowed="whole chunks in an all-gather")
            found.append((hop.epoch, self._transfer(hop, [self.rank[owner] * self.chunks + chunk])))
        return found

    def _exchanged(self) -> list[tuple[int, Transfer]]:
        found = []
        for demand in self.demands:
            pair = self.rank[demand.src] * self.n + self.rank[demand.dst]
            first = (pair * self.chunks + self.numbers[demand.src, demand.chunk]) * self.parts
            widths = _shared([hop.volume for hop in self._first_hops(demand)], self.parts, demand.paths)
            for path, width in zip(demand.paths, widths, strict=True):
                hops = [_hop_of_pair(pair) for pair in path]
                at, before = demand.src, -1
                for hop in hops:
                    if hop.src != at or hop.epoch <= before:
                        path.refuse("its transfers do not follow one another")
                    at, before = hop.dst, hop.epoch
                if at != demand.dst:
                    path.refuse(f"ends at {at}", allowed=str(demand.dst))
                blocks = range(first, first + width)
                found += [(hop.epoch, self._transfer(hop, blocks)) for hop in hops if width]
                first += width
        return found

    def _transfer(self, hop: _Hop, blocks: Sequence[int]) -> Transfer:
        for gpu in (hop.src, hop.dst):
            if gpu not in self.rank:
                _refuse_at(hop.place, f"{gpu} is no GPU: it has no demand")
        if hop.src == hop.dst:
            _refuse_at(hop.place, f"goes from {hop.src} to itself")
        return Transfer(self.rank[hop.src], self.rank[hop.dst], blocks, hop.first, hop.place)

    def _numbered(self) -> dict[tuple[int, int], int]:
        """The number of each chunk among those of its pair of GPUs."""
        numbers: dict[tuple[int, int], int] = {}
        counts = defaultdict[tuple[int, int], int](int)
        for demand in sorted(self.demands, key=lambda demand: demand.chunk):
            numbers[demand.src, demand.chunk] = counts[demand.src, demand.dst]
            counts[demand.src, demand.dst] += 1
        return numbers

    def _first_hops(self, demand: _Demand) -> list[_Hop]:
        hops = []
        for path in demand.paths:
            first = next(iter(path), None)
            if first is None:
                path.refuse("is empty", allowed="a list of transfers")
            hops.append(_hop_of_pair(first))
        return hops


def _member(root: JsonValue, name: str) -> JsonValue:
    """A member whose name begins with a number, which differs between collectives."""
    for key in root.table():
        if re.fullmatch(rf"\d-{name}", key, re.IGNORECASE):
            return root[key]
    root.refuse(f"has no {name}", allowed=f'"7-{name.capitalize()}"')


def _demand(paths: JsonValue, key: str) -> _Demand:
    match = _DEMAND.fullmatch(key)
    if match is None:
        paths.refuse(f"'{key}' is not a demand", allowed='"Demand at 2 for chunk 0 from 1 met by epoch 0"')
    if match[1] == match[3]:
        paths[key].refuse("is of a GPU for its own chunk")
    return _Demand(int(match[1]), int(match[2]), int(match[3]), paths[key])


def _hop(text: str, value: JsonValue) -> _Hop:
    match = _HOP.fullmatch(text)
    if match is None:
        value.refuse(
            f"'{text}' is not a transfer", allowed='"1->2 in epoch 0", also "with volume 0.5", "via switches 0"'
        )
    first = match[5] or match[2]
    return _Hop(int(match[1]), int(match[2]), float(match[3] or 1), int(match[4]), int(first), value.place)


def _hop_of_pair(pair: JsonValue) -> _Hop:
    """A transfer of an all-to-all: [epoch, text]."""
    parts = list(pair)
    if len(parts) != 2:
        pair.refuse(f"has {len(parts)} parts", allowed='[0, "1->2 with volume 1.0 in epoch 0"]')
    return _hop(parts[1].text(), parts[1])


def _parts(volumes: Sequence[float]) -> int:
    """Return the least number of equal parts of a chunk of which all volumes are multiples, or the most."""
    different = {round(volume, 6) for volume in volumes}
    for parts in range(1, PARTS):
        if all(abs(volume * parts - round(volume * parts)) < _EXACT * parts for volume in different):
            return parts
    return PARTS


def _shared(volumes: Sequence[float], parts: int, value: JsonValue) -> list[int]:
    """Return the parts of a chunk for each path, in proportion to the volumes; rounding does not add up."""
    total = sum(volumes)
    if not volumes or abs(total - 1) > 0.01:
        value.refuse(f"the volumes of its paths are {total:g} in total", allowed="1, within 0.01")
    ends, done = [], 0.0
    for volume in volumes:
        done += volume / total
        ends.append(round(done * parts))
    return [end - begin for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


def _refuse_at(place: str, problem: str) -> NoReturn:
    raise InputError(problem, file=place)
