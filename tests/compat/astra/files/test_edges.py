"""Edge cases measured on ASTRA-sim 2 (518bd51 over 599a047): the same nanosecond here, or refused by name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import pytest

from pyxsim import chakra
from pyxsim.chakra import Attribute, CommType, Node, NodeType
from pyxsim.compat.astra.files import read_astra
from pyxsim.compat.astra.files.experiment import AstraRun
from pyxsim.errors import InputError
from pyxsim.runner.lifecycle import run

MIB = 2**20
KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
BUS = {"model-shared-bus": 1, "L": 1, "o": 2, "g": 3, "G": 0.01}
ROOFLINE = {"roofline-enabled": 1}


def collective(number: int, kind: CommType, size: int, after: Sequence[int] = (), micros: int = 0, **more: Any) -> Node:
    attr = [Attribute("comm_type", "int64_val", int(kind)), Attribute("comm_size", "int64_val", size)]
    attr += [Attribute(name, "bool_list", value) for name, value in more.items()]
    return Node(
        id=number,
        name=f"c{number}",
        type=NodeType.COMM_COLL,
        data_deps=list(after),
        duration_micros=micros,
        attr=attr,
    )


def compute(number: int, micros: int = 0, **attributes: int) -> Node:
    attr = [Attribute(name, "int64_val", value) for name, value in attributes.items()]
    return Node(id=number, name=f"w{number}", type=NodeType.COMP, duration_micros=micros, attr=attr)


def all_reduce(number: int = 1, *, size: int = MIB, after: Sequence[int] = (), micros: int = 0, **more: Any) -> Node:
    return collective(number, CommType.ALL_REDUCE, size, after, micros, **more)


def read(folder: Path, npus: Sequence[int], system: dict[str, Any], nodes: list[Node], **options: Any) -> AstraRun:
    """Rings of 50 GB/s and 500 ns; all NPUs have the same trace."""
    many = len(npus)
    network = {"topology": ["Ring"] * many, "npus_count": npus, "bandwidth": [50] * many, "latency": [500] * many}
    lines = [f"{key}: [ {', '.join(map(str, values))} ]" for key, values in network.items()]
    (folder / "network.yml").write_text("\n".join(lines), encoding="utf-8")
    table = {
        "scheduling-policy": "LIFO",
        "endpoint-delay": 10,
        "active-chunks-per-dimension": 1,
        "preferred-dataset-splits": 4,
        "collective-optimization": "localBWAware",
        "local-mem-bw": 50,
        "peak-perf": 10,
        **{f"{kind}-implementation": ["ring"] * many for kind in KINDS},
    }
    (folder / "system.json").write_text(json.dumps(table | system), encoding="utf-8")
    for npu in range(prod(npus)):
        chakra.write(folder / f"trace.{npu}.et", nodes)
    return read_astra(folder / "network.yml", folder / "system.json", folder / "trace", **options)


def ends(asked: AstraRun) -> int:
    return run(asked.experiment, backend=asked.backend).time_cycles


WORK = [compute(1, 3, num_ops=10**6, tensor_size=5000), all_reduce(2, after=[1], micros=2)]


@pytest.mark.parametrize(
    ("npus", "system", "nodes", "time"),
    [
        pytest.param([8], {}, [collective(1, CommType.BROADCAST, MIB)], 1, id="broadcast"),
        pytest.param(
            [8],
            {},
            [collective(1, CommType.BROADCAST, MIB, micros=7), all_reduce(2, after=[1])],
            124_780,
            id="broadcast of 7 us",
        ),
        pytest.param([2] * 5, {}, [all_reduce(involved_dim=[True] * 5)], 62_346, id="five dimensions"),
        pytest.param(
            [2] * 5, {}, [all_reduce(involved_dim=[True, False, True, True, True])], 60_513, id="four of five"
        ),
        pytest.param([2] * 5, {"all-reduce-implementation": ["oneRing"]}, [all_reduce()], 224_852, id="one ring"),
        pytest.param([4], {"roofline-enabled": False}, WORK, 88_820, id="roofline false"),
        pytest.param([4], {"roofline-enabled": 2}, WORK, 88_820, id="roofline 2"),
        pytest.param([4], {"roofline-enabled": 0}, WORK, 91_720, id="roofline 0"),
        pytest.param([4], {"replay-only": False}, WORK, 5000, id="replay false"),
        pytest.param([4], {"replay-only": 0.5}, WORK, 5000, id="replay 0.5"),
        pytest.param([4], {"replay-only": 0}, WORK, 91_720, id="replay 0"),
        pytest.param([4], BUS | {"model-shared-bus": 2}, [all_reduce()], 88_720, id="bus 2"),
        pytest.param([4], BUS | {"L": 1.5}, [all_reduce(size=2**18)], 45_596, id="L"),
        pytest.param([4], BUS | {"o": 2.7}, [all_reduce(size=2**18)], 45_596, id="o"),
        pytest.param([4], BUS | {"g": 3.9}, [all_reduce(size=2**18)], 45_596, id="g"),
        pytest.param([4], BUS | {"G": 0.0123}, [all_reduce(size=2**18)], 47_268, id="G"),
        pytest.param([4], BUS | {"local-reduction-delay": 2.6}, [all_reduce(size=2**18)], 47_552, id="reduction"),
        pytest.param(
            [4], BUS | {"L": 0.4, "o": 0.6, "g": 0.9, "G": 0.333}, [all_reduce(size=2**18)], 277_884, id="all of it"
        ),
        pytest.param([4], {"endpoint-delay": 10.7}, [all_reduce(size=2**18)], 31_372, id="endpoint delay"),
        pytest.param([4], {"active-chunks-per-dimension": 2.9}, [all_reduce(size=2**18)], 15_686, id="active chunks"),
        pytest.param([4], {"preferred-dataset-splits": 4.9}, [all_reduce(size=2**18)], 31_372, id="splits"),
    ],
)
def test_the_same_nanosecond(
    tmp_path: Path, npus: list[int], system: dict[str, Any], nodes: list[Node], time: int
) -> None:
    assert ends(read(tmp_path, npus, system, nodes)) == time


@pytest.mark.parametrize(("option", "value"), [("comm_scale", "2"), ("compute_scale", "0.5")])
def test_scales_have_no_effect(tmp_path: Path, option: str, value: str) -> None:
    asked = read(tmp_path, [8], {}, [all_reduce()], **{option: value})
    assert ends(asked) == 117_780  # with 1, too
    (warning,) = asked.warnings
    name = option.replace("_", "-")
    assert warning == (
        f"--{name}: no effect, as in ASTRA-sim 2, which reads it and never uses it; "
        f"--set workload.{option}={value} applies it"
    )


INVALID = Node(id=1, name="i", type=NodeType.INVALID)


@pytest.mark.parametrize(
    ("npus", "system", "nodes", "told"),
    [
        pytest.param(
            [2] * 5, {}, [all_reduce()], "no involved_dim: ASTRA-sim 2 then assumes 4 dimensions", id="five dimensions"
        ),
        pytest.param([2] * 6, {}, [all_reduce()], "allowed: involved_dim, a list of 6 booleans", id="six dimensions"),
        pytest.param(
            [4],
            ROOFLINE,
            [compute(1, num_ops=0, tensor_size=100)],
            "has num_ops 0: with roofline-enabled, ASTRA-sim 2 divides 0 by 0 and never ends; allowed: 1 or more",
            id="no operations",
        ),
        pytest.param([4], ROOFLINE, [compute(1, num_ops=5)], "has no tensor_size", id="no tensor_size"),
        pytest.param([4], ROOFLINE, [compute(1, tensor_size=5)], "has no num_ops", id="no num_ops"),
        pytest.param(
            [4],
            ROOFLINE,
            [compute(1, num_ops=5, tensor_size=0), all_reduce(2, after=[1])],
            "is skipped, but node 2 waits for it: ASTRA-sim 2 starts that node when another node",
            id="waits for nothing",
        ),
        pytest.param([4], {}, [INVALID, all_reduce(2, after=[1])], "is skipped, but node 2 waits", id="invalid"),
        pytest.param(
            [4],
            ROOFLINE,
            [compute(1, num_ops=1, tensor_size=1)],
            "takes less than 1 ns and has no dependencies: an assertion",
            id="no time",
        ),
    ],
)
def test_refused_by_name(tmp_path: Path, npus: list[int], system: dict[str, Any], nodes: list[Node], told: str) -> None:
    asked = read(tmp_path, npus, system, nodes)
    with pytest.raises(InputError, match=told):
        run(asked.experiment, backend=asked.backend)


@pytest.mark.parametrize("nodes", ["collective", "message"])
def test_large_messages_with_rendezvous(tmp_path: Path, nodes: str) -> None:
    """On a ring of 6 the original sends 1269388788 of 9859323380 bytes, and ends after 59 instead of 459 ms."""
    size = 9_859_323_380
    if nodes == "collective":
        asked = read(tmp_path, [6], {}, [collective(1, CommType.ALL_GATHER, 4 * size)], rendezvous=True)
    else:
        asked = read(tmp_path, [2], {}, [all_reduce()], rendezvous=True)
        for npu, (kind, key) in enumerate([(NodeType.COMM_SEND, "comm_dst"), (NodeType.COMM_RECV, "comm_src")]):
            attr = [Attribute(key, "int64_val", 1 - npu), Attribute("comm_size", "int64_val", size)]
            chakra.write(tmp_path / f"trace.{npu}.et", [Node(id=1, name="m", type=kind, attr=attr)])
    with pytest.raises(InputError, match=f"a message of {size} bytes does not fit into the 32 bits"):
        run(asked.experiment, backend="analytical-congestion")
