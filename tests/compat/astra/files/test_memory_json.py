"""The remote memory JSON of ASTRA-sim 2 as settings."""

from __future__ import annotations

from typing import Any

import pytest

from pyxsim.compat.astra.files.memory_json import memory_table
from pyxsim.errors import InputError
from pyxsim.settings.memory import RemoteMemory
from tests.compat.astra.files.files import WriteJson

RATES = {"remote-mem-latency": 100, "remote-mem-bw": 10}
NODES = {"memory-type": "PER_NODE_MEMORY_EXPANSION", "num-nodes": 2, "num-npus-per-node": 4}
TABLE = {"latency": "100 ns", "bandwidth": "10 GB/s"}


@pytest.mark.parametrize(
    ("given", "table"),
    [
        ({"memory-type": "NO_MEMORY_EXPANSION"}, None),
        ({"memory-type": "NO_MEMORY_EXPANSION", **RATES, "num-nodes": 3}, None),
        ({"memory-type": "PER_NPU_MEMORY_EXPANSION", **RATES}, {"kind": "per-npu", **TABLE}),
        ({"memory-type": "MEMORY_POOL", **RATES, "num-nodes": 3}, {"kind": "pool", **TABLE}),
        ({**NODES, **RATES}, {"kind": "per-node", "npus_per_node": 4, **TABLE}),
        (
            {"memory-type": "MEMORY_POOL", "remote-mem-bw": 1},
            {"kind": "pool", "latency": "0 ns", "bandwidth": "1 GB/s"},
        ),
    ],
)
def test_a_memory(write_object: WriteJson, given: dict[str, Any], table: dict[str, Any] | None) -> None:
    assert memory_table(write_object(given), 8) == table
    if table is not None:
        RemoteMemory(**table)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"memory-type": "POOL"}, "memory-type: 'POOL' is not in this version; allowed: NO_MEMORY_EXPANSION"),
        ({"num-nodes": 3}, "num-nodes: 3 nodes of 4 NPUs do not match the 8 NPUs of the network; allowed: 2"),
        ({"num-nodes": 3, "num-npus-per-node": 5}, "num-nodes: 3 nodes of 5 NPUs do not match the 8 NPUs"),
        ({"num-npus-per-node": 0}, "num-npus-per-node: '0' is not allowed; allowed: a whole number from 1"),
        ({"remote-mem-bw": 0}, "remote-mem-bw: '0' is not allowed; allowed: a whole number from 1"),
        ({"remote-mem-bw": 0.5}, "remote-mem-bw: '0.5' is not allowed; allowed: a whole number from 1"),
        (
            {"remote-mem-latency": -1},
            "remote-mem-latency: '-1' is not allowed; allowed: a whole number fro",
        ),
        ({"remote-mem-bandwidth": 1}, "remote-mem-bandwidth: unknown key; allowed: "),
    ],
)
def test_a_fault_is_one_line(write_object: WriteJson, change: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError) as caught:
        memory_table(write_object({**NODES, **RATES, **change}), 8)
    assert line in str(caught.value)


def test_a_bandwidth_is_needed(write_object: WriteJson) -> None:
    with pytest.raises(InputError, match="remote-mem-bw: is missing; allowed: a whole number from 1"):
        memory_table(write_object({"memory-type": "MEMORY_POOL"}))
