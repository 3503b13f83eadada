"""Small files of synthesizers, made here: TE-CCL, TACOS, ForestColl, MSCCL++."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

Json = dict[str, Any]
Op = dict[str, Any]


def ring_flows(n: int, chunks: int = 1, first: int = 0) -> str:
    """An all-gather of TE-CCL: every chunk goes around a ring of GPUs, whose numbers begin with `first`."""
    flows, paths = [], {}
    for owner in range(n):
        for chunk in range(chunks):
            hops = []
            for step in range(n - 1):
                src, dst = (first + (owner + step + k) % n for k in range(2))
                hops.append(f"{src}->{dst} in epoch {step * chunks + chunk}")
                flows.append(f"Chunk {chunk} from {first + owner} traveled over {hops[-1]}")
                paths[f"Demand at {dst} for chunk {chunk} from {first + owner} met by epoch {step}"] = list(hops)
    return teccl({"6-Demand_Met": {}, "7-Flows": flows[::-1], "8-Chunk paths": paths})


def shared_exchange(n: int, volumes: Sequence[float]) -> str:
    """An all-to-all of TE-CCL: parts of a chunk directly and through the next GPU."""
    paths: dict[str, Any] = {}
    for src in range(n):
        for dst in range(n):
            if src == dst:
                continue
            between = next(gpu for gpu in range(n) if gpu not in (src, dst))
            ways = []
            for number, volume in enumerate(volumes):
                stops = (src, between, dst) if number % 2 else (src, dst)
                ways.append(
                    [
                        [2 * number + k, f"{a}->{b} with volume {volume} in epoch {2 * number + k} via switches {n}"]
                        for k, (a, b) in enumerate(pairwise(stops))
                    ]
                )
            paths[f"Demand at {dst} for chunk {dst} from {src} met by epoch 9"] = ways
    return teccl({"6-Flows": [], "7-chunk paths": paths})


def teccl(members: Json) -> str:
    return json.dumps({"1-Epoch_Duration": 1e-06, "3-Epochs_Required": 9, **members, "Solver_Time": 0.5}, indent=1)


def ring_links(n: int, per_npu: int = 1) -> str:
    """An all-gather of TACOS on a ring in one direction; the links back carry nothing."""
    lines = [f"NPUs Count,{n}", f"Links Count,{2 * n}", f"Chunks Count,{n * per_npu}", "Chunk Size,1048576,B"]
    lines.append("SrcID,DestID,Latency (ns),Bandwidth (GB/s),Chunks")
    for npu in range(n):
        chunks = [(npu - step) % n + n * k for step in range(n - 1) for k in range(per_npu)]
        lines.append(f"{npu},{(npu + 1) % n},500,50,{','.join(map(str, chunks))}")
        lines.append(f"{(npu + 1) % n},{npu},500,50,None")
    return "\n".join(lines) + "\n"


def chains(n: int, weights: Sequence[int] = (1,)) -> str:
    """Trees of ForestColl that are chains up and down in turn, with so many chunks each."""
    lines = [f'<Algo nchunkspernode="{sum(weights)}">']
    for root in range(n):
        for index, weight in enumerate(weights):
            lines.append(f'  <tree root="{gpu(root)}" index="{index}" nchunks="{weight}" height="{n - 1}">')
            way = 1 if index % 2 == 0 else -1
            for step in range(n - 1):
                src, dst = (gpu((root + way * (step + k)) % n) for k in range(2))
                lines.append(f'    <send src="{src}" dst="{dst}" path="{src},{dst}"/>')
            lines.append("  </tree>")
    return "\n".join([*lines, "</Algo>"])


def gpu(number: int) -> str:
    return f"(0, 'GPU', {number})"


def local(buffer: str, index: int, size: int = 1) -> Json:
    return {"type": buffer, "index": index, "size": size}


def remote(number: int, index: int, size: int = 1) -> Json:
    return {"buffer_id": number, "index": index, "size": size}


def op(name: str, src: Sequence[Json] = (), dst: Sequence[Json] = (), **more: Any) -> Op:
    found: Op = {"name": name, "channel_type": "memory"}
    if src:
        found |= {"src_buff": list(src), "dst_buff": list(dst)}
    return found | more


def plan(
    collective: str,
    threadblocks: Sequence[Sequence[Sequence[Op]]],
    *,
    chunks: tuple[int, int, int],
    inplace: bool = True,
    remote_buffer: str = "i",
    semaphores: Sequence[int] = (),
) -> str:
    """A plan: the threadblocks of each GPU. Channel k and remote buffer k are to the k-th other GPU."""
    n = len(threadblocks)
    gpus = []
    for rank, blocks in enumerate(threadblocks):
        peers = [peer for peer in range(n) if peer != rank]
        ids = list(range(n - 1))
        gpus.append(
            {
                "id": rank,
                **dict(zip(("input_chunks", "output_chunks", "scratch_chunks"), chunks, strict=True)),
                "threadblocks": [
                    {
                        "id": number,
                        "ops": list(ops),
                        "channels": [{"channel_type": "memory", "channel_ids": ids}],
                        "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": ids}],
                    }
                    for number, ops in enumerate(blocks)
                ],
                "channels": [{"channel_type": "memory", "connected_to": peers}],
                "remote_buffers": [
                    {"rank": peer, "type": remote_buffer, "access_channel_types": ["memory"]} for peer in peers
                ],
                "semaphores": [{"init_value": value} for value in semaphores],
            }
        )
    return json.dumps(
        {"name": "x", "collective": collective, "protocol": "Simple", "inplace": inplace, "gpus": gpus}, indent=1
    )


def meet(n: int) -> list[Op]:
    """Signal all other GPUs, and wait for their signals."""
    ids = list(range(n - 1))
    return [op("signal", channel_ids=ids), op("wait", channel_ids=ids)]


def read_and_write(n: int) -> str:
    """An all-reduce in place: each GPU reads its chunk of all others, adds up, and writes the sum to all."""
    blocks = []
    for rank in range(n):
        there = [remote(k, rank) for k in range(n - 1)]
        move = op("rres", [local("i", rank), *there], [local("i", rank), *there], reduce_op="sum")
        blocks.append([[*meet(n), op("nop"), move, op("nop"), *meet(n)]])
    return plan("allreduce", blocks, chunks=(n, n, 0))


def packets(n: int) -> str:
    """An all-reduce of packets: each GPU sends its chunks to their owners, which add up and send the sum to all."""
    blocks = []
    for rank in range(n):
        peers = [peer for peer in range(n) if peer != rank]
        send = [op("ppkt", [local("i", peer)], [remote(k, rank)]) for k, peer in enumerate(peers)]
        add = op(
            "respkt",
            [local("i", rank), *(local("s", peer) for peer in peers)],
            [local("i", rank), *(remote(k, n + rank) for k in range(n - 1))],
            reduce_op="sum",
        )
        take = [op("upkt", [local("s", n + peer)], [local("i", peer)]) for peer in peers]
        blocks.append([[*send, add], take])
    return plan("allreduce", blocks, chunks=(n, n, 2 * n), remote_buffer="s")


def pipeline(n: int) -> str:
    """An all-gather in a pipeline of two threadblocks: one copies to scratch, one sends from there."""
    blocks = []
    for rank in range(n):
        copy = [
            op("sem_acquire", semaphore_ids=[1]),
            op("copy", [local("i", 0)], [local("s", 0)]),
            op("sem_release", semaphore_ids=[0]),
        ]
        put = op("put", [local("s", 0)] * (n - 1), [remote(k, rank) for k in range(n - 1)])
        send = [op("sem_acquire", semaphore_ids=[0]), put, op("sem_release", semaphore_ids=[1])]
        context = {"unit_size": 1024, "num_chunks": 1}
        own = op("copy", [local("i", 0)], [local("o", rank)])
        blocks.append(
            [
                [op("pipeline", iter_context=context, ops=copy), op("barrier", barrier_id=0, num_threadblocks=2), own],
                [op("pipeline", iter_context=context, ops=send), op("barrier", barrier_id=0, num_threadblocks=2)],
                meet(n),
            ]
        )
    return plan("allgather", blocks, chunks=(1, n, 1), inplace=False, remote_buffer="o", semaphores=(0, 4))


def groups(n: int) -> str:
    """An all-to-all whose puts two threadblocks share."""
    blocks = []
    for rank in range(n):
        peers = [peer for peer in range(n) if peer != rank]
        shares = []
        for part in range(2):
            share = {"tb_id": part, "tbg_size": 2}
            puts = [op("put", [local("i", peer)], [remote(k, rank)], tbg_info=share) for k, peer in enumerate(peers)]
            shares.append([*puts, op("copy", [local("i", rank)], [local("o", rank)], tbg_info=share), *meet(n)])
        blocks.append(shares)
    return plan("alltoall", blocks, chunks=(n, n, 0), inplace=False, remote_buffer="o")


FILES = {
    "flows.json": ("all-gather", ring_flows(3, 2)),
    "exchange.json": ("all-to-all", shared_exchange(3, [0.25, 0.75])),
    "links.csv": ("all-gather", ring_links(3, 2)),
    "trees.xml": ("all-reduce", chains(3, (1, 2))),
    "memory.json": ("all-reduce", read_and_write(3)),
    "packets.json": ("all-reduce", packets(3)),
    "pipeline.json": ("all-gather", pipeline(3)),
    "groups.json": ("all-to-all", groups(3)),
}
"""By name: the kind, and the text of a file for 3 ranks."""
