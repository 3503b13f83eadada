"""Algorithms in MSCCL's XML: the threadblocks of every GPU and their steps.

    <algo name= ngpus= nchunksperloop= coll= inplace= proto=>
      <gpu id= i_chunks= o_chunks= s_chunks=>
        <copy i_off= o_off=/>
        <tb id= send= recv= chan=>
          <step s= type= srcbuf= srcoff= dstbuf= dstoff= cnt= depid= deps= hasdep=/>

A threadblock sends to one GPU and receives from one, on one channel, and executes its steps in order; a step may wait
for step `deps` of threadblock `depid` of its GPU. A step reads `cnt` chunks from its source and writes them to its
destination, each an offset in the input, output or scratch buffer of its own GPU. Types: s sends what it reads; r
writes what it receives; in other types that begin with r, r is receive, a second r adds what it reads, c writes (the
copy), s sends. cpy and re copy and add within the GPU, nop only waits. A <copy> puts a chunk of the input into the
output at the start.

docs/custom_collectives.md lists the attributes that are used.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.custom.compile_program import compile_program
from pyxsim.collective.custom.program import Instruction, Layout, Places, Program, Thread, held
from pyxsim.collective.kinds import KINDS, Kind
from pyxsim.errors import InputError
from pyxsim.xml_elements import Element

COLLECTIVES = {
    "allreduce": "all-reduce",
    "allgather": "all-gather",
    "reducescatter": "reduce-scatter",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
}
CHANNELS = 32  # of the MSCCL runtime
PROTOCOLS = ["Simple", "LL", "LL128"]
BUFFERS = ["i", "o", "s"]
MOST = 2**18  # chunks of a buffer
MOST_ON_ALL = 2**20  # chunks of a buffer times GPUs
MOST_NAMED = 2**22  # chunks that all steps together read and write


class _Type(NamedTuple):
    """What a type of step does."""

    receives: bool = False
    reads: bool = False
    writes: bool = False
    sends: bool = False
    adds: bool = False


TYPES = {
    "s": _Type(reads=True, sends=True),
    "r": _Type(receives=True, writes=True),
    "rcs": _Type(receives=True, writes=True, sends=True),
    "rrs": _Type(receives=True, reads=True, sends=True),
    "rrc": _Type(receives=True, reads=True, writes=True),
    "rrcs": _Type(receives=True, reads=True, writes=True, sends=True),
    "cpy": _Type(reads=True, writes=True),
    "re": _Type(reads=True, writes=True, adds=True),
    "nop": _Type(),
}


def read_msccl(path: str, root: Element) -> tuple[Callable[[str, int], CompiledSchedule], tuple[str, ...]]:
    """Return a function(kind, n) that returns the schedule of a file, and the one kind that it supports. Raises
    InputError."""
    program = _Reader(root).program()
    name = Path(path).name

    def build(kind: str, n: int) -> CompiledSchedule:
        if n != program.n:
            raise InputError(
                f"is for {program.n} GPUs, but the group has {n}",
                file=path,
                allowed=f"a group of {program.n}; 'one-' before the path treats the NPUs of all dimensions as one "
                "group",
            )
        return compile_program(program, name)

    return build, (program.kind.name,)


class _Reader:
    """The program of an <algo>."""

    def __init__(self, algo: Element) -> None:
        if algo.tag != "algo":
            algo.refuse("is not an MSCCL algorithm", allowed="<algo>, or <Algo> of ForestColl")
        algo.text("name", "")
        coll = algo.text("coll")
        if coll == "custom":
            algo.refuse("coll is 'custom', which does not define the result", allowed=list(COLLECTIVES))
        self.kind: Kind = KINDS[COLLECTIVES[algo.word("coll", list(COLLECTIVES))]]
        self.n = algo.number("ngpus", 2)
        chunks = algo.number("nchunksperloop", 1)
        # The buffer of one GPU is nchunksperloop chunks; of a block with two homes, each GPU has only its own.
        self.blocks = chunks * self.n ** max(self.kind.homes - 1, 0)
        most = max(1, min(MOST // (self.blocks // chunks), MOST_ON_ALL // self.n))
        if chunks > most:
            algo.refuse(f"nchunksperloop is {chunks} for {coll} on {self.n} GPUs", allowed=f"at most {most}")
        if self.blocks % self.kind.units(self.n):
            algo.refuse(f"nchunksperloop is {chunks} for {coll} on {self.n} GPUs", allowed=f"a multiple of {self.n}")
        self.inplace = algo.number("inplace", 0, 0) == 1
        self.channels = algo.number("nchannels", 1, CHANNELS)
        algo.word("proto", PROTOCOLS, "Simple")
        # The runtime selects files by these attributes; they have no effect here.
        for name in ("outofplace", "redop", "minBytes", "maxBytes", "maxcount", "nthreadblocks"):
            algo.text(name, "")
        algo.done("gpu")
        self.gpus = _numbered(algo, "id", self.n)
        self._named = 0

    def name_chunks(self, step: Element, count: int) -> None:
        """Count chunks that a step reads or writes. Raises InputError if all steps together have too many."""
        self._named += count
        if self._named > MOST_NAMED:
            step.refuse("reads or writes more chunks than the steps may", allowed=f"{MOST_NAMED} in all")

    def program(self) -> Program:
        threads, layouts = list[Thread](), list[Layout]()
        for rank, gpu in enumerate(self.gpus):
            buffers = _Buffers(gpu, *held(self.kind, self.n, self.blocks, rank), self.inplace, self.name_chunks)
            threads += self._threads(rank, gpu, buffers)
            layouts.append(buffers.layout())
        return Program(self.kind, self.n, self.blocks, threads, layouts)

    def _threads(self, rank: int, gpu: Element, buffers: _Buffers) -> list[Thread]:
        blocks = [_Threadblock(tb, self.n, rank, self.channels) for tb in _numbered(gpu, "id", tag="tb")]
        for what in ("send", "recv"):
            owners: dict[tuple[int, int], int] = {}
            for number, block in enumerate(blocks):
                peer = block.send if what == "send" else block.recv
                first = owners.setdefault((peer, block.channel), number)
                if peer >= 0 and first != number:
                    problem = f"threadblock {first} also has {what} {peer} on channel {block.channel}"
                    block.element.refuse(problem, allowed="one threadblock for each GPU and channel")
        marked = {(number, step) for number, block in enumerate(blocks) for step in block.tells}
        lengths = [len(block.steps) for block in blocks]
        threads = []
        for number, block in enumerate(blocks):
            steps = [block.instruction(step, buffers) for step in block.steps]
            for step, instruction in zip(block.steps, steps, strict=True):
                for other, needed in instruction.after:
                    if other >= len(blocks) or needed >= lengths[other]:
                        step.refuse(f"waits for step {needed} of threadblock {other}, which does not exist")
                    if (other, needed) not in marked:
                        step.refuse(f'waits for step {needed} of threadblock {other}, which has no hasdep="1"')
            threads.append(Thread(rank, f"threadblock {number} of rank {rank}", steps))
        return threads or [Thread(rank, f"rank {rank}", [])]


class _Threadblock:
    """A <tb>: the GPUs that it sends to and receives from, and its steps."""

    def __init__(self, tb: Element, n: int, rank: int, channels: int) -> None:
        self.element = tb
        self.send, self.recv = (tb.number(name, -1, -1) for name in ("send", "recv"))
        self.channel = tb.number("chan", -1, 0)
        tb.done("step")
        for name, peer in (("send", self.send), ("recv", self.recv)):
            if peer >= n or peer == rank:
                tb.refuse(f"{name} is {peer}", allowed=f"another GPU of 0 to {n - 1}, or -1")
            if peer >= 0 and not 0 <= self.channel < channels:
                tb.refuse(f"chan is {self.channel}", allowed=f"0 to {channels - 1} (nchannels is {channels})")
        self.steps = _numbered(tb, "s")
        self.tells = {number for number, step in enumerate(self.steps) if step.number("hasdep", 0, 0)}

    def instruction(self, step: Element, buffers: _Buffers) -> Instruction:
        name = step.word("type", list(TYPES))
        does = TYPES[name]
        width = step.number("cnt", 0 if name == "nop" else 1, 0 if name == "nop" else 1)
        sides = [(step.text(f"{side}buf", ""), step.number(f"{side}off", -1, -1)) for side in ("src", "dst")]
        reads, writes = (
            buffers.places(step, *side, width) if used else ()
            for side, used in zip(sides, (does.reads, does.writes), strict=True)
        )
        for used, peer, word in ((does.receives, self.recv, "recv"), (does.sends, self.send, "send")):
            if used and peer < 0:
                step.refuse(f"type is '{name}', but its threadblock has no {word}")
        other, needed = step.number("depid", -1, -1), step.number("deps", -1, -1)
        step.done()
        return Instruction(
            receive=(self.recv, self.channel) if does.receives else None,
            send=(self.send, self.channel) if does.sends else None,
            reads=reads,
            writes=writes,
            adds=does.adds,
            after=((other, needed),) if other >= 0 and needed >= 0 else (),
            width=width,
            origin=step.place,
        )


class _Buffers:
    """The three buffers of a GPU as places: chunk k of the input, the output, the scratch buffer.

    The input has the blocks of the rank at the start, in order; the output those at the end. In place, the smaller one
    is a part of the larger one: where its blocks are, or at the same offset.
    """

    def __init__(
        self,
        gpu: Element,
        starts: list[int],
        ends: list[int],
        inplace: bool,
        name_chunks: Callable[[Element, int], None],
    ) -> None:
        self.starts, self.ends, self._name_chunks = starts, ends, name_chunks
        self.sizes = {name: gpu.number(f"{name}_chunks", 0) for name in BUFFERS}
        for name, chunks in self.sizes.items():
            if chunks > MOST:
                gpu.refuse(f"{name}_chunks is {chunks}", allowed=f"0 to {MOST}")
        gpu.done("tb", "copy")
        self.copies = [self._copy(element) for element in gpu.elements if element.tag == "copy"]
        self.names: dict[int, str] = {}
        self.inside: dict[str, dict[int, int]] = {}  # of a buffer inside another: places of its chunks
        if inplace:
            small, part, whole = ("i", starts, ends) if len(starts) < len(ends) else ("o", ends, starts)
            position = {block: number for number, block in enumerate(whole)}
            self.inside[small] = {k: position[block] for k, block in enumerate(part) if block in position}

    def _copy(self, element: Element) -> tuple[int, int]:
        """The chunks of input and output of a <copy>."""
        source, target = element.number("i_off", 0), element.number("o_off", 0)
        element.done()
        for offset, buffer, most in ((source, "i", len(self.starts)), (target, "o", self.sizes["o"])):
            if offset >= min(most, self.sizes[buffer]):
                element.refuse(f"{buffer}_off is {offset}, but {buffer}_chunks is {self.sizes[buffer]}")
        return source, target

    def place(self, buffer: str, offset: int) -> int:
        number = BUFFERS.index(buffer)
        if buffer != "s" and self.inside:
            number, offset = 0, self.inside.get(buffer, {}).get(offset, offset)
        place = len(BUFFERS) * offset + number
        self.names.setdefault(place, f"{buffer}[{offset}]")
        return place

    def places(self, step: Element, buffer: str, offset: int, count: int) -> Places:
        """Return the places of `count` chunks."""
        if buffer not in BUFFERS:
            step.refuse(f"'{buffer}' is not a buffer", allowed=BUFFERS)
        if offset < 0 or offset + count > self.sizes[buffer]:
            there = f"{buffer}_chunks is {self.sizes[buffer]}"
            step.refuse(f"chunks {offset} to {offset + count - 1} of buffer {buffer} are used, but {there}")
        self._name_chunks(step, count)
        return tuple(self.place(buffer, offset + k) for k in range(count))

    def layout(self) -> Layout:
        starts = {self.place("i", k): block for k, block in enumerate(self.starts)}
        starts |= {self.place("o", target): self.starts[source] for source, target in self.copies}
        ends = {block: self.place("o", k) for k, block in enumerate(self.ends)}
        return Layout(starts, ends, self.names)


def _numbered(parent: Element, key: str, count: int | None = None, tag: str = "") -> list[Element]:
    """The child elements, those of a tag if given, in the order of their numbers, which must be 0, 1, 2, ..."""
    elements: dict[int, Element] = {}
    for element in parent.elements:
        if tag and element.tag != tag:
            continue
        number = element.number(key, 0)
        if number in elements:
            element.refuse(f"{key} {number} occurs twice, first in {elements[number].place}")
        elements[number] = element
    if count is not None and len(elements) != count:
        parent.refuse(f"{len(elements)} elements <gpu>", allowed=f"{count} (ngpus is {count})")
    if missing := [number for number in range(len(elements)) if number not in elements]:
        tag = tag or parent.elements[0].tag
        parent.refuse(f"<{tag}> {key}={missing[0]} is missing", allowed=f"0 to {len(elements) - 1}")
    return [elements[number] for number in range(len(elements))]
