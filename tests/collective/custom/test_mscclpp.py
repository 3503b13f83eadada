"""Execution plans of MSCCL++: memory, packets, signals, semaphores, barriers, groups, pipelines, switches."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pyxsim.collective.bounds import rounds
from pyxsim.collective.checker import prove
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.custom import mscclpp
from pyxsim.collective.custom.export import to_msccl
from pyxsim.collective.lookup import get_algorithm, get_schedule
from pyxsim.errors import InputError
from pyxsim.runner.lifecycle import run
from tests.collective.custom.synthesized import groups, local, meet, op, packets, pipeline, plan, read_and_write, remote

Read = Callable[..., CompiledSchedule]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def reader(text: str, n: int, slices: int = 1) -> CompiledSchedule:
        path = tmp_path / "x.json"
        path.write_text(text)
        [kind] = get_algorithm(str(path)).kinds
        return get_schedule(kind, f"{path}:{slices}" if slices > 1 else str(path), n)

    return reader


def carried(s: CompiledSchedule) -> int:
    """Messages between ranks that carry data."""
    return int(((s.block_ptr[1:] > s.block_ptr[:-1]) & ~s.local).sum())


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize(
    ("make", "messages", "steps"),
    [
        (read_and_write, lambda n: 2 * n * (n - 1), 2),
        (packets, lambda n: 2 * n * (n - 1), 2),
        (pipeline, lambda n: n * (n - 1), 1),
        (groups, lambda n: 2 * n * (n - 1), 1),
    ],
)
def test_plans_are_proved(
    read: Read, make: Callable[[int], str], messages: Callable[[int], int], steps: int, n: int
) -> None:
    s = read(make(n), n)
    prove(s)
    assert carried(s) == messages(n)
    assert sum(bool(len(s.blocks_of(m))) for m in range(len(s))) >= messages(n)
    assert rounds(s) >= steps


@pytest.mark.parametrize("n", [2, 3])
def test_a_pipeline_takes_its_slices_in_turn(read: Read, n: int) -> None:
    s = read(pipeline(n), n, 3)
    prove(s)
    assert s.blocks == 3 * n
    assert carried(s) == 3 * n * (n - 1)


@pytest.mark.parametrize("backend", ["packet", "flow", "analytical", "analytical-congestion"])
@pytest.mark.parametrize("make", [read_and_write, packets])
def test_plans_run_with_data(tmp_path: Path, backend: str, make: Callable[[int], str]) -> None:
    (tmp_path / "x.json").write_text(make(4))
    network = {"topology": "fully-connected", "shape": [4], "bandwidth": "64 GB/s", "latency": "500 ns"}
    direct, mine = (
        run(
            {
                "network": network,
                "system": {"all_reduce": name},
                "collective": {"kind": "all-reduce", "size": "64 KiB"},
                "output": {"carry": True},
            },
            backend=backend,
        ).time_cycles
        for name in ("direct", str(tmp_path / "x.json"))
    )
    assert mine == direct


def test_a_switch_channel_reads_and_writes_all(read: Read) -> None:
    n = 3
    move = {"switch_channel_id": 0, "size": 1}
    blocks = [
        [[*meet(n), op("glres", [{**move, "index": rank}], [{**move, "index": rank}], channel_type="switch"), *meet(n)]]
        for rank in range(n)
    ]
    text = json.loads(plan("allreduce", blocks, chunks=(n, n, 0)))
    for gpu in text["gpus"]:
        group = {"size": n, "ranks": list(range(n))}
        gpu["channels"].append({"channel_type": "switch", "buff": "i", "rank_groups": [group]})
        gpu["threadblocks"][0]["channels"].append({"channel_type": "switch", "channel_ids": [0]})
    s = read(json.dumps(text), n)
    prove(s)
    assert carried(s) == 2 * n * (n - 1)


def test_signals_order_and_their_absence_is_a_race(read: Read) -> None:
    text = json.loads(read_and_write(2))
    for gpu in text["gpus"]:
        gpu["threadblocks"][0]["ops"] = gpu["threadblocks"][0]["ops"][3:4]
    read(json.dumps(text), 2)  # each touches a chunk of its own
    for gpu in text["gpus"]:
        [move] = gpu["threadblocks"][0]["ops"]
        for buffer in (*move["src_buff"], *move["dst_buff"]):
            buffer["index"] = 0
    with pytest.raises(InputError, match=r"ops\[0\]: .*of rank \d, which step 0 .*, and nothing orders them"):
        read(json.dumps(text), 2)


def test_signals_have_no_msccl(read: Read) -> None:
    """What a GPU reads after a wait is a request of its own."""
    blocks = [
        [
            [
                op("put", [local("o", rank)], [remote(0, rank)]),
                *meet(2),
                op("get", [remote(0, rank)], [local("s", 0)]),
            ]
        ]
        for rank in range(2)
    ]
    s = read(plan("allgather", blocks, chunks=(1, 2, 1), remote_buffer="o"), 2)
    prove(s)
    assert carried(s) == 4
    with pytest.raises(InputError, match="MSCCL has no messages without data"):
        to_msccl(s)


def one_way(*ops: object, inplace: bool = True) -> str:
    """A plan of two GPUs, the second of which only meets the first."""
    return plan("allreduce", [[list(ops)], [meet(2)]], chunks=(2, 2, 2), inplace=inplace, semaphores=(0,))  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            one_way(op("wait", channel_ids=[0]), *meet(2)),
            r"step 2 .* waits for a signal of rank 1, which never comes",
        ),
        (one_way(op("sem_acquire", semaphore_ids=[0])), "waits for semaphore 0, which never comes"),
        (one_way(*meet(2)[:-1], op("wait", channel_ids=[0, 0])), "waits for a signal of rank 1, which never comes"),
        (
            one_way(op("sem_release", semaphore_ids=[0]), op("sem_acquire", semaphore_ids=[0, 0])),
            "waits for semaphore 0, which never comes",
        ),
        (one_way(op("upkt", [local("s", 0)], [local("i", 0)])), r"waits for a packet in s\[0\], which never comes"),
        (one_way(op("barrier", barrier_id=0, num_threadblocks=2)), r"allowed: a whole number from 1 to 1"),
        (one_way(op("copy", [local("s", 1)], [local("i", 1)])), r"reads s\[1\] of rank 0, which is empty"),
        (one_way(op("copy", [local("i", 1, 2)], [local("s", 0, 2)])), "chunks 1 to 2 of buffer i of GPU 0 are used"),
        (one_way(op("copy", [local("i", 0, 2)], [local("s", 0, 1)])), "copy has buffers of different sizes"),
        (one_way(op("put", [local("i", 0)], [remote(1, 0)])), r"buffer_id: is 1; allowed: .* 0 to 0"),
        (one_way(op("putt", [local("i", 0)], [remote(0, 0)])), r"is 'putt'; allowed: put, .*did you mean 'put'"),
        (one_way({"name": "nop", "sorce": 1}), "sorce is unknown"),
        (one_way(*meet(2)), "rank 0 .*contribution"),
        (one_way(*meet(2), inplace=False), "rank 0 ends with nothing in place of block 0"),
        (one_way(op("re", [local("i", 0), local("i", 1)], [local("i", 0)])), "adds block 1 to block 0"),
        (read_and_write(2).replace('"allreduce"', '"sendrecv"'), "collective: is 'sendrecv'; allowed: allreduce"),
        (read_and_write(2).replace('"id": 1', '"id": 2'), r"gpus\[1\]\.id: is 2; allowed: 1"),
        (read_and_write(2).replace('"input_chunks": 2', '"input_chunks": 3', 1), "have buffers of 2 to 3 chunks"),
        (read_and_write(2) + "]", r"x\.json:\d+: not valid JSON"),
        ("[" * 10**5, "nested too deeply"),
        ("1" * 10**4, "a number is too long"),
        ('{"a": 1, "a": 2}', "a: occurs twice"),
        ("[]", "is not an object"),
    ],
)
def test_what_is_refused(read: Read, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        prove(read(text, 2))
    assert "\n" not in str(caught.value)


def test_a_small_plan_cannot_take_much_time(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by its chunks on all GPUs, nor by what its operations move."""
    blocks = [[meet(8)] for _ in range(8)]
    with pytest.raises(InputError, match=r"262144 chunks in 1 slices on 8 GPUs; allowed: .* 1048576 on all GPUs"):
        read(plan("allreduce", blocks, chunks=(2**18, 2**18, 0)), 8)
    monkeypatch.setattr(mscclpp, "MOST_NAMED", 30)
    copies = [op("copy", [local("i", 0, 8)], [local("s", 0, 8)])] * 2
    with pytest.raises(InputError, match="more chunks in slices than the operations may use; allowed: 30 in all"):
        read(plan("allreduce", [[copies], [meet(2)]], chunks=(8, 8, 8)), 2)
