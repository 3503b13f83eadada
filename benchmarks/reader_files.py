"""Made-up workload files of a given size for `python -m benchmarks.readers`, in the form in which tools write them.

Each function writes what it names and returns the number of nodes. Files are written piece by piece.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from pyxsim import chakra
from pyxsim.chakra import Attribute, Node, NodeType
from pyxsim.workload.goal import read_goal, write_goal

GPUS = 8
_KINETO_HEAD = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}],
    "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1, "pg_count": 1},
    "displayTimeUnit": "ms",
    "baseTimeNanoseconds": 1790857026000000000,
}
# As Kineto formats them: an operator inside another one, the launch, the kernel, and the arrow between these.
_KINETO = """  {{
    "ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 4711, "tid": 4711,
    "ts": {at}.105, "dur": 9.250,
    "args": {{
      "External id": {turn},"Sequence number": {turn}, "Fwd thread id": 0, "Record function id": 0, "Concrete Inputs": ["", "", ""], "Input type": ["float", "float", "float"], "Input Strides": [[256, 1], [256, 1], [1]], "Input Dims": [[256, 256], [1024, 256], [1024]], "Ev Idx": {turn}
    }}
  }},
  {{
    "ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 4711, "tid": 4711,
    "ts": {at}.411, "dur": 8.702,
    "args": {{
      "External id": {turn},"Record function id": 0, "Concrete Inputs": ["", "", "", "1", "1"], "Input type": ["float", "float", "float", "Scalar", "Scalar"], "Input Strides": [[1], [256, 1], [1, 256], [], []], "Input Dims": [[1024], [256, 256], [256, 1024], [], []], "Ev Idx": {turn}
    }}
  }},
  {{
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 4711, "tid": 4711,
    "ts": {at}.917, "dur": 4.033,
    "args": {{
      "External id": {turn}, "cbid": 211, "correlation": {turn}
    }}
  }},
  {{
    "ph": "s", "id": {turn}, "pid": 4711, "tid": 4711, "ts": {at}.917,
    "cat": "ac2g", "name": "ac2g"
  }},
  {{
    "ph": "X", "cat": "kernel", "name": "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas", "pid": 0, "tid": 7,
    "ts": {later}.203, "dur": 7.647,
    "args": {{
      "External id": {turn}, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": {turn}, "registers per thread": 168, "shared memory": 114688, "blocks per SM": 0.5, "warps per SM": 2.0, "grid": [8, 4, 1], "block": [128, 1, 1], "est. achieved occupancy %": 3
    }}
  }},
  {{
    "ph": "f", "id": {turn}, "pid": 0, "tid": 7, "ts": {later}.203,
    "cat": "ac2g", "name": "ac2g", "bp": "e"
  }}"""  # noqa: E501
_PER_LAUNCH = 4  # activities in it


def kineto(path: Path, nodes: int) -> int:
    """A trace of torch.profiler of one GPU."""
    launches = nodes // _PER_LAUNCH
    with gzip.open(path, "wb", 6) if path.suffix == ".gz" else path.open("wb") as stream:
        stream.write(json.dumps(_KINETO_HEAD, indent=1)[:-2].encode() + b',\n "traceEvents": [\n')
        for turn in range(launches):
            at = 4679667923595 + 10 * turn
            text = _KINETO.format(turn=turn + 1, at=at, later=at + 5)
            stream.write((text + (",\n" if turn + 1 < launches else "\n")).encode())
        stream.write(b' ],\n "traceName": "step.0.kineto.json"\n}\n')
    return launches * _PER_LAUNCH


def traces(path: Path, nodes: int) -> int:
    """Traces of Chakra, one per GPU: computations, an all-reduce after every seventh of them."""
    each = nodes // GPUS
    for rank in range(GPUS):
        chakra.write(str(path).replace("*", str(rank)), _nodes(each))
    return each * GPUS


def _nodes(count: int) -> Iterator[Node]:
    operation = [Attribute("num_ops", "int64_val", 1 << 30), Attribute("tensor_size", "int64_val", 1 << 20)]
    reduction = [
        Attribute("is_cpu_op", "bool_val", False),
        Attribute("comm_type", "int64_val", 0),
        Attribute("comm_size", "int64_val", 1 << 20),
    ]
    for number in range(count):
        before = [number - 1] if number else []
        if number % 8 == 7:
            yield Node(number, f"all_reduce_{number // 8}", NodeType.COMM_COLL, data_deps=before, attr=reduction)
        else:
            name = f"layer{number // 8 % 64}.gemm{number % 8}"
            yield Node(number, name, NodeType.COMP, data_deps=before, duration_micros=5 + number % 50, attr=operation)


def goal(path: Path, nodes: int) -> int:
    """A schedule of GOAL: on each rank a computation, a send to the next rank and a receive, over and over."""
    rounds = nodes // (3 * GPUS)
    text = path.with_suffix(".goal")
    with text.open("w", encoding="ascii") as stream:
        stream.write(f"num_ranks {GPUS}\n")
        for rank in range(GPUS):
            stream.write(f"\nrank {rank} {{\n")
            for turn in range(rounds):
                label = 3 * turn + 1
                stream.write(
                    f"l{label}: calc {2000 + turn % 100} cpu 1\n"
                    f"l{label + 1}: send 65536b to {(rank + 1) % GPUS} tag {turn}\n"
                    f"l{label + 2}: recv 65536b from {(rank - 1) % GPUS} tag {turn}\n"
                    f"l{label + 1} requires l{label}\nl{label + 2} requires l{label}\n"
                )
                if turn:
                    stream.write(f"l{label} requires l{label - 1}\n")
            stream.write("}\n")
    if path != text:
        with read_goal(str(text)) as schedule:
            write_goal(schedule, str(path))
        text.unlink()
    return rounds * 3 * GPUS


def layers(path: Path, nodes: int) -> int:
    """A text of SimAI, a line per layer."""
    with path.open("w", encoding="ascii") as stream:
        stream.write(f"HYBRID_TRANSFORMER model_parallel_NPU_group: {GPUS}\n{nodes}\n")
        for turn in range(nodes):
            kind = "ALLREDUCE 1048576" if turn % 2 else "NONE 0"
            stream.write(f"layer{turn % 64} -1 {4000 + turn % 9} {kind} 8000 {kind} 1 NONE 0 100\n")
    return nodes


_TABLES = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER,
  globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, gridX INTEGER, gridY INTEGER,
  gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER);
"""


def nsight(path: Path, nodes: int) -> int:
    """An export of Nsight Systems: kernels of all GPUs in two streams each."""
    path.unlink(missing_ok=True)
    each = nodes // GPUS
    with closing(sqlite3.connect(path)) as file:
        file.executescript(_TABLES)
        file.executemany("INSERT INTO StringIds VALUES (?, ?)", ((number, f"kernel_{number}") for number in range(99)))
        rows = (
            (at, at + 900, gpu, 1, None, 7 + turn % 2, turn, gpu + 7 << 24, turn % 99, turn % 99, 8, 4, 1, 128, 1, 1)
            for turn in range(each)
            for gpu in range(GPUS)
            for at in [5_000_000_000 + 1000 * turn]
        )
        file.executemany(f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({', '.join('?' * 16)})", rows)
        file.commit()
    return each * GPUS


def msccl(path: Path, nodes: int) -> int:
    """A direct all-gather as an algorithm of MSCCL: a threadblock for each peer and direction, a step per chunk."""
    chunks = nodes // (2 * GPUS * (GPUS - 1))
    step = (
        '<step s="{}" type="{}" srcbuf="i" srcoff="{}" dstbuf="o" dstoff="{}" cnt="1" depid="-1" deps="-1" hasdep="0"/>'
    )
    with path.open("w", encoding="ascii") as stream:
        stream.write(
            f'<algo name="x" proto="Simple" nchannels="1" nchunksperloop="{GPUS * chunks}" ngpus="{GPUS}" '
            'coll="allgather" inplace="0">\n'
        )
        for gpu in range(GPUS):
            stream.write(f'<gpu id="{gpu}" i_chunks="{chunks}" o_chunks="{GPUS * chunks}" s_chunks="0">\n')
            for chunk in range(chunks):
                stream.write(f'<copy i_off="{chunk}" o_off="{gpu * chunks + chunk}"/>\n')
            for place in range(2 * (GPUS - 1)):
                peer, sends = (gpu + 1 + place // 2) % GPUS, place % 2 == 0
                ends = (peer, -1) if sends else (-1, peer)
                stream.write(f'<tb id="{place}" send="{ends[0]}" recv="{ends[1]}" chan="0">\n')
                first = (gpu if sends else peer) * chunks
                for chunk in range(chunks):
                    stream.write(step.format(chunk, "s" if sends else "r", chunk, first + chunk) + "\n")
                stream.write("</tb>\n")
            stream.write("</gpu>\n")
        stream.write("</algo>\n")
    return chunks * 2 * GPUS * (GPUS - 1)


def mscclpp(path: Path, nodes: int) -> int:
    """A direct all-gather as a plan of MSCCL++: a threadblock for each peer that puts a chunk per operation."""
    chunks = nodes // (GPUS * (GPUS - 1))
    gpus = []
    for gpu in range(GPUS):
        peers = [peer for peer in range(GPUS) if peer != gpu]
        own = [{"name": "copy", "src_buff": _chunks("i", 0, chunks), "dst_buff": _chunks("o", gpu * chunks, chunks)}]
        blocks = [{"id": 0, "ops": own, "channels": [], "remote_buffer_refs": []}]
        for place in range(len(peers)):
            signals = [{"name": word, "channel_type": "memory", "channel_ids": [0]} for word in ("signal", "wait")]
            blocks.append(
                {
                    "id": place + 1,
                    "ops": [
                        {
                            "name": "put",
                            "channel_type": "memory",
                            "channel_ids": [0],
                            "src_buff": _chunks("i", chunk, 1),
                            "dst_buff": [{"buffer_id": 0, "index": gpu * chunks + chunk, "size": 1}],
                        }
                        for chunk in range(chunks)
                    ]
                    + signals,
                    "channels": [{"channel_type": "memory", "channel_ids": [place]}],
                    "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": [place]}],
                }
            )
        gpus.append(
            {
                "id": gpu,
                "input_chunks": chunks,
                "output_chunks": GPUS * chunks,
                "scratch_chunks": 0,
                "channels": [{"channel_type": "memory", "connected_to": peers}],
                "remote_buffers": [{"rank": peer, "type": "o", "access_channel_types": ["memory"]} for peer in peers],
                "threadblocks": blocks,
            }
        )
    plan = {"name": "x", "collective": "allgather", "protocol": "Simple", "inplace": False, "gpus": gpus}
    path.write_text(json.dumps(plan), encoding="ascii")
    return chunks * GPUS * (GPUS - 1)


def _chunks(buffer: str, index: int, size: int) -> list[dict[str, str | int]]:
    return [{"type": buffer, "index": index, "size": size}]
