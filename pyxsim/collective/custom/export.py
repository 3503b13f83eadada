"""Schedules as files for other programs: MSCCL XML and Chakra traces.

Neither has windows: the waits of a window are written as waits for certain messages (`awaited`).
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from os import PathLike
from xml.sax.saxutils import quoteattr

import numpy as np
import numpy.typing as npt

from pyxsim import chakra
from pyxsim.chakra import Attribute, Node, NodeType
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.custom.channels import awaited, channels
from pyxsim.collective.custom.msccl import CHANNELS, COLLECTIVES
from pyxsim.collective.custom.program import held
from pyxsim.errors import InputError
from pyxsim.rank_files import refuse_others

_COLL = {kind: coll for coll, kind in COLLECTIVES.items()}

Chunk = tuple[str, int]  # buffer, offset
Role = tuple[str, int, int]  # action of a threadblock, GPU, channel: ("send", 3, 0)
Run = tuple[list[int], list[int]]  # cells of sender and receiver, contiguous in their buffers


def to_msccl(schedule: CompiledSchedule) -> str:
    """Return the schedule as an <algo> of MSCCL. A message whose chunks are not contiguous becomes several steps.

    Each GPU has one threadblock per channel to each GPU that it sends to, and per channel from each that it receives
    from; several for local steps that do not wait for each other. A step waits for the steps of other threadblocks that
    last used its chunks, and for the waits of the schedule. Raises InputError for what MSCCL cannot express, and warns
    if it has too few channels to avoid additional waits.
    """
    s = schedule
    if s.kind.name not in _COLL:
        raise InputError(f"MSCCL has no {s.kind.name}", allowed=", ".join(_COLL))
    signals = (~s.local & (s.block_ptr[1:] == s.block_ptr[:-1])).any()
    if s.given_bytes is not None or signals or s.in_network:
        what = "reduction in the network" if s.in_network else "messages without data"
        raise InputError(f"{s}: MSCCL has no {what}")
    waits = awaited(s)
    channel, late = channels(s, waits, CHANNELS)
    if late:
        pair = f"rank {s.src[late[0]]} to rank {s.dst[late[0]]}"
        problem = f"{len(late)} messages have more dependencies than in the schedule, the first of them from {pair}"
        warnings.warn(f"{s}: {problem}: MSCCL has {CHANNELS} channels", stacklevel=2)
    gpus = [_Gpu(s, rank) for rank in range(s.n)]
    for messages in _side_by_side(s):
        runs = [(m, int(s.src[m]), int(s.dst[m]), run) for m in messages for run in _runs(s, gpus, m)]
        for m, src, dst, (cells, puts) in runs:
            if src != dst:
                gpu, to = gpus[src], gpus[dst].chunks[puts[0]]
                gpu.step(("send", dst, channel[m]), "s", gpu.chunks[cells[0]], to, cells, [], waits[m])
        for m, src, dst, (cells, puts) in runs:
            gpu, role = gpus[dst], ("local", -1, channel[m])
            if not puts:
                gpu.step(role, "nop", ("i", 0), ("i", 0), [], [], waits[m])
                gpu.taken[m] = role, len(gpu.threads[role]) - 1
                continue
            to, adds = gpu.chunks[puts[0]], bool(s.reduce[m])
            if src == dst:
                gpu.step(role, "re" if adds else "cpy", gpu.chunks[cells[0]], to, cells, puts, waits[m])
            else:
                role = ("recv", src, channel[m])
                gpu.step(role, "rrc" if adds else "r", to, to, puts if adds else [], puts)
            gpu.taken[m] = role, len(gpu.threads[role]) - 1
    inplace = int(all(gpu.inplace for gpu in gpus))
    chunks = s.blocks // s.n ** max(s.kind.homes - 1, 0)
    used = 1 + max((number for m, number in enumerate(channel) if not s.local[m]), default=0)
    lines = [
        f'<algo name={quoteattr(s.algorithm)} proto="Simple" nchannels="{used}" nchunksperloop="{chunks}" ngpus="{s.n}"'
        f' coll="{_COLL[s.kind.name]}" inplace="{inplace}">'
    ]
    for gpu in gpus:
        lines += gpu.lines()
    return "\n".join([*lines, "</algo>", ""])


def _side_by_side(s: CompiledSchedule) -> Iterator[list[int]]:
    """The messages of each step."""
    ends = np.flatnonzero(np.diff(s.step, append=-1)) + 1
    begin = 0
    for end in ends.tolist():
        yield list(range(begin, end))
        begin = end


def _runs(s: CompiledSchedule, gpus: list[_Gpu], m: int) -> Iterator[Run]:
    """A message, split where its chunks are not contiguous in the buffers."""
    src, dst = gpus[s.src[m]].chunks, gpus[s.dst[m]].chunks
    run: Run = ([], [])
    part = slice(s.block_ptr[m], s.block_ptr[m + 1])
    for cell, put in zip(s.block_ids[part].tolist(), s.put_ids[part].tolist(), strict=True):
        if run[0] and (src[cell] != _next(src[run[0][-1]]) or dst[put] != _next(dst[run[1][-1]])):
            yield run
            run = ([], [])
        run[0].append(cell)
        run[1].append(put)
    yield run


def _next(chunk: Chunk) -> Chunk:
    return chunk[0], chunk[1] + 1


@dataclass
class _Step:
    """A <step>; `after`: the step of another threadblock that it waits for.

    `number`: index among the steps of its GPU; `over`: bit mask of the steps that have ended when it has.
    """

    type: str
    src: Chunk
    dst: Chunk
    count: int
    after: tuple[Role, int] | None
    number: int
    over: int = 0
    awaited_by_other: bool = False


@dataclass
class _Uses:
    """The last writer of a cell, and the readers since."""

    write: list[tuple[Role, int]] = field(default_factory=list)
    reads: list[tuple[Role, int]] = field(default_factory=list)


class _Gpu:
    """Writes a <gpu>."""

    def __init__(self, s: CompiledSchedule, rank: int) -> None:
        self.rank = rank
        starts, ends = held(s.kind, s.n, s.blocks, rank)
        # In place if one of input and output is a part of the other. All other cells are scratch.
        self.inplace = set(starts) <= set(ends) or set(ends) <= set(starts)
        inputs, outputs = starts, ends
        if self.inplace:
            inputs, outputs = (starts, []) if len(starts) >= len(ends) else ([], ends)
        self.chunks: dict[int, Chunk] = {block: ("o", place) for place, block in enumerate(outputs)}
        self.chunks.update((block, ("i", place)) for place, block in enumerate(inputs))
        others = [cell for cell in range(s.cells) if cell not in self.chunks]
        self.chunks.update((cell, ("s", place)) for place, cell in enumerate(others))
        self.sizes = {"i": len(inputs), "o": len(outputs), "s": len(others)}
        self.threads: dict[Role, list[_Step]] = {}
        self.uses: defaultdict[int, _Uses] = defaultdict(_Uses)
        self.count = 0  # of steps so far
        self.taken: dict[int, tuple[Role, int]] = {}  # the step that received a message
        for block in inputs if not self.inplace else ():
            if block in ends:
                self.step(("local", -1, 0), "cpy", self.chunks[block], ("o", ends.index(block)), [block], [])

    def step(
        self,
        role: Role,
        kind: str,
        src: Chunk,
        dst: Chunk,
        reads: list[int],
        writes: list[int],
        waits: Iterable[int] = (),
    ) -> None:
        """Write a step on these cells, after the steps that it must wait for and those that received `waits`."""
        steps = self.threads.setdefault(role, [])
        earlier = [self.taken[m] for m in waits]
        earlier += [use for cell in reads for use in self.uses[cell].write]
        earlier += [use for cell in writes for use in self.uses[cell].write + self.uses[cell].reads]
        over = steps[-1].over if steps else 0
        needed = list[tuple[Role, int]]()
        for use in sorted(set(earlier), key=lambda use: self._at(use).number, reverse=True):
            step = self._at(use)
            if not over >> step.number & 1:  # not implied by its other waits
                needed.append(use)
                over |= step.over
                step.awaited_by_other = True
        # A step waits for one other; nops wait for the rest.
        *more, after = needed or (None,)
        steps += [_Step("nop", ("i", 0), ("o", 0), 0, m, self.count) for m in more]
        steps.append(_Step(kind, src, dst, max(len(reads), len(writes)), after, self.count, over | 1 << self.count))
        self.count += 1
        use = (role, len(steps) - 1)
        for cell in reads:
            self.uses[cell].reads.append(use)
        for cell in writes:
            self.uses[cell] = _Uses([use])

    def _at(self, use: tuple[Role, int]) -> _Step:
        role, place = use
        return self.threads[role][place]

    def lines(self) -> Iterator[str]:
        sizes = " ".join(f'{name}_chunks="{size}"' for name, size in self.sizes.items())
        yield f'  <gpu id="{self.rank}" {sizes}>'
        number = {role: place for place, role in enumerate(self.threads)}
        for (what, peer, channel), steps in self.threads.items():
            send, recv = (peer if what == each else -1 for each in ("send", "recv"))
            chan = channel if what != "local" else 0
            yield f'    <tb id="{number[what, peer, channel]}" send="{send}" recv="{recv}" chan="{chan}">'
            for place, step in enumerate(steps):
                depid, deps = (number[step.after[0]], step.after[1]) if step.after is not None else (-1, -1)
                yield (
                    f'      <step s="{place}" type="{step.type}" srcbuf="{step.src[0]}" srcoff="{step.src[1]}"'
                    f' dstbuf="{step.dst[0]}" dstoff="{step.dst[1]}" cnt="{step.count}"'
                    f' depid="{depid}" deps="{deps}" hasdep="{int(step.awaited_by_other)}"/>'
                )
            yield "    </tb>"
        yield "  </gpu>"


def to_chakra(
    schedule: CompiledSchedule,
    block_sizes: npt.NDArray[np.integer],
    prefix: str | PathLike[str],
    *,
    reduction_micros: int = 0,
) -> None:
    """Write the schedule as Chakra traces `PREFIX.R.et`, one per rank R, for blocks of these sizes.

    A message is a send and a receive with a tag of its own; an addition is a computation of `reduce_us` microseconds,
    if any. A node depends on the nodes that produce its data. Existing traces are overwritten; InputError if there are
    traces of ranks beyond the schedule's, because they would be read as part of the collective.
    """
    s = schedule
    if s.in_network:
        raise InputError(f"{s}: Chakra traces have no reduction in the network")
    refuse_others(f"{prefix}.*.et", range(s.n))
    sizes = s.message_bytes(block_sizes)
    nodes: list[list[Node]] = [[] for _ in range(s.n)]
    taken_in: list[int] = []  # the node at its receiver after which a message has been taken in

    def put(rank: int, what: str, kind: NodeType, deps: list[int], micros: int = 0, **numbers: int) -> int:
        attributes = [Attribute("is_cpu_op", "bool_val", False)]
        attributes += [Attribute(f"comm_{name}", "int64_val", number) for name, number in numbers.items()]
        number = len(nodes[rank])
        nodes[rank].append(Node(number, what, kind, data_deps=deps, duration_micros=micros, attr=attributes))
        return number

    ends = zip(s.src.tolist(), s.dst.tolist(), sizes.tolist(), strict=True)
    for m, ((src, dst, size), waits) in enumerate(zip(ends, awaited(s), strict=True)):
        deps = sorted({taken_in[wait] for wait in waits})
        if src == dst:
            taken_in.append(put(dst, f"local {m}", NodeType.COMP, deps, reduction_micros if s.reduce[m] else 0))
            continue
        link = {"size": size, "src": src, "dst": dst, "tag": m}
        put(src, f"send {m}", NodeType.COMM_SEND, deps, **link)
        here = put(dst, f"receive {m}", NodeType.COMM_RECV, [], **link)
        if s.reduce[m]:
            here = put(dst, f"reduce {m}", NodeType.COMP, [here], reduction_micros)
        taken_in.append(here)
    for rank, node in enumerate(nodes):
        chakra.write(f"{prefix}.{rank}.et", node)
