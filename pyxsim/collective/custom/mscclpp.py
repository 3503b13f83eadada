"""Execution plans of MSCCL++ (microsoft/mscclpp): the operations of the threadblocks of every GPU, as JSON.

    {"name": "x", "collective": "allreduce", "protocol": "Simple", "inplace": true,
     "gpus": [{"id": 0, "input_chunks": 2, "output_chunks": 2, "scratch_chunks": 2,
               "channels": [{"channel_type": "memory", "connected_to": [1]}],
               "remote_buffers": [{"rank": 1, "type": "i", "access_channel_types": ["memory"]}],
               "threadblocks": [
                 {"id": 0, "ops": [{"name": "put", ...}],
                  "channels": [{"channel_type": "memory", "channel_ids": [0]}],
                  "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": [0]}]}]}]}

An operation names chunks of buffers of its GPU, {"type": "i", "index": 0, "size": 1}, or of others, with `buffer_id`, a
position in the remote buffers of its threadblock. docs/custom_collectives.md lists the operations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from math import lcm
from pathlib import Path
from typing import NamedTuple

from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.custom.json_file import JsonValue
from pyxsim.collective.custom.one_sided import (
    OneSidedProgram,
    OneSidedThread,
    Region,
    Signal,
    Step,
    compile_one_sided,
)
from pyxsim.collective.custom.program import Layout, held
from pyxsim.collective.kinds import KINDS
from pyxsim.errors import InputError

COLLECTIVES = {
    "allreduce": "all-reduce",
    "allgather": "all-gather",
    "reducescatter": "reduce-scatter",
    "alltoall": "all-to-all",
}
BUFFERS = ["i", "o", "s"]
CHANNELS = ["memory", "port", "switch", "none"]
MOST = 2**18  # chunks of a buffer times slices, and threadblocks times 32
MOST_ON_ALL = 2**20  # chunks of a buffer times slices times GPUs
MOST_NAMED = 2**22  # chunks times slices that all operations together read and write
_GROUP = 64  # most threadblocks that share an operation


class _Operation(NamedTuple):
    """What an operation does with its regions; the first `local` of them are plain data in a plan of packets."""

    adds: bool = False  # all sources together, to all destinations; otherwise one to one
    packets_in: bool = False
    packets_out: bool = False
    local: int = 0
    signals: bool = False


_MOVES = {
    "put": _Operation(),
    "pws": _Operation(signals=True),
    "pwsf": _Operation(signals=True),
    "get": _Operation(),
    "copy": _Operation(),
    "re": _Operation(adds=True),
    "res": _Operation(adds=True),
    "rre": _Operation(adds=True),
    "rres": _Operation(adds=True),
    "ppkt": _Operation(packets_out=True),
    "rppkt": _Operation(packets_in=True, packets_out=True),
    "cpkt": _Operation(packets_out=True),
    "upkt": _Operation(packets_in=True),
    "repkt": _Operation(adds=True, packets_in=True, packets_out=True, local=1),
    "respkt": _Operation(adds=True, packets_in=True, packets_out=True, local=1),
    "recpkt": _Operation(adds=True, packets_in=True, packets_out=True, local=1),
    "recspkt": _Operation(adds=True, packets_in=True, packets_out=True, local=1),
    "glres": _Operation(adds=True),
    "gstore": _Operation(),
    "gstorepkt": _Operation(packets_out=True),
}
_OTHERS = [
    "nop",
    "flush",
    "barrier",
    "signal",
    "rlxsignal",
    "wait",
    "rlxwait",
    "sem_acquire",
    "sem_release",
    "pipeline",
]
_KEYS = (
    "name",
    "src_buff",
    "dst_buff",
    "channel_ids",
    "channel_type",
    "reduce_op",
    "tbg_info",
    "barrier_id",
    "num_threadblocks",
    "semaphore_ids",
    "iter_context",
    "ops",
)


def read_mscclpp(path: str, root: JsonValue) -> tuple[Callable[..., CompiledSchedule], tuple[str, ...]]:
    """Return a function(kind, n, slices) that returns the schedule of a plan, and its one kind. Raises InputError.

    A pipeline has `slices` iterations, each on an equal part of its chunks.
    """
    for key in ("collective", "gpus"):
        root[key]
    kind = COLLECTIVES[root["collective"].word(list(COLLECTIVES))]
    gpus = list(root["gpus"])
    if len(gpus) < 2:
        root["gpus"].refuse(f"has {len(gpus)} GPUs", allowed="2 or more")
    name = Path(path).name

    def build(kind: str, n: int, slices: int = 1) -> CompiledSchedule:
        if n != len(gpus):
            allowed = f"a group of {len(gpus)}; 'one-' before the path treats the NPUs of all dimensions as one group"
            raise InputError(f"is for {len(gpus)} GPUs, but the group has {n}", file=path, allowed=allowed)
        return compile_one_sided(_Plan(root, kind, gpus, slices).program(), name)

    return build, (kind,)


class _Gpu:
    """A GPU of a plan: its buffers, channels, switches and remote buffers."""

    def __init__(self, gpu: JsonValue, rank: int, n: int) -> None:
        self.value = gpu
        if gpu["id"].whole() != rank:
            gpu["id"].refuse(f"is {gpu['id'].shown}", allowed=f"{rank}, the position of the GPU")
        self.sizes = {
            buffer: gpu[f"{name}_chunks"].whole(0, MOST)
            for buffer, name in zip(BUFFERS, ("input", "output", "scratch"), strict=True)
        }
        self.peers: dict[str, list[int]] = {"memory": [], "port": []}
        self.switches: list[tuple[str, list[int]]] = []
        for channel in gpu.members("channels"):
            what = channel["channel_type"].word(CHANNELS[:3])
            if what == "switch":
                buffer = channel["buffer_type" if "buffer_type" in channel else "buff"].word(BUFFERS)
                for group in channel["rank_groups"]:
                    self.switches.append((buffer, [member.whole(0, n - 1) for member in group["ranks"]]))
                continue
            for peer in channel["connected_to"]:
                if peer.whole(0, n - 1) == rank:
                    peer.refuse(f"is {rank}, the GPU itself", allowed="another GPU")
                self.peers[what].append(peer.whole())
        self.remote: list[tuple[int, str]] = []
        for remote in gpu.members("remote_buffers"):
            if remote["rank"].whole(0, n - 1) == rank:
                remote["rank"].refuse(f"is {rank}, the GPU itself", allowed="another GPU")
            self.remote.append((remote["rank"].whole(), remote["type"].word(BUFFERS)))
        self.semaphores = [value["init_value"].whole(0, 10**4) for value in gpu.members("semaphores")]

    def signal(self, rank: int, what: str, channel: int) -> Signal:
        """The signal that a channel sends: the k-th channel to a peer pairs with the k-th of the peer to this GPU."""
        peer = self.peers[what][channel]
        return rank, peer, what, self.peers[what][:channel].count(peer)


class _Plan:
    """A plan, with every chunk cut into `slices`, so that groups of threadblocks and pipelines take equal parts."""

    def __init__(self, root: JsonValue, kind: str, gpus: list[JsonValue], iterations: int) -> None:
        self.root = root
        self.kind = KINDS[kind]
        self.n = len(gpus)
        self.inplace = root["inplace"].flag()
        self.gpus = [_Gpu(gpu, rank, self.n) for rank, gpu in enumerate(gpus)]
        threadblocks = sum(len(gpu.value.members("threadblocks")) for gpu in self.gpus)
        if threadblocks * 32 > MOST:
            root["gpus"].refuse(f"have {threadblocks} threadblocks in total", allowed=f"at most {MOST // 32}")
        self.iterations = iterations
        groups = {group for gpu in self.gpus for group in _groups(gpu.value)}
        self.slices = lcm(*groups) * iterations
        chunks = {max(gpu.sizes["i"], gpu.sizes["o"]) for gpu in self.gpus}
        if len(chunks) > 1:
            root["gpus"].refuse(f"have buffers of {min(chunks)} to {max(chunks)} chunks", allowed="equal ones")
        self.chunks = chunks.pop()
        # The buffer of one GPU; of a block with two homes, each GPU has only its own.
        self.blocks = self.chunks * self.n ** max(self.kind.homes - 1, 0)
        if not self.blocks or self.blocks % self.kind.units(self.n):
            root["gpus"].refuse(f"have buffers of {self.chunks} chunks", allowed=f"a multiple of {self.n}")
        if self.blocks * self.slices > MOST or self.chunks * self.slices * self.n > MOST_ON_ALL:
            problem = f"{self.blocks} chunks in {self.slices} slices on {self.n} GPUs"
            allowed = f"at most {MOST} chunks times slices, and {MOST_ON_ALL} on all GPUs together"
            root["gpus"].refuse(problem, allowed=allowed)
        self.named = 0  # chunks times slices that the operations so far read and write
        self.inside = [self._inside(rank) for rank in range(self.n)]

    def _inside(self, rank: int) -> tuple[str, dict[int, int]] | None:
        """Of a plan in place: the buffer that is a part of the other, and where its chunks are there."""
        if not self.inplace:
            return None
        starts, ends = held(self.kind, self.n, self.blocks, rank)
        small, part, whole = ("i", starts, ends) if len(starts) < len(ends) else ("o", ends, starts)
        position = {block: number for number, block in enumerate(whole)}
        return small, {number: position[block] for number, block in enumerate(part) if block in position}

    def program(self) -> OneSidedProgram:
        threads = []
        for rank, gpu in enumerate(self.gpus):
            for number, threadblock in enumerate(gpu.value.members("threadblocks")):
                if threadblock["id"].whole() != number:
                    allowed = f"{number}, the position of the threadblock"
                    threadblock["id"].refuse(f"is {threadblock['id'].shown}", allowed=allowed)
                steps = _Threadblock(self, rank, threadblock).steps()
                threads.append(OneSidedThread(rank, f"threadblock {number} of rank {rank}", list(steps)))
        layouts = [self._layout(rank) for rank in range(self.n)]
        blocks = self.blocks * self.slices
        return OneSidedProgram(self.kind, self.n, blocks, threads, layouts, [gpu.semaphores for gpu in self.gpus])

    def _layout(self, rank: int) -> Layout:
        starts, ends = held(self.kind, self.n, self.blocks, rank)
        start_places = {
            place: block * self.slices + k
            for number, block in enumerate(starts)
            for k, place in enumerate(self.places(rank, "i", number, 1))
        }
        end_places = {
            block * self.slices + k: place
            for number, block in enumerate(ends)
            for k, place in enumerate(self.places(rank, "o", number, 1))
        }
        names = _Names(self.slices)
        return Layout(start_places, end_places, names)

    def places(self, rank: int, buffer: str, index: int, count: int) -> list[int]:
        """Return the places of chunks: one for each slice."""
        found: list[int] = []
        for chunk in range(index, index + count):
            number, offset = BUFFERS.index(buffer), chunk
            inside = self.inside[rank]
            if buffer != "s" and inside is not None:
                number, offset = 0, inside[1].get(chunk, chunk) if buffer == inside[0] else chunk
            first = (offset * len(BUFFERS) + number) * self.slices
            found += range(first, first + self.slices)
        return found


class _Names(dict[int, str]):
    """The names of places in errors: "i[3]"."""

    def __init__(self, slices: int) -> None:
        super().__init__()
        self.slices = slices

    def get(self, place: int, default: object = None) -> str:
        """Return the buffer and the chunk of a place."""
        chunk, number = divmod(place // self.slices, len(BUFFERS))
        return f"{BUFFERS[number]}[{chunk}]"


class _Threadblock:
    """The operations of a threadblock, as steps."""

    def __init__(self, plan: _Plan, rank: int, value: JsonValue) -> None:
        self.plan, self.rank, self.value = plan, rank, value
        self.gpu = plan.gpus[rank]
        self.channels: defaultdict[str, list[int]] = defaultdict(list)
        for channel in value.members("channels"):
            what = channel["channel_type"].word(CHANNELS[:3])
            there = self.gpu.switches if what == "switch" else self.gpu.peers[what]
            self.channels[what] += [each.whole(0, len(there) - 1) for each in channel["channel_ids"]]
        self.buffers: defaultdict[str, list[int]] = defaultdict(list)
        for reference in value.members("remote_buffer_refs"):
            what = reference["access_channel_type"].word(CHANNELS)
            self.buffers[what] += [each.whole(0, len(self.gpu.remote) - 1) for each in reference["remote_buffer_ids"]]

    def steps(self) -> Iterator[Step]:
        for op in self.value["ops"]:
            name = op["name"].word([*_MOVES, *_OTHERS])
            if name != "pipeline":
                yield from self._steps(op, name, 0, 1)
                continue
            op.known(*_KEYS)
            inner = [(each, each["name"].word([*_MOVES, *_OTHERS[:-1]])) for each in op["ops"]]
            for iteration in range(self.plan.iterations):
                for each, each_name in inner:
                    yield from self._steps(each, each_name, iteration, self.plan.iterations)

    def _steps(self, op: JsonValue, name: str, part: int, parts: int) -> Iterator[Step]:
        op.known(*_KEYS)
        if name in _MOVES:
            yield from self._moves(op, name, part, parts)
        elif name == "barrier":
            here = len(self.gpu.value.members("threadblocks"))
            yield Step(op.place, barrier=(op["barrier_id"].whole(), op["num_threadblocks"].whole(1, here)))
        elif name in ("signal", "rlxsignal"):
            yield Step(op.place, signals=list(self._signals(op)))
        elif name in ("wait", "rlxwait"):
            yield Step(op.place, waits=[(peer, me, what, k) for me, peer, what, k in self._signals(op)])
        elif name in ("sem_acquire", "sem_release"):
            numbers = [each.whole(0, len(self.gpu.semaphores) - 1) for each in op["semaphore_ids"]]
            yield Step(op.place, takes=numbers) if name == "sem_acquire" else Step(op.place, gives=numbers)

    def _signals(self, op: JsonValue) -> Iterator[Signal]:
        """The signals of the channels of an operation, each once."""
        what = op["channel_type"].word(CHANNELS[:2])
        mine = self.channels[what]
        for number in op["channel_ids"]:
            yield self.gpu.signal(self.rank, what, mine[number.whole(0, len(mine) - 1)])

    def _moves(self, op: JsonValue, name: str, part: int, parts: int) -> Iterator[Step]:
        does = _MOVES[name]
        sources, targets = (
            [list(self._regions(op, buffer, part, parts)) for buffer in op[side]] for side in ("src_buff", "dst_buff")
        )
        for side, given in (("src_buff", sources), ("dst_buff", targets)):
            if not given:
                op[side].refuse("is empty", allowed="a buffer")
        read = _marked(sources, does.packets_in, does.local)
        written = _marked(targets, does.packets_out, does.local)
        pairs: Iterable[tuple[list[Region], list[Region]]]
        if does.adds or len(sources) == 1:
            pairs = [([region for each in read for region in each], [region for each in written for region in each])]
        elif len(sources) == len(targets):
            pairs = zip(read, written, strict=True)
        else:
            op.refuse(
                f"{name} has {len(sources)} sources for {len(targets)} destinations", allowed="equally many, or 1"
            )
        for reads, writes in pairs:
            if len(widths := {len(region.places) for region in (*reads, *writes)}) > 1:
                op.refuse(f"{name} has buffers of different sizes", allowed="equal sizes")
            if widths != {0}:
                yield Step(op.place, reads, writes)
        if does.signals:
            yield Step(op.place, signals=list(self._signals(op)))

    def _regions(self, op: JsonValue, buffer: JsonValue, part: int, parts: int) -> Iterator[Region]:
        """The chunks that a buffer of an operation names: at one rank, or through a switch at several."""
        buffer.known("type", "buffer_id", "switch_channel_id", "index", "size")
        if "switch_channel_id" in buffer:
            mine = self.channels["switch"]
            name, ranks = self.gpu.switches[mine[buffer["switch_channel_id"].whole(0, len(mine) - 1)]]
        elif "buffer_id" in buffer:
            there = self.buffers[op["channel_type"].word(CHANNELS)]
            rank, name = self.gpu.remote[there[buffer["buffer_id"].whole(0, len(there) - 1)]]
            ranks = [rank]
        else:
            name, ranks = buffer["type"].word(BUFFERS), [self.rank]
        index, size = buffer["index"].whole(), buffer["size"].whole(1)
        for rank in ranks:
            chunks = self.plan.gpus[rank].sizes[name]
            if index + size > chunks:
                problem = f"chunks {index} to {index + size - 1} of buffer {name} of GPU {rank} are used"
                buffer.refuse(problem, allowed=f"0 to {chunks - 1}")
            self.plan.named += size * self.plan.slices
            if self.plan.named > MOST_NAMED:
                buffer.refuse("more chunks in slices than the operations may use", allowed=f"{MOST_NAMED} in all")
            places = self.plan.places(rank, name, index, size)
            if "tbg_info" in op:
                group = op["tbg_info"]["tbg_size"].whole(1, _GROUP)
                places = _share(places, op["tbg_info"]["tb_id"].whole(0, group - 1), group)
            yield Region(rank, tuple(_share(places, part, parts)))


def _share(places: list[int], part: int, parts: int) -> list[int]:
    return places[len(places) * part // parts : len(places) * (part + 1) // parts]


def _marked(sides: list[list[Region]], packets: bool, local: int) -> list[list[Region]]:
    """Mark all but the first `local` sides as packets, if these are."""
    return [
        [region._replace(packets=packets and number >= local) for region in side] for number, side in enumerate(sides)
    ]


def _groups(gpu: JsonValue) -> Iterator[int]:
    """The sizes of the groups of threadblocks that share an operation."""
    yield 1
    for threadblock in gpu.members("threadblocks"):
        for op in threadblock["ops"]:
            for each in (op, *op.members("ops")):
                if "tbg_info" in each:
                    yield each["tbg_info"]["tbg_size"].whole(1, _GROUP)
